"""DeleteRecords against running brokers, and what brokers do for their logs by the clock."""

from __future__ import annotations

import errno
from datetime import timedelta
from typing import Any

import pytest
import trio
from kio.schema.delete_records import v0, v1, v2
from kio.schema.errors import ErrorCode

from tidegauge.impl.cluster.names import broker_name
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.wire.primitives import TopicName, i32, i64
from tidegauge.model_tests.server.apis.test_produce_and_fetch import Asker, asking, batch, values
from tidegauge.model_tests.simulated import simulated

DAY_MS = 24 * 60 * 60 * 1000


async def delete(
    asker: Asker, *offsets: int, topic: str = "t", broker: int = 0, version: int = 2, timeout_ms: int = 10_000
) -> list[tuple[ErrorCode, int]]:
    """Asks for partition 0, 1, …; (error, low watermark) of each."""
    schema: Any = (v0.request, v1.request, v2.request)[version]
    partitions = tuple(
        schema.DeleteRecordsPartition(partition_index=i32(index), offset=i64(offset))
        for index, offset in enumerate(offsets)
    )
    request = schema.DeleteRecordsRequest(
        topics=(schema.DeleteRecordsTopic(name=TopicName(topic), partitions=partitions),),
        timeout=timedelta(milliseconds=timeout_ms),
    )
    response = await asker.channels[broker].request(request)
    return [(part.error_code, part.low_watermark) for part in response.topics[0].partitions]


def hosted(asker: Asker, broker: int) -> Partition:
    partition = asker.cluster.broker(broker).replicas.get("t", 0)
    assert partition is not None
    return partition


async def produce_six(asker: Asker) -> None:
    for number in range(6):
        assert (await asker.produce(batch(b"%d" % number))).error_code is ErrorCode.none


@simulated
async def test_records_are_deleted_at_every_replica_before_the_response() -> None:
    async with asking(3) as asker:
        await produce_six(asker)
        assert await delete(asker, 4) == [(ErrorCode.none, 4)]
        assert [hosted(asker, broker).log.log_start_offset for broker in range(3)] == [4, 4, 4]
        assert (await asker.fetch(3)).error_code is ErrorCode.offset_out_of_range
        fetched = await asker.fetch(4)
        assert (values(fetched), fetched.log_start_offset) == ([b"4", b"5"], 4)


@simulated
async def test_followers_are_told_at_once_and_not_when_their_fetch_has_waited() -> None:
    async with asking(3, config={"replica.fetch.wait.max.ms": 3_000}) as asker:
        await produce_six(asker)
        started = trio.current_time()
        assert await delete(asker, 4) == [(ErrorCode.none, 4)]
        assert trio.current_time() - started < 1


@simulated
async def test_every_version_deletes() -> None:
    async with asking() as asker:
        await produce_six(asker)
        for version in range(3):
            assert await delete(asker, version + 1, version=version) == [(ErrorCode.none, version + 1)]


@simulated
async def test_minus_one_is_the_high_watermark() -> None:
    async with asking(3) as asker:
        await produce_six(asker)
        assert await delete(asker, -1) == [(ErrorCode.none, 6)]
        assert (await asker.produce(batch(b"6"))).base_offset == 6
        assert values(await asker.fetch(6)) == [b"6"]


@simulated
async def test_what_is_deleted_already_stays_so() -> None:
    async with asking() as asker:
        await produce_six(asker)
        assert await delete(asker, 4) == [(ErrorCode.none, 4)]
        assert await delete(asker, 2) == [(ErrorCode.none, 4)]


@simulated
async def test_what_cannot_be_deleted_is_refused() -> None:
    async with asking(2) as asker:
        await produce_six(asker)
        assert await delete(asker, 7) == [(ErrorCode.offset_out_of_range, -1)]
        assert await delete(asker, -2) == [(ErrorCode.offset_out_of_range, -1)]
        assert await delete(asker, 1, broker=1) == [(ErrorCode.not_leader_or_follower, -1)]
        assert await delete(asker, 1, 1) == [(ErrorCode.none, 1), (ErrorCode.unknown_topic_or_partition, -1)]
        await asker.cluster.create_topic("c", config={"cleanup.policy": "compact"}, assignments=[[0]])
        assert await delete(asker, 0, topic="c") == [(ErrorCode.policy_violation, -1)]
        assert hosted(asker, 0).log.log_start_offset == 1


@simulated
async def test_a_replica_that_does_not_fetch_is_waited_for_until_the_timeout() -> None:
    async with asking(2) as asker:
        await produce_six(asker)
        asker.cluster.pause(1)
        started = trio.current_time()
        assert await delete(asker, 3, timeout_ms=700) == [(ErrorCode.request_timed_out, -1)]
        assert trio.current_time() - started >= 0.7
        assert hosted(asker, 0).log.log_start_offset == 3
        asker.cluster.resume(1)
        assert await delete(asker, 3) == [(ErrorCode.none, 3)]


@simulated
async def test_a_fenced_replica_is_not_waited_for_and_moves_when_it_is_back() -> None:
    async with asking(2) as asker:
        await produce_six(asker)
        await asker.cluster.crash(1)
        await trio.sleep(15)
        assert await delete(asker, 3) == [(ErrorCode.none, 3)]
        await asker.cluster.restart(1)
        await trio.sleep(15)
        assert hosted(asker, 1).log.log_start_offset == 3


NOTES = ["data/t-0/leader-epoch-checkpoint.tmp", "data/log-start-offset-checkpoint.tmp"]
"""What a log start is written down in."""


@pytest.mark.parametrize("without_room", NOTES)
@simulated
async def test_a_leader_without_room_to_write_it_down_deletes_nothing_and_tells_no_follower(without_room: str) -> None:
    async with asking(3) as asker:
        await produce_six(asker)
        asker.cluster.host.disk(broker_name(0)).fail(without_room, error=errno.ENOSPC)
        assert await delete(asker, 4) == [(ErrorCode.kafka_storage_error, -1)]
        await trio.sleep(5)
        assert [hosted(asker, broker).log.log_start_offset for broker in range(3)] == [0, 0, 0]
        assert hosted(asker, 0).log.end_offset_for(0) == (0, 6)
        asker.cluster.heal_disk(0)
        assert await delete(asker, 4) == [(ErrorCode.none, 4)]
        await asker.cluster.crash(0, lose_unsynced=True)
        await asker.cluster.restart(0)
        assert hosted(asker, 0).log.log_start_offset == 4


@pytest.mark.parametrize("without_room", NOTES)
@simulated
async def test_a_follower_without_room_to_write_its_log_start_down_tells_it_when_there_is(without_room: str) -> None:
    async with asking(3) as asker:
        await produce_six(asker)
        asker.cluster.host.disk(broker_name(1)).fail(without_room, error=errno.ENOSPC)
        assert await delete(asker, 4, timeout_ms=2_000) == [(ErrorCode.request_timed_out, -1)]
        assert hosted(asker, 0).replica.remote_replicas[1].log_start_offset == 0
        asker.cluster.heal_disk(1)
        assert await delete(asker, 4) == [(ErrorCode.none, 4)]
        await asker.cluster.crash(1, lose_unsynced=True)
        await asker.cluster.restart(1)
        assert hosted(asker, 1).log.log_start_offset == 4


@simulated
async def test_deleted_records_do_not_come_back_after_a_crash() -> None:
    async with asking(2) as asker:
        await produce_six(asker)
        assert await delete(asker, 4) == [(ErrorCode.none, 4)]
        for broker in (0, 1):
            await asker.cluster.crash(broker)
        for broker in (0, 1):
            await asker.cluster.restart(broker)
            assert hosted(asker, broker).log.log_start_offset == 4


@simulated
async def test_a_follower_whose_records_are_all_deleted_starts_over() -> None:
    async with asking(2) as asker:
        await produce_six(asker)
        await asker.cluster.crash(1)
        await trio.sleep(15)
        await produce_six(asker)
        assert await delete(asker, 9) == [(ErrorCode.none, 9)]
        await asker.cluster.restart(1)
        await trio.sleep(15)
        follower = hosted(asker, 1).log
        assert (follower.log_start_offset, follower.log_end_offset) == (9, 12)
        assert follower.segment_base_offsets == (9,)


@simulated
async def test_old_segments_go_by_time_at_every_replica_and_their_files_later() -> None:
    settings = {"retention.ms": str(DAY_MS), "segment.bytes": "100", "file.delete.delay.ms": "30000"}
    async with asking(2, config={"log.retention.check.interval.ms": 60_000}) as asker:
        await asker.cluster.create_topic("old", config=settings, assignments=[[0, 1]])
        for number in range(3):
            assert (await asker.produce(batch(b"%d" % number), topic="old")).error_code is ErrorCode.none
        await trio.sleep(70)
        for broker in (0, 1):
            partition = asker.cluster.broker(broker).replicas.get("old", 0)
            assert partition is not None
            assert (partition.log.log_start_offset, partition.log.log_end_offset) == (3, 3)
            directory = partition.log.directory
            names = asker.cluster.broker(broker).disk.list_directory(directory)
            assert any(name.endswith(".log.deleted") for name in names)
        await trio.sleep(40)
        names = asker.cluster.broker(0).disk.list_directory(directory)
        assert not [name for name in names if name.endswith(".deleted")]


@simulated
async def test_flush_ms_syncs_a_record_by_the_clock() -> None:
    async with asking(1, config={"log.flush.scheduler.interval.ms": 100}) as asker:
        await asker.cluster.create_topic("f", config={"flush.ms": "1000"}, assignments=[[0]])
        await asker.produce(batch(b"x"), topic="f")
        partition = asker.cluster.broker(0).replicas.get("f", 0)
        assert partition is not None
        await trio.sleep(0.5)
        assert partition.log.flushed_end_offset == 0
        await trio.sleep(1)
        assert partition.log.flushed_end_offset == 1
