"""Offsets of groups without members: committed, told, deleted, expired; kept whichever broker coordinates."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import attrs
import pytest
import trio
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.describe_groups.v5.request import DescribeGroupsRequest as DescribeGroupsRequestV5
from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest as FindCoordinatorRequestV3
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.offset_commit.v10.request import OffsetCommitRequestPartition
from kio.schema.offset_delete.v0.request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kio.schema.types import GroupId
from kio.static.primitive import i64Timedelta

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator
from tidegauge.impl.coordinators.groups.requests import OFFSETS_AT_ONCE
from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS
from tidegauge.impl.server.transport.authorization import Operation
from tidegauge.impl.wire.apis import BROKER_APIS, ApiKey, request_class
from tidegauge.impl.wire.message_classes import nested_class
from tidegauge.impl.wire.offset_unions import (
    AnyOffsetCommitRequest,
    AnyOffsetFetchRequest,
    CommittedTopic,
    FetchedGroup,
    FetchedTopic,
)
from tidegauge.impl.wire.primitives import TopicName, i8, i32, i64, topic_uuid
from tidegauge.impl.wire.unions import UNASKED
from tidegauge.impl.wire.versions import convert
from tidegauge.model_tests.server.asking import Asker, asker
from tidegauge.model_tests.simulated import simulated

NONE = ErrorCode.none
GROUP = GroupId("g")
GROUPS_FROM = 8
"""The version of OffsetFetch from which it asks for several groups."""
IDS_FROM = 10
"""The version of OffsetCommit and OffsetFetch from which topics have ids and no names."""
UNKNOWN_ID = UUID("11111111-1111-4111-8111-111111111111")
SETTINGS = {
    "offsets.topic.num.partitions": 2,
    "offset.metadata.max.bytes": 10,
    "group.consumer.assignment.interval.ms": 0,
}


@attrs.define
class Asked:
    """A cluster with the topic `t` of two partitions, and a connection to the coordinator of the group."""

    cluster: Cluster
    peer: Asker
    coordinator: int

    @property
    def topic_id(self) -> UUID:
        return topic_uuid(self.cluster.controller.controller.image.topics["t"].topic_id)

    @property
    def partition(self) -> int:
        """Of `__consumer_offsets`, for the group."""
        return self.cluster.broker(self.coordinator).groups.partition_of(GROUP)

    def partition_at(self, broker: Any) -> int:
        """The same, as a broker says it."""
        return int(broker.groups.partition_of(GROUP))

    def core(self) -> GroupCoordinator:
        led = self.cluster.broker(self.coordinator).groups.led(GROUP)
        assert not isinstance(led, ErrorCode), led
        return led.state

    async def commit(
        self, *offsets: tuple[int, int], version: int = 9, metadata: str = "", **fields: Any
    ) -> list[ErrorCode]:
        """Commit (partition, offset) in the topic; the error of each partition."""
        partitions = tuple(
            OffsetCommitRequestPartition(
                partition_index=i32(index),
                committed_offset=i64(offset),
                committed_leader_epoch=i32(0),
                committed_metadata=metadata,
            )
            for index, offset in offsets
        )
        topic = CommittedTopic(
            name=TopicName("t") if version < IDS_FROM else TopicName(""),
            topic_id=self.topic_id if version >= IDS_FROM else None,
            partitions=partitions,
        )
        topic = replaced(topic, fields.pop("topic", {}))
        request = AnyOffsetCommitRequest(group_id=GROUP, member_id="", topics=(topic,))
        spoken = convert(replaced(request, fields), request_class(ApiKey.OFFSET_COMMIT, version))
        response = await self.peer.ask(spoken)
        return [one.error_code for topic in response.topics for one in topic.partitions]

    async def fetch(
        self, *partitions: int, version: int = 9, group: GroupId = GROUP, stable: bool = False
    ) -> list[tuple[int, str] | ErrorCode]:
        """What is told of these partitions of the topic: (offset, metadata), or an error."""
        topic = FetchedTopic(
            name=TopicName("t") if version < IDS_FROM else TopicName(""),
            topic_id=self.topic_id if version >= IDS_FROM else None,
            partition_indexes=tuple(map(i32, partitions)),
        )
        spoken: Any = request_class(ApiKey.OFFSET_FETCH, version)
        if version < GROUPS_FROM:
            kind = nested_class(typing.get_type_hints(spoken)["topics"])
            assert kind is not None, "a version without topics"
            asked: Any = spoken(group_id=group, topics=(convert(topic, kind),))
            topics = (await self.peer.ask(asked)).topics
        else:
            groups = (FetchedGroup(group_id=group, topics=(topic,)),)
            asked = AnyOffsetFetchRequest(groups=groups, require_stable=stable)
            topics = (await self.peer.ask(convert(asked, spoken))).groups[0].topics
        return [
            (one.committed_offset, one.metadata) if one.error_code is NONE else one.error_code
            for topic in topics
            for one in topic.partitions
        ]

    async def everything(self) -> dict[tuple[str, int], int]:
        """All that the group has committed."""
        request = AnyOffsetFetchRequest(groups=(FetchedGroup(group_id=GROUP, topics=None),))
        response = await self.peer.ask(convert(request, request_class(ApiKey.OFFSET_FETCH, 9)))
        return {
            (topic.name, one.partition_index): one.committed_offset
            for topic in response.groups[0].topics
            for one in topic.partitions
        }

    async def groups(self) -> list[tuple[str, str, str]]:
        listed = await self.peer.ask(ListGroupsRequest())
        assert listed.error_code is NONE
        return [(one.group_id, one.group_state, one.group_type) for one in listed.groups]


def replaced(message: Any, fields: dict[str, Any]) -> Any:
    """The message with other fields."""
    return dataclasses.replace(message, **fields)


async def coordinator_of(cluster: Cluster, key: str = GROUP, *, ask: int = 0) -> int:
    """The broker that coordinates a group, once it has loaded it."""
    peer = await asker(cluster, ask)
    while True:
        found = await peer.ask(FindCoordinatorRequest(key_type=i8(0), coordinator_keys=(key,)))
        (one,) = found.coordinators
        if one.error_code is NONE:
            broker = cluster.broker(one.node_id)
            if broker is not None and not isinstance(broker.groups.led(key), ErrorCode):
                return int(one.node_id)
        await trio.sleep(0.2)


@asynccontextmanager
async def grouped(brokers: int = 1, **settings: object) -> AsyncIterator[Asked]:
    config = {**SETTINGS, **{name.replace("_", "."): value for name, value in settings.items()}}
    async with Cluster(brokers=brokers, seed=1, config=config) as cluster:
        await cluster.create_topic("t", partitions=2)
        coordinator = await coordinator_of(cluster)
        yield Asked(cluster, await asker(cluster, coordinator), coordinator)


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - virtual time, and bounded by the test
        await trio.sleep(0.1)


# --- commits ---------------------------------------------------------------------------------------------------------


@simulated
async def test_what_is_committed_in_any_version_is_told_in_every_version() -> None:
    async with grouped() as asked:
        versions = BROKER_APIS[ApiKey.OFFSET_COMMIT]
        for version in range(versions.lowest, versions.highest + 1):
            assert await asked.commit((0, version), (1, 7), version=version, metadata=f"v{version}") == [NONE, NONE]
            assert await asked.fetch(0, 1) == [(version, f"v{version}"), (7, f"v{version}")]
        versions = BROKER_APIS[ApiKey.OFFSET_FETCH]
        for version in range(versions.lowest, versions.highest + 1):
            told = await asked.fetch(0, 7, version=version)
            assert told == [(BROKER_APIS[ApiKey.OFFSET_COMMIT].highest, "v10"), (-1, "")]
        assert await asked.fetch(0, group=GroupId("other")) == [(-1, "")]


@simulated
async def test_each_partition_has_an_error_of_its_own_and_the_others_are_committed() -> None:
    async with grouped() as asked:
        unknown = ErrorCode.unknown_topic_or_partition
        assert await asked.commit((0, 1), (5, 1)) == [NONE, unknown]
        assert await asked.commit((0, 9), metadata="x" * 11) == [ErrorCode.offset_metadata_too_large]
        assert await asked.commit((0, 9), topic={"name": "other"}) == [unknown]
        assert await asked.commit((0, 9), version=10, topic={"topic_id": UNKNOWN_ID}) == [ErrorCode.unknown_topic_id]
        assert await asked.everything() == {("t", 0): 1}


@simulated
async def test_many_partitions_are_committed_and_told() -> None:
    """Batch by batch; of a partition that is named more than once the last offset counts, and is told once."""
    async with grouped() as asked:
        partition = asked.cluster.broker(0).replicas.get(CONSUMER_OFFSETS, asked.partition)
        assert partition is not None
        count = 2 * OFFSETS_AT_ONCE + 2
        named = [(nth % 2, nth) for nth in range(count)]
        assert await asked.commit(*named) == [NONE] * count
        assert partition.log.log_end_offset == 2 * 3, "three batches, each with two records"
        assert await asked.everything() == {("t", 0): count - 2, ("t", 1): count - 1}
        told = await asked.fetch(*(nth % 2 for nth in range(count)))
        assert told == [(count - 2, ""), (count - 1, "")], "what is asked for again is left out"


@simulated
async def test_who_says_it_is_a_member_is_refused() -> None:
    async with grouped() as asked:
        other: dict[str, Any] = {"generation_id_or_member_epoch": i32(1), "member_id": "m"}
        assert await asked.commit((0, 1), **other) == [ErrorCode.group_id_not_found]
        assert await asked.commit((0, 1), version=8, **other) == [ErrorCode.illegal_generation]
        assert await asked.commit((0, 1)) == [NONE]
        assert await asked.commit((0, 2), **other) == [ErrorCode.unknown_member_id]
        assert await asked.everything() == {("t", 0): 1}


@simulated
async def test_a_group_that_is_not_there_has_no_offsets_and_that_is_no_error() -> None:
    async with grouped() as asked:
        assert await asked.fetch(0, 7, version=1) == [(-1, ""), (-1, "")]
        ids = (asked.topic_id, UNKNOWN_ID)
        topics = tuple(FetchedTopic(topic_id=one, partition_indexes=(i32(0),)) for one in ids)
        request = AnyOffsetFetchRequest(groups=(FetchedGroup(group_id=GROUP, topics=topics),))
        response = await asked.peer.ask(convert(request, request_class(ApiKey.OFFSET_FETCH, 10)))
        told = [(topic.topic_id, topic.partitions[0].error_code) for topic in response.groups[0].topics]
        assert told == [(ids[0], NONE), (UNKNOWN_ID, ErrorCode.unknown_topic_id)]
        new = DescribeGroupsRequest(groups=(GROUP,), include_authorized_operations=True)
        (group,) = (await asked.peer.ask(new)).groups
        assert (group.error_code, group.group_state) == (ErrorCode.group_id_not_found, "Dead")
        old = DescribeGroupsRequestV5(groups=(GROUP,), include_authorized_operations=False)
        (group,) = (await asked.peer.ask(old)).groups
        assert (group.error_code, group.group_state, group.authorized_operations) == (NONE, "Dead", UNASKED)


# --- who coordinates -------------------------------------------------------------------------------------------------


@simulated
async def test_another_broker_takes_over_with_all_that_was_committed_and_the_first_is_none_any_more() -> None:
    async with grouped(brokers=3) as asked:
        for offset in range(3):
            assert await asked.commit((0, offset), (1, 5)) == [NONE, NONE]
        elsewhere = await asker(asked.cluster, (asked.coordinator + 1) % 3)
        client = attrs.evolve(asked, peer=elsewhere)
        assert await client.commit((0, 9)) == [ErrorCode.not_coordinator]
        assert await client.fetch(0, version=1) == [ErrorCode.not_coordinator]
        assert await client.groups() == []
        described = await elsewhere.ask(DescribeGroupsRequest(groups=(GROUP,), include_authorized_operations=False))
        assert described.groups[0].error_code is ErrorCode.not_coordinator
        deleted = await elsewhere.ask(DeleteGroupsRequest(groups_names=(GROUP,)))
        assert deleted.results[0].error_code is ErrorCode.not_coordinator
        former = asked.coordinator
        await asked.cluster.crash(former)
        other = (former + 1) % 3
        await until(lambda: leader(asked.cluster, other) not in (-1, former))
        found = await coordinator_of(asked.cluster, ask=other)
        assert found != former
        successor = attrs.evolve(asked, peer=await asker(asked.cluster, found))
        assert await successor.everything() == {("t", 0): 2, ("t", 1): 5}


def leader(cluster: Cluster, broker: int) -> int:
    """The leader of the group's partition, as a broker knows."""
    known = cluster.broker(broker)
    topic = known.metadata.image.topics[CONSUMER_OFFSETS]
    return topic.partitions[known.groups.partition_of(GROUP)].leader


@simulated
async def test_a_coordinator_that_loads_says_so_and_one_that_is_cut_off_has_committed_nothing() -> None:
    async with grouped(brokers=3, offsets_commit_timeout_ms=300) as asked:
        assert await asked.commit((0, 1)) == [NONE]
        others = [broker for broker in range(3) if broker != asked.coordinator]
        for other in others:
            asked.cluster.block(other, asked.coordinator)
        assert await asked.commit((0, 2)) == [ErrorCode.coordinator_not_available]
        assert await asked.fetch(0) == [(1, "")], "nobody is told what may yet be lost"
        asked.cluster.heal()
        await until(lambda: not asked.core().in_flight)
        assert await asked.fetch(0) == [(2, "")]
        log = asked.cluster.broker(asked.coordinator).groups.log
        for led in log:
            led.is_loaded = False
        loading = ErrorCode.coordinator_load_in_progress
        assert await asked.commit((0, 3)) == [loading]
        assert (await asked.peer.ask(ListGroupsRequest())).error_code is loading


@simulated
async def test_a_broker_that_knows_of_nobody_says_that_there_is_no_coordinator() -> None:
    async with grouped() as asked:
        request = FindCoordinatorRequest(key_type=i8(0), coordinator_keys=(GROUP,))
        found = (await asked.peer.ask(FindCoordinatorRequestV3(key=GROUP))).node_id
        assert found == asked.coordinator
        metadata: Any = asked.cluster.broker(0).metadata
        metadata.endpoint = lambda broker_id, listener: None
        (refused,) = (await asked.peer.ask(request)).coordinators
        assert refused.error_code is ErrorCode.coordinator_not_available


# --- deletions -------------------------------------------------------------------------------------------------------


def deletion(*partitions: int, topic: str = "t") -> OffsetDeleteRequest:
    ones = tuple(OffsetDeleteRequestPartition(partition_index=i32(one)) for one in partitions)
    return OffsetDeleteRequest(
        group_id=GROUP, topics=(OffsetDeleteRequestTopic(name=TopicName(topic), partitions=ones),)
    )


def partition_errors(topics: Iterable[Any]) -> list[ErrorCode]:
    return [one.error_code for topic in topics for one in topic.partitions]


@simulated
async def test_offsets_and_groups_are_described_and_deleted() -> None:
    async with grouped() as asked:
        missing = await asked.peer.ask(deletion(0))
        assert (missing.error_code, missing.topics) == (ErrorCode.group_id_not_found, ())
        unnamed = await asked.peer.ask(replaced(deletion(0), {"group_id": GroupId("")}))
        assert (unnamed.error_code, unnamed.topics) == (ErrorCode.invalid_group_id, ())
        assert await asked.commit((0, 1), (1, 2)) == [NONE, NONE]
        assert await asked.groups() == [("g", "Empty", "classic")]
        for filters in ({"states_filter": ("stable",)}, {"types_filter": ("consumer",)}):
            assert (await asked.peer.ask(ListGroupsRequest(**filters))).groups == ()
        filtered = ListGroupsRequest(states_filter=("EMPTY",), types_filter=("Classic",))
        assert len((await asked.peer.ask(filtered)).groups) == 1
        described = await asked.peer.ask(DescribeGroupsRequest(groups=(GROUP,), include_authorized_operations=True))
        (group,) = described.groups
        assert (group.error_code, group.group_state, group.protocol_type, group.members) == (NONE, "Empty", "", ())
        assert group.authorized_operations & (1 << Operation.READ)
        deleted = await asked.peer.ask(deletion(0, 1, 5))
        unknown = ErrorCode.unknown_topic_or_partition
        assert (deleted.error_code, partition_errors(deleted.topics)) == (NONE, [NONE, NONE, unknown])
        assert (await asked.everything(), await asked.groups()) == ({}, [])
        assert await asked.commit((0, 3)) == [NONE]
        results = (await asked.peer.ask(DeleteGroupsRequest(groups_names=(GROUP, GroupId("h"))))).results
        assert [(one.group_id, one.error_code) for one in results] == [
            ("g", NONE),
            ("h", ErrorCode.group_id_not_found),
        ]
        assert (await asked.everything(), await asked.groups()) == ({}, [])


@simulated
async def test_the_offsets_of_a_topic_go_with_it_and_not_those_of_its_successor() -> None:
    async with grouped() as asked:
        await asked.commit((0, 1), (1, 2))
        await asked.cluster.create_topic("u")
        assert await asked.commit((0, 3), topic={"name": "u"}) == [NONE]
        await asked.cluster.delete_topic("t")
        await asked.cluster.create_topic("t", partitions=2)
        assert await asked.commit((1, 4)) == [NONE]
        await until(lambda: not asked.core().in_flight)
        assert await asked.everything() == {("u", 0): 3, ("t", 1): 4}


@simulated
async def test_an_offset_that_is_on_its_way_when_its_topic_is_deleted_goes_with_it() -> None:
    """Else the group would go on in a topic that has the name again where it was in the former one."""
    async with grouped(brokers=3, offsets_commit_timeout_ms=300) as asked:
        assert await asked.commit((1, 7)) == [NONE]
        for other in {0, 1, 2} - {asked.coordinator}:
            asked.cluster.block(other, asked.coordinator)
        assert await asked.commit((0, 2), (1, 8)) == [ErrorCode.coordinator_not_available] * 2
        await asked.cluster.delete_topic("t")
        await until(lambda: "t" not in asked.cluster.broker(asked.coordinator).metadata.image.topics)
        asked.cluster.heal()
        await until(lambda: not asked.core().in_flight and not asked.core().offsets.of_group(GROUP))
        assert await asked.everything() == {}


@pytest.mark.parametrize(
    ("version", "unknown"), [(9, ErrorCode.unknown_topic_or_partition), (10, ErrorCode.unknown_topic_id)]
)
@simulated
async def test_what_waits_for_the_batch_before_is_not_committed_in_a_topic_that_has_the_name_again(
    version: int, unknown: ErrorCode
) -> None:
    async with grouped(brokers=3) as asked, trio.open_nursery() as nursery:
        for other in {0, 1, 2} - {asked.coordinator}:
            asked.cluster.block(other, asked.coordinator)
        named = [(nth % 2, nth) for nth in range(OFFSETS_AT_ONCE + 1)]
        told: list[ErrorCode] = []

        async def commit() -> None:
            told.extend(await asked.commit(*named, version=version))

        nursery.start_soon(commit)
        await until(lambda: bool(asked.core().in_flight))
        former = asked.topic_id
        await asked.cluster.delete_topic("t")
        await asked.cluster.create_topic("t", partitions=2)
        await until(lambda: asked.cluster.broker(asked.coordinator).metadata.image.topics["t"].topic_id != str(former))
        asked.cluster.heal()
        await until(lambda: bool(told) and not asked.core().in_flight)
        assert told == [unknown if nth % 2 == 0 else NONE for nth in range(len(named))], (
            "the last one is of partition 0"
        )
        await until(lambda: not asked.core().offsets.of_group(GROUP))


@simulated
async def test_the_offsets_of_a_deleted_topic_go_once_they_can_be_written_down() -> None:
    async with grouped(brokers=3, min_insync_replicas=2, offsets_commit_timeout_ms=300) as asked:
        assert await asked.commit((0, 2)) == [NONE]
        others = {0, 1, 2} - {asked.coordinator}
        for other in others:
            await asked.cluster.crash(other)
        coordinator = asked.cluster.broker(asked.coordinator)
        partition = coordinator.replicas.get(CONSUMER_OFFSETS, asked.partition)
        assert partition is not None
        await until(lambda: len(partition.replica.isr) == 1)
        assert await asked.commit((0, 3)) == [ErrorCode.coordinator_not_available]
        await asked.cluster.delete_topic("t")
        await until(lambda: "t" not in coordinator.metadata.image.topics)
        await trio.sleep(5)
        assert await asked.everything() == {("t", 0): 2}
        for other in others:
            await asked.cluster.restart(other)
        await until(lambda: not asked.core().offsets.of_group(GROUP))


@simulated
async def test_what_a_coordinator_loads_while_its_topic_is_deleted_goes_with_it() -> None:
    async with grouped(brokers=3) as asked:
        assert await asked.commit((0, 2)) == [NONE]
        others = sorted({0, 1, 2} - {asked.coordinator})
        asked.cluster.block(*others)
        asked.cluster.block(*reversed(others))
        await asked.cluster.crash(asked.coordinator)
        await until(lambda: leader(asked.cluster, others[0]) in others)
        successor = asked.cluster.broker(leader(asked.cluster, others[0]))
        await until(lambda: asked.partition_at(successor) in successor.groups.log._led)
        assert successor.groups.led(GROUP) is ErrorCode.coordinator_load_in_progress
        await asked.cluster.delete_topic("t")
        await until(lambda: "t" not in successor.metadata.image.topics)
        assert successor.groups.led(GROUP) is ErrorCode.coordinator_load_in_progress
        asked.cluster.heal()
        found = await coordinator_of(asked.cluster, ask=others[0])
        told = attrs.evolve(asked, peer=await asker(asked.cluster, found), coordinator=found)
        await until(lambda: not told.core().offsets.of_group(GROUP))
        assert await told.everything() == {}


# --- expiry and restarts ---------------------------------------------------------------------------------------------


@simulated
async def test_offsets_expire_and_what_a_restart_loads_is_what_was_kept() -> None:
    async with grouped(offsets_retention_minutes=2, offsets_retention_check_interval_ms=1_000) as asked:
        await asked.commit((0, 1), (1, 1))
        await trio.sleep(60)
        await asked.commit((1, 2))
        own = i64Timedelta.parse(timedelta(seconds=90))
        assert await asked.commit((0, 3), topic={"name": "t"}, version=4, retention_time=own) == [NONE]
        await trio.sleep(70)
        assert await asked.everything() == {("t", 1): 2, ("t", 0): 3}
        await asked.cluster.crash(0, lose_unsynced=False)
        await asked.cluster.restart(0)
        await coordinator_of(asked.cluster)
        again = attrs.evolve(asked, peer=await asker(asked.cluster, 0))
        assert await again.everything() == {("t", 1): 2, ("t", 0): 3}
        await trio.sleep(30)
        assert await again.everything() == {("t", 1): 2}, "the other one was to be kept for 90 s"
        await trio.sleep(30)
        assert (await again.everything(), await again.groups()) == ({}, [])
