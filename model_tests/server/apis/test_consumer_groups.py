"""Consumer groups (KIP-848) over the wire: refusals, what operators are told, and what outlives a coordinator."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import attrs
import pytest
import trio
from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_heartbeat.v0.request import ConsumerGroupHeartbeatRequest as HeartbeatRequestV0
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.offset_commit.v8.request import OffsetCommitRequest as OffsetCommitRequestV8
from kio.schema.offset_commit.v8.request import OffsetCommitRequestPartition as CommitPartitionV8
from kio.schema.offset_commit.v8.request import OffsetCommitRequestTopic as CommitTopicV8
from kio.schema.offset_commit.v9.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_fetch.v9.request import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kio.schema.types import GroupId, TopicName
from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest
from kio.static.primitive import i8, i16, i32Timedelta

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.metadata.config_resources import AlterOperation
from tidegauge.impl.server.pace import line
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.primitives import i32, i64
from tidegauge.model_tests.server.apis.test_configs import GROUP as GROUP_RESOURCE
from tidegauge.model_tests.server.apis.test_configs import alter
from tidegauge.model_tests.server.apis.test_group_offsets import GROUP, SETTINGS, Asked, coordinator_of, grouped, until
from tidegauge.model_tests.server.asking import Asker, asker, forbid
from tidegauge.model_tests.simulated import simulated

NONE = ErrorCode.none
REBALANCE = i32Timedelta.parse(timedelta(seconds=20))


@attrs.define
class Member:
    """A member as a client sees it."""

    peer: Asker
    member_id: str = "m"
    epoch: int = 0
    owned: dict[UUID, list[int]] = attrs.field(factory=dict)

    async def beat(self, **fields: Any) -> Any:
        """A heartbeat that says all; it takes up at once what it is told."""
        request: dict[str, Any] = {
            "group_id": GROUP,
            "member_id": self.member_id,
            "member_epoch": i32(self.epoch),
            "rebalance_timeout": REBALANCE,
            "subscribed_topic_names": (TopicName("t"),),
            "topic_partitions": tuple(
                TopicPartitions(topic_id=topic, partitions=tuple(map(i32, indexes)))
                for topic, indexes in self.owned.items()
            ),
        }
        told = await self.peer.ask(ConsumerGroupHeartbeatRequest(**{**request, **fields}))
        if told.error_code is NONE:
            self.epoch = told.member_epoch
            if told.assignment is not None:
                self.owned = {one.topic_id: list(one.partitions) for one in told.assignment.topic_partitions}
        return told

    @property
    def partitions(self) -> list[int]:
        return sorted(index for indexes in self.owned.values() for index in indexes)

    async def commit(self, epoch: int | None = None, partition: int = 0) -> ErrorCode:
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=i32(self.epoch if epoch is None else epoch),
            member_id=self.member_id,
            topics=(
                OffsetCommitRequestTopic(
                    name=TopicName("t"),
                    partitions=(
                        OffsetCommitRequestPartition(
                            partition_index=i32(partition), committed_offset=i64(3), committed_metadata=""
                        ),
                    ),
                ),
            ),
        )
        told = await self.peer.ask(request)
        return ErrorCode(told.topics[0].partitions[0].error_code)


@asynccontextmanager
async def joined(brokers: int = 1, **settings: object) -> AsyncIterator[tuple[Asked, Member]]:
    async with grouped(brokers, **settings) as asked:
        member = Member(asked.peer)
        told = await member.beat()
        assert (told.error_code, told.member_epoch, told.heartbeat_interval) == (NONE, 2, timedelta(seconds=5))
        assert member.partitions == [0, 1]
        yield asked, member


@simulated
async def test_two_members_share_and_one_that_leaves_hands_over() -> None:
    async with joined() as (asked, one):
        two = Member(asked.peer, "n")
        assert (await two.beat()).member_epoch == 3
        assert two.partitions == [], "the other one has to give back first"
        assert one.epoch == 2
        await one.beat()
        assert (one.epoch, one.partitions) == (2, [0])
        await one.beat()
        await two.beat()
        assert (one.epoch, two.epoch, one.partitions, two.partitions) == (3, 3, [0], [1])
        left = await two.beat(member_epoch=i32(-1))
        assert (left.error_code, left.member_epoch) == (NONE, -1)
        await one.beat()
        assert (one.epoch, one.partitions) == (4, [0, 1])


@simulated
async def test_who_is_no_member_or_of_another_epoch_is_told_so() -> None:
    async with joined() as (asked, one):
        for fields, error in (
            ({"member_id": "x", "member_epoch": i32(1)}, ErrorCode.unknown_member_id),
            ({"member_epoch": i32(9)}, ErrorCode.fenced_member_epoch),
            ({"group_id": "other", "member_epoch": i32(1)}, ErrorCode.group_id_not_found),
            ({"instance_id": "i", "member_epoch": i32(2)}, ErrorCode.unknown_member_id),
        ):
            assert (await Member(asked.peer, owned=one.owned).beat(**fields)).error_code is error
        again = Member(asked.peer)
        assert (await again.beat()).error_code is NONE, "who was fenced joins again under its id"
        assert (again.epoch, again.partitions) == (2, [0, 1])


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": " "}, ErrorCode.invalid_request),
        ({"member_id": ""}, ErrorCode.invalid_request),
        ({"instance_id": ""}, ErrorCode.invalid_request),
        ({"rack_id": ""}, ErrorCode.invalid_request),
        ({"member_epoch": i32(-3)}, ErrorCode.invalid_request),
        ({"member_epoch": i32(-2)}, ErrorCode.invalid_request),
        ({"rebalance_timeout": i32Timedelta.parse(timedelta(milliseconds=-1))}, ErrorCode.invalid_request),
        ({"topic_partitions": None}, ErrorCode.invalid_request),
        ({"subscribed_topic_names": None}, ErrorCode.invalid_request),
        ({"server_assignor": "sticky"}, ErrorCode.unsupported_assignor),
        ({"subscribed_topic_regex": "t("}, ErrorCode.invalid_regular_expression),
        ({"instance_id": "i" * 40_000}, ErrorCode.invalid_request),
    ],
    ids=str,
)
@simulated
async def test_a_heartbeat_that_no_client_sends_is_refused(fields: dict[str, Any], error: ErrorCode) -> None:
    async with grouped() as asked:
        assert (await Member(asked.peer).beat(**fields)).error_code is error
        listed = await asked.peer.ask(ListGroupsRequest(states_filter=(), types_filter=()))
        assert listed.groups == ()


@simulated
async def test_a_member_of_version_0_may_leave_its_id_to_the_coordinator() -> None:
    async with grouped() as asked:
        request = HeartbeatRequestV0(
            group_id=GROUP,
            member_id="",
            member_epoch=i32(0),
            rebalance_timeout=REBALANCE,
            subscribed_topic_names=(TopicName("t"),),
            topic_partitions=(),
        )
        one, other = [await asked.peer.ask(request) for _ in range(2)]
        assert {one.error_code, other.error_code} == {NONE}
        assert one.member_id
        assert one.member_id != other.member_id


@simulated
async def test_who_subscribes_to_nothing_yet_is_a_member() -> None:
    """As one whose pattern, which it resolves itself, matches no topic."""
    async with grouped() as asked:
        for member_id, nothing in (("m", {}), ("n", {"subscribed_topic_regex": ""})):
            member = Member(asked.peer, member_id)
            assert (await member.beat(subscribed_topic_names=(), **nothing)).error_code is NONE
            assert (member.partitions, member.epoch > 0) == ([], True)
        await member.beat()
        await member.beat()
        assert member.partitions == [0, 1], "it subscribes to something by now, and the other one does not"


@simulated
async def test_who_leaves_says_who_it_is() -> None:
    async with joined() as (asked, _):
        leaves = HeartbeatRequestV0(group_id=GROUP, member_id=" ", member_epoch=i32(-1), topic_partitions=None)
        assert (await asked.peer.ask(leaves)).error_code is ErrorCode.invalid_request


@simulated
async def test_commits_and_offsets_are_for_members_in_their_epoch() -> None:
    async with joined() as (asked, one):
        assert await one.commit() is NONE
        assert await one.commit(epoch=3) is ErrorCode.stale_member_epoch
        assert await Member(asked.peer, "x").commit(epoch=2) is ErrorCode.unknown_member_id
        two = Member(asked.peer, "n")
        await two.beat()
        for _ in range(2):
            await one.beat()
        assert (one.epoch, one.partitions) == (3, [0])
        assert await one.commit(epoch=2) is NONE, "it has had the partition since (KIP-1251)"
        assert await one.commit(epoch=2, partition=1) is ErrorCode.stale_member_epoch
        old = OffsetCommitRequestV8(
            group_id=GROUP,
            generation_id_or_member_epoch=i32(3),
            member_id="m",
            topics=(
                CommitTopicV8(
                    name=TopicName("t"),
                    partitions=(
                        CommitPartitionV8(partition_index=i32(0), committed_offset=i64(4), committed_metadata=""),
                    ),
                ),
            ),
        )
        told = await asked.peer.ask(old)
        assert told.topics[0].partitions[0].error_code is ErrorCode.unsupported_version
        for member_id, epoch, error in (
            ("m", 3, NONE),
            ("m", 2, ErrorCode.stale_member_epoch),
            ("x", 3, ErrorCode.unknown_member_id),
            (None, -1, NONE),
        ):
            topics = (OffsetFetchRequestTopics(name=TopicName("t"), partition_indexes=(i32(0),)),)
            group = OffsetFetchRequestGroup(group_id=GROUP, member_id=member_id, member_epoch=i32(epoch), topics=topics)
            fetched = (await asked.peer.ask(OffsetFetchRequest(groups=(group,), require_stable=False))).groups[0]
            assert fetched.error_code is error
            assert error is not NONE or fetched.topics[0].partitions[0].committed_offset == 3


@simulated
async def test_operators_see_members_and_targets_and_delete_what_is_empty() -> None:
    async with joined() as (asked, one):
        ask = asked.peer.ask
        described = (
            await ask(ConsumerGroupDescribeRequest(group_ids=(GROUP,), include_authorized_operations=True))
        ).groups
        (group,) = described
        assert (group.error_code, group.group_state, group.group_epoch, group.assignment_epoch) == (
            NONE,
            "Stable",
            2,
            2,
        )
        assert group.assignor_name == "uniform"
        (member,) = group.members
        assert (member.member_id, member.member_type, member.subscribed_topic_names) == ("m", i8(1), ("t",))
        assert member.assignment.topic_partitions == member.target_assignment.topic_partitions
        assert member.assignment.topic_partitions[0].partitions == (0, 1)
        classic = (await ask(DescribeGroupsRequest(groups=(GROUP,), include_authorized_operations=False))).groups[0]
        assert classic.error_code is ErrorCode.group_id_not_found
        for types, found in (((), 1), (("consumer",), 1), (("classic",), 0)):
            listed = (await ask(ListGroupsRequest(states_filter=(), types_filter=types))).groups
            assert [(one.group_type, one.protocol_type) for one in listed] == [("consumer", "consumer")] * found
        deleted = await ask(DeleteGroupsRequest(groups_names=(GROUP,)))
        assert deleted.results[0].error_code is ErrorCode.non_empty_group
        await one.beat(member_epoch=i32(-1))
        assert (await ask(DeleteGroupsRequest(groups_names=(GROUP,)))).results[0].error_code is NONE
        gone = (
            await ask(ConsumerGroupDescribeRequest(group_ids=(GROUP,), include_authorized_operations=False))
        ).groups[0]
        assert gone.error_code is ErrorCode.group_id_not_found
        unnamed = ConsumerGroupDescribeRequest(group_ids=(GroupId(""),), include_authorized_operations=False)
        assert (await ask(unnamed)).groups[0].error_code is ErrorCode.invalid_group_id


@simulated
async def test_a_group_is_deleted_once_that_is_committed() -> None:
    async with joined(brokers=3, offsets_commit_timeout_ms=300) as (asked, one):
        await one.beat(member_epoch=i32(-1))
        for other in {0, 1, 2} - {asked.coordinator}:
            asked.cluster.block(other, asked.coordinator)

        async def deleted() -> ErrorCode:
            told = await asked.peer.ask(DeleteGroupsRequest(groups_names=(GROUP,)))
            return ErrorCode(told.results[0].error_code)

        assert await deleted() is ErrorCode.coordinator_not_available, "another coordinator would know of it"
        assert GROUP in asked.core().consumers.committed
        asked.cluster.heal()
        await until(lambda: GROUP not in asked.core().consumers.committed)
        assert await deleted() is ErrorCode.group_id_not_found


@simulated
async def test_a_group_whose_target_has_what_may_not_be_described_is_not_described() -> None:
    """What its member wants no more is in its target until the next one is made."""
    async with grouped(group_consumer_assignment_interval_ms=10_000) as asked:
        await asked.cluster.create_topic("secret")
        member = Member(asked.peer)
        await member.beat(subscribed_topic_names=(TopicName("secret"),))
        await member.beat(subscribed_topic_names=(TopicName("t"),))
        described = ConsumerGroupDescribeRequest(group_ids=(GROUP,), include_authorized_operations=False)
        (group,) = (await asked.peer.ask(described)).groups
        assert [one.topic_name for one in group.members[0].target_assignment.topic_partitions] == ["secret"]
        assert group.members[0].subscribed_topic_names == ("t",)
        forbid(asked.cluster, (Operation.DESCRIBE, ResourceType.TOPIC, "secret"))
        peer = await asker(asked.cluster, asked.coordinator)
        (group,) = (await peer.ask(described)).groups
        assert (group.error_code, group.members) == (ErrorCode.topic_authorization_failed, ())


@simulated
async def test_a_group_begins_an_epoch_when_replicas_are_in_another_rack_and_not_for_a_members_own() -> None:
    config = {**SETTINGS, "offsets.topic.replication.factor": 1}
    async with Cluster(brokers=2, seed=1, config=config, racks=["a", "b"]) as cluster:
        await cluster.create_topic("t", assignments=[[0], [0]])
        member = Member(await asker(cluster, await coordinator_of(cluster)))
        await member.beat(rack_id="a")
        await member.beat(rack_id="b")
        described = ConsumerGroupDescribeRequest(group_ids=(GROUP,), include_authorized_operations=False)
        (group,) = (await member.peer.ask(described)).groups
        assert (group.members[0].rack_id, group.group_epoch, member.epoch) == ("b", 2, 2)
        await cluster.reassign("t", [1], partition=1)
        await member.beat()
        assert (member.epoch, member.partitions) == (3, [0, 1])


@simulated
async def test_an_expression_matches_what_its_member_may_describe_as_topics_come_and_go() -> None:
    async with grouped(brokers=3) as asked:
        for name in ("orders-eu", "orders-secret", "payments"):
            await asked.cluster.create_topic(name, partitions=1)
        forbid(asked.cluster, (Operation.DESCRIBE, ResourceType.TOPIC, "orders-secret"), brokers=range(3))
        by_expression = {"subscribed_topic_names": (), "subscribed_topic_regex": "^orders-.*|t$"}
        one = Member(await asker(asked.cluster, asked.coordinator))
        told = await one.beat(**by_expression)
        assert (told.error_code, told.member_epoch, one.owned) == (NONE, 1, {}), "it is resolved later"
        await one.beat(**by_expression)

        def named() -> set[str | None]:
            metadata = asked.cluster.broker(0).metadata
            return {metadata.topic_name(str(topic_id)) for topic_id in one.owned}

        assert named() == {"orders-eu", "t"}
        described = ConsumerGroupDescribeRequest(group_ids=(GROUP,), include_authorized_operations=False)
        (member,) = (await asked.peer.ask(described)).groups[0].members
        assert (member.subscribed_topic_regex, member.subscribed_topic_names) == ("^orders-.*|t$", ())
        await asked.cluster.create_topic("orders-us", partitions=1)
        await one.beat(**by_expression)
        await one.beat(**by_expression)
        assert named() == {"orders-eu", "t"}, "less than ten seconds have passed"
        await trio.sleep(11)
        await one.beat(**by_expression)
        await trio.sleep(1)
        await one.beat(**by_expression)
        assert named() == {"orders-eu", "orders-us", "t"}
        await asked.cluster.delete_topic("orders-eu")
        for _ in range(2):
            await one.beat(**by_expression)
        assert named() == {"orders-us", "t"}
        epoch = one.epoch
        for text in ("t(", "t\\b", "a{999}"):
            bad = await one.beat(subscribed_topic_regex=text)
            assert bad.error_code is ErrorCode.invalid_regular_expression
        assert (await one.beat(subscribed_topic_names=(), subscribed_topic_regex=None)).member_epoch == epoch
        await one.beat(subscribed_topic_names=(TopicName("payments"),), subscribed_topic_regex="")
        await one.beat(subscribed_topic_names=None)
        assert named() == {"payments"}


@simulated
async def test_others_have_their_turn_while_an_expression_is_held_against_topics() -> None:
    async with grouped() as asked:
        for place in range(5):
            await asked.cluster.create_topic(f"{place}".ljust(249, "a"), partitions=1)
        member, dear = Member(asked.peer), {"subscribed_topic_names": (), "subscribed_topic_regex": ".*a.{200}"}
        before = line().passes
        assert (await member.beat(**dear)).error_code is NONE
        await trio.sleep(1)
        assert line().passes > before + 20
        await member.beat(**dear)
        assert len(member.owned) == 5
        before = line().passes
        await member.beat(**dear)
        assert line().passes < before + 5, "it is known"


@simulated
async def test_what_an_expression_has_matched_outlives_the_coordinator() -> None:
    async with grouped(brokers=3) as asked:
        by_expression = {"subscribed_topic_names": (), "subscribed_topic_regex": "t+"}
        one = Member(asked.peer)
        await one.beat(**by_expression)
        await one.beat(**by_expression)
        led = asked.cluster.broker(asked.coordinator).groups.led(GROUP)
        assert not isinstance(led, ErrorCode)
        had = led.state.consumers.committed[GROUP].resolved
        assert {name: found.topics for name, found in had.items()} == {"t+": {"t"}}
        await asked.cluster.crash(asked.coordinator)
        coordinator, asks = asked.coordinator, next(n for n in range(3) if n != asked.coordinator)
        while coordinator == asked.coordinator:
            await trio.sleep(0.2)
            coordinator = await coordinator_of(asked.cluster, ask=asks)
        one.peer = await asker(asked.cluster, coordinator)
        assert (await one.beat(subscribed_topic_names=None)).member_epoch == 2
        led = asked.cluster.broker(coordinator).groups.led(GROUP)
        assert not isinstance(led, ErrorCode)
        assert led.state.consumers.committed[GROUP].resolved == had
        assert one.partitions == [0, 1]


@simulated
async def test_a_member_that_is_silent_or_gives_nothing_back_is_removed() -> None:
    async with joined() as (asked, one):
        two = Member(asked.peer, "n")
        await two.beat()
        await one.beat()
        assert one.partitions == [0]
        for _ in range(5):  # it goes on as owner of both, and the time for that is 20 s
            one.owned = {topic: [0, 1] for topic in one.owned}
            await trio.sleep(5)
            await two.beat()
            told = await one.beat()
        assert told.error_code is ErrorCode.unknown_member_id
        await two.beat()
        assert two.partitions == [0, 1]
        await trio.sleep(50)
        assert (await two.beat()).error_code is ErrorCode.unknown_member_id


@simulated
async def test_a_groups_own_settings_are_in_force_for_it() -> None:
    async with joined() as (asked, one):
        settings = (("consumer.session.timeout.ms", "60000"), ("consumer.heartbeat.interval.ms", "15000"))
        for name, value in settings:
            await alter(asked.peer, GROUP_RESOURCE, GROUP, (name, AlterOperation.SET, value))
        await asked.cluster.settle_metadata()
        assert (await one.beat()).heartbeat_interval == timedelta(seconds=15)
        await trio.sleep(55)  # the brokers' own is 45 s
        assert (await one.beat()).error_code is NONE
        await trio.sleep(61)
        assert (await one.beat()).error_code is ErrorCode.unknown_member_id


@simulated
async def test_the_least_time_between_two_targets_is_the_groups_own_or_the_brokers() -> None:
    async with joined(**{"group.consumer.assignment.interval.ms": 1_000}) as (asked, one):
        two = Member(asked.peer, "n")
        await two.beat()
        assert (two.epoch, two.partitions) == (2, []), "the first target is a second old only in a second"
        await trio.sleep(1)
        await one.beat()
        assert (one.epoch, one.partitions) == (2, [0]), "it gives back first"
        interval = ("consumer.assignment.interval.ms", AlterOperation.SET, "15000")
        await alter(asked.peer, GROUP_RESOURCE, GROUP, interval)
        await asked.cluster.settle_metadata()
        await one.beat()
        await two.beat(member_epoch=i32(-1))
        await trio.sleep(13)
        await one.beat()
        assert (one.epoch, one.partitions) == (3, [0])
        await trio.sleep(2)
        await one.beat()
        assert (one.epoch, one.partitions) == (4, [0, 1])


@simulated
async def test_a_coordinator_that_crashes_has_told_nothing_that_the_next_one_does_not_know() -> None:
    async with joined(brokers=3) as (asked, one):
        two = Member(asked.peer, "n")
        await two.beat()
        await one.beat()
        await asked.cluster.crash(asked.coordinator)
        coordinator, asks = asked.coordinator, next(n for n in range(3) if n != asked.coordinator)
        while coordinator == asked.coordinator:
            await trio.sleep(0.2)
            coordinator = await coordinator_of(asked.cluster, ask=asks)
        one.peer = two.peer = await asker(asked.cluster, coordinator)
        for _ in range(2):
            for member in (one, two):
                assert (await member.beat()).error_code is NONE
        assert (one.epoch, two.epoch, one.partitions, two.partitions) == (3, 3, [0], [1])


@simulated
async def test_a_group_may_have_so_many_members_and_no_more() -> None:
    async with joined(group_consumer_max_size=1) as (asked, one):
        assert (await Member(asked.peer, "n").beat()).error_code is ErrorCode.group_max_size_reached
        assert (await one.beat()).error_code is NONE


@simulated
async def test_the_feature_can_be_turned_off_and_on() -> None:
    async with joined() as (asked, one):
        for level, kind, error in ((0, 2, ErrorCode.unsupported_version), (1, 1, NONE)):
            update = FeatureUpdateKey(feature="group.version", max_version_level=i16(level), upgrade_type=i8(kind))
            told = await asked.peer.ask(UpdateFeaturesRequest(feature_updates=(update,)))
            assert told.error_code is NONE
            await asked.cluster.settle_metadata()
            assert (await one.beat()).error_code is error
