"""What is in a record batch: building batches from records and decoding them.

Each record is a length and then, in zigzag varints unless said otherwise: attributes (int8, unused), timestamp - base
timestamp, offset - base offset, key length (-1: null) and key, value length and value, number of headers, and of each
header key length, key, value length (-1: null) and value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tidegauge.impl.records.batches import (
    CHECKSUM_START,
    CONTROL_FLAG,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_ID,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Buffer,
    Compression,
    CorruptRecordError,
    InvalidRecordError,
    compression_of,
    extents,
)
from tidegauge.impl.records.checksum import crc32c
from tidegauge.impl.records.compression import compress, decompress

NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
_MAX_VARINT_BITS = 70
_TWO_TO_64 = 1 << 64


class RecordHeader(NamedTuple):
    """Application's metadata of a record."""

    key: str
    value: bytes | None


class Record(NamedTuple):
    """One record, as it lies in a log."""

    offset: int
    timestamp: int
    """ms since 1970."""
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...] = ()


class ProducerIdentity(NamedTuple):
    """Which producer made a batch, and where it stands in that producer's sequence for the partition (KIP-98)."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE


NO_PRODUCER = ProducerIdentity()


def encode_varint(value: int) -> bytes:
    """Zigzag varint of a signed 64-bit number."""
    number = (value << 1) ^ (value >> 63)
    if number < 0x80:
        return _ONE_BYTE[number]
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


_ONE_BYTE = [bytes((number,)) for number in range(0x80)]


def decode_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """(value, position after it). Raises CorruptRecordError when it does not end within ten bytes."""
    number = shift = 0
    while True:
        try:
            byte = buffer[position]
        except IndexError:
            raise CorruptRecordError(f"a varint runs over the end of {len(buffer)} bytes") from None
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position
        shift += 7
        if shift >= _MAX_VARINT_BITS:
            raise CorruptRecordError(f"a varint of more than ten bytes ends at position {position}")


def build_batch(
    records: Sequence[Record],
    *,
    compression: Compression = Compression.NONE,
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    producer: ProducerIdentity = NO_PRODUCER,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """A batch with these records, whose offsets and order are kept. Raises ValueError without records."""
    if not records:
        raise ValueError("a batch holds at least one record")
    base_offset, base_timestamp = records[0].offset, records[0].timestamp
    payload = b"".join(encode_record(record, base_offset, base_timestamp) for record in records)
    if compression is not Compression.NONE:
        payload = compress(compression, payload)
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=HEADER_SIZE + len(payload) - LENGTH_OVERHEAD,
        partition_leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=compression | (TRANSACTIONAL_FLAG if transactional else 0) | (CONTROL_FLAG if control else 0),
        last_offset_delta=records[-1].offset - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max(record.timestamp for record in records),
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=producer.base_sequence,
        records_count=len(records),
    ).pack()
    checksum = crc32c(payload, crc32c(header[CHECKSUM_START:]))
    return b"".join((header[:17], checksum.to_bytes(4, "big"), header[CHECKSUM_START:], payload))


def encode_record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    """One record of a batch, its length first."""
    offset, timestamp, key, value, headers = record
    parts = [
        b"\x00",
        encode_varint(timestamp - base_timestamp),
        encode_varint(offset - base_offset),
        *_encode_nullable(key),
        *_encode_nullable(value),
        encode_varint(len(headers)),
    ]
    for header in headers:
        parts += (*_encode_nullable(header.key.encode()), *_encode_nullable(header.value))
    body = b"".join(parts)
    return encode_varint(len(body)) + body


def _encode_nullable(data: bytes | None) -> tuple[bytes, bytes]:
    return (encode_varint(-1), b"") if data is None else (encode_varint(len(data)), data)


def decode_records(batch: Buffer, position: int = 0) -> list[Record]:
    """The records of the batch at `position`; its checksum is not looked at.

    Raises CorruptRecordError or InvalidRecordError when the bytes do not hold the records that the header promises.
    """
    header = BatchHeader.parse(batch, position)
    end = position + header.size
    if header.magic != MAGIC or header.size < HEADER_SIZE or end > len(batch):
        raise CorruptRecordError(f"no whole batch at position {position} of {len(batch)} bytes")
    payload = bytes(memoryview(batch)[position + HEADER_SIZE : end])
    compression = compression_of(header.attributes)
    if compression is not Compression.NONE:
        payload = decompress(compression, payload)
    records = []
    cursor = 0
    for _ in range(header.records_count):
        record, cursor = _decode_record(payload, cursor, header)
        records.append(record)
    if cursor != len(payload):
        raise InvalidRecordError(f"{len(payload) - cursor} bytes after the last of {header.records_count} records")
    return records


def _decode_record(payload: bytes, cursor: int, header: BatchHeader) -> tuple[Record, int]:
    length, cursor = decode_varint(payload, cursor)
    end = cursor + length
    if length < 0 or end > len(payload):
        raise CorruptRecordError(f"a record of {length} bytes where {len(payload) - cursor} are left")
    timestamp_delta, cursor = decode_varint(payload, cursor + 1)
    offset_delta, cursor = decode_varint(payload, cursor)
    key, cursor = _decode_nullable(payload, cursor)
    value, cursor = _decode_nullable(payload, cursor)
    count, cursor = decode_varint(payload, cursor)
    headers: tuple[RecordHeader, ...] = ()
    if count:
        headers, cursor = _decode_headers(payload, cursor, count)
    if cursor != end:
        raise InvalidRecordError(f"a record of {length} bytes whose fields take {length + cursor - end}")
    timestamp = header.max_timestamp if header.is_log_append_time else header.base_timestamp + timestamp_delta
    return Record(header.base_offset + offset_delta, timestamp, key, value, headers), cursor


def _decode_headers(payload: bytes, cursor: int, count: int) -> tuple[tuple[RecordHeader, ...], int]:
    if not 0 <= count <= len(payload) - cursor:
        raise InvalidRecordError(f"{count} headers in {len(payload) - cursor} bytes")
    headers = []
    for _ in range(count):
        key, cursor = _decode_nullable(payload, cursor)
        value, cursor = _decode_nullable(payload, cursor)
        if key is None:
            raise InvalidRecordError("a header's key is null")
        try:
            headers.append(RecordHeader(key.decode(), value))
        except UnicodeDecodeError:
            raise InvalidRecordError(f"a header's key is not UTF-8: {key!r}") from None
    return tuple(headers), cursor


def _decode_nullable(payload: bytes, cursor: int) -> tuple[bytes | None, int]:
    length, cursor = decode_varint(payload, cursor)
    if length == -1:
        return None, cursor
    end = cursor + length
    if length < -1 or end > len(payload):
        raise CorruptRecordError(f"a field of {length} bytes where {len(payload) - cursor} are left")
    return payload[cursor:end], end


def decode_batches(buffer: Buffer) -> Iterable[Record]:
    """The records of all whole batches in a buffer, one after the other."""
    for extent in extents(buffer):
        yield from decode_records(buffer, extent.position)
