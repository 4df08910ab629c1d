"""The brokers of a lockstep of transactions: who leads what, what of it is replicated, and what a coordinator does.

Theory of operation
-------------------
Each partition has brokers of its own, and so has the transaction log, of which each transactional id has a partition:
one where all is committed at once, two where leaders change. A broker may then die without anybody's else part in it.
A leader changes in one of two ways: it crashes, and returns with what its disk has kept; or the other replica, which
has fetched as much as is to be kept and has not said so, is elected in its place.

The record that completes a transaction is refused until the action that writes it, as if the log had failed.

Where a group consumes, the last partition is that of `__consumer_offsets`, and its leader the group's coordinator.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

import attrs
from kio.schema.errors import ErrorCode
from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest
from trio.testing import wait_all_tasks_blocked

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.coordinators.hashing import partition_for
from tidegauge.impl.coordinators.transactions.coordinator import CoordinatedId, TransactionCoordinator
from tidegauge.impl.coordinators.transactions.log_format import decode_value
from tidegauge.impl.coordinators.transactions.messages import Append
from tidegauge.impl.coordinators.transactions.metadata import TopicPartition, TransactionMetadata
from tidegauge.impl.metadata.features import TRANSACTION_VERSION
from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidegauge.impl.ports.simulated_network import Frame
from tidegauge.impl.records.batches import headers
from tidegauge.impl.records.payload import decode_records
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.server.broker_server import Broker
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.impl.wire.primitives import i8, i16, millis
from tidegauge.model_tests.harness.cluster.coordinator_brokers import MUCH, SEED, CoordinatorBrokers
from tidegauge.model_tests.harness.cluster.in_flight import BROKER
from tidegauge.model_tests.harness.cluster.remembering import remembering
from tidegauge.model_tests.harness.cores.transaction_abstraction import SET_BACK_MS
from tidegauge.model_tests.harness.cores.transaction_roles import TransactionRoles
from tidegauge.spec.transactions.machine import Transactions

TOPIC: Final = "records"
INPUT: Final = "input"
"""What a group consumes: nobody reads it here."""
SAFE_DOWNGRADE: Final = i8(2)
CONFIG: Final = {
    "transaction.two.phase.commit.enable": True,
    "unstable.api.versions.enable": True,
    "transactional.id.expiration.ms": 1_000,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.commit.timeout.ms": 1_000_000_000,
}


def is_marker(frame: Frame) -> bool:
    """Whether the frame is a coordinator's marker; what an operator sends arrives at once."""
    return frame.is_request and frame.api_key == ApiKey.WRITE_TXN_MARKERS and frame.source.startswith(BROKER)


class TransactionBrokers(CoordinatorBrokers):
    """A cluster with a topic of a machine's partitions, and a transaction log with a partition for each of its ids."""

    def __init__(self, machine: Transactions, roles: TransactionRoles) -> None:
        self.rules = roles.rules(max_epoch=machine.max_epoch)
        self.names = names(machine.transactional_ids)
        self.offsets_place = machine.offsets_partition
        self.log_version = machine.log_version
        of_log, of_partition = 1 + machine.writes_in_two_steps, 1 + machine.appends_in_two_steps
        firsts = range(of_log, of_log + machine.partitions * of_partition, of_partition)
        self.places = [list(range(first, first + of_partition)) for first in firsts]
        self.completing = ""
        """The id whose transaction is to be complete now."""
        self.due: set[str] = set()
        """The ids whose transactions the coordinator has wanted to complete."""
        self.core_class = roles.coordinator
        super().__init__(TRANSACTION_STATE, len(self.names), of_log, partial(self._make, roles))

    def _make(self, roles: TransactionRoles) -> Cluster:
        brokers = len(self.coordinators) + sum(map(len, self.places))
        replica = remembering(roles.replica, roles.producers)
        return Cluster(brokers, SEED, CONFIG, timers=False, trace=False, replica_class=replica)

    async def _prepare(self, cluster: Cluster) -> None:
        if not self.log_version:
            await lower_transaction_version(cluster)
        if self.offsets_place in range(len(self.places)):
            await cluster.create_topic(INPUT, assignments=[self.coordinators])
            await cluster.create_topic(CONSUMER_OFFSETS, assignments=self.places[self.offsets_place :])
        if records := self.places[: self.offsets_place] if self.offsets_place >= 0 else self.places:
            await cluster.create_topic(TOPIC, assignments=records)
        await cluster.create_topic(TRANSACTION_STATE, assignments=[self.coordinators] * len(self.names))
        await wait_all_tasks_blocked()
        for number in self.coordinators:
            self._drive(cluster.broker(number))
        cluster.network.hold(is_marker)

    def _drive(self, broker: Broker) -> None:
        """From now on this coordinator loads and completes when it is told to; its rules are the machine's."""
        transactions = broker.transactions
        transactions.core().rules = self.rules
        transactions.core().__class__ = self.core_class
        complete = transactions._append_in_the_end

        async def complete_when_told(append: Append[None]) -> None:
            if append.transactional_id == self.completing:
                await complete(append)
            else:
                self.due.add(append.transactional_id)
                transactions.core().failed(append)

        self._load_when_told(transactions.log)
        transactions._append_in_the_end = complete_when_told  # type: ignore[method-assign]

    # --- who leads -----------------------------------------------------------------------------------------------

    def located(self, place: int) -> TopicPartition:
        """A partition of the specification."""
        return TopicPartition(CONSUMER_OFFSETS, 0) if place == self.offsets_place else TopicPartition(TOPIC, place)

    def place_of(self, partition: TopicPartition) -> int:
        """A partition as the specification numbers it."""
        return self.offsets_place if partition.topic == CONSUMER_OFFSETS else partition.partition

    def leader(self, place: int) -> Broker:
        """The broker that leads a partition."""
        return self.cluster.broker(self.cluster.leader(*self.located(place)))

    def led(self, place: int) -> Partition:
        """A partition at its leader."""
        return self.hosted(self.leader(place).id, *self.located(place))

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
                found = None if record.value is None else decode_value(record.value)
        return found

    def _brokers_of(self, topic: str, index: int) -> Collection[int]:
        if topic == TRANSACTION_STATE:
            return self.coordinators
        return self.places[self.place_of(TopicPartition(topic, index))]

    def ends(self) -> dict[int, int]:
        """How much of the transaction log its coordinator has, by partition."""
        return {
            index: self.hosted(self.coordinator.id, TRANSACTION_STATE, index).log.log_end_offset
            for index in self.indexes
        }

    # --- leaders that change -------------------------------------------------------------------------------------

    def turn_clock_back(self) -> None:
        """The clocks of all that may coordinate are set back."""
        for number in self.coordinators:
            self.cluster.jump_clock(number, -SET_BACK_MS)

    @contextmanager
    def alone_at(self, number: int, time_ms: int) -> Iterator[None]:
        """Let the coordinator's clock say a time that no id but one knows to be late."""
        others = [found for name in self.names if name != self.names[number] and (found := self._id(name)) is not None]
        known = [one.cached for one in others]
        for one in others:
            if one.cached is not None:
                one.cached = attrs.evolve(one.cached, start_ms=time_ms, last_update_ms=time_ms)
        ahead_ms = time_ms - self.coordinator.clock.now_ms()
        self.cluster.jump_clock(self.coordinator.id, ahead_ms)
        yield
        self.cluster.jump_clock(self.coordinator.id, -ahead_ms)
        for one, cached in zip(others, known, strict=True):
            one.cached = cached

    def _id(self, name: str) -> CoordinatedId | None:
        return self.core.partitions[self.names.index(name)].ids.get(name)

    def known(self, number: int) -> TransactionMetadata:
        """What the coordinator knows of an id."""
        found = self._id(self.names[number])
        assert found is not None, "the guard has asked"
        assert found.cached is not None, "the guard has asked"
        return found.cached

    async def crash_leader(self, place: int) -> None:
        """The leader's machine dies, with what is not committed; it returns, and follows."""
        await self.copy(*self.located(place), self.led(place).replica.high_watermark)
        await self._crash(self.leader(place).id, *self.coordinators, *self.places[place])
        await self.commit(*self.located(place))


async def lower_transaction_version(cluster: Cluster) -> None:
    """Set the level of `transaction.version` to 0: the log has values of version 0."""
    update = FeatureUpdateKey(feature=TRANSACTION_VERSION, max_version_level=i16(0), upgrade_type=SAFE_DOWNGRADE)
    async with cluster.client() as client:
        response = await client.ask_any(UpdateFeaturesRequest(timeout=millis(1_000), feature_updates=(update,)))
    assert response.error_code is ErrorCode.none, response


def names(count: int) -> list[str]:
    """Transactional ids, each in a partition of the log of its own: the nth in the nth."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < count:
        name = f"id-{number}"
        found.setdefault(partition_for(name, count), name)
        number += 1
    return [found[index] for index in range(count)]
