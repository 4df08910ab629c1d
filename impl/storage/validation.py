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

Refusals are `RecordError`s with the Kafka error code; those that concern single records say which (KIP-467).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from crc32c import crc32c
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
from tidegauge.impl.records.compression import compress, decompress
from tidegauge.impl.records.walk import Walked, is_framed, walk
from tidegauge.impl.storage.config import LOG_APPEND_TIME, NEVER, PRODUCER, UNCOMPRESSED, LogConfig
from tidegauge.impl.storage.errors import BatchTooLargeError

_SHOWN = 3


class RefusedRecord(NamedTuple):
    """One record that made its batch be refused."""

    batch_index: int
    """Which of the batch's records, from 0 on."""
    message: str


class RecordsRefusedError(RecordError):
    """Some of a batch's records break a rule; all of the batch is refused."""

    def __init__(self, error_code: ErrorCode, record_errors: Sequence[RefusedRecord]) -> None:
        shown = "; ".join(f"record {number}: {message}" for number, message in record_errors[:_SHOWN])
        more = f", and {len(record_errors) - _SHOWN} more" if len(record_errors) > _SHOWN else ""
        super().__init__(f"{shown}{more}")
        self.error_code = error_code  # type: ignore[misc]
        self.record_errors = tuple(record_errors)


def validated(batch: Buffer, config: LogConfig, now_ms: int) -> tuple[BatchHeader, Buffer]:
    """The header and the bytes to store of a producer's batch; the caller's bytes are not changed.

    Raises RecordError.
    """
    header = checked_header(batch)
    size = header.size
    if size > config.max_message_bytes:
        raise BatchTooLargeError(f"a batch of {size} bytes: max.message.bytes is {config.max_message_bytes}")
    check_produced(header)
    if size != len(batch):
        raise InvalidRecordError(f"{len(batch)} bytes where one batch takes {size}: send one batch at a time")
    if header.is_log_append_time:
        raise RecordsRefusedError(
            ErrorCode.invalid_timestamp, [RefusedRecord(0, "LogAppendTime is the broker's: producers send CreateTime")]
        )
    stamped = config.message_timestamp_type == LOG_APPEND_TIME
    if header.attributes & COMPRESSION_MASK or config.compression_type not in (PRODUCER, UNCOMPRESSED):
        header, batch = _compressed(header, batch, config, now_ms)
    elif _is_plain(header, config, now_ms):
        if not is_framed(batch, HEADER_SIZE, header.records_count):
            raise InvalidRecordError(f"the batch does not hold {header.records_count} records one after the other")
    else:
        payload = bytes(memoryview(batch)[HEADER_SIZE:])
        _check_records(header, walk(payload, header.records_count), config, now_ms)
    if stamped:
        header, batch = _rebuilt(
            header._replace(attributes=header.attributes | LOG_APPEND_TIME_FLAG, max_timestamp=now_ms),
            memoryview(batch)[HEADER_SIZE:],
        )
    return header, batch


def _is_plain(header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    """Whether no rule needs more of the records than the header tells."""
    if config.is_compacted:
        return False
    if config.message_timestamp_type == LOG_APPEND_TIME:
        return True
    newest = max(header.max_timestamp, header.base_timestamp)
    return config.message_timestamp_before_max_ms == NEVER and newest - now_ms <= config.message_timestamp_after_max_ms


def _compressed(header: BatchHeader, batch: Buffer, config: LogConfig, now_ms: int) -> tuple[BatchHeader, Buffer]:
    """The batch in the codec that the topic wants; as it came, if that is the one."""
    source = header.compression
    stored = memoryview(batch)[HEADER_SIZE:]
    payload = decompress(source, stored)
    walked = walk(payload, header.records_count)
    _check_records(header, walked, config, now_ms)
    max_timestamp = header.base_timestamp + max(walked.timestamp_deltas)
    target = source if config.compression_type == PRODUCER else _CODECS[config.compression_type]
    if target is source and max_timestamp == header.max_timestamp:
        return header, batch
    if target is not source:
        stored = memoryview(compress(target, payload, _level(target, config)))
    attributes = header.attributes & ~COMPRESSION_MASK | target
    header, batch = _rebuilt(header._replace(attributes=attributes, max_timestamp=max_timestamp), stored)
    if header.size > config.max_message_bytes:
        raise BatchTooLargeError(
            f"a batch of {header.size} bytes as {config.compression_type}: "
            f"max.message.bytes is {config.max_message_bytes}"
        )
    return header, batch


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


def _check_records(header: BatchHeader, walked: Walked, config: LogConfig, now_ms: int) -> None:
    """Raises RecordsRefusedError naming every record that breaks a rule."""
    if walked.offset_deltas != list(range(header.records_count)):
        wrong = [
            RefusedRecord(number, f"offset delta {delta} instead of {number}")
            for number, delta in enumerate(walked.offset_deltas)
            if delta != number
        ]
        raise RecordsRefusedError(ErrorCode.invalid_record, wrong)
    if config.message_timestamp_type != LOG_APPEND_TIME:
        _check_timestamps(header, walked.timestamp_deltas, config, now_ms)
    if config.is_compacted and min(walked.key_lengths) < 0:
        keyless = [number for number, length in enumerate(walked.key_lengths) if length < 0]
        raise RecordsRefusedError(
            ErrorCode.invalid_record,
            [RefusedRecord(number, "no key: every record of a compacted topic needs one") for number in keyless],
        )


def _check_timestamps(header: BatchHeader, deltas: Sequence[int], config: LogConfig, now_ms: int) -> None:
    oldest = now_ms - config.message_timestamp_before_max_ms
    newest = now_ms + config.message_timestamp_after_max_ms
    base = header.base_timestamp
    if oldest <= base + min(deltas) and base + max(deltas) <= newest:
        return
    outside = [
        RefusedRecord(number, f"timestamp {base + delta} is not from {oldest} to {newest} (the time is {now_ms})")
        for number, delta in enumerate(deltas)
        if base + delta != NO_TIMESTAMP and not oldest <= base + delta <= newest
    ]
    if outside:
        raise RecordsRefusedError(ErrorCode.invalid_timestamp, outside)
