"""Brokers that coordinate, in a guest run: who leads their log, what of it is replicated, and leaders that die.

Theory of operation
-------------------
The coordinator's log has one replica where all is committed at once, and two where leaders change. Followers fetch when
they are told to; so a record is committed when an action says so. Every machine that dies returns.

A coordinator loads a partition of its log when it is told to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final, TypeVar

import trio
from trio.testing import wait_all_tasks_blocked

from tidegauge.impl.client import requests, topic_requests
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.ports.simulated_network import Frame, SimulatedNetwork
from tidegauge.impl.server.broker.coordinator_log import CoordinatorLog, Led
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.server.broker_server import Broker
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.model_tests.harness.cluster.guest_cluster import GuestCluster
from tidegauge.model_tests.harness.cluster.in_flight import BROKER, limited
from tidegauge.model_tests.harness.cluster.operator_requests import ask_at

SEED: Final = 1
MOST_ROUNDS: Final = 20
MUCH: Final = 1 << 20

S = TypeVar("S")


def is_fetch(frame: Frame) -> bool:
    """Whether a follower asks its leader."""
    return frame.is_request and frame.api_key == ApiKey.FETCH and frame.source.startswith(BROKER)


def is_fetch_response(frame: Frame) -> bool:
    """Whether a leader responds to its follower."""
    return not frame.is_request and frame.api_key == ApiKey.FETCH and frame.destination.startswith(BROKER)


def lose_connection(network: SimulatedNetwork, frame: Frame) -> None:
    """The connection of a held frame ends, and what is on it is lost."""
    for end in (frame.end.connection.client, frame.end.connection.server):
        network.lose_frames_to(end)
        end.forget_unread()
        end.end_of_stream()


class CoordinatorBrokers(ABC):
    """A cluster of which some brokers, `coordinators`, have the log of a coordinator: the partitions of `log_topic`."""

    def __init__(self, log_topic: str, indexes: int, coordinators: int, make: Callable[[], Cluster]) -> None:
        self.log_topic = log_topic
        self.indexes = range(indexes)
        self.coordinators = list(range(coordinators))
        self.loads = [trio.Event() for _ in self.indexes]
        """Each is set when the coordinator is told to load this partition of the log."""
        self._hosted = GuestCluster(SEED, make, self._prepare)
        self.run, self.cluster, self.nursery = self._hosted.run, self._hosted.cluster, self._hosted.nursery
        self.asked = self._hosted.asked

    @abstractmethod
    async def _prepare(self, cluster: Cluster) -> None:
        """Create the topics, and `_drive` the coordinators."""

    @abstractmethod
    def _drive(self, broker: Broker) -> None:
        """From now on this coordinator does by itself what it is told to, and no more."""

    def _load_when_told(self, log: CoordinatorLog[S]) -> None:
        """From now on the partitions of a log are loaded when `loads` says so."""
        load: Callable[[Partition, Led[S]], Awaitable[None]] = log._load

        async def load_when_told(partition: Partition, led: Led[S]) -> None:
            await self.loads[led.index].wait()
            await load(partition, led)

        log._load = load_when_told  # type: ignore[method-assign]

    def close(self) -> None:
        """Stop the cluster."""
        self._hosted.close()

    # --- who leads -----------------------------------------------------------------------------------------------

    def hosted(self, broker: int, topic: str, index: int) -> Partition:
        """A partition at one of its brokers."""
        hosted = self.cluster.broker(broker).replicas.get(topic, index)
        assert hosted is not None, "each partition stays with its brokers"
        return hosted

    @property
    def coordinator(self) -> Broker:
        """The broker that leads the log."""
        return self.cluster.broker(self.cluster.leader(self.log_topic, 0))

    def _brokers_of(self, topic: str, index: int) -> Collection[int]:
        return self.coordinators

    def _other(self, topic: str, index: int) -> int:
        leader = self.cluster.leader(topic, index)
        return next(number for number in self._brokers_of(topic, index) if number != leader)

    # --- replication ---------------------------------------------------------------------------------------------

    async def commit(self, topic: str, index: int) -> None:
        """Have a partition's followers fetch until all is committed, known to be so, and everybody is in sync."""
        leader = self.cluster.leader(topic, index)
        ahead = self.hosted(leader, topic, index).replica
        for number in self._brokers_of(topic, index):
            follower = self.hosted(number, topic, index).replica
            for _ in range(MOST_ROUNDS if number != leader else 0):
                self.cluster.broker(number).actions.send_fetch(topic, index)
                await self.settle(leader, number)
                known = {follower.log_end_offset, follower.high_watermark, ahead.log_end_offset, ahead.high_watermark}
                if len(known) == 1 and number in self.cluster.isr(topic, index):
                    break
            else:
                assert number == leader, f"broker {number} does not catch up with {topic}-{index}"
        await wait_all_tasks_blocked()

    async def copy(self, topic: str, index: int, end: int, follower: int | None = None) -> None:
        """Have a follower, by default the other replica, fetch up to an offset; its leader is not told of the last."""
        follower = self._other(topic, index) if follower is None else follower
        log = self.hosted(follower, topic, index).log
        for _ in range(MOST_ROUNDS):
            if log.log_end_offset == end:
                return
            await self._copy_some(topic, index, end, follower)
        raise AssertionError(f"{log.log_end_offset} is not {end}")

    async def _copy_some(self, topic: str, index: int, end: int, follower: int) -> None:
        """The same, as far as one fetch goes: to the end of a segment."""
        log = self.hosted(follower, topic, index).log
        ahead = self.hosted(self.cluster.leader(topic, index), topic, index).log
        size = len(ahead.read(log.log_end_offset, MUCH, end)) if log.log_end_offset < end else 1
        hold = self.cluster.network.hold(is_fetch)
        self.cluster.broker(follower).actions.send_fetch(topic, index)
        await wait_all_tasks_blocked()
        (frame,) = filter(is_fetch, self.cluster.network.in_flight)
        self.cluster.network.unhold(hold)
        self.cluster.network.release(limited(frame, size))
        await wait_all_tasks_blocked()

    async def commit_up_to(self, topic: str, index: int, end: int) -> None:
        """Have a partition committed up to an offset, and no further: its leader is told that so much is copied."""
        await self.copy(topic, index, end)
        await self.tell_leader(topic, index, self._other(topic, index))
        committed = self.hosted(self.cluster.leader(topic, index), topic, index).replica.high_watermark
        assert committed == end, f"{committed} is not {end}"

    async def tell_leader(self, topic: str, index: int, follower: int) -> None:
        """Have a leader told how much a follower has. The response has what comes next, and is lost."""
        network = self.cluster.network
        hold = network.hold(is_fetch_response)
        self.cluster.broker(follower).actions.send_fetch(topic, index)
        await wait_all_tasks_blocked()
        network.unhold(hold)
        for frame in [one for one in network.in_flight if is_fetch_response(one)]:
            lose_connection(network, frame)
        await wait_all_tasks_blocked()

    # --- leaders that change -------------------------------------------------------------------------------------

    async def give_way(self, topic: str, index: int, end: int) -> None:
        """The other replica leads a partition, with all up to an offset; the leader gives way."""
        await self.copy(topic, index, end)
        follower, brokers = self._other(topic, index), self._brokers_of(topic, index)
        order = sorted(brokers, key=lambda number: number != follower)
        topic_requests.check_reassigned(await self._operate(topic_requests.reassign(topic, index, order)))
        requests.check_elected(await self._operate(requests.elect_leaders(topic, index, unclean=False)))
        await self.settle(*{*self.coordinators, *brokers})

    async def fail_over(self, ends: Mapping[int, int]) -> None:
        """The coordinator's machine dies; another one leads the log, with these partitions of it up to these ends."""
        for index, end in ends.items():
            await self.copy(self.log_topic, index, end)
        self.loads = [trio.Event() for _ in self.indexes]
        await self._crash(self.coordinator.id, *self.coordinators)
        for index in self.indexes:
            await self.commit(self.log_topic, index)
        await self.settle(*range(self.cluster.size))

    async def _crash(self, dead: int, *concerned: int) -> None:
        """A machine dies and returns; these brokers know of it."""
        await self.cluster.crash(dead)
        await self.cluster.expire_session(dead)
        await self.settle(*(number for number in concerned if number != dead))
        await self.cluster.restart(dead)
        if dead in self.coordinators:
            self._drive(self.cluster.broker(dead))
        again = self.cluster.broker(dead).actions
        await again.register()
        await again.apply_metadata()
        await again.heartbeat()
        await self.settle(*concerned)

    async def settle(self, *concerned: int) -> None:
        """Have these brokers apply the metadata."""
        log, brokers = self.cluster.controller.log, [self.cluster.broker(number) for number in concerned]
        for _ in range(MOST_ROUNDS):
            await wait_all_tasks_blocked()
            behind = [broker for broker in brokers if broker.metadata.image.offset < log.end_offset]
            if not behind:
                return
            for broker in behind:
                await broker.actions.apply_metadata()
        raise AssertionError("the cluster does not come to rest")

    async def _operate(self, request: Any) -> Any:
        return await ask_at(self.cluster, self.cluster.controller.address, request)
