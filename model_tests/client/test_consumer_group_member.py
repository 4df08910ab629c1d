"""The native consumer as a member of a consumer group (KIP-848): the coordinator assigns, and it is told."""

from __future__ import annotations

import re
from typing import Any

import pytest
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.client import Client
from tidegauge.impl.client.consumer import Consumer
from tidegauge.impl.client.consumer_config import ConsumerConfig
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.server.broker.coordinator_log import Led
from tidegauge.model_tests.client.test_consumer_groups import FOUR, QUICK, Member, produce, running, share, until
from tidegauge.model_tests.simulated import simulated


def member(client: Client, **more: Any) -> Member:
    return Member(client, group_protocol="consumer", **more)


@simulated
async def test_members_go_on_with_what_they_keep_and_nothing_is_read_twice() -> None:
    never = {"auto_commit_interval_ms": 3_600_000}
    async with running() as (_, client), member(client, **never) as one:
        await one.join()
        await until(lambda: share(one), one)
        assert one.listening.told == [("assigned", tuple(FOUR))]
        sent = [b"%d" % number for number in range(8)]
        await produce(client, *sent)
        await until(lambda: len(one.values) == 8, one)
        async with member(client, **never) as two:
            await two.join()
            await until(lambda: share(one, two), one, two)
            assert one.listening.told[1][0] == "revoked"
            assert set(one.listening.told[1][1]) == two.assignment, "and nothing else"
            await until(lambda: len(one.values + two.values) >= 8, one, two)
            await produce(client, b"x", b"x", b"x", b"x")
            await until(lambda: len(one.values + two.values) >= 12, one, two)
            assert sorted(one.values + two.values) == sorted([*sent, *[b"x"] * 4])
        await until(lambda: share(one), one)
        await one.commit()
        assert await one.committed(*FOUR) == dict.fromkeys(FOUR, 3), "who leaves commits first"
    assert one.listening.told[-1] == ("revoked", tuple(FOUR))


@simulated
async def test_who_does_not_poll_leaves_and_is_told_what_it_has_lost() -> None:
    async with running() as (_, client), member(client, max_poll_interval_ms=5_000) as slow:
        await slow.join()
        await until(lambda: share(slow), slow)
        await trio.sleep(12)
        assert slow.identity.generation == -1
        await until(lambda: len(slow.listening.told) == 3, slow)
        assert [what for what, _ in slow.listening.told] == ["assigned", "lost", "assigned"]


@simulated
async def test_a_static_member_that_comes_back_has_what_it_had_and_a_second_one_is_refused_until_then() -> None:
    async with running() as (_, client), member(client) as other:
        async with member(client, group_instance_id="i") as first:
            await first.join()
            await other.join()
            await until(lambda: share(first, other), first, other)
            had, told = first.assignment, list(other.listening.told)
            async with member(client, group_instance_id="i") as second:
                await second.join()
                with pytest.raises(KafkaError) as refused:
                    await until(lambda: bool(second.assignment), second, other)
                assert refused.value.code is ErrorCode.unreleased_instance_id
        async with member(client, group_instance_id="i") as third:
            await third.join()
            await until(lambda: share(third, other), third, other)
            assert third.assignment == had
        assert other.listening.told == told, "the other one gives nothing back"


@simulated
async def test_members_outlive_their_coordinator() -> None:
    async with running(brokers=3) as (cluster, client), member(client) as one, member(client) as two:
        await one.join()
        await two.join()
        await until(lambda: share(one, two), one, two)
        had = one.assignment
        await cluster.crash(cluster.leader("__consumer_offsets"))
        await produce(client, *[b"%d" % number for number in range(8)])
        await until(lambda: len(one.values + two.values) >= 8, one, two)
        assert one.assignment == had
        await one.commit()


@simulated
async def test_a_member_looks_for_its_coordinator_when_another_broker_has_become_that_one() -> None:
    """The former one runs still, and responds: NOT_COORDINATOR. No commit tells where the group is now."""
    async with running(brokers=2) as (cluster, client), member(client, enable_auto_commit=False) as one:
        await one.join()
        await until(lambda: share(one), one)
        await cluster.reassign("__consumer_offsets", [1 - cluster.leader("__consumer_offsets")])
        began = trio.current_time()
        await until(lambda: trio.current_time() > began + 60, one)
        await one.commit()
        assert one.listening.told == [("assigned", tuple(FOUR))]


@simulated
async def test_a_member_whose_group_is_gone_joins_again_and_is_told_what_it_has_lost() -> None:
    """Its session has ended, and with it the group, which has committed nothing (librdkafka 5485)."""
    times = {"group.consumer.session.timeout.ms": 1_000, "group.consumer.heartbeat.interval.ms": 200}
    often = {"group.consumer.min.session.timeout.ms": 1_000, "group.consumer.min.heartbeat.interval.ms": 200}
    config = {**QUICK, **often, **times, "offsets.retention.check.interval.ms": 100}
    async with (
        Cluster(brokers=1, seed=1, config=config) as cluster,
        cluster.client("away") as client,
        member(client, enable_auto_commit=False) as one,
    ):
        await cluster.create_topic("t", assignments=[[0]] * 4)
        await one.join()
        await until(lambda: share(one), one)
        cluster.network.isolate("away")
        await trio.sleep(5)
        led = cluster.broker(0).groups.led("g")
        assert isinstance(led, Led)
        assert not led.state.is_known("g")
        cluster.network.heal("away")
        await until(lambda: len(one.listening.told) == 3, one)
        assert [what for what, _ in one.listening.told] == ["assigned", "lost", "assigned"]
        assert share(one)


async def _ids(seed: int) -> list[str]:
    config = ConsumerConfig(group_id="g", group_protocol="consumer")
    async with (
        Cluster(brokers=1, seed=seed) as cluster,
        cluster.client() as client,
        Consumer(client, config) as one,
        Consumer(client, config) as two,
    ):
        await one.subscribe(["t"])
        await two.subscribe(["t"])
        return [one.identity.member_id, two.identity.member_id]


@simulated
async def test_member_ids_are_repeated_by_the_seed_and_by_nothing_else() -> None:
    first = await _ids(1)
    assert len({*first, *await _ids(2)}) == 4
    assert await _ids(1) == first


@simulated
async def test_a_pattern_is_resolved_by_the_coordinator_which_sees_topics_come_and_go() -> None:
    async with running() as (cluster, client), member(client) as one:
        await one.join(re.compile("T.*", re.IGNORECASE))
        await until(lambda: share(one), one)
        await cluster.create_topic("two", partitions=1)
        await cluster.create_topic("other", partitions=1)
        await until(lambda: ("two", 0) in one.assignment, one)
        await cluster.delete_topic("two")
        await until(lambda: share(one), one)
        await one.join(["other"])
        await until(lambda: one.assignment == {("other", 0)}, one)
        await one.join(re.compile("t"))
        await until(lambda: share(one), one)


@simulated
async def test_a_pattern_that_the_coordinator_does_not_take_is_told() -> None:
    async with running() as (_, client), member(client) as one:
        await one.join(re.compile("t(?=x)"))
        with pytest.raises(KafkaError) as refused:
            await until(lambda: bool(one.assignment), one)
        assert refused.value.code is ErrorCode.invalid_regular_expression
    async with running() as (_, client), member(client) as one:
        with pytest.raises(ValueError, match="of the flags only"):
            await one.join(re.compile("t", re.VERBOSE))


def test_settings_of_the_protocol_are_checked() -> None:
    with pytest.raises(ValueError, match="give one of classic, consumer"):
        ConsumerConfig(group_id="g", group_protocol="other")
    with pytest.raises(ValueError, match="is for the group_protocol consumer"):
        ConsumerConfig(group_id="g", group_remote_assignor="range")
