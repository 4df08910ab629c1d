"""Two clusters go through the same seeded walk, in one of which partitions come to rest: both know the same all along.

No node does anything by itself, and messages are delivered at once, but for ISR proposals, which the walk delivers. So
after each step what the two differ in comes from a rest. Nothing may: neither what replicas have, nor what leaders know
of their followers, nor until when these were caught up; of one at rest its session knows when it last asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

import pytest
import trio

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.ports.simulated_network import Frame
from tidegauge.impl.server.broker.fetch_sessions import FetchSessions
from tidegauge.impl.server.broker.follower_sessions import FollowerSession
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.server.broker.record_deletions import PartitionDeletion
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.deterministic import run_deterministically

BROKERS: Final = 3
PARTITIONS: Final = 4
STEPS: Final = 80
TICK_S: Final = 0.5
"""Longer than any message is on its way."""
LONG_S: Final = 40.0
"""Longer than replica.lag.time.max.ms."""


class Follower:
    """One broker's session with one leader, and which partitions rest in it; as a fetcher has them."""

    def __init__(self) -> None:
        self.session = FollowerSession()
        self.resting: set[Partition] = set()

    def rouse(self, partition: Partition) -> None:
        self.session.rouse((partition.topic_id, partition.index))
        self.take_roused()

    def take_roused(self) -> None:
        self.resting.difference_update(self.session.take_roused())


class Rousing:
    """What a broker's fetchers do when a replica's next fetch is another one."""

    def __init__(self, followers: list[Follower]) -> None:
        self._followers = followers

    def leader_changed(self, partition: Partition) -> None:
        self.fetch_changed(partition)

    def fetch_changed(self, partition: Partition) -> None:
        for follower in self._followers:
            follower.rouse(partition)


class World:
    """A cluster that does what it is told; `rests`: whether partitions come to rest in it."""

    def __init__(self, cluster: Cluster, *, rests: bool) -> None:
        self.cluster = cluster
        self.rests = rests
        self.rested = 0
        self.followers = {(f, leader): Follower() for f in range(BROKERS) for leader in range(BROKERS) if f != leader}
        for broker in cluster.brokers:
            mine = [one for (follower, _), one in self.followers.items() if follower == broker.id]
            broker.replicas.effects.attach(
                isr_proposals=broker.proposals,
                fetchers=Rousing(mine),
                upkeep=broker.upkeep,
                failures=broker.directory_failures,
            )
            if not rests:
                broker.fetch_sessions = FetchSessions(100, iter(range(1, 1 << 30)).__next__)
        cluster.network.hold(is_proposal)

    def leaders(self, partition: int) -> list[int]:
        """The brokers that believe to lead."""
        return [one.id for one in self.cluster.brokers if self.cluster.replica(one.id, "t", partition).is_leader]

    async def fetch(self, follower: int, leader: int) -> None:
        broker, fetcher = self.cluster.broker(follower), self.followers[follower, leader]
        follow = [one for one in broker.replicas if one.replica.leader == leader]
        due = [one for one in follow if one not in fetcher.resting]
        result = await broker.fetches.fetch(leader, due, 0, session=fetcher.session, may_rest=self.rests)
        fetcher.take_roused()
        fetcher.resting.update(result.resting)
        self.rested += len(result.resting)

    async def append(self, partition: int) -> None:
        async with self.cluster.client() as client:
            with trio.move_on_after(TICK_S):
                await client.produce("t", b"x", partition=partition, acks=1)

    async def lag(self, partition: int) -> None:
        """A record that no follower fetches for long, until the leader looks who lags."""
        await self.append(partition)
        await self.wait()
        for leader in self.leaders(partition):
            self.cluster.broker(leader).actions.shrink_isr("t", partition)

    async def deliver_proposals(self) -> None:
        for frame in list(self.cluster.network.in_flight):
            self.cluster.network.release(frame)

    async def retry_proposal(self, partition: int) -> None:
        for leader in self.leaders(partition):
            self.cluster.broker(leader).actions.retry_alter_partition("t", partition)

    async def delete(self, partition: int) -> None:
        for leader in self.leaders(partition):
            await self.cluster.broker(leader).replicas.delete_records(
                [PartitionDeletion("t", partition, -1)], timeout_ms=0
            )

    async def register(self, broker: int) -> None:
        await self.cluster.broker(broker).actions.register()

    async def heartbeat(self, broker: int) -> None:
        await self.cluster.broker(broker).actions.heartbeat()

    async def expire(self, broker: int) -> None:
        """The controller fences a broker, which leaves the ISRs; its next heartbeat brings the same process back."""
        await self.cluster.controller.actions.expire_session(broker)

    async def apply_metadata(self, broker: int) -> None:
        await self.cluster.broker(broker).actions.apply_metadata()

    async def reset_connections(self, broker: int, other: int) -> None:
        self.cluster.reset_connections(broker, other)

    async def wait(self) -> None:
        await trio.sleep(LONG_S)

    async def settle(self) -> None:
        """What an idle cluster does by itself: everybody is live and in sync after it, and nearly all rests."""
        for broker in range(BROKERS):
            await self.heartbeat(broker)
        for _ in range(3):
            for broker in range(BROKERS):
                await self.apply_metadata(broker)
            for follower, leader in self.followers:
                await self.fetch(follower, leader)
            await trio.sleep(TICK_S)
            await self.deliver_proposals()
            await trio.sleep(TICK_S)

    def known(self) -> Iterator[object]:
        """What all replicas have and leaders know."""
        for broker in self.cluster.brokers:
            asked_ms = {
                (cached.at_rest, cached.read.follower.replica_id): session.used_ms
                for session in broker.fetch_sessions.sessions
                for cached in session.partitions.values()
                if cached.at_rest is not None and cached.read.follower is not None
            }
            for partition in range(PARTITIONS):
                replica = self.cluster.replica(broker.id, "t", partition)
                yield broker.id, partition, replica.leader, replica.leader_epoch, replica.log_end_offset
                yield replica.high_watermark, replica.log.log_start_offset, replica.isr, replica.pending_isr
                for follower, remote in replica.remote_replicas.items():
                    yield follower, remote.log_end_offset, remote.log_start_offset, remote.broker_epoch
                    yield follower, max(remote.last_caught_up_ms, asked_ms.get((replica, follower), 0))


def is_proposal(frame: Frame) -> bool:
    return frame.api_key == ApiKey.ALTER_PARTITION


def steps(draw: Random) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Steps of a walk: the name of a method of `World`, and its arguments."""
    kinds = {
        "fetch": 20, "append": 2, "lag": 0.7, "settle": 1.5, "deliver_proposals": 3, "retry_proposal": 1, "delete": 1,
        "register": 0.3, "expire": 0.6, "heartbeat": 1, "apply_metadata": 4, "reset_connections": 0.3, "wait": 0.3,
    }  # fmt: skip
    while True:
        name = draw.choices(list(kinds), list(kinds.values()))[0]
        broker, other = draw.sample(range(BROKERS), 2)
        partition = draw.randrange(PARTITIONS)
        match name:
            case "fetch" | "reset_connections":
                yield name, (broker, other)
            case "append" | "lag" | "delete" | "retry_proposal":
                yield name, (partition,)
            case "register" | "expire" | "heartbeat" | "apply_metadata":
                yield name, (broker,)
            case _:
                yield name, ()


async def walk(seed: int) -> int:
    """Go through the walk with both clusters; returns how often a partition came to rest."""
    draw = Random(seed)
    async with (
        Cluster(BROKERS, 1, timers=False, trace=False) as with_rests,
        Cluster(BROKERS, 1, timers=False, trace=False) as without,
    ):
        worlds = [World(with_rests, rests=True), World(without, rests=False)]
        for cluster in (with_rests, without):
            assignments = [[n % BROKERS, (n + 1) % BROKERS, (n + 2) % BROKERS] for n in range(PARTITIONS)]
            await cluster.create_topic("t", assignments=assignments)
            for broker in cluster.brokers:
                await broker.actions.apply_metadata()
        done: list[object] = []
        for _, (name, arguments) in zip(range(STEPS), steps(draw), strict=False):
            async with trio.open_nursery() as nursery:
                for world in worlds:
                    nursery.start_soon(getattr(world, name), *arguments)
            await trio.sleep(TICK_S)
            done.append((name, *arguments))
            first, second = (list(world.known()) for world in worlds)
            differing = [(a, b) for a, b in zip(first, second, strict=True) if a != b]
            assert not differing, f"with and without rests: {differing[:3]}, after {done[-12:]}"
        return worlds[0].rested


@pytest.mark.parametrize("seed", range(amount(2, deep=4)))
def test_a_walk_in_which_partitions_rest_knows_after_each_step_what_it_knows_without_rests(seed: int) -> None:
    assert run_deterministically(walk, seed, seed=seed) > 8, "partitions come to rest, again and again"
