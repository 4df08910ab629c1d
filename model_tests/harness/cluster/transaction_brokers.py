"""The brokers of a lockstep of transactions: who leads what, what of it is replicated, and what a coordinator does.

Theory of operation
-------------------
Each partition has brokers of its own, and so has the transaction log, of which each transactional id has a partition:
one where all is committed at once, two where leaders change. A broker may then die without anybody's else part in it.
Followers fetch when they are told to; so a record is committed when the action says so. A leader changes in one of two
ways: it crashes, and returns with what its disk has kept; or the other replica, which has fetched as much as is to be
kept and has not said so, is elected in its place.

What a coordinator does by itself waits until the action that does it: it loads a partition of its log when it is told
to, and the record that completes a transaction is refused until then, as if the log had failed.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any, Final

import trio
from trio.testing import wait_all_tasks_blocked

from tidegauge.impl.client import requests, topic_requests
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.coordinators.hashing import partition_for
from tidegauge.impl.coordinators.transactions.coordinator import TransactionCoordinator
from tidegauge.impl.coordinators.transactions.log_format import decode_value
from tidegauge.impl.coordinators.transactions.messages import Append
from tidegauge.impl.coordinators.transactions.metadata import TransactionMetadata
from tidegauge.impl.metadata.topic_names import TRANSACTION_STATE
from tidegauge.impl.ports.simulated_network import Frame
from tidegauge.impl.records.batches import headers
from tidegauge.impl.records.payload import decode_records
from tidegauge.impl.server.broker.coordinator_log import Led
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.server.broker.transactions import Logged
from tidegauge.impl.server.broker_server import Broker
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.model_tests.harness.cluster.guest_cluster import GuestCluster
from tidegauge.model_tests.harness.cluster.in_flight import BROKER, limited
from tidegauge.model_tests.harness.cluster.operator_requests import ask_at
from tidegauge.model_tests.harness.cluster.remembering import remembering
from tidegauge.model_tests.harness.cores.transaction_roles import TransactionRoles
from tidegauge.spec.transactions.machine import Transactions

TOPIC: Final = "records"
SEED: Final = 1
MOST_ROUNDS: Final = 20
MUCH: Final = 1 << 20


def is_marker(frame: Frame) -> bool:
    """Whether the frame is a coordinator's marker; what an operator sends arrives at once."""
    return frame.is_request and frame.api_key == ApiKey.WRITE_TXN_MARKERS and frame.source.startswith(BROKER)


def is_fetch(frame: Frame) -> bool:
    """Whether a follower asks its leader."""
    return frame.is_request and frame.api_key == ApiKey.FETCH and frame.source.startswith(BROKER)


class TransactionBrokers:
    """A cluster with a topic of a machine's partitions, and a transaction log with a partition for each of its ids."""

    def __init__(self, machine: Transactions, roles: TransactionRoles) -> None:
        self.rules = roles.rules(max_epoch=machine.max_epoch)
        self.names = names(machine.transactional_ids)
        of_log, of_partition = 1 + machine.writes_in_two_steps, 1 + machine.appends_in_two_steps
        self.coordinators = list(range(of_log))
        firsts = range(of_log, of_log + machine.partitions * of_partition, of_partition)
        self.places = [list(range(first, first + of_partition)) for first in firsts]
        self.loads = [trio.Event() for _ in self.names]
        """Each is set when the coordinator of the id is told to load its partition of the log."""
        self.completing = ""
        """The id whose transaction is to be complete now."""
        self._hosted = GuestCluster(SEED, partial(self._make, roles), self._prepare)
        self.run, self.cluster, self.nursery = self._hosted.run, self._hosted.cluster, self._hosted.nursery
        self.asked = self._hosted.asked

    def _make(self, roles: TransactionRoles) -> Cluster:
        brokers = len(self.coordinators) + sum(map(len, self.places))
        replica = remembering(roles.replica, roles.producers)
        return Cluster(brokers, SEED, timers=False, trace=False, replica_class=replica)

    async def _prepare(self, cluster: Cluster) -> None:
        await cluster.create_topic(TOPIC, assignments=self.places)
        await cluster.create_topic(TRANSACTION_STATE, assignments=[self.coordinators] * len(self.names))
        await wait_all_tasks_blocked()
        for number in self.coordinators:
            self._drive(cluster.broker(number))
        cluster.network.hold(is_marker)

    def _drive(self, broker: Broker) -> None:
        """From now on this coordinator loads and completes when it is told to; its rules are the machine's."""
        transactions = broker.transactions
        transactions.core().rules = self.rules
        load, complete = transactions.log._load, transactions._append_in_the_end

        async def load_when_told(partition: Partition, led: Led[Logged]) -> None:
            await self.loads[led.index].wait()
            await load(partition, led)

        async def complete_when_told(append: Append[None]) -> None:
            if append.transactional_id == self.completing:
                await complete(append)
            else:
                transactions.core().failed(append)

        transactions.log._load = load_when_told  # type: ignore[method-assign]
        transactions._append_in_the_end = complete_when_told  # type: ignore[method-assign]

    def close(self) -> None:
        """Stop the cluster."""
        self._hosted.close()

    # --- who leads -----------------------------------------------------------------------------------------------

    def hosted(self, broker: int, topic: str, index: int) -> Partition:
        hosted = self.cluster.broker(broker).replicas.get(topic, index)
        assert hosted is not None, "each partition stays with its brokers"
        return hosted

    def leader(self, place: int) -> Broker:
        """The broker that leads a partition."""
        return self.cluster.broker(self.cluster.leader(TOPIC, place))

    def led(self, place: int) -> Partition:
        """A partition at its leader."""
        return self.hosted(self.leader(place).id, TOPIC, place)

    @property
    def coordinator(self) -> Broker:
        """The broker that leads the transaction log."""
        return self.cluster.broker(self.cluster.leader(TRANSACTION_STATE, 0))

    @property
    def core(self) -> TransactionCoordinator:
        """What coordinates."""
        return self.coordinator.transactions.core()

    def logged(self, number: int) -> TransactionMetadata | None:
        """The last committed record of an id in the transaction log."""
        hosted, found = self.hosted(self.coordinator.id, TRANSACTION_STATE, number), None
        committed = hosted.replica.high_watermark
        batches = hosted.log.read(0, MUCH, committed) if committed else b""
        for position, _ in headers(batches):
            for record in decode_records(batches, position):
                found = decode_value(record.value or b"")
        return found

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
                is_level = follower.log_end_offset == follower.high_watermark == ahead.log_end_offset
                if is_level and number in self.cluster.isr(topic, index):
                    break
            else:
                assert number == leader, f"broker {number} does not catch up with {topic}-{index}"
        await wait_all_tasks_blocked()

    def _brokers_of(self, topic: str, index: int) -> Collection[int]:
        return self.coordinators if topic == TRANSACTION_STATE else self.places[index]

    def _other(self, topic: str, index: int) -> int:
        leader = self.cluster.leader(topic, index)
        return next(number for number in self._brokers_of(topic, index) if number != leader)

    async def copy(self, topic: str, index: int, end: int) -> None:
        """Have the follower fetch up to an offset; its leader is not told."""
        follower = self._other(topic, index)
        log = self.hosted(follower, topic, index).log
        if log.log_end_offset == end:
            return
        ahead = self.hosted(self.cluster.leader(topic, index), topic, index).log
        size = len(ahead.read(log.log_end_offset, MUCH, end)) if log.log_end_offset < end else 1
        hold = self.cluster.network.hold(is_fetch)
        self.cluster.broker(follower).actions.send_fetch(topic, index)
        await wait_all_tasks_blocked()
        (frame,) = filter(is_fetch, self.cluster.network.in_flight)
        self.cluster.network.unhold(hold)
        self.cluster.network.release(limited(frame, size))
        await wait_all_tasks_blocked()
        assert log.log_end_offset == end, f"{log.log_end_offset} is not {end}"

    # --- leaders that change -------------------------------------------------------------------------------------

    async def elect(self, place: int, kept: int) -> None:
        """The other replica leads a partition, with so many entries; the leader gives way."""
        await self.copy(TOPIC, place, kept)
        follower = self._other(TOPIC, place)
        order = sorted(self.places[place], key=lambda number: number != follower)
        topic_requests.check(await self._operate(topic_requests.reassign(TOPIC, place, order)), "the new order")
        requests.check_elected(await self._operate(requests.elect_leaders(TOPIC, place, unclean=False)))
        await self.settle(*self.coordinators, *self.places[place])

    async def crash_leader(self, place: int) -> None:
        """The leader's machine dies, with what is not committed; it returns, and follows."""
        await self.copy(TOPIC, place, self.led(place).replica.high_watermark)
        await self._crash(self.leader(place).id, *self.coordinators, *self.places[place])
        await self.commit(TOPIC, place)

    async def fail_over(self, *, kept: bool) -> None:
        """The coordinator's machine dies; another one leads the log, where the last records are, if `kept`."""
        if kept:
            for index in range(len(self.names)):
                end = self.hosted(self.coordinator.id, TRANSACTION_STATE, index).log.log_end_offset
                await self.copy(TRANSACTION_STATE, index, end)
        self.loads = [trio.Event() for _ in self.names]
        await self._crash(self.coordinator.id, *self.coordinators)
        for index in range(len(self.names)):
            await self.commit(TRANSACTION_STATE, index)
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


def names(count: int) -> list[str]:
    """Transactional ids, each in a partition of the log of its own: the nth in the nth."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < count:
        name = f"id-{number}"
        found.setdefault(partition_for(name, count), name)
        number += 1
    return [found[index] for index in range(count)]
