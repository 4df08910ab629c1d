"""Batches that were made to cost much: few bytes that are many records, records that break rules, times to be found."""

from __future__ import annotations

import numpy as np
import pytest
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v7.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.records.batches import BatchHeader, Compression
from tidegauge.impl.records.compression import ALWAYS_DECOMPRESSED_BYTES, compress
from tidegauge.impl.records.payload import Record, encode_record
from tidegauge.impl.storage.validation import MAX_RECORD_ERRORS
from tidegauge.impl.wire.produce_messages import PartitionProduced, ProducePartition, ProduceRequest, ProduceTopic
from tidegauge.model_tests.records.odd_batches import with_payload
from tidegauge.model_tests.server.asking import Asker, asking
from tidegauge.model_tests.server.work_in_steps import counted_steps
from tidegauge.model_tests.simulated import simulated

CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
assert np.__version__, "imported before any work is counted"
MOST_CALLS = 20_000
"""In one step of a task: some milliseconds."""
BY_NAME = 12


def batch_of(payload: bytes, count: int, codec: Compression, timestamp: int = 7) -> bytes:
    """A batch that says it holds so many records, and holds this."""
    header = BatchHeader(0, 0, -1, 2, 0, codec, count - 1, timestamp, timestamp, -1, -1, -1, count)
    return with_payload(header.pack(), compress(codec, payload))


def identical(count: int) -> bytes:
    """So many times the first record of a batch."""
    return encode_record(Record(0, 7, None, None), 0, 7) * count


def numbered(count: int) -> bytes:
    """Records of which every other is newer than all before it."""
    return b"".join(encode_record(Record(n, n // 2, None, None), 0, 0) for n in range(count))


async def produced(asker: Asker, data: bytes) -> PartitionProduced:
    request = ProduceRequest(1, 30_000, [ProduceTopic("t", "", [ProducePartition(0, data)])])
    response = await asker.ask(request, BY_NAME)
    found: PartitionProduced = response.topics[0].partitions[0]
    return found


@pytest.mark.parametrize("codec", CODECS)
@simulated
async def test_few_bytes_of_identical_records_stop_nobody_and_get_few_words(codec: Compression) -> None:
    count = 100_000
    data = batch_of(identical(count), count, codec)
    assert len(data) < 50_000
    async with asking() as (_, asker):
        with counted_steps() as steps:
            found = await produced(asker, data)
        assert found.error_code is ErrorCode.invalid_record
        assert len(found.record_errors) == MAX_RECORD_ERRORS
        assert found.error_message is not None
        assert found.error_message.endswith(f", and {count - 4} more")
        assert steps.total > MOST_CALLS
        assert steps.most < MOST_CALLS
        assert (await produced(asker, batch_of(numbered(3), 3, codec))).error_code is ErrorCode.none


@pytest.mark.parametrize("codec", CODECS)
@simulated
async def test_a_bomb_is_refused(codec: Compression) -> None:
    bomb = batch_of(bytes(ALWAYS_DECOMPRESSED_BYTES + (1 << 20)), 3, codec)
    if codec is Compression.SNAPPY:  # it makes nothing small enough, but a block may claim to be large
        bomb = with_payload(bomb, b"\x80\x80\x80\x80\x04" + bytes(100))
    async with asking() as (_, asker):
        found = await produced(asker, bomb)
    assert found.error_code is ErrorCode.corrupt_message
    assert found.error_message is not None
    assert "send smaller batches" in found.error_message


@simulated
async def test_many_records_that_are_not_compressed_stop_nobody() -> None:
    count = 120_000
    payload = b"".join(encode_record(Record(n, 7, None, bytes(n % 2)), 0, 7) for n in range(count))
    async with asking(config={"message.max.bytes": 2 << 20}) as (_, asker):
        with counted_steps() as steps:
            found = await produced(asker, batch_of(payload, count, Compression.NONE))
        assert found.error_code is ErrorCode.none
        assert steps.most < MOST_CALLS


@simulated
async def test_one_record_of_many_headers_stops_nobody() -> None:
    headers = b"\0\1" * 60_000
    fields = b"\0\0\0\1\1" + b"\xc0\xa9\x07" + headers
    length = len(fields) << 1
    encoded = bytes(((length & 0x7F) | 0x80, (length >> 7) & 0x7F | 0x80, length >> 14))
    data = batch_of(encoded + fields, 1, Compression.ZSTD)
    async with asking() as (_, asker):
        with counted_steps() as steps:
            found = await produced(asker, data)
    assert found.error_code is ErrorCode.none
    assert steps.most < MOST_CALLS
    assert steps.total > 60_000


async def found_at(asker: Asker, timestamp: int) -> int:
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)  # type: ignore[arg-type]
    topic = ListOffsetsTopic(name="t", partitions=(asked,))  # type: ignore[arg-type]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=(topic,))  # type: ignore[arg-type]
    response = await asker.ask(request)
    (partition,) = response.topics[0].partitions
    assert partition.error_code is ErrorCode.none
    return int(partition.offset)


def looked_into(cluster: Cluster) -> int:
    return cluster.broker(0).replicas.known_points.looked_into


@simulated
async def test_a_large_batch_is_looked_into_once_for_all_that_ask_for_times() -> None:
    count = 40_000
    async with asking() as (cluster, asker):
        assert (await produced(asker, batch_of(numbered(count), count, Compression.ZSTD, 0))).error_code == 0
        with counted_steps() as steps:
            assert await found_at(asker, 15_000) == 30_000
        assert steps.most < MOST_CALLS
        assert looked_into(cluster) == 1
        with counted_steps() as steps:
            for timestamp in range(0, count // 2, 2_000):
                assert await found_at(asker, timestamp) == 2 * timestamp
            assert await found_at(asker, -3) == count - 2, "the first of the newest"
        assert steps.total < MOST_CALLS
        assert looked_into(cluster) == 1
