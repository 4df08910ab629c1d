"""An operator of the group of a simulated run: looks where it is, removes static members, and in the end deletes it.

Or only some of its offsets; then time passes, and the group goes with the others.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Any, Final

import trio
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.errors import ErrorCode
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.offset_delete.v0.request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kio.schema.offset_fetch.v9.request import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kio.schema.types import GroupId
from kio.static.primitive import i32Timedelta

from tidegauge.impl.client.assignors.subscription import Subscription
from tidegauge.impl.client.client import ClientConfig
from tidegauge.impl.client.consumer_protocol import subscription_bytes
from tidegauge.impl.client.coordinators import GROUP, Coordinator
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.coordinators.groups.coordinator import RETENTION_MS
from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS
from tidegauge.impl.wire.primitives import TopicName, i32
from tidegauge.model_tests.harness.simulation.group_members import PROTOCOL
from tidegauge.model_tests.harness.simulation.simulated_member import NAME, REBALANCE_S, SESSION_S
from tidegauge.model_tests.harness.simulation.workload import TOPIC

CONFIG: Final = ClientConfig(request_timeout_ms=600, default_api_timeout_ms=2_500, retry_backoff_ms=50)
REMOVES_EACH_S: Final = 2.0
LOOKS_EACH_S: Final = 0.05
MOVES_EACH_S: Final = 1.5
FENCES_EACH_S: Final = 0.5
COMES_BACK_EACH_S: Final = 0.3
IN_EACH_SHARE: Final = 0.7
WAIT_MS: Final = 10_000
HOUR_MS: Final = 3_600_000


class GroupOperator:
    """Who administers the group."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._rng = Random(f"operator/{seed}")
        self._moves = Random(f"moves/{seed}")
        self._fences = Random(f"fences/{seed}")
        self._returns = Random(f"returns/{seed}")

    async def remove_now_and_then(self, instances: int, is_over: Callable[[], bool]) -> None:
        """A static member is removed, which may have a process that goes on: that joins again."""
        async with self._cluster.client("operator", config=CONFIG) as client:
            coordinator = Coordinator(client, GROUP, NAME)
            while instances and not is_over():
                await trio.sleep(self._rng.uniform(0, 2 * REMOVES_EACH_S))
                leaving = MemberIdentity(member_id="", group_instance_id=f"static-{self._rng.randrange(instances)}")
                if not is_over():
                    with suppress(KafkaError):
                        request = LeaveGroupRequest(group_id=GroupId(NAME), members=(leaving,))
                        await coordinator.ask(request, lambda response: response.error_code, 0)

    async def look_now_and_then(self, partitions: Callable[[], int], is_over: Callable[[], bool]) -> None:
        """It asks where the group is, for what stays: in each partition, or in all at once."""
        async with self._cluster.client("looking", config=CONFIG) as client:
            coordinator = Coordinator(client, GROUP, NAME)
            while not is_over():
                await trio.sleep(self._rng.uniform(0, 2 * LOOKS_EACH_S))
                indexes = tuple(map(i32, range(partitions())))
                topics = (OffsetFetchRequestTopics(name=TopicName(TOPIC), partition_indexes=indexes),)
                group = OffsetFetchRequestGroup(
                    group_id=GroupId(NAME), topics=topics if self._rng.random() < IN_EACH_SHARE else None
                )
                with suppress(KafkaError):
                    request = OffsetFetchRequest(groups=(group,), require_stable=True)
                    await coordinator.ask(request, lambda response: response.groups[0].error_code, 0)

    async def move_now_and_then(self, is_over: Callable[[], bool]) -> None:
        """The log of groups goes from the broker that leads it to one that has no replica of it."""
        cluster = self._cluster
        while not is_over():
            await trio.sleep(self._moves.uniform(0, 2 * MOVES_EACH_S))
            leader, replicas = cluster.leader(CONSUMER_OFFSETS), cluster.replicas(CONSUMER_OFFSETS)
            absent = [one for one in range(cluster.options.brokers) if one not in replicas and cluster.is_alive(one)]
            absent = [one for one in absent if not cluster.broker(one).replicas.directories.offline]
            if is_over() or leader not in replicas or not absent or cluster.is_reassigned(CONSUMER_OFFSETS):
                continue
            with suppress(KafkaError):
                others = [one for one in replicas if one != leader]
                await cluster.reassign(CONSUMER_OFFSETS, [*others, absent[0]], wait=False)

    async def fence_now_and_then(self, is_over: Callable[[], bool]) -> None:
        """The sessions of all who follow the log of groups end at once: what is appended meanwhile fails."""
        cluster = self._cluster
        while not is_over():
            await trio.sleep(self._fences.uniform(0, 2 * FENCES_EACH_S))
            leader = cluster.leader(CONSUMER_OFFSETS)
            for follower in cluster.isr(CONSUMER_OFFSETS) if leader >= 0 and not is_over() else ():
                if follower != leader:
                    await cluster.expire_session(follower)

    async def come_back_now_and_then(self, is_over: Callable[[], bool]) -> None:
        """A classic member that has long been out joins again, with its former id and what it owned then."""
        said = subscription_bytes(Subscription((TOPIC,), ((TOPIC, 0),), 0))
        request = JoinGroupRequest(
            group_id=GroupId(NAME),
            session_timeout=i32Timedelta.parse(timedelta(seconds=SESSION_S)),
            rebalance_timeout=i32Timedelta.parse(timedelta(seconds=REBALANCE_S)),
            member_id="long-gone",
            group_instance_id=None,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name=PROTOCOL, metadata=said),),
        )
        async with self._cluster.client("long-gone", config=CONFIG) as client:
            coordinator = Coordinator(client, GROUP, NAME)
            while not is_over():
                await trio.sleep(self._returns.uniform(0, 2 * COMES_BACK_EACH_S))
                with suppress(KafkaError):
                    await coordinator.ask(request, lambda response: response.error_code, 0)

    async def delete(self, *, is_group: bool) -> None:
        """The offset of a partition goes, and then the group if that is asked; it has no members any more.

        Raises KafkaError.
        """
        async with self._cluster.client("operator", config=CONFIG) as client:
            coordinator = Coordinator(client, GROUP, NAME)
            partitions = (OffsetDeleteRequestPartition(partition_index=i32(0)),)
            topics = (OffsetDeleteRequestTopic(name=TopicName(TOPIC), partitions=partitions),)
            request = OffsetDeleteRequest(group_id=GroupId(NAME), topics=topics)
            await coordinator.ask(request, lambda response: response.error_code, WAIT_MS)
            if is_group:
                await coordinator.ask(DeleteGroupsRequest(groups_names=(GroupId(NAME),)), _deleted, WAIT_MS)

    def let_time_pass(self) -> None:
        """The clocks of all brokers jump beyond `offsets.retention.minutes`."""
        for broker in range(self._cluster.options.brokers):
            self._cluster.jump_clock(broker, RETENTION_MS + HOUR_MS)


def _deleted(response: Any) -> ErrorCode:
    """One that had no response may have been carried out."""
    error: ErrorCode = response.results[0].error_code
    return ErrorCode.none if error is ErrorCode.group_id_not_found else error
