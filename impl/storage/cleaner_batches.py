"""Record batches for the cleaner: what it has to know of their records, and batches with some of them taken out.

A batch that loses records keeps its base offset, its last offset delta, its producer's id, epoch and base sequence, and
the bytes of the records that stay; so offsets and sequences mean what they meant. What changes is the count, the
length, the largest timestamp, the checksum, and the compression where there is one.

*Delete horizon* (KIP-534): the first time that the cleaner meets a tombstone (or the marker of a transaction without
records) it writes into the batch when that may go. Bit 6 of the attributes says that the base timestamp is this
time; the records' timestamp deltas are then counted from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tidegauge.impl.records.batches import (
    CHECKSUM_START,
    COMPRESSION_MASK,
    CONTROL_FLAG,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME_FLAG,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Compression,
    CorruptRecordError,
)
from tidegauge.impl.records.checksum import crc32c
from tidegauge.impl.records.compression import compress, decompress
from tidegauge.impl.records.payload import decode_varint, encode_varint

DELETE_HORIZON_FLAG = 0x40
_CRC_AT = 17


class KeyedRecord(NamedTuple):
    """A record as far as the cleaner looks at it, and where it lies in its batch's payload."""

    offset: int
    timestamp: int
    key: bytes | None
    has_value: bool
    start: int
    """Of the length before it."""
    after_timestamp: int
    """Where the offset delta begins."""
    end: int


def delete_horizon(header: BatchHeader) -> int | None:
    """When the tombstones of the batch may go, in ms since 1970; None when the cleaner has not seen them yet."""
    return header.base_timestamp if header.attributes & DELETE_HORIZON_FLAG else None


def payload_of(batch: bytes, header: BatchHeader) -> bytes:
    """The records' bytes, decompressed."""
    data = memoryview(batch)[HEADER_SIZE:]
    if header.compression is Compression.NONE:
        return bytes(data)
    return decompress(header.compression, bytes(data))


def keyed_records(header: BatchHeader, payload: bytes) -> Iterator[KeyedRecord]:
    """The batch's records one by one. Raises CorruptRecordError when the payload is not what the header promises.

    What a topic has taken that was not compacted then, nobody has looked into (`validation`).
    """
    cursor = least = 0
    for _ in range(header.records_count):
        start = cursor
        length, cursor = decode_varint(payload, cursor)
        end = cursor + length
        if length < 0 or end > len(payload):
            raise _refused(header, f"a record of {length} bytes where {len(payload) - cursor} are left")
        timestamp_delta, after_timestamp = decode_varint(payload, cursor + 1)
        offset_delta, cursor = decode_varint(payload, after_timestamp)
        key_length, cursor = decode_varint(payload, cursor)
        key = None if key_length < 0 else payload[cursor : cursor + key_length]
        value_length, _ = decode_varint(payload, cursor + max(0, key_length))
        timestamp = header.max_timestamp if header.is_log_append_time else header.base_timestamp + timestamp_delta
        if not least <= offset_delta <= header.last_offset_delta:
            possible = f"{least} to {header.last_offset_delta}"
            raise _refused(header, f"a record with offset delta {offset_delta}, where {possible} would be possible")
        if cursor + key_length > end:
            raise _refused(header, f"a key of {key_length} bytes in a record of {length}")
        if not -1 << 63 <= timestamp < 1 << 63:
            raise _refused(header, f"a record whose timestamp is {timestamp}")
        least = offset_delta + 1
        yield KeyedRecord(
            header.base_offset + offset_delta, timestamp, key, value_length >= 0, start, after_timestamp, end
        )
        cursor = end


def _refused(header: BatchHeader, what: str) -> CorruptRecordError:
    return CorruptRecordError(f"the batch of the offsets {header.base_offset} to {header.last_offset} holds {what}")


def with_records(
    header: BatchHeader, payload: bytes, records: Sequence[KeyedRecord], *, horizon: int | None = None
) -> bytes:
    """The batch with these of its records and no others; `horizon` sets its delete horizon, which it must not have."""
    assert records, "a batch without records is an emptied"
    attributes, base_timestamp = header.attributes, header.base_timestamp
    if horizon is None:
        kept = b"".join(payload[record.start : record.end] for record in records)
    else:
        assert delete_horizon(header) is None, "a delete horizon is set once"
        kept = b"".join(_based_on(record, payload, horizon) for record in records)
        attributes, base_timestamp = attributes | DELETE_HORIZON_FLAG, horizon
    max_timestamp = header.max_timestamp
    if not header.is_log_append_time:
        max_timestamp = max(record.timestamp for record in records)
    return _built(
        header._replace(
            attributes=attributes,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            records_count=len(records),
        ),
        compress(header.compression, kept) if header.compression is not Compression.NONE else kept,
    )


def _based_on(record: KeyedRecord, payload: bytes, base_timestamp: int) -> bytes:
    """The record's bytes with its timestamp counted from another base."""
    rest = payload[record.after_timestamp : record.end]
    timestamp_delta = encode_varint(record.timestamp - base_timestamp)
    return b"".join((encode_varint(1 + len(timestamp_delta) + len(rest)), b"\x00", timestamp_delta, rest))


def emptied(header: BatchHeader) -> bytes:
    """The batch without any record: it says which offsets are gone, and keeps its producer's last sequence."""
    kept_flags = LOG_APPEND_TIME_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG
    return _built(
        header._replace(
            attributes=header.attributes & kept_flags & ~COMPRESSION_MASK, base_timestamp=NO_TIMESTAMP, records_count=0
        ),
        b"",
    )


def _built(header: BatchHeader, payload: bytes) -> bytes:
    fixed = header._replace(batch_length=HEADER_SIZE + len(payload) - LENGTH_OVERHEAD, crc=0).pack()
    checksum = crc32c(payload, crc32c(fixed[CHECKSUM_START:]))
    return b"".join((fixed[:_CRC_AT], checksum.to_bytes(4, "big"), fixed[CHECKSUM_START:], payload))
