"""What a leader takes from producers, what it changes, and what it refuses with which words."""

from __future__ import annotations

import random
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.records import compression as records_compression
from tidegauge.impl.records.batches import (
    HEADER_SIZE,
    BatchHeader,
    Compression,
    CorruptRecordError,
    InvalidRecordError,
    RecordError,
    UnsupportedMagicError,
    checked_header,
)
from tidegauge.impl.records.compression import compress, decompress
from tidegauge.impl.records.payload import ProducerIdentity, Record, build_batch, decode_records
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.errors import BatchListTooLargeError, BatchTooLargeError
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.validation import RecordsRefusedError, validated
from tidegauge.model_tests.records.odd_batches import with_header, with_payload

NOW = 1_000_000
HOUR_MS = 60 * 60 * 1000
CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]


def batch(count: int = 3, *, timestamp: int = NOW, key: bytes | None = b"k", **more: Any) -> bytes:
    return build_batch([Record(n, timestamp + n, key, b"value %d" % n) for n in range(count)], **more)


def config(**settings: Any) -> LogConfig:
    return LogConfig(**settings)


def stored(data: bytes, **settings: Any) -> tuple[BatchHeader, bytes]:
    header, found = validated(data, config(**settings), NOW)
    assert checked_header(found) == header, "what is stored is intact, and is what is told"
    return header, bytes(found)


@pytest.mark.parametrize("compression", list(Compression))
def test_a_batch_is_stored_as_it_came(compression: Compression) -> None:
    data = batch(compression=compression)
    assert stored(data)[1] == data


@pytest.mark.parametrize("source", list(Compression))
@pytest.mark.parametrize("target", list(Compression))
def test_a_batch_is_compressed_anew_where_the_topic_asks(source: Compression, target: Compression) -> None:
    data = batch(60, compression=source, producer=ProducerIdentity(5, 1, 7))
    name = "uncompressed" if target is Compression.NONE else target.name.lower()
    header, found = stored(data, compression_type=name)
    assert header.compression is target
    assert decode_records(found) == decode_records(data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 1, 7)
    assert (found == data) == (source is target)


def test_the_level_of_a_codec_counts() -> None:
    data = build_batch([Record(n, NOW, None, random.Random(n).randbytes(40) * 20) for n in range(50)])
    for codec, low, high in (("gzip", 1, 9), ("zstd", 1, 19), ("lz4", 1, 12)):
        sizes = [
            len(stored(data, **{"compression_type": codec, f"compression_{codec}_level": level})[1])
            for level in (low, high)
        ]
        assert sizes[1] < sizes[0], codec


def test_log_append_time_stamps_the_batch() -> None:
    for compression in Compression:
        data = batch(timestamp=17, compression=compression)
        header, found = stored(data, message_timestamp_type="LogAppendTime")
        assert (header.is_log_append_time, header.max_timestamp, header.base_timestamp) == (True, NOW, 17)
        assert [record.timestamp for record in decode_records(found)] == [NOW] * 3
        assert found[HEADER_SIZE:] == data[HEADER_SIZE:], "the records stay as they are"


def test_a_compressed_batch_with_a_wrong_largest_timestamp_is_put_right() -> None:
    data = with_header(batch(compression=Compression.LZ4), max_timestamp=NOW - 5)
    header, found = stored(data)
    assert header.max_timestamp == NOW + 2
    assert decode_records(found) == decode_records(data)


def refused(data: bytes, **settings: Any) -> RecordsRefusedError:
    with pytest.raises(RecordsRefusedError) as caught:
        validated(data, config(**settings), NOW)
    return caught.value


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_a_record_from_too_far_in_the_future_is_refused(compression: Compression) -> None:
    late = [Record(n, NOW + HOUR_MS + n, None, b"v") for n in range(3)]
    error = refused(build_batch(late, compression=compression))
    assert error.error_code is ErrorCode.invalid_timestamp
    assert [number for number, _ in error.record_errors] == [1, 2]
    assert f"timestamp {NOW + HOUR_MS + 1} is not from" in error.record_errors[0].message
    assert "record 1: timestamp" in str(error)
    build = build_batch(late[:1], compression=compression)
    assert stored(build)[1] == build


def test_a_record_that_is_too_old_is_refused_where_the_topic_says_so() -> None:
    records = [Record(0, NOW, None, b"v"), Record(1, NOW - 51, None, b"v"), Record(2, NOW - 50, None, b"v")]
    error = refused(build_batch(records), message_timestamp_before_max_ms=50)
    assert [number for number, _ in error.record_errors] == [1]
    assert stored(build_batch(records))[0].records_count == 3


def test_log_append_time_knows_no_limits() -> None:
    assert stored(batch(timestamp=1 << 50), message_timestamp_type="LogAppendTime")[0].max_timestamp == NOW


def test_a_producer_does_not_stamp_for_the_broker() -> None:
    error = refused(with_header(batch(), attributes=0x08))
    assert error.error_code is ErrorCode.invalid_timestamp


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.SNAPPY])
def test_records_of_a_compacted_topic_have_keys(compression: Compression) -> None:
    records = [Record(n, NOW, None if n in (1, 3, 4, 5) else b"k", b"v") for n in range(6)]
    error = refused(build_batch(records, compression=compression), cleanup_policy=frozenset({"compact"}))
    assert error.error_code is ErrorCode.invalid_record
    assert [number for number, _ in error.record_errors] == [1, 3, 4, 5]
    assert str(error).endswith(", and 1 more")
    assert stored(batch(), cleanup_policy=frozenset({"compact", "delete"}))[0].records_count == 3


@pytest.mark.parametrize("compression", CODECS)
def test_bytes_that_do_not_decompress_are_refused(compression: Compression) -> None:
    payload = bytearray(batch(40, compression=compression)[HEADER_SIZE:])
    payload[len(payload) // 2 :] = bytes(len(payload) - len(payload) // 2)
    with pytest.raises(RecordError):
        validated(with_payload(batch(40, compression=compression), bytes(payload)), config(), NOW)


@pytest.mark.parametrize("compression", list(Compression))
def test_a_count_that_the_records_do_not_bear_out_is_refused(compression: Compression) -> None:
    for count in (2, 4):
        data = with_header(batch(compression=compression), records_count=count, last_offset_delta=count - 1)
        with pytest.raises(InvalidRecordError, match=f"{count} records one after the other"):
            validated(data, config(), NOW)


def test_offsets_within_a_compressed_batch_have_no_gaps() -> None:
    records = [Record(n, NOW, None, b"v") for n in (0, 1, 5)]
    data = with_header(build_batch(records, compression=Compression.GZIP), last_offset_delta=2)
    error = refused(data)
    assert error.record_errors == ((2, "offset delta 5 instead of 2"),)
    assert error.error_code is ErrorCode.invalid_record


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"records_count": 0}, InvalidRecordError),
        ({"last_offset_delta": 5}, InvalidRecordError),
        ({"attributes": 0x20}, InvalidRecordError),
        ({"producer_id": 4, "base_sequence": -1, "producer_epoch": 0}, InvalidRecordError),
        ({"attributes": 5}, RecordError),
        ({"magic": 1}, UnsupportedMagicError),
        ({"magic": 3}, CorruptRecordError),
    ],
)
def test_a_header_against_the_rules_is_refused(changes: dict[str, int], error: type[RecordError]) -> None:
    with pytest.raises(error):
        validated(with_header(batch(), **changes), config(), NOW)


def test_two_batches_are_not_one() -> None:
    with pytest.raises(InvalidRecordError, match="one batch at a time"):
        validated(batch() * 2, config(), NOW)


def test_sizes_are_limited_before_and_after_compression() -> None:
    data = build_batch([Record(n, NOW, None, bytes(100)) for n in range(100)])
    with pytest.raises(BatchTooLargeError, match=r"max\.message\.bytes is 1000"):
        validated(data, config(max_message_bytes=1000), NOW)
    small = build_batch([Record(n, NOW, None, bytes(100)) for n in range(100)], compression=Compression.ZSTD)
    with pytest.raises(BatchTooLargeError, match="bytes as uncompressed"):
        validated(small, config(max_message_bytes=1000, compression_type="uncompressed"), NOW)
    log = Log.open(SimulatedDisk(random.Random(0)), "logs/t-0", config(segment_bytes=1000), 0)
    with pytest.raises(BatchListTooLargeError):
        log.append_as_leader(data, 0, NOW)


def test_a_bomb_is_refused_before_it_has_taken_all_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_compression, "MAX_DECOMPRESSED_BYTES", 1 << 20)
    for codec in CODECS:
        fits, bomb = compress(codec, bytes(1 << 20)), compress(codec, bytes((1 << 20) + 1))
        assert len(decompress(codec, fits)) == 1 << 20
        with pytest.raises(CorruptRecordError, match="more than 1048576 bytes"):
            decompress(codec, bomb)


def test_what_is_refused_leaves_the_log_as_it_was() -> None:
    disk = SimulatedDisk(random.Random(0))
    log = Log.open(disk, "logs/t-0", config(cleanup_policy=frozenset({"compact"})), 0)
    before = disk.files()
    with pytest.raises(RecordsRefusedError):
        log.append_as_leader(batch(key=None), 0, NOW)
    assert disk.files() == before
    assert log.log_end_offset == 0
