"""Partitions at rest: an idle fetch session looks at none of them, on either side, and misses nothing that changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any, ClassVar

import pytest
import trio
from trio.testing import MockClock

from tidegauge.impl.client.client import Client
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.partition.messages import FollowerFetch, PartitionFetchResponse
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.server.broker.fetch_schedule import BUSY_FOR_S, Lane
from tidegauge.impl.server.broker.follower_fetches import FetchResult, FollowerFetches
from tidegauge.impl.server.broker.peers import Peers
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.simulated import simulated

PARTITIONS = 12
QUIET = (Lane.QUIET,)
LAG_S = 30
"""replica.lag.time.max.ms."""


class CountingReplica(PartitionReplica):
    """Counts how often a follower's fetch is looked at, where it is sent and where it is received."""

    sent: ClassVar[int] = 0
    received: ClassVar[int] = 0

    def fetch_request(self, broker_epoch: int) -> FollowerFetch | None:
        CountingReplica.sent += 1
        return super().fetch_request(broker_epoch)

    def receive_fetch(
        self, fetch: FollowerFetch, max_bytes: int, now_ms: int, *, at_least_one: bool = True
    ) -> PartitionFetchResponse:
        CountingReplica.received += 1
        return super().receive_fetch(fetch, max_bytes, now_ms, at_least_one=at_least_one)


@asynccontextmanager
async def idle_cluster(brokers: int = 3) -> AsyncIterator[tuple[Cluster, Client]]:
    """A cluster without a trace; every partition of t has a record, and has been idle for a while."""
    async with Cluster(brokers, 1, trace=False, replica_class=CountingReplica) as cluster:
        await cluster.create_topic("t", PARTITIONS, config={"segment.bytes": 1_000, "retention.bytes": 0})
        async with cluster.client() as client:
            for partition in range(PARTITIONS):
                await client.produce("t", b"first", partition=partition)
            await trio.sleep(BUSY_FOR_S + 5)
            yield cluster, client


def followers(cluster: Cluster, partition: int = 0) -> list[int]:
    leader = cluster.leader("t", partition)
    return [broker.id for broker in cluster.brokers if broker.id != leader]


def fetches_looked_at() -> int:
    return CountingReplica.sent + CountingReplica.received


@simulated
async def test_no_partition_is_looked_at_while_nothing_happens() -> None:
    async with idle_cluster() as (cluster, _):
        before = fetches_looked_at()
        await trio.sleep(1.5 * LAG_S)
        assert fetches_looked_at() == before
        assert all(cluster.isr("t", partition) == (0, 1, 2) for partition in range(PARTITIONS))


@simulated
async def test_only_the_partition_that_has_a_record_is_looked_at() -> None:
    async with idle_cluster() as (cluster, client):
        before = fetches_looked_at()
        began = trio.current_time()
        assert await client.produce("t", b"second", partition=3) == 1
        assert trio.current_time() - began < 0.1, "the fetches at rest are woken"
        await trio.sleep(2)
        assert {cluster.replica(broker.id, "t", 3).high_watermark for broker in cluster.brokers} == {2}
        assert fetches_looked_at() - before <= 30


@simulated
async def test_a_follower_at_rest_learns_the_high_watermark_that_another_one_moves() -> None:
    async with idle_cluster() as (cluster, client):
        first, late = followers(cluster)
        cluster.pause(late)
        await client.produce("t", b"second", acks=1)
        await trio.sleep(2)
        assert (cluster.replica(first, "t").log_end_offset, cluster.replica(first, "t").high_watermark) == (2, 1)
        cluster.resume(late)
        await trio.sleep(2)
        assert cluster.replica(first, "t").high_watermark == 2


@simulated
async def test_a_follower_at_rest_has_been_caught_up_until_its_last_request() -> None:
    async with idle_cluster() as (cluster, client):
        await trio.sleep(2 * LAG_S)
        leader = cluster.broker(cluster.leader("t"))
        for follower in followers(cluster):
            cluster.isolate(follower)
        await client.produce("t", b"second", acks=1)
        leader.actions.shrink_isr()
        assert cluster.replica(leader.id, "t").pending_isr is None, "they asked a moment ago"
        await trio.sleep(LAG_S / 2)
        leader.actions.shrink_isr()
        assert cluster.replica(leader.id, "t").pending_isr is None


@simulated
async def test_a_follower_that_asks_no_more_lags_from_its_last_request_on() -> None:
    async with idle_cluster() as (cluster, client):
        leader = cluster.broker(cluster.leader("t"))
        for follower in followers(cluster):
            cluster.pause(follower)
        await trio.sleep(LAG_S + 2)
        replica = cluster.replica(leader.id, "t")
        now_ms = leader.clock.now_ms()
        assert not replica.lagging_replicas(now_ms), "nothing was appended that they lack"
        await client.produce("t", b"second", acks=1)
        assert replica.lagging_replicas(now_ms) == frozenset(replica.isr - {leader.id})


@simulated
async def test_a_log_start_that_moves_reaches_followers_at_rest() -> None:
    async with idle_cluster() as (cluster, client):
        for _ in range(30):
            await client.produce("t", b"x" * 200)
        await trio.sleep(BUSY_FOR_S + 5)
        leader = cluster.broker(cluster.leader("t"))
        assert await leader.upkeep.retain() > 0
        start = cluster.replica(leader.id, "t").log.log_start_offset
        await trio.sleep(2)
        assert start > 0
        assert {cluster.replica(broker.id, "t").log.log_start_offset for broker in cluster.brokers} == {start}
        remotes = cluster.replica(leader.id, "t").remote_replicas.values()
        assert {remote.log_start_offset for remote in remotes} == {start}, "each has told its own"


@simulated
async def test_a_follower_that_loses_its_replicas_does_not_count_as_caught_up_by_its_other_ones() -> None:
    async with idle_cluster() as (cluster, _):
        follower = followers(cluster)[0]
        broker = cluster.broker(follower)
        hosted = next(partition for partition in broker.replicas if partition.replica.leader != follower)
        asked = [broker.fetchers.session(leader.id, lane) for leader in cluster.brokers for lane in QUIET]
        session = next(one for one in asked if one is not None and one.has_resting)
        broker.replicas.effects.gone(hosted)
        assert all(one is None or one.rouse((hosted.topic_id, hosted.index)) is None for one in asked)
        assert session.has_resting, "the others rest on"


@pytest.mark.parametrize("seed", range(amount(1, deep=2)))
def test_idle_or_not_every_record_arrives_everywhere_under_crashes_and_moves(seed: int) -> None:
    """Seeded walks of produces, pauses between them, crashes and restarts, in a cluster whose partitions rest."""

    async def main() -> None:
        draw = Random(seed)
        with trio.fail_after(3_600):
            async with Cluster(3, seed, {"min.insync.replicas": 2}, trace=False) as cluster:
                await cluster.create_topic("t", PARTITIONS)
                written = [0] * PARTITIONS
                async with cluster.client() as client:
                    for _ in range(7):
                        for partition in draw.sample(range(PARTITIONS), draw.choice((1, 2, PARTITIONS))):
                            await client.produce("t", b"x", partition=partition)
                            written[partition] += 1
                        await trio.sleep(draw.choice((0.01, 0.3, 1, 4, 10)))
                        if draw.random() < 0.3:
                            victim = draw.randrange(3)
                            await cluster.crash(victim)
                            await trio.sleep(draw.choice((0.1, 15)))
                            await cluster.restart(victim)
                            for partition in range(PARTITIONS):
                                await cluster.wait_for_isr("t", {0, 1, 2}, partition)
                await trio.sleep(20)
                for partition in range(PARTITIONS):
                    assert cluster.isr("t", partition) == (0, 1, 2)
                    replicas = [cluster.replica(broker.id, "t", partition) for broker in cluster.brokers]
                    ends = {(one.log_end_offset, one.high_watermark) for one in replicas}
                    assert len(ends) == 1
                    assert min(ends)[0] >= written[partition]

    trio.run(main, clock=MockClock(autojump_threshold=0))


@simulated
async def test_followers_at_rest_back_off_from_a_leader_that_they_do_not_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 0
    fetch = FollowerFetches.fetch

    async def counted(self: FollowerFetches, *args: Any, **kwargs: Any) -> FetchResult:
        nonlocal tries
        tries += 1
        assert tries < 1_000, "it tries again and again, and time stands still"
        return await fetch(self, *args, **kwargs)

    async with idle_cluster() as (cluster, client):
        with monkeypatch.context() as patched:
            patched.setattr(FollowerFetches, "fetch", counted)
            patched.setattr(Peers, "channel", lambda *_: None)
            await trio.sleep(3)
        # Work goes in slices of real time: on a slow machine a pair tries once or twice more than on a fast one.
        of_each_pair = 3_000 / cluster.config.replica_fetch_backoff_ms + 5
        assert 0 < tries <= 6 * of_each_pair, "six pairs of broker and leader"
        await client.produce("t", b"second", partition=3)
