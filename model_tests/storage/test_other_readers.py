"""Segment files in the hands of other implementations: kafka-python and aiokafka read what lies on disk.

And the other way round: batches that their builders make are taken, byte for byte.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

from tidegauge.impl.ports.disk import RealDisk
from tidegauge.impl.records.batches import Compression
from tidegauge.impl.records.origin import Origin
from tidegauge.impl.records.payload import ProducerIdentity, Record, RecordHeader, build_batch, decode_batches
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.log import Log
from tidegauge.model_tests.storage.compacted_batches import compacted_batch

Batches = Iterator[Any]
Read = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def batches_of(parser: Callable[[bytes], Any], data: bytes) -> Batches:
    """The batches as the other implementation finds them, their checksums looked at by it."""
    records = parser(data)
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        yield batch


PARSERS = pytest.mark.parametrize("parser", [KafkaPythonRecords, AiokafkaRecords], ids=["kafka-python", "aiokafka"])
NOW = 5_000


def written(directory: Path, **settings: Any) -> Log:
    """Every codec, headers, nulls, tombstones, an idempotent producer, several segments and epochs."""
    config = LogConfig(segment_bytes=2_000, index_interval_bytes=100, **settings)
    log = Log.open(RealDisk(), str(directory), config, 0)
    for number in range(25):
        records = [
            Record(0, NOW + number, b"key %d" % number, b"value" * number, (RecordHeader("h", b"1"),)),
            Record(1, NOW - number, b"gone", None, (RecordHeader("n", None), RecordHeader("h", b""))),
            Record(2, NOW, b"", b""),
        ]
        producer = ProducerIdentity(7, 0, 3 * number)
        batch = build_batch(records, compression=list(Compression)[number % 5], producer=producer)
        log.append_as_leader(batch, number // 10, NOW)
    return log


def on_disk(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def ours(data: bytes) -> list[Read]:
    return [(offset, time, key, value, tuple(headers)) for offset, time, key, value, headers in decode_batches(data)]


def theirs(parser: Callable[[bytes], Any], data: bytes) -> list[Read]:
    return [
        (record.offset, record.timestamp, record.key, record.value, tuple(map(tuple, record.headers)))
        for batch in batches_of(parser, data)
        for record in batch
    ]


@PARSERS
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"message_timestamp_type": "LogAppendTime"},
        {"compression_type": "zstd"},
        {"compression_type": "snappy"},
        {"compression_type": "uncompressed"},
    ],
    ids=lambda settings: ",".join(settings.values()) or "as it came",
)
def test_every_record_is_read_alike(tmp_path: Path, parser: Callable[[bytes], Any], settings: dict[str, str]) -> None:
    log = written(tmp_path, **settings)
    log.close()
    data = on_disk(tmp_path)
    found = theirs(parser, data)
    assert found == ours(data)
    assert [read[0] for read in found] == list(range(75))
    assert len(list(tmp_path.glob("*.log"))) > 1


@PARSERS
def test_headers_of_batches_are_read_alike(tmp_path: Path, parser: Callable[[bytes], Any]) -> None:
    written(tmp_path).close()
    for number, batch in enumerate(batches_of(parser, on_disk(tmp_path))):
        assert (batch.base_offset, batch.next_offset) == (3 * number, 3 * number + 3)
        assert batch.magic == 2
        assert batch.timestamp_type == 0
        assert not batch.is_transactional
        assert not batch.is_control_batch
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 0, 3 * number)


@PARSERS
def test_a_log_with_gaps_is_read_alike(tmp_path: Path, parser: Callable[[bytes], Any]) -> None:
    log = Log.open(RealDisk(), str(tmp_path), LogConfig(), 0)
    left = [(0, 5, {1: b"a", 3: b"b"}), (9, 10, {}), (12, 20, {19: b"c"})]
    for base, end, values in left:
        log.append_as_follower(compacted_batch(base, end, 0, values))
    log.truncate_to(11)
    log.append_as_leader(build_batch([Record(0, NOW, None, b"d")]), 0, NOW)
    log.close()
    data = on_disk(tmp_path)
    assert [(offset, value) for offset, _, _, value, _ in theirs(parser, data)] == [(1, b"a"), (3, b"b"), (11, b"d")]
    assert [batch.next_offset for batch in batches_of(parser, data)] == [5, 10, 11, 12]


@PARSERS
def test_control_batches_are_known_as_such(tmp_path: Path, parser: Callable[[bytes], Any]) -> None:
    log = Log.open(RealDisk(), str(tmp_path), LogConfig(), 0)
    marker = Record(0, NOW, struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 0))
    batch = build_batch([marker], producer=ProducerIdentity(7, 0, -1), transactional=True, control=True)
    log.append_as_leader(batch, 0, NOW, origin=Origin.BROKER)
    log.close()
    (found,) = batches_of(parser, on_disk(tmp_path))
    assert found.is_control_batch
    assert found.is_transactional


@pytest.mark.parametrize("builder", [KafkaPythonBuilder, AiokafkaBuilder], ids=["kafka-python", "aiokafka"])
@pytest.mark.parametrize("compression", list(Compression))
def test_their_batches_are_taken_as_they_are(tmp_path: Path, builder: Any, compression: Compression) -> None:
    made = builder(2, int(compression), 0, -1, -1, -1, 1 << 20)
    for number in range(100):
        made.append(number, NOW + number, b"key", b"value %d" % number, [("h", b"v")])
    data = bytes(made.build())
    log = Log.open(RealDisk(), str(tmp_path), LogConfig(), 0)
    log.append_as_leader(data, 0, NOW)
    stored = log.read(0, 1 << 20)
    assert stored[16:] == data[16:], "all but the offset and the epoch, which the leader writes"
    assert [record.value for record in decode_batches(stored)] == [b"value %d" % number for number in range(100)]
