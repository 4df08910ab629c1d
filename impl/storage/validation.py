"""What a leader checks of a producer's batch before it appends it, and what it changes in it.

Theory of operation
-------------------
A producer's batch is exactly one (KIP-98), intact, of a size that the topic takes, and keeps the rules for its header.
What is looked at beyond the header depends on what could be wrong:

* A batch that is not compressed, of a topic that is not compacted, is stored as it came. Its records' lengths have to
  lead from the first to the last byte; what is inside a record is the reader's matter. This is the hot path.
* The records of a compressed batch, and of any batch where keys or timestamps matter, are walked one by one: their
  fields take the bytes that they claim, their offsets count from 0 without gaps, on a compacted topic each has a key,
  and their timestamps are within the limits (KIP-937). A compressed batch is stored as it came all the same, with the
  largest timestamp put right.

Kafka looks into the records in every case. The difference is a batch with the right checksum, count and framing whose
records do not parse: Kafka refuses it; here its reader finds out.

A batch is written anew in three cases only: the topic's `compression.type` asks for another codec, its time is that of
the append (`message.timestamp.type=LogAppendTime`: a bit, the largest timestamp and the checksum change, the records
stay), or a compressed batch claims a wrong largest timestamp.

Refusals are `RecordError`s with the Kafka error code; those that concern single records say which (KIP-467), up to
`MAX_RECORD_ERRORS` of them.

The check of a large or compressed batch takes long, and more so when the batch is made for that. `takes_long` says so
from its header; such a batch is checked by `checking`, in slices, before it comes to its log. What it costs is bounded
by its size: it is decompressed up to a multiple of it, apart from the rest, and its records are walked a chunk at a
time.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from tidegauge.impl.records.batches import (
    CHECKSUM_START,
    COMPRESSION_MASK,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME_FLAG,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    Compression,
    InvalidRecordError,
    RecordError,
    check_produced,
    checked_header,
)
from tidegauge.impl.records.checked import Batches, CheckedBatch
from tidegauge.impl.records.checksum import crc32c
from tidegauge.impl.records.compression import compress, decompress, decompress_within, most_decompressed
from tidegauge.impl.records.slices import UNIT_BYTES, Sliced, at_once
from tidegauge.impl.records.walk import Walked, framing, is_framed, walking
from tidegauge.impl.storage.config import LOG_APPEND_TIME, NEVER, PRODUCER, UNCOMPRESSED, LogConfig
from tidegauge.impl.storage.errors import BatchTooLargeError

_SHOWN = 3
MAX_RECORD_ERRORS: Final = 20
"""Records that a refusal names. Kafka names all; a batch of some bytes may hold millions."""
FEW_RECORDS: Final = 2048
"""The lengths of fewer records than these are walked in less than a slice; a multiple of 256."""
FEW_WALKED: Final = 16 << 10
"""The same of bytes of records that are looked into: one record may have thousands of headers."""
FEW_BYTES: Final = 4 << 20
"""Up to here a checksum is computed in less than a slice."""
_FEW_COMPRESSED: Final = 32 << 10
_FEW_DECOMPRESSED: Final = 256 << 10
"""Records that take no more bytes than these two say are decompressed, and compressed, in less than a slice."""
_QUICK_BYTES: Final = 32 << 10
"""A batch that takes no more, before and after it is decompressed, is checked at once."""
_ATTRIBUTES_AT: Final = 22
_COUNT_AT: Final = 57
_COUNT: Final = struct.Struct(">I")


class RefusedRecord(NamedTuple):
    """One record that made its batch be refused."""

    batch_index: int
    """Which of the batch's records, from 0 on."""
    message: str


class RecordsRefusedError(RecordError):
    """Some of a batch's records break a rule; all of the batch is refused."""

    def __init__(self, error_code: ErrorCode, record_errors: Sequence[RefusedRecord], count: int = 0) -> None:
        """`count` is how many records break the rule, of which `record_errors` has the first; 0: those."""
        more = max(count, len(record_errors)) - _SHOWN
        shown = "; ".join(f"record {number}: {message}" for number, message in record_errors[:_SHOWN])
        super().__init__(f"{shown}, and {more} more" if more > 0 else shown)
        self.error_code = error_code  # type: ignore[misc]
        self.record_errors = tuple(record_errors[:MAX_RECORD_ERRORS])


def may_take_long(batch: Batches | None) -> bool:
    """Whether `takes_long` may say so: what a glance at some bytes of a producer's batch tells."""
    if batch is None or isinstance(batch, CheckedBatch) or (size := len(batch)) < HEADER_SIZE:
        return False
    if batch[_ATTRIBUTES_AT] & COMPRESSION_MASK:
        return True
    # In fewer bytes there are fewer records, whatever the batch says.
    return size >= FEW_RECORDS and (size > FEW_WALKED or _COUNT.unpack_from(batch, _COUNT_AT)[0] >= FEW_RECORDS)


def takes_long(batch: Buffer, config: LogConfig, now_ms: int) -> bool:
    """Whether to check a producer's batch may take longer than a slice of work; `checking` is for such a one."""
    size = len(batch)
    if size < HEADER_SIZE:
        return False
    if batch[_ATTRIBUTES_AT] & COMPRESSION_MASK or _COUNT.unpack_from(batch, _COUNT_AT)[0] >= FEW_RECORDS:
        return True
    return size > FEW_WALKED and (size > FEW_BYTES or not _is_plain(BatchHeader.parse(batch), config, now_ms))


def validated(batch: Buffer, config: LogConfig, now_ms: int) -> tuple[BatchHeader, Buffer]:
    """The header and the bytes to store of a producer's batch; the caller's bytes are not changed.

    Raises RecordError.
    """
    if len(batch) > config.max_message_bytes:
        _check_size(batch, config)
    header = checked_header(batch)
    _check_header(header, batch)
    if (
        header.attributes & COMPRESSION_MASK
        or config.compression_type not in (PRODUCER, UNCOMPRESSED)
        or not _is_plain(header, config, now_ms)
    ):
        return at_once(_checking_records(header, batch, config, now_ms))
    if not is_framed(batch, HEADER_SIZE, header.records_count):
        raise _not_framed(header)
    if config.message_timestamp_type == LOG_APPEND_TIME:
        header, batch = _stamped(header, batch, now_ms)
    return header, batch


def checked_quickly(batch: Buffer, config: LogConfig, now_ms: int) -> CheckedBatch | None:
    """`validated`, of a compressed batch that turns out to be small; None for any other."""
    compressed = batch[_ATTRIBUTES_AT] & COMPRESSION_MASK
    (count,) = _COUNT.unpack_from(batch, _COUNT_AT)
    if not compressed or count >= FEW_RECORDS or len(batch) > min(_QUICK_BYTES, config.max_message_bytes):
        return None
    header = checked_header(batch)
    _check_header(header, batch)
    payload = decompress_within(header.compression, memoryview(batch)[HEADER_SIZE:], _QUICK_BYTES)
    if payload is None:
        return None
    return at_once(_checking_records(header, batch, config, now_ms, payload))


def checking(batch: Buffer, config: LogConfig, now_ms: int) -> Sliced[CheckedBatch]:
    """`validated`, in slices."""
    _check_size(batch, config)
    header = checked_header(batch) if len(batch) <= FEW_BYTES else (yield partial(checked_header, batch))
    _check_header(header, batch)
    yield len(batch) // UNIT_BYTES
    return (yield from _checking_records(header, batch, config, now_ms))


def _check_size(batch: Buffer, config: LogConfig) -> None:
    """Of more bytes than the topic takes not even the checksum is computed."""
    if len(batch) > config.max_message_bytes and (size := BatchHeader.parse(batch).size) > config.max_message_bytes:
        raise BatchTooLargeError(f"a batch of {size} bytes: max.message.bytes is {config.max_message_bytes}")


def _check_header(header: BatchHeader, batch: Buffer) -> None:
    check_produced(header)
    if header.size != len(batch):
        raise InvalidRecordError(f"{len(batch)} bytes where one batch takes {header.size}: send one batch at a time")
    if header.is_log_append_time:
        raise RecordsRefusedError(
            ErrorCode.invalid_timestamp, [RefusedRecord(0, "LogAppendTime is the broker's: producers send CreateTime")]
        )


def _checking_records(
    header: BatchHeader, batch: Buffer, config: LogConfig, now_ms: int, payload: bytes | None = None
) -> Sliced[CheckedBatch]:
    """`payload` is its records as they are decompressed, if they are."""
    if header.attributes & COMPRESSION_MASK or config.compression_type not in (PRODUCER, UNCOMPRESSED):
        header, batch = yield from _checking_compressed(header, batch, config, now_ms, payload)
    elif _is_plain(header, config, now_ms):
        if not (yield from framing(batch, HEADER_SIZE, header.records_count)):
            raise _not_framed(header)
    else:
        records = _Records(header, config, now_ms)
        yield from walking(bytes(memoryview(batch)[HEADER_SIZE:]), header.records_count, records.take)
        records.check()
    if config.message_timestamp_type == LOG_APPEND_TIME:
        header, batch = _stamped(header, batch, now_ms)
    return CheckedBatch(header, batch)


def _not_framed(header: BatchHeader) -> InvalidRecordError:
    return InvalidRecordError(f"the batch does not hold {header.records_count} records one after the other")


def _stamped(header: BatchHeader, batch: Buffer, now_ms: int) -> tuple[BatchHeader, Buffer]:
    """The batch with the time of its append."""
    header = header._replace(attributes=header.attributes | LOG_APPEND_TIME_FLAG, max_timestamp=now_ms)
    return _rebuilt(header, memoryview(batch)[HEADER_SIZE:])


def _is_plain(header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    """Whether no rule needs more of the records than the header tells."""
    if config.is_compacted:
        return False
    if config.message_timestamp_type == LOG_APPEND_TIME:
        return True
    newest = max(header.max_timestamp, header.base_timestamp)
    return config.message_timestamp_before_max_ms == NEVER and newest - now_ms <= config.message_timestamp_after_max_ms


def _checking_compressed(
    header: BatchHeader, batch: Buffer, config: LogConfig, now_ms: int, payload: bytes | None
) -> Sliced[tuple[BatchHeader, Buffer]]:
    """The batch in the codec that the topic wants; as it came, if that is the one."""
    source = header.compression
    stored = memoryview(batch)[HEADER_SIZE:]
    if payload is None:
        payload = yield from _decompressing(source, stored)
    records = _Records(header, config, now_ms)
    yield from walking(payload, header.records_count, records.take)
    records.check()
    max_timestamp = header.base_timestamp + records.newest_delta
    target = source if config.compression_type == PRODUCER else _CODECS[config.compression_type]
    if target is source and max_timestamp == header.max_timestamp:
        return header, batch
    if target is not source:
        work = partial(compress, target, payload, _level(target, config))
        stored = memoryview(work() if len(payload) <= _FEW_DECOMPRESSED else (yield work))
        yield len(payload) // UNIT_BYTES
    attributes = header.attributes & ~COMPRESSION_MASK | target
    header, batch = _rebuilt(header._replace(attributes=attributes, max_timestamp=max_timestamp), stored)
    if header.size > config.max_message_bytes:
        raise BatchTooLargeError(
            f"a batch of {header.size} bytes as {config.compression_type}: "
            f"max.message.bytes is {config.max_message_bytes}"
        )
    return header, batch


def _decompressing(codec: Compression, stored: Buffer) -> Sliced[bytes]:
    """What a producer's records are decompressed; apart from the rest if they may be many."""
    payload = decompress_within(codec, stored, _FEW_DECOMPRESSED) if len(stored) <= _FEW_COMPRESSED else None
    if payload is None:
        payload = yield partial(decompress, codec, stored, most_decompressed(len(stored)))
    assert payload is not None, "what is not decompressed raises an error"
    yield len(payload) // UNIT_BYTES
    return payload


_CODECS: Final = {
    UNCOMPRESSED: Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


def _level(codec: Compression, config: LogConfig) -> int | None:
    levels = {
        Compression.GZIP: config.compression_gzip_level,
        Compression.LZ4: config.compression_lz4_level,
        Compression.ZSTD: config.compression_zstd_level,
    }
    return levels.get(codec)


def _rebuilt(header: BatchHeader, payload: Buffer) -> tuple[BatchHeader, bytes]:
    """The batch with this header, its length and its checksum put right."""
    header = header._replace(batch_length=HEADER_SIZE + len(payload) - LENGTH_OVERHEAD, crc=0)
    header = header._replace(crc=crc32c(payload, crc32c(header.pack()[CHECKSUM_START:])))
    return header, b"".join((header.pack(), payload))


class _Records:
    """What the records of a batch amount to, and which of them break a rule."""

    def __init__(self, header: BatchHeader, config: LogConfig, now_ms: int) -> None:
        self.newest_delta = -(1 << 63)
        self._base = header.base_timestamp
        self._count = 0
        self._has_times = config.message_timestamp_type != LOG_APPEND_TIME
        self._oldest = now_ms - config.message_timestamp_before_max_ms
        self._newest = now_ms + config.message_timestamp_after_max_ms
        self._now_ms = now_ms
        self._is_compacted = config.is_compacted
        self._gaps, self._times, self._keyless = _Refused(), _Refused(), _Refused()

    def take(self, walked: Walked) -> None:
        """Look at some more records."""
        first, self._count = self._count, self._count + walked.records_count
        self.newest_delta = max(self.newest_delta, walked.newest)
        if not walked.is_consecutive:
            for number, delta in enumerate(walked.fields().offset_deltas, start=first):
                if delta != number and self._gaps.is_more():
                    self._gaps.add(number, f"offset delta {delta} instead of {number}")
        if self._has_times and not (
            self._oldest <= self._base + walked.oldest and self._base + walked.newest <= self._newest
        ):
            self._check_times(walked.fields().timestamp_deltas, first)
        if self._is_compacted and walked.least_key_length < 0:
            for number, length in enumerate(walked.fields().key_lengths, start=first):
                if length < 0 and self._keyless.is_more():
                    self._keyless.add(number, "no key: every record of a compacted topic needs one")

    def _check_times(self, deltas: Sequence[int], first: int) -> None:
        for number, delta in enumerate(deltas, start=first):
            timestamp = self._base + delta
            outside = timestamp != NO_TIMESTAMP and not self._oldest <= timestamp <= self._newest
            if outside and self._times.is_more():
                limits = f"from {self._oldest} to {self._newest} (the time is {self._now_ms})"
                self._times.add(number, f"timestamp {timestamp} is not {limits}")

    def check(self) -> None:
        """Raise RecordsRefusedError for the records that break a rule: the first rule that is broken."""
        for error, refused in (
            (ErrorCode.invalid_record, self._gaps),
            (ErrorCode.invalid_timestamp, self._times),
            (ErrorCode.invalid_record, self._keyless),
        ):
            if refused.count:
                raise RecordsRefusedError(error, refused.first, refused.count)


class _Refused:
    """The records that break one rule."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[RefusedRecord] = []

    def is_more(self) -> bool:
        """Count one more; whether it is to be named."""
        self.count += 1
        return self.count <= MAX_RECORD_ERRORS

    def add(self, number: int, message: str) -> None:
        self.first.append(RefusedRecord(number, message))
