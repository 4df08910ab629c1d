"""Record batches, version 2 (magic 2), as bytes: header, checks, and walking from batch to batch.

Theory of operation
-------------------
The same bytes travel on the wire and lie in the log (KIP-98). A batch is a header of 61 bytes and the records, perhaps
compressed together::

    base offset            int64    offset of the first record
    batch length           int32    bytes after this field
    partition leader epoch int32    of the leader that appended the batch
    magic                  int8     2
    crc                    uint32   CRC-32C of everything after this field
    attributes             int16    bits 0-2 compression, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon
    last offset delta      int32    base offset + this = offset of the last record
    base timestamp         int64    ms since 1970
    max timestamp          int64    ms since 1970
    producer id            int64    -1: none
    producer epoch         int16    -1: none
    base sequence          int32    -1: none
    records count          int32

Base offset and partition leader epoch come before the checksum, so the leader can assign both without computing it
again: `leader_prefix` makes the first 16 bytes anew and the rest is stored as it came. Nothing in this module decodes a
record; `records_payload` does.

A batch that is damaged or breaks a rule is the peer's (or the disk's) fault and raises `RecordError`, which names the
Kafka error code for the response.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import ClassVar, NamedTuple

from kio.schema.errors import ErrorCode

from tidegauge.impl.records.checksum import crc32c

Buffer = bytes | bytearray | memoryview

MAGIC = 2
HEADER_SIZE = 61
LENGTH_OVERHEAD = 12
"""Bytes of a batch that its length field does not count: base offset and the field itself."""
PREFIX_SIZE = 16
"""Base offset, batch length, partition leader epoch: the bytes that the leader writes anew."""
CHECKSUM_START = 21
"""Position in a batch of the first byte covered by the CRC."""
NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PARTITION_LEADER_EPOCH = -1

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20

_HEADER = struct.Struct(">qiibIhiqqqhii")
_SIZES = struct.Struct(">qi")
_EXTENT = struct.Struct(">qi11xi")
_PREFIX = struct.Struct(">qii")

assert _HEADER.size == HEADER_SIZE


class RecordError(Exception):
    """Bytes that are not the record batches they should be."""

    error_code: ClassVar[ErrorCode] = ErrorCode.corrupt_message


class CorruptRecordError(RecordError):
    """Damaged or truncated: a length that cannot be, or a checksum that does not match."""


class InvalidRecordError(RecordError):
    """Intact, but against the rules for a batch."""

    error_code: ClassVar[ErrorCode] = ErrorCode.invalid_record


class UnsupportedMagicError(RecordError):
    """A message set of the format before version 2, which Kafka 4 no longer takes."""

    error_code: ClassVar[ErrorCode] = ErrorCode.unsupported_for_message_format


class UnsupportedCompressionError(RecordError):
    """A compression type that is not one of Kafka's five."""

    error_code: ClassVar[ErrorCode] = ErrorCode.unsupported_compression_type


class Compression(IntEnum):
    """Compression types, numbered as in the attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_LAST_CODEC = max(Compression)


class BatchHeader(NamedTuple):
    """The fixed part of a batch, in the order of its bytes."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @classmethod
    def parse(cls, buffer: Buffer, position: int = 0) -> BatchHeader:
        """The header at `position`. Raises CorruptRecordError when fewer than 61 bytes are there."""
        try:
            return tuple.__new__(cls, _HEADER.unpack_from(buffer, position))
        except struct.error:
            raise CorruptRecordError(
                f"a batch header takes {HEADER_SIZE} bytes, {len(buffer) - position} are left at position {position}"
            ) from None

    def pack(self) -> bytes:
        """The 61 bytes again."""
        return _HEADER.pack(*self)

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.batch_length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> Compression:
        """Raises UnsupportedCompressionError for a number that is none of Kafka's."""
        return compression_of(self.attributes)

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME_FLAG)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_FLAG)


class BatchExtent(NamedTuple):
    """Where a batch lies in a buffer and which offsets it holds: what walking needs, for a fifth of a header's cost."""

    position: int
    size: int
    base_offset: int
    next_offset: int


def compression_of(attributes: int) -> Compression:
    """The compression named by a batch's attributes. Raises UnsupportedCompressionError."""
    try:
        return Compression(attributes & COMPRESSION_MASK)
    except ValueError:
        raise UnsupportedCompressionError(
            f"compression type {attributes & COMPRESSION_MASK} is unknown: use one of "
            + ", ".join(f"{c.value} ({c.name.lower()})" for c in Compression)
        ) from None


def extents(buffer: Buffer, position: int = 0) -> Iterator[BatchExtent]:
    """The batches from `position` on that are in the buffer as a whole, without looking inside.

    Ends without an error at a batch that the buffer cuts short, as in fetch responses. Raises CorruptRecordError for a
    length that cannot be.
    """
    end = len(buffer)
    while position + HEADER_SIZE <= end:
        base_offset, length, last_offset_delta = _EXTENT.unpack_from(buffer, position)
        size = length + LENGTH_OVERHEAD
        if size < HEADER_SIZE:
            raise CorruptRecordError(f"batch length {length} at position {position} is less than a batch header")
        if position + size > end:
            return
        yield BatchExtent(position, size, base_offset, base_offset + last_offset_delta + 1)
        position += size


def headers(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each whole batch in the buffer; ends and raises as `extents` does."""
    for extent in extents(buffer, position):
        yield extent.position, BatchHeader.parse(buffer, extent.position)


def checked_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header of an intact batch at `position`: possible length, magic 2, right checksum, plausible count and delta.

    Raises CorruptRecordError, UnsupportedMagicError or InvalidRecordError.
    """
    header = BatchHeader.parse(buffer, position)
    if header.magic != MAGIC:
        if 0 <= header.magic < MAGIC:
            raise UnsupportedMagicError(
                f"message format {header.magic} at position {position}: send record batches (magic 2)"
            )
        raise CorruptRecordError(f"magic {header.magic} at position {position}, not {MAGIC}")
    size = header.batch_length + LENGTH_OVERHEAD
    if size < HEADER_SIZE or position + size > len(buffer):
        raise CorruptRecordError(f"batch length {header.batch_length} at position {position} of {len(buffer)} bytes")
    crc = crc32c(memoryview(buffer)[position + CHECKSUM_START : position + size])
    if crc != header.crc:
        raise CorruptRecordError(
            f"CRC-32C of the batch at position {position} is {crc:#010x}, its header says {header.crc:#010x}"
        )
    if header.last_offset_delta < 0 or header.records_count < 0:
        raise InvalidRecordError(
            f"last offset delta {header.last_offset_delta} and count {header.records_count} at position {position}"
        )
    return header


def checked_headers(buffer: Buffer) -> list[BatchHeader]:
    """Headers of the intact batches that make up the buffer without a byte left over. Raises as `checked_header`."""
    found = []
    position = 0
    while position < len(buffer):
        header = checked_header(buffer, position)
        found.append(header)
        position += header.size
    return found


def check_produced(header: BatchHeader) -> None:
    """What a producer's batch must hold besides being intact (KIP-98).

    Raises InvalidRecordError or UnsupportedCompressionError.
    """
    if header.records_count < 1:
        raise InvalidRecordError("a batch from a producer holds at least one record")
    if header.last_offset_delta != header.records_count - 1:
        raise InvalidRecordError(
            f"{header.records_count} records in a batch whose last offset delta is {header.last_offset_delta}: "
            "a producer's offsets have no gaps"
        )
    if header.attributes & CONTROL_FLAG:
        raise InvalidRecordError("control batches are written by brokers only")
    if header.producer_id >= 0 and (header.producer_epoch < 0 or header.base_sequence < 0):
        raise InvalidRecordError(
            f"producer id {header.producer_id} with epoch {header.producer_epoch} and sequence {header.base_sequence}"
        )
    if header.attributes & COMPRESSION_MASK > _LAST_CODEC:
        compression_of(header.attributes)


def leader_prefix(base_offset: int, batch_length: int, leader_epoch: int) -> bytes:
    """The first 16 bytes of a batch, as the leader writes them when it assigns offset and epoch."""
    return _PREFIX.pack(base_offset, batch_length, leader_epoch)


def empty_batch(base_offset: int, next_offset: int, leader_epoch: int) -> bytes:
    """A batch without records that holds the offsets [base_offset, next_offset): what is left of compacted batches."""
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=HEADER_SIZE - LENGTH_OVERHEAD,
        partition_leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=next_offset - 1 - base_offset,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=NO_TIMESTAMP,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=0,
    ).pack()
    checksum = crc32c(header[CHECKSUM_START:]).to_bytes(4, "big")
    return b"".join((header[: CHECKSUM_START - 4], checksum, header[CHECKSUM_START:]))


def assign(batch: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Overwrite a batch's base offset and partition leader epoch in place; its checksum stays right."""
    (_, length) = _SIZES.unpack_from(batch, position)
    _PREFIX.pack_into(batch, position, base_offset, length, leader_epoch)
