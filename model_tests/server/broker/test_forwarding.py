"""Requests that a broker forwards to the controller: how long they take, and who waits meanwhile."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
import trio
import trio.testing
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest, PartitionData, TopicData
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic

from tidegauge.impl.wire.primitives import TopicName, i16, i32, millis
from tidegauge.model_tests.server.asking import asker, asking
from tidegauge.model_tests.simulated import simulated


def creating(name: str) -> CreateTopicsRequest:
    topic = CreatableTopic(
        name=TopicName(name), num_partitions=i32(1), replication_factor=i16(1), assignments=(), configs=()
    )
    return CreateTopicsRequest(topics=(topic,), timeout=millis(1_000))


def naming(name: str) -> MetadataRequest:
    topic = MetadataRequestTopic(topic_id=None, name=TopicName(name))
    return MetadataRequest(topics=(topic,), allow_auto_topic_creation=True, include_topic_authorized_operations=False)


UNKNOWN = DeleteTopicState(name=None, topic_id=UUID(int=7))
QUORUM = TopicData(topic_name=TopicName("__cluster_metadata"), partitions=(PartitionData(partition_index=i32(0)),))


@pytest.mark.parametrize(
    "request_",
    [
        creating("t"),
        creating("new"),
        naming("new"),
        DescribeQuorumRequest(topics=(QUORUM,)),
        DeleteTopicsRequest(topics=(UNKNOWN,), timeout=millis(1_000)),
    ],
    ids=["exists", "is made", "is made because it is named", "is read", "is unknown"],
)
@simulated
async def test_no_request_waits_for_the_metadata_fetch_that_the_controller_holds(request_: Any) -> None:
    async with asking() as (_, peer):
        await trio.sleep(0.1)
        begun = trio.current_time()
        await peer.ask(request_)
        assert trio.current_time() == begun


@simulated
async def test_a_controller_that_is_away_keeps_nobody_waiting_who_does_not_need_it() -> None:
    async with asking(config={"queued.max.requests": 1}) as (cluster, peer), trio.open_nursery() as nursery:
        cluster.isolate("controller")
        responses: list[Any] = []

        async def create() -> None:
            responses.append(await peer.ask(creating("new")))

        nursery.start_soon(create)
        await trio.testing.wait_all_tasks_blocked()
        other = await asker(cluster)
        begun = trio.current_time()
        assert (await other.ask(naming("t"))).topics[0].error_code is ErrorCode.none
        assert (trio.current_time(), responses) == (begun, [])
        nursery.cancel_scope.cancel()
