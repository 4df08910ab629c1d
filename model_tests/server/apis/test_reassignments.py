"""AlterPartitionReassignments, ListPartitionReassignments, ElectLeaders and UnregisterBroker over the wire."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.alter_partition_reassignments.v0.request import AlterPartitionReassignmentsRequest as AlterV0
from kio.schema.alter_partition_reassignments.v1 import request as altering
from kio.schema.elect_leaders.v0.request import ElectLeadersRequest as ElectLeadersV0
from kio.schema.elect_leaders.v2 import request as electing
from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0 import request as listing
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.primitives import BrokerId, TopicName, i8, i32, millis
from tidegauge.impl.wire.versions import convert
from tidegauge.model_tests.server.asking import asker, asking, forbid
from tidegauge.model_tests.simulated import simulated

E = ErrorCode


def move(target: list[int] | None, topic: str = "a", *, may_change_factor: bool = True) -> Any:
    replicas = None if target is None else tuple(BrokerId(broker) for broker in target)
    partition = altering.ReassignablePartition(partition_index=i32(0), replicas=replicas)
    return altering.AlterPartitionReassignmentsRequest(
        timeout=millis(5_000),
        allow_replication_factor_change=may_change_factor,
        topics=(altering.ReassignableTopic(name=TopicName(topic), partitions=(partition,)),),
    )


def outcome(response: Any) -> ErrorCode:
    ((partition,),) = (topic.partitions for topic in response.responses)
    assert (partition.error_code is E.none) == (partition.error_message is None)
    code: ErrorCode = partition.error_code
    return code


def ongoing(response: Any) -> list[tuple[str, int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    return [
        (topic.name, one.partition_index, one.replicas, one.adding_replicas, one.removing_replicas)
        for topic in response.topics
        for one in topic.partitions
    ]


ALL = listing.ListPartitionReassignmentsRequest(timeout=millis(1), topics=None)


async def stuck(cluster: Cluster) -> None:
    """Partition a-0 is on broker 0, and what it is to move to is down."""
    await cluster.create_topic("a", assignments=[[0]])
    await cluster.crash(2)


@simulated
async def test_a_reassignment_is_listed_until_it_is_over() -> None:
    async with asking(3) as (cluster, peer):
        await stuck(cluster)
        assert outcome(await peer.ask(move([1, 2]))) is E.none
        await cluster.wait_for_isr("a", [0, 1])
        assert ongoing(await peer.ask(ALL)) == [("a", 0, (1, 2, 0), (1, 2), (0,))]
        named = listing.ListPartitionReassignmentsTopics(name=TopicName("t"), partition_indexes=(i32(0),))
        other = listing.ListPartitionReassignmentsRequest(timeout=millis(1), topics=(named,))
        assert ongoing(await peer.ask(other)) == []
        await cluster.restart(2)
        await cluster.wait_for_isr("a", [1, 2])
        assert ongoing(await peer.ask(ALL)) == []


@simulated
async def test_it_is_cancelled_with_null() -> None:
    async with asking(3) as (cluster, peer):
        await stuck(cluster)
        assert outcome(await peer.ask(move(None))) is E.no_reassignment_in_progress
        await peer.ask(move([1, 2]))
        assert outcome(await peer.ask(convert(move(None), AlterV0))) is E.none
        assert cluster.replicas("a") == (0,)


@simulated
async def test_it_is_not_cancelled_when_only_added_replicas_hold_everything() -> None:
    async with asking(3, {"broker.session.timeout.ms": 1_500, "broker.heartbeat.interval.ms": 300}) as (cluster, peer):
        await stuck(cluster)
        await peer.ask(move([1, 2]))
        await cluster.wait_for_isr("a", [0, 1])
        peer = await asker(cluster, 1)
        await cluster.crash(0)
        await cluster.wait_for_isr("a", [1])
        assert outcome(await peer.ask(move(None))) is E.invalid_replica_assignment


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (move([1], "absent"), E.unknown_topic_or_partition),
        (move(None, "absent"), E.unknown_topic_or_partition),
        (move([]), E.invalid_replica_assignment),
        (move([1, 1]), E.invalid_replica_assignment),
        (move([1, 8]), E.invalid_replica_assignment),
        (move([1, 0], may_change_factor=False), E.invalid_replication_factor),
    ],
)
def test_what_cannot_be_moved_is_refused_and_said_why(request_: Any, error: ErrorCode) -> None:
    @simulated
    async def ask() -> None:
        async with asking(3) as (cluster, peer):
            await stuck(cluster)
            assert outcome(await peer.ask(request_)) is error

    ask()


@simulated
async def test_the_factor_that_is_kept_is_that_of_the_target_that_is_under_way() -> None:
    async with asking(3) as (cluster, peer):
        await stuck(cluster)
        await peer.ask(move([1, 2]))
        assert outcome(await peer.ask(move([0], may_change_factor=False))) is E.invalid_replication_factor
        assert outcome(await peer.ask(move([0, 2], may_change_factor=False))) is E.none


def elect(kind: int, *partitions: tuple[str, int]) -> electing.ElectLeadersRequest:
    named = tuple(electing.TopicPartitions(topic=TopicName(t), partitions=(i32(p),)) for t, p in partitions)
    return electing.ElectLeadersRequest(election_type=i8(kind), topic_partitions=named or None)


def elected(response: Any) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic.topic, one.partition_id): one.error_code
        for topic in response.replica_election_results
        for one in topic.partition_result
    }


@simulated
async def test_elections_say_of_each_partition_why_there_was_none() -> None:
    async with asking(3) as (cluster, peer):
        await cluster.create_topic("a", assignments=[[2, 0]])
        await cluster.create_topic("b", assignments=[[2]])
        await cluster.shutdown(2)
        named = [("a", 0), ("t", 0), ("absent", 0), ("b", 0)]
        assert elected(await peer.ask(elect(0, *named))) == {
            ("a", 0): E.preferred_leader_not_available,
            ("t", 0): E.election_not_needed,
            ("absent", 0): E.unknown_topic_or_partition,
            ("b", 0): E.preferred_leader_not_available,
        }
        assert elected(await peer.ask(elect(1, ("b", 0)))) == {("b", 0): E.eligible_leaders_not_available}
        unknown = await peer.ask(elect(7, ("b", 0)))
        assert (unknown.error_code, elected(unknown)) == (E.invalid_request, {("b", 0): E.invalid_request})


@simulated
async def test_an_election_of_all_tells_only_of_those_that_needed_one() -> None:
    async with asking(3) as (cluster, peer):
        await cluster.create_topic("a", assignments=[[2, 0]])
        await cluster.shutdown(2)
        await cluster.restart(2)
        await cluster.wait_for_isr("a", [0, 2])
        response = await peer.ask(convert(elect(0), ElectLeadersV0))
        assert elected(response) == {("a", 0): E.none}
        assert [topic.topic for topic in response.replica_election_results] == ["t", "a"], "every topic is named"
        assert cluster.leader("a") == 2


@simulated
async def test_a_broker_that_is_gone_for_good_is_unregistered() -> None:
    async with asking(3) as (cluster, peer):
        await cluster.create_topic("a", assignments=[[0, 2]])
        await cluster.crash(2)
        response = await peer.ask(UnregisterBrokerRequest(broker_id=BrokerId(2)))
        assert response.error_code is E.none
        assert 2 not in cluster.controller.controller.image.brokers
        assert cluster.isr("a") == (0,)
        response = await peer.ask(UnregisterBrokerRequest(broker_id=BrokerId(2)))
        assert response.error_code is E.broker_id_not_registered


@pytest.mark.parametrize(
    "request_", [move([0]), ALL, elect(0, ("t", 0)), UnregisterBrokerRequest(broker_id=BrokerId(1))]
)
def test_these_need_rights_on_the_cluster(request_: Any) -> None:
    @simulated
    async def ask() -> None:
        async with asking(1) as (cluster, _):
            forbid(
                cluster,
                (Operation.ALTER, ResourceType.CLUSTER, "*"),
                (Operation.DESCRIBE, ResourceType.CLUSTER, "*"),
            )
            response = await (await asker(cluster)).ask(request_)
            assert response.error_code is E.cluster_authorization_failed

    ask()
