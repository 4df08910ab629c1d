"""ListOffsets and OffsetForLeaderEpoch against a running broker, in every version that is advertised."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.offset_for_leader_epoch.v4.request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

from tidegauge.impl.client import requests
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.server.apis import offsets
from tidegauge.impl.wire.apis import BROKER_APIS, ApiKey, request_class
from tidegauge.impl.wire.channel import Channel
from tidegauge.impl.wire.primitives import NO_WAIT, BrokerId, TopicName, i8, i32, i64
from tidegauge.impl.wire.produce_messages import ProducePartition, ProduceRequest, ProduceTopic
from tidegauge.impl.wire.versions import convert
from tidegauge.model_tests.simulated import simulated

LIST_OFFSETS = range(BROKER_APIS[ApiKey.LIST_OFFSETS].lowest, BROKER_APIS[ApiKey.LIST_OFFSETS].highest + 1)
EPOCHS = range(
    BROKER_APIS[ApiKey.OFFSET_FOR_LEADER_EPOCH].lowest, BROKER_APIS[ApiKey.OFFSET_FOR_LEADER_EPOCH].highest + 1
)
TIMESTAMPS = (100, 300, 200)
"""Of the records at offsets 0 to 2."""


@asynccontextmanager
async def three_records(brokers: int = 1) -> AsyncIterator[tuple[Cluster, Channel]]:
    async with Cluster(brokers=brokers, seed=1) as cluster, cluster.client() as client:
        await cluster.create_topic("t", assignments=[list(range(brokers))])
        batch = build_batch([Record(nth, timestamp, None, b"v") for nth, timestamp in enumerate(TIMESTAMPS)])
        channel = client._channel(cluster.broker(0).address)
        topic = ProduceTopic("t", "", [ProducePartition(0, batch)])
        response = await channel.request(ProduceRequest(-1, 1_000, [topic]), version=12)
        assert requests.produced(response) == 0
        yield cluster, channel


def asking(
    version: int, timestamp: int, *, topic: str = "t", replica_id: int = -1, epoch: int = -1, times: int = 1
) -> Any:
    """A ListOffsets request of one partition, or of it several times."""
    asked = ListOffsetsPartition(partition_index=i32(0), current_leader_epoch=i32(epoch), timestamp=i64(timestamp))
    named = ListOffsetsTopic(name=TopicName(topic), partitions=(asked,) * times)
    message = ListOffsetsRequest(
        replica_id=BrokerId(replica_id), isolation_level=i8(0), topics=(named,), timeout=NO_WAIT
    )
    return convert(message, request_class(ApiKey.LIST_OFFSETS, version))


async def listed(channel: Channel, request: Any) -> tuple[ErrorCode, int, int]:
    """(error, offset, timestamp)."""
    data = (await channel.request(request)).topics[0].partitions[0]
    return data.error_code, data.offset, data.timestamp


@pytest.mark.parametrize("version", LIST_OFFSETS)
@simulated
async def test_offsets_are_listed_in_every_version(version: int) -> None:
    async with three_records() as (_, channel):
        for timestamp, offset, found in ((-1, 3, -1), (-2, 0, -1), (0, 0, 100), (101, 1, 300), (301, -1, -1)):
            assert await listed(channel, asking(version, timestamp)) == (ErrorCode.none, offset, found)


@pytest.mark.parametrize(
    ("timestamp", "since", "expected"),
    [
        (offsets.MAX_TIMESTAMP, 7, (1, 300)),
        (offsets.EARLIEST_LOCAL, 8, (0, -1)),
        (offsets.LATEST_TIERED, 9, (-1, -1)),
        (offsets.EARLIEST_PENDING_UPLOAD, 11, (-1, -1)),
    ],
)
@simulated
async def test_special_timestamps_are_known_from_their_version_on(
    timestamp: int, since: int, expected: tuple[int, int]
) -> None:
    async with three_records() as (_, channel):
        for version in LIST_OFFSETS:
            response = await listed(channel, asking(version, timestamp))
            known = (ErrorCode.none, *expected)
            assert response == (known if version >= since else (ErrorCode.unsupported_version, -1, -1))
        assert (await listed(channel, asking(11, -7)))[0] is ErrorCode.unsupported_version


@simulated
async def test_list_offsets_says_what_is_wrong() -> None:
    async with three_records(brokers=2) as (cluster, channel), cluster.client() as client:
        follower = client._channel(cluster.broker(1).address)
        assert (await listed(channel, asking(11, -1, topic="u")))[0] is ErrorCode.unknown_topic_or_partition
        assert (await listed(channel, asking(11, -1, epoch=7)))[0] is ErrorCode.unknown_leader_epoch
        assert (await listed(channel, asking(11, -1, times=2)))[0] is ErrorCode.invalid_request
        assert (await listed(follower, asking(11, -1)))[0] is ErrorCode.not_leader_or_follower
        assert await listed(follower, asking(11, -2, replica_id=-2)) == (ErrorCode.none, 0, -1)
        await cluster.expire_session(0)
        await cluster.wait_for_leader("t", other_than=0)
        assert (await listed(follower, asking(11, -1, epoch=0)))[0] is ErrorCode.fenced_leader_epoch


@simulated
async def test_a_new_leader_that_lags_says_so_in_the_words_of_the_version() -> None:
    async with three_records(brokers=3) as (cluster, _), cluster.client() as client:
        channel = client._channel(cluster.broker(1).address)
        replica = cluster.replica(1, "t")
        for broker_id in (0, 2):
            cluster.pause(broker_id)
        await cluster.expire_session(0)
        await cluster.wait_for_leader("t", other_than=0)
        replica.high_watermark = 2
        assert (await listed(channel, asking(5, -1)))[0] is ErrorCode.offset_not_available
        assert (await listed(channel, asking(4, -1)))[0] is ErrorCode.leader_not_available
        assert await listed(channel, asking(5, 101)) == (ErrorCode.none, 1, 300)
        assert (await listed(channel, asking(5, 301)))[0] is ErrorCode.offset_not_available


@pytest.mark.parametrize("version", EPOCHS)
@simulated
async def test_ends_of_epochs_are_told_in_every_version(version: int) -> None:
    async with three_records(brokers=2) as (cluster, _), cluster.client() as client:
        await cluster.expire_session(0)
        await cluster.wait_for_leader("t", other_than=0)
        await client.produce("t", b"d")
        channel = client._channel(cluster.broker(1).address)
        asked = tuple(OffsetForLeaderPartition(partition=i32(0), leader_epoch=i32(epoch)) for epoch in (0, 1, 2, -1))
        topic = OffsetForLeaderTopic(topic=TopicName("t"), partitions=asked)
        request = OffsetForLeaderEpochRequest(topics=(topic,))
        response = await channel.request(convert(request, request_class(ApiKey.OFFSET_FOR_LEADER_EPOCH, version)))
        ends = [(data.leader_epoch, data.end_offset) for data in response.topics[0].partitions]
        assert ends == [(0, 3), (1, 4), (-1, -1), (-1, -1)], "an epoch that the log has not reached has no end"


@simulated
async def test_an_epoch_before_the_log_ends_where_the_log_begins() -> None:
    async with three_records(brokers=2) as (cluster, _), cluster.client() as client:
        await cluster.expire_session(0)
        await cluster.wait_for_leader("t", other_than=0)
        await client.produce("t", b"d")
        hosted = cluster.broker(1).replicas.get("t", 0)
        assert hosted is not None
        hosted.log.delete_records_before(3)
        channel = client._channel(cluster.broker(1).address)
        asked = OffsetForLeaderPartition(partition=i32(0), leader_epoch=i32(0))
        topic = OffsetForLeaderTopic(topic=TopicName("t"), partitions=(asked,))
        response = await channel.request(OffsetForLeaderEpochRequest(topics=(topic,)))
        data = response.topics[0].partitions[0]
        assert (data.leader_epoch, data.end_offset) == (0, 3)
