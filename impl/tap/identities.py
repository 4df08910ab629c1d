"""What identifies a record, however often it is seen: 62 bits that depend on what it holds and who has sent it.

A history needs a value for each record, the same where it is produced and where it is fetched. Clients write what they
like, so the tap takes a digest of what brokers keep as it was sent: key, value and headers, and of an idempotent
producer its id, its epoch and the record's sequence number (KIP-98), which no two records of a partition share.
Timestamps are
left out, for a topic may have the broker's. The two lowest bits say what the digest rests on.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import Final

from tidegauge.impl.records.batches import (
    HEADER_SIZE,
    BatchHeader,
    Buffer,
    Compression,
    CorruptRecordError,
    InvalidRecordError,
    RecordError,
    compression_of,
)
from tidegauge.impl.records.compression import decompress
from tidegauge.impl.records.payload import decode_varint

IDEMPOTENT: Final = 1
"""This bit of a value: an idempotent producer's record, of which there is no other of this value in a partition."""
TRANSACTIONAL: Final = 2
"""This bit: it was sent in a transaction."""
MOST_DECOMPRESSED: Final = 32 << 20
"""Bytes of records of one batch beyond which the tap does not look into it."""
MOST_RECORDS: Final = 1 << 20
_KEPT: Final = (1 << 62) - 4
_SENDER = struct.Struct(">qhi")
_SEQUENCES: Final = 1 << 31
_DIGEST = struct.Struct(">Q")
_SMALLEST: Final = 6
"""Bytes of a record without anything in it: attributes, two deltas, two lengths, and the number of headers."""
ONE_BYTE: Final = 0x80
"""A varint below this has one byte."""


def identities(batch: Buffer, header: BatchHeader) -> tuple[list[int], list[int]]:
    """(offset deltas, values) of the records of a batch that begins where `batch` does. Raises RecordError."""
    if not 0 <= header.records_count <= MOST_RECORDS:
        raise InvalidRecordError(f"{header.records_count} records in one batch")
    payload = _payload(batch, header)
    try:
        return _walk(payload, header)
    except IndexError:
        raise CorruptRecordError(f"a record runs over the end of {len(payload)} bytes") from None


def _walk(payload: bytes, header: BatchHeader) -> tuple[list[int], list[int]]:
    """The same of the records alone; a varint of one byte, which most are here, is not worth a call."""
    deltas: list[int] = []
    values: list[int] = []
    flags = (IDEMPOTENT if header.producer_id >= 0 else 0) | (TRANSACTIONAL if header.is_transactional else 0)
    position, end = 0, len(payload)
    sender, sequenced = b"", header.producer_id >= 0
    for _ in range(header.records_count):
        if payload[position] < ONE_BYTE:
            size, start = (payload[position] >> 1) ^ -(payload[position] & 1), position + 1
        else:
            size, start = decode_varint(payload, position)
        position = start + size
        if size < _SMALLEST or position > end:
            raise CorruptRecordError(f"a record of {size} bytes where {end - start} are left")
        start = start + 2 if payload[start + 1] < ONE_BYTE else decode_varint(payload, start + 1)[1]
        if payload[start] < ONE_BYTE:
            delta, start = (payload[start] >> 1) ^ -(payload[start] & 1), start + 1
        else:
            delta, start = decode_varint(payload, start)
        if sequenced:
            sequence = (header.base_sequence + delta) % _SEQUENCES
            sender = _SENDER.pack(header.producer_id, header.producer_epoch, sequence)
        (number,) = _DIGEST.unpack(blake2b(sender + payload[start:position], digest_size=_DIGEST.size).digest())
        deltas.append(delta)
        values.append(number & _KEPT | flags)
    return deltas, values


def _payload(batch: Buffer, header: BatchHeader) -> bytes:
    """The records as they were sent."""
    data = memoryview(batch)[HEADER_SIZE : header.size]
    compression = compression_of(header.attributes)
    if compression is Compression.NONE:
        return bytes(data)
    return decompress(compression, data, MOST_DECOMPRESSED)


__all__ = ["IDEMPOTENT", "TRANSACTIONAL", "RecordError", "identities"]
