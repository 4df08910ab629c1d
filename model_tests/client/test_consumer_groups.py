"""The native consumer as a member of a group: it shares, gives back, commits before it does, and is told."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.errors import ErrorCode
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.types import GroupId

from tidegauge.impl.client.client import Client
from tidegauge.impl.client.consumer import Consumer
from tidegauge.impl.client.consumer_config import ConsumerConfig
from tidegauge.impl.client.consumer_record import RebalanceListener
from tidegauge.impl.client.coordinators import GROUP, Coordinator
from tidegauge.impl.client.errors import CommitFailedError, KafkaError
from tidegauge.impl.client.positions import Partition
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.model_tests.simulated import simulated

QUICK = {
    "offsets.topic.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "broker.heartbeat.interval.ms": 100,
    "broker.session.timeout.ms": 600,
}
FOUR = [("t", number) for number in range(4)]


@asynccontextmanager
async def running(brokers: int = 1) -> AsyncIterator[tuple[Cluster, Client]]:
    async with Cluster(brokers=brokers, seed=1, config=QUICK) as cluster:
        await cluster.create_topic("t", assignments=[list(range(brokers))] * 4)
        async with cluster.client() as client:
            yield cluster, client


class Listening(RebalanceListener):
    """What a member was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, tuple[Partition, ...]]] = []

    async def revoked(self, partitions: Sequence[Partition]) -> None:
        self.told.append(("revoked", tuple(partitions)))

    async def lost(self, partitions: Sequence[Partition]) -> None:
        self.told.append(("lost", tuple(partitions)))

    async def assigned(self, partitions: Sequence[Partition]) -> None:
        self.told.append(("assigned", tuple(partitions)))


class Member(Consumer):
    """A consumer, what it was told, and the values that it has polled."""

    def __init__(self, client: Client, assignor: str = "range", **more: Any) -> None:
        settings = {
            "auto_offset_reset": "earliest",
            "session_timeout_ms": 6_000,
            "heartbeat_interval_ms": 500,
            "metadata_max_age_ms": 2_000,
            **more,
        }
        super().__init__(client, ConsumerConfig(group_id="g", partition_assignment_strategy=(assignor,), **settings))
        self.listening = Listening()
        self.values: list[bytes] = []

    async def join(self, topics: Any = ("t",)) -> None:
        await self.subscribe(topics, self.listening)

    async def read(self) -> None:
        self.values += [record.value or b"" for record in await self.poll(50)]


async def until(true: Any, *members: Member) -> None:
    """All of these poll in turn until something is so."""
    with trio.fail_after(120):
        while not true():
            for member in members:
                await member.read()


def share(*members: Member) -> bool:
    """Whether they have all four partitions, and as many each."""
    owned = [each for member in members for each in member.assignment]
    return sorted(owned) == FOUR and len({len(member.assignment) for member in members}) == 1


async def produce(client: Client, *values: bytes) -> None:
    for number, value in enumerate(values):
        await client.produce("t", value, partition=number % 4)


@simulated
async def test_cooperative_members_go_on_with_what_they_keep_and_nothing_is_read_twice() -> None:
    async with running() as (_, client), Member(client, "cooperative-sticky") as one:
        await one.join()
        await until(lambda: share(one), one)
        assert one.listening.told == [("assigned", tuple(FOUR))]
        sent = [b"%d" % number for number in range(8)]
        await produce(client, *sent)
        async with Member(client, "cooperative-sticky") as two:
            await two.join()
            await until(lambda: share(one, two), one, two)
            assert one.listening.told[1][0] == "revoked"
            assert set(one.listening.told[1][1]) == two.assignment, "and nothing else"
            await until(lambda: len(one.values + two.values) >= 8, one, two)
            await produce(client, b"x", b"x", b"x", b"x")
            await until(lambda: len(one.values + two.values) >= 12, one, two)
            assert sorted(one.values + two.values) == sorted([*sent, *[b"x"] * 4])
        await until(lambda: share(one), one)
        assert await one.committed(*FOUR) == dict.fromkeys(FOUR, 3), "who leaves commits first"
    assert one.listening.told[-1] == ("revoked", tuple(FOUR))


@simulated
async def test_who_does_not_poll_leaves_though_nobody_waits_for_it() -> None:
    async with running() as (_, client), Member(client, max_poll_interval_ms=5_000) as slow:
        await slow.join()
        await until(lambda: share(slow), slow)
        await trio.sleep(7)
        assert slow.identity.member_id == ""
        await until(lambda: len(slow.listening.told) == 3, slow)
        assert [what for what, _ in slow.listening.told] == ["assigned", "lost", "assigned"]


@pytest.mark.parametrize(
    "assignor",
    ["sticky", pytest.param("range", marks=pytest.mark.deep), pytest.param("roundrobin", marks=pytest.mark.deep)],
)
@simulated
async def test_eager_members_give_all_back_before_anybody_has_it(assignor: str) -> None:
    async with running() as (_, client), Member(client, assignor) as one, Member(client, assignor) as two:
        await produce(client, b"0", b"1", b"2", b"3")
        await one.join()
        await until(lambda: len(one.values) == 4, one)
        had = tuple(FOUR)
        await two.join()
        await until(lambda: share(one, two), one, two)
        assert one.listening.told[:2] == [("assigned", had), ("revoked", had)]
        await produce(client, b"4", b"5", b"6", b"7")
        await until(lambda: len(one.values + two.values) >= 8, one, two)
        assert sorted(one.values + two.values) == [b"%d" % number for number in range(8)], "committed before"
        kept = one.assignment
        await two.unsubscribe()
        await until(lambda: share(one), one)
        assert kept < one.assignment


@simulated
async def test_a_pattern_finds_topics_and_partitions_that_come_later() -> None:
    sticky = "cooperative-sticky"
    async with running() as (cluster, client), Member(client, sticky) as one, Member(client, sticky) as two:
        await one.join(re.compile(r"t|orders-\d+"))
        await until(lambda: share(one), one)
        await cluster.create_topic("orders-1", assignments=[[0]])
        await cluster.create_topic("orders-one", assignments=[[0]])
        await until(lambda: one.assignment == {*FOUR, ("orders-1", 0)}, one)
        await two.join(["orders-1"])
        await until(lambda: two.assignment == {("orders-1", 0)}, one, two)
        await cluster.create_partitions("orders-1", 2)
        await until(lambda: two.assignment == {("orders-1", 0), ("orders-1", 1)}, one, two)
        await two.join(["t"])
        await until(lambda: [topic for topic, _ in two.assignment] == ["t"] * 3, one, two)
        assert len(one.assignment) == 3, "as even as can be"


@simulated
async def test_who_does_not_poll_loses_its_partitions_and_cannot_commit() -> None:
    async with running() as (_, client):

        def impatient() -> Member:
            return Member(client, max_poll_interval_ms=5_000, enable_auto_commit=False)

        async with impatient() as slow, impatient() as other:
            await produce(client, b"0", b"1", b"2", b"3")
            await slow.join()
            await until(lambda: len(slow.values) == 4, slow)
            await other.join()
            with trio.fail_after(60):
                while not share(other):
                    await other.read()
            with pytest.raises(CommitFailedError, match="is no member"):
                await slow.commit()
            assert slow.listening.told[-1][0] == "assigned"
            await until(lambda: share(slow, other), slow, other)
            assert slow.listening.told[1] == ("lost", tuple(FOUR))
            assert sorted(other.values[:4]) == [b"0", b"1", b"2", b"3"], "nothing was committed"


@simulated
async def test_who_commits_in_a_group_that_is_gone_is_told_that_it_is_no_member_and_joins_again() -> None:
    async with running() as (_, client), Member(client, enable_auto_commit=False, heartbeat_interval_ms=5_000) as one:
        await produce(client, b"0")
        await one.join()
        await until(lambda: one.values, one)
        operator = Coordinator(client, GROUP, "g")
        gone = MemberIdentity(member_id=one.identity.member_id, group_instance_id=None)
        await operator.ask_once(LeaveGroupRequest(group_id=GroupId("g"), members=(gone,)))
        await operator.ask_once(DeleteGroupsRequest(groups_names=(GroupId("g"),)))
        with pytest.raises(CommitFailedError, match="is no member") as refused:
            await one.commit()
        assert refused.value.code is ErrorCode.group_id_not_found
        await until(lambda: len(one.listening.told) == 3, one)
        assert one.listening.told[1:] == [("lost", tuple(FOUR)), ("assigned", tuple(FOUR))]
        await one.commit()


@simulated
async def test_a_static_member_that_starts_again_has_what_it_had_without_a_rebalance() -> None:
    async with running() as (_, client), Member(client, "range", group_instance_id="i1") as one:
        two = Member(client, "range", group_instance_id="i2")
        async with two:
            await one.join()
            await two.join()
            await until(lambda: share(one, two), one, two)
            generation, had, was = one.identity.generation, two.assignment, two.identity.member_id
        async with Member(client, "range", group_instance_id="i2") as again:
            await again.join()
            await until(lambda: again.assignment == had, one, again)
            assert (one.identity.generation, again.identity.generation) == (generation, generation)
            assert again.identity.member_id != was
            async with Member(client, "range", group_instance_id="i2") as rival:
                await rival.join()
                await until(lambda: rival.assignment == had, one, rival)
                with pytest.raises(KafkaError, match="another process is the static member 'i2'") as fenced:
                    await until(lambda: False, again)
                assert fenced.value.code is ErrorCode.fenced_instance_id
                assert (again.listening.told[-1], again.assignment) == (("lost", tuple(sorted(had))), frozenset())


@simulated
async def test_members_are_given_what_has_a_replica_in_their_rack_also_when_it_has_moved() -> None:
    async with Cluster(brokers=2, seed=1, config=QUICK, racks=["a", "b"]) as cluster:
        await cluster.create_topic("t", assignments=[[0], [1], [0], [1]])
        async with (
            cluster.client() as client,
            Member(client, client_rack="b") as one,
            Member(client, client_rack="a") as two,
        ):
            await one.join()
            await two.join()
            near = [("t", 1), ("t", 3)], [("t", 0), ("t", 2)]
            await until(lambda: (sorted(one.assignment), sorted(two.assignment)) == near, one, two)
            for number, broker in ((2, 1), (3, 0)):
                await cluster.reassign("t", [broker], partition=number)
            near = [("t", 1), ("t", 2)], [("t", 0), ("t", 3)]
            await until(lambda: (sorted(one.assignment), sorted(two.assignment)) == near, one, two)


@pytest.mark.parametrize("topics", [("t",), re.compile("t")])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@simulated
async def test_a_poll_waits_for_a_cluster_that_nobody_reaches_and_raises_nothing(protocol: str, topics: Any) -> None:
    for crashes_first in (False, True):
        async with running() as (cluster, client), Member(client, group_protocol=protocol) as one:
            if crashes_first:
                await cluster.crash(0)
            await one.join(topics)
            if not crashes_first:
                await until(lambda: share(one), one)
                await cluster.crash(0)
            gone = trio.current_time()
            while trio.current_time() < gone + 40:
                await one.read()
            await cluster.restart(0)
            await client.produce("t", b"x", timeout_ms=60_000)
            await until(lambda: one.values, one)
            assert share(one)


@pytest.mark.parametrize("topics", [("t",), re.compile("t")])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@simulated
async def test_a_poll_ends_in_its_time_where_nobody_is_reached(protocol: str, topics: Any) -> None:
    async with running() as (cluster, client), Member(client, group_protocol=protocol) as one:
        await cluster.crash(0)
        await one.join(topics)
        for timeout_ms in (0, 300, 20_000):
            began = trio.current_time()
            assert await one.poll(timeout_ms) == ()
            assert trio.current_time() - began == pytest.approx(timeout_ms / 1000)


@simulated
async def test_members_find_the_next_coordinator_and_lose_nothing() -> None:
    """The broker that coordinates crashes while a third member joins; a member crashes with it."""
    async with running(3) as (cluster, client):
        sent = [b"%d" % number for number in range(12)]
        async with Member(client, "cooperative-sticky") as one, Member(client, "cooperative-sticky") as two:
            await one.join()
            await two.join()
            await until(lambda: share(one, two), one, two)
            await produce(client, *sent[:4])
            async with trio.open_nursery() as nursery:

                async def crashing() -> None:
                    async with Member(client, "cooperative-sticky") as three:
                        await three.join()
                        await three.read()
                        await cluster.crash(cluster.leader("__consumer_offsets"))
                        three._member = None  # it ends without a word

                nursery.start_soon(crashing)
                await until(lambda: len(one.values + two.values) >= 4, one, two)
            await produce(client, *sent[4:])
            await until(lambda: share(one, two) and {*one.values, *two.values} == {*sent}, one, two)
            await one.commit()
            await two.commit()
            assert await one.committed(*FOUR) == dict.fromkeys(FOUR, 3)


@simulated
async def test_a_member_that_shares_no_assignor_with_the_others_is_told_which_it_knows() -> None:
    async with running() as (_, client), Member(client, "range") as one, Member(client, "sticky") as other:
        await one.join()
        await until(lambda: share(one), one)
        await other.join()
        with pytest.raises(KafkaError, match="share no assignor with this one, which knows sticky") as refused:
            await until(lambda: False, one, other)
        assert refused.value.code is ErrorCode.inconsistent_group_protocol
        assert other.listening.told == []
        await until(lambda: share(one), one)


@pytest.mark.parametrize("request_name", ["JoinGroup", "SyncGroup"])
@simulated
async def test_an_error_of_the_coordinator_is_told_once_and_the_member_joins_again(request_name: str) -> None:
    async with running() as (cluster, client), Member(client) as one:
        cluster.fail_requests(request_name, "GROUP_AUTHORIZATION_FAILED", 1)
        await one.join()
        with pytest.raises(KafkaError, match="takes no such member") as told:
            await until(lambda: share(one), one)
        assert told.value.code is ErrorCode.group_authorization_failed
        await until(lambda: share(one), one)


@pytest.mark.parametrize("request_name", ["JoinGroup", "SyncGroup", "Heartbeat"])
@simulated
async def test_a_member_looks_for_its_coordinator_again_and_tells_nobody(request_name: str) -> None:
    async with running() as (cluster, client), Member(client) as one:
        failing = cluster.fail_requests(request_name, "NOT_COORDINATOR", 2)
        await one.join()
        await until(lambda: share(one), one)
        member_id = one.identity.member_id
        await until(lambda: failing.remaining == 0, one)
        await until(lambda: share(one), one)
        assert one.identity.member_id == member_id
