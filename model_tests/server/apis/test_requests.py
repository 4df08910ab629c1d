"""What a broker and the controller response, error by error."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from kio.schema.create_topics.v7.request import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic
from kio.schema.offset_for_leader_epoch.v4.request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

from tidegauge.impl.client import requests
from tidegauge.impl.client.client import Client
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.wire.channel import Channel
from tidegauge.impl.wire.primitives import BrokerId, TopicName, i8, i16, i32, topic_uuid
from tidegauge.impl.wire.produce_messages import ProducePartition, ProduceRequest, ProduceTopic
from tidegauge.model_tests.server.asking import consumer_request
from tidegauge.model_tests.simulated import simulated


@asynccontextmanager
async def asking(broker_id: int, brokers: int = 2) -> AsyncIterator[tuple[Cluster, Channel]]:
    """A cluster with t-0 on brokers 0 and 1 in this order, and a channel to one of them."""
    async with Cluster(brokers=brokers, seed=1) as cluster, trio.open_nursery() as nursery:
        await cluster.create_topic("t", assignments=[[0, 1]])
        yield (
            cluster,
            Channel(cluster.network.host("asker"), cluster.broker(broker_id).address, "asker", nursery),
        )
        nursery.cancel_scope.cancel()


def produce(topic: str, partition: int, records: bytes, acks: int) -> ProduceRequest:
    return ProduceRequest(acks, 500, [ProduceTopic(topic, "", [ProducePartition(partition, records)])])


BY_NAME = 12
"""The last version of Produce and Fetch that names its topics."""
GOOD = requests.batch([b"x"], 0)
DAMAGED = GOOD[:-1] + bytes([GOOD[-1] ^ 1])


@pytest.mark.parametrize(
    ("broker_id", "request_", "error"),
    [
        (0, produce("t", 0, GOOD, 1), ErrorCode.none),
        (1, produce("t", 0, GOOD, 1), ErrorCode.not_leader_or_follower),
        (2, produce("t", 0, GOOD, 1), ErrorCode.not_leader_or_follower),
        (0, produce("t", 5, GOOD, 1), ErrorCode.unknown_topic_or_partition),
        (0, produce("u", 0, GOOD, 1), ErrorCode.unknown_topic_or_partition),
        (0, produce("t", 0, GOOD, 2), ErrorCode.invalid_required_acks),
        (0, produce("t", 0, b"", 1), ErrorCode.invalid_record),
        (0, produce("t", 0, DAMAGED, 1), ErrorCode.corrupt_message),
        (0, produce("t", 0, requests.batch([bytes(2 << 20)], 0), 1), ErrorCode.message_too_large),
    ],
)
@simulated
async def test_produce_says_what_is_wrong(broker_id: int, request_: ProduceRequest, error: ErrorCode) -> None:
    async with asking(broker_id, brokers=3) as (cluster, channel):
        response = await channel.request(request_, version=BY_NAME)
        data = response.topics[0].partitions[0]
        assert data.error_code is error
        assert data.base_offset == (0 if error is ErrorCode.none else -1)
        assert cluster.replica(0, "t").log_end_offset == (1 if error is ErrorCode.none else 0)


@simulated
async def test_an_append_with_an_unknown_outcome_has_its_base_offset() -> None:
    async with asking(0) as (cluster, channel):
        cluster.pause(1)
        response = await channel.request(produce("t", 0, GOOD, -1), version=BY_NAME)
        data = response.topics[0].partitions[0]
        assert (data.error_code, data.base_offset) == (ErrorCode.request_timed_out, 0)


@simulated
async def test_an_append_whose_leader_loses_its_epoch_shows_its_base_offset() -> None:
    async with asking(0) as (cluster, channel), trio.open_nursery() as nursery:
        cluster.drop(source=1, destination=0)
        responses: list[Any] = []

        async def ask() -> None:
            request = produce("t", 0, GOOD, -1)
            responses.append(await channel.request(request, version=BY_NAME))

        nursery.start_soon(ask)
        await trio.sleep(0.1)
        await cluster.expire_session(0)
        await trio.sleep(0.3)
        data = responses[0].topics[0].partitions[0]
        assert (data.error_code, data.base_offset) == (ErrorCode.not_leader_or_follower, 0)


@pytest.mark.parametrize(
    ("broker_id", "offset", "leader_epoch", "error"),
    [
        (0, 0, -1, ErrorCode.none),
        (0, 0, 0, ErrorCode.none),
        (0, 1, 0, ErrorCode.none),
        (0, 2, 0, ErrorCode.offset_out_of_range),
        (0, 0, 1, ErrorCode.unknown_leader_epoch),
    ],
)
@simulated
async def test_fetch_says_what_is_wrong(broker_id: int, offset: int, leader_epoch: int, error: ErrorCode) -> None:
    async with asking(broker_id) as (cluster, channel):
        async with cluster.client() as client:
            await client.produce("t", b"x")
        topic_id = cluster.controller.controller.image.topics["t"].topic_id
        response = await channel.request(
            consumer_request(
                topic_id, 0, offset, leader_epoch=leader_epoch, max_wait_ms=0, min_bytes=1, max_bytes=1_000
            )
        )
        data = response.topics[0].partitions[0]
        assert data.error_code is error
        assert bool(data.records) == (error is ErrorCode.none and offset == 0)


@simulated
async def test_fetch_from_an_unknown_topic_id() -> None:
    async with asking(0) as (_, channel):
        request = consumer_request(
            "11111111-1111-4111-8111-111111111111",
            0,
            0,
            leader_epoch=-1,
            max_wait_ms=9_000,
            min_bytes=1,
            max_bytes=1_000,
        )
        response = await channel.request(request)
        assert response.topics[0].partitions[0].error_code is ErrorCode.unknown_topic_id


@simulated
async def test_a_leader_epoch_ends_where_the_next_one_begins() -> None:
    async with asking(1) as (cluster, channel):
        async with cluster.client() as client:
            await client.produce("t", b"a", b"b")
            await cluster.expire_session(0)
            await cluster.wait_for_leader("t", other_than=0)
            await client.produce("t", b"c")
        asked = OffsetForLeaderPartition(partition=i32(0), leader_epoch=i32(0))
        topic = OffsetForLeaderTopic(topic=TopicName("t"), partitions=(asked,))
        response = await channel.request(OffsetForLeaderEpochRequest(topics=(topic,)))
        end = response.topics[0].partitions[0]
        assert (end.error_code, end.leader_epoch, end.end_offset) == (ErrorCode.none, 0, 2)


@simulated
async def test_metadata_by_name_by_id_and_of_everything() -> None:
    async with asking(1) as (cluster, channel):
        topic_id = topic_uuid(cluster.controller.controller.image.topics["t"].topic_id)
        unknown = topic_uuid("11111111-1111-4111-8111-111111111111")
        by_name = tuple(MetadataRequestTopic(topic_id=None, name=TopicName(name)) for name in ("t", "u"))
        by_id = tuple(MetadataRequestTopic(topic_id=one, name=None) for one in (topic_id, unknown))

        async def ask(asked: tuple[MetadataRequestTopic, ...]) -> Any:
            return await channel.request(
                MetadataRequest(
                    topics=asked, allow_auto_topic_creation=False, include_topic_authorized_operations=False
                )
            )

        response = await ask(by_name)
        assert [(topic.error_code, topic.name) for topic in response.topics] == [
            (ErrorCode.none, "t"),
            (ErrorCode.unknown_topic_or_partition, "u"),
        ]
        assert [(topic.error_code, topic.name) for topic in (await ask(by_id)).topics] == [
            (ErrorCode.none, "t"),
            (ErrorCode.unknown_topic_id, None),
        ]
        assert [broker.node_id for broker in response.brokers] == [0, 1]
        await cluster.expire_session(0)
        await cluster.settle_metadata()
        response = await channel.request(MetadataRequest(topics=None, include_topic_authorized_operations=False))
        partition = response.topics[0].partitions[0]
        assert (partition.leader_id, partition.isr_nodes, partition.offline_replicas) == (1, (1,), (0,))


async def error_of(client: Client, name: str, **arguments: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        await client.create_topic(name, **arguments)
    return refused.value.code


@simulated
async def test_create_topics_says_what_is_wrong() -> None:
    async with asking(0) as (cluster, _), cluster.client() as client:
        assert await error_of(client, "t", partitions=1, replication_factor=1) is ErrorCode.topic_already_exists
        assert await error_of(client, "a/b", partitions=1, replication_factor=1) is ErrorCode.invalid_topic_exception
        assert await error_of(client, "u", partitions=0, replication_factor=1) is ErrorCode.invalid_partitions
        assert await error_of(client, "u", partitions=1, replication_factor=9) is ErrorCode.invalid_replication_factor
        assert await error_of(client, "u", configs={"colour": "red"}) is ErrorCode.invalid_config
        assert await error_of(client, "u", assignments=[[7]]) is ErrorCode.invalid_replica_assignment
        await client.create_topic("u")
        registration = cluster.controller.controller.image.partition("u", 0)
        assert registration is not None
        assert len(registration.replicas) == 1, "default.replication.factor"


@simulated
async def test_partitions_of_an_assignment_are_numbered_without_gaps() -> None:
    async with asking(0) as (_, channel):
        gap = CreatableReplicaAssignment(partition_index=i32(1), broker_ids=(BrokerId(0),))
        topic = CreatableTopic(
            name=TopicName("u"), num_partitions=i32(-1), replication_factor=i16(-1), assignments=(gap,), configs=()
        )
        response = await channel.request(CreateTopicsRequest(topics=(topic,)))
        assert response.topics[0].error_code is ErrorCode.invalid_replica_assignment
        assert "number them from 0" in response.topics[0].error_message


@simulated
async def test_requests_for_the_controller_fail_while_it_cannot_be_reached() -> None:
    async with asking(0) as (cluster, _), cluster.client() as client:
        cluster.block(0, "controller")
        cluster.reset_connections(0, "controller")
        with pytest.raises(KafkaError) as refused:
            await client.create_topic("u")
        assert refused.value.code is ErrorCode.request_timed_out
        with pytest.raises(KafkaError) as refused:
            await client.elect_leaders("t")
        assert refused.value.code is ErrorCode.request_timed_out


@simulated
async def test_an_election_of_everything_reports_what_changed() -> None:
    async with asking(0) as (cluster, channel):
        request = ElectLeadersRequest(election_type=i8(0), topic_partitions=None)
        (idle,) = (await channel.request(request)).replica_election_results
        assert (idle.topic, idle.partition_result) == ("t", ())
        await cluster.expire_session(0)
        await cluster.wait_for_isr("t", {0, 1})
        results = (await channel.request(request)).replica_election_results
        assert [(topic.topic, topic.partition_result[0].error_code) for topic in results] == [("t", ErrorCode.none)]
        assert cluster.leader("t") == 0
        odd = ElectLeadersRequest(election_type=i8(7), topic_partitions=None)
        refused = await channel.request(odd)
        assert (refused.error_code, refused.replica_election_results) == (ErrorCode.invalid_request, ())
