"""The cores beside the machine of reads: consumers ask replicas for records, and for the latest offset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.records.lazy import in_memory
from tidegauge.model_tests.harness.cores import steps
from tidegauge.model_tests.harness.cores.message_parts import Additions
from tidegauge.model_tests.harness.cores.refusals import REFUSALS
from tidegauge.model_tests.harness.cores.replication import CORRECT, NOTHING, Cores, Roles
from tidegauge.model_tests.harness.cores.steps import ReplicationCores
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.near_misses import epochs_around
from tidegauge.spec.replication import state as spec
from tidegauge.spec.replication.extensions.reads import (
    Consume,
    Consumer,
    LearnLeader,
    ListLatest,
    ReadAt,
    Reads,
    with_consumer,
)
from tidegauge.spec.replication.machine import Replication

EVERYTHING: Final = 1 << 30
"""More bytes than any log here has."""


def read(cores: Cores, broker: int, offset: int, leader_epoch: int) -> spec.Log | ErrorCode:
    """What a replica shows to a consumer that may read at followers."""
    response = cores.replica(broker).read(offset, EVERYTHING, leader_epoch, only_leader=False)
    if response.error is not ErrorCode.none:
        return response.error
    return cores.brokers[broker].log.decode(in_memory(response.records))


def refuse_to_show(cores: ReadsCores, action: Consume | ReadAt) -> ErrorCode | None:
    """An empty response has no error, and tells the consumer nothing."""
    if cores.brokers[action.broker].replica is None:
        return None
    offset, leader_epoch = asked(action, cores.consumers)
    found = read(cores, action.broker, offset, leader_epoch)
    assert isinstance(found, ErrorCode) or not found, f"broker {action.broker} shows {found}"
    return found if isinstance(found, ErrorCode) else ErrorCode.none


def asked(action: Consume | ReadAt, consumers: Sequence[Consumer]) -> tuple[int, int]:
    """The offset, and the leader epoch that the consumer names."""
    if isinstance(action, ReadAt):
        return action.offset, action.leader_epoch
    consumer = consumers[action.consumer]
    return len(consumer.shown), consumer.leader_epoch


def refuse_to_list(cores: ReadsCores, action: ListLatest) -> ErrorCode | None:
    if cores.brokers[action.broker].replica is None:
        return None
    latest = cores.replica(action.broker).latest_offset(cores.consumers[action.consumer].leader_epoch)
    return latest if isinstance(latest, ErrorCode) else ErrorCode.none


REFUSED: Final = Steps[Any, [], ErrorCode | None](
    on(Consume, refuse_to_show),
    on(ReadAt, refuse_to_show),
    on(ListLatest, refuse_to_list),
    over=REFUSALS,
)


class ReadsCores(ReplicationCores):
    """Brokers, controller and messages, and consumers that read at any broker."""

    refusals = REFUSED
    has_begun = False
    """Whether anything has happened: before, a walk has nothing to blame."""

    def __init__(self, machine: Replication, roles: Roles = CORRECT, additions: Additions = NOTHING) -> None:
        self.consumers = [Consumer()] * Reads.of(machine).consumers
        super().__init__(machine, roles, additions)

    def abstraction(self, state: spec.State) -> spec.State:
        seen = super().abstraction(state)
        for number, consumer in enumerate(self.consumers):
            seen = with_consumer(seen, number, consumer)
        return seen

    def step(self, action: Action) -> None:
        self.has_begun = True
        STEPS.perform(self, action)

    def differences(self, state: spec.State) -> Iterator[Change]:
        """What one replica, each in its turn, tells a client otherwise that asks what no action asks."""
        broker = self.now_ms % len(self.brokers)
        if self.brokers[broker].replica is None or not self.has_begun:
            return
        replica, reads = state.replicas[broker], Reads.of(self.machine)
        for leader_epoch in epochs_around(replica.leader_epoch):
            error = reads.latest_error(replica, broker, leader_epoch)
            error = spec.Error.OK if error is spec.Error.OFFSET_NOT_AVAILABLE else error
            yield from self._told_otherwise(broker, replica, leader_epoch, error)
        if replica.leader_epoch >= 0:
            yield from self._shown_otherwise(broker, replica)

    def _told_otherwise(
        self, broker: int, replica: spec.Replica, leader_epoch: int, error: spec.Error
    ) -> Iterator[Change]:
        """Where the log begins, and where its epochs end: the leader alone says."""
        core, path = self.replica(broker), f"replicas[{broker}] in epoch {leader_epoch}"
        begins = core.earliest_offset(leader_epoch)
        begins = begins.value if isinstance(begins, ErrorCode) else begins
        if begins != (error.value or 0):
            yield Change(f"{path}: earliest", error.value or 0, begins)
        for epoch in range(-1, replica.leader_epoch + 2):
            ends = core.end_offset_for_leader_epoch(epoch, leader_epoch)
            found = ends.value if isinstance(ends, ErrorCode) else tuple(ends)
            wanted = error.value or self.machine.end_offset_for_epoch(replica.log, epoch)
            if found != wanted:
                yield Change(f"{path}: end of epoch {epoch}", wanted, found)

    def _shown_otherwise(self, broker: int, replica: spec.Replica) -> Iterator[Change]:
        """What is shown at each offset where there is room for so many records, the first of which may need it too."""
        core, log, reads = self.replica(broker), self.brokers[broker].log, Reads.of(self.machine)
        for offset in range(len(replica.log) + 2):
            error = reads.read_error(replica, broker, offset, replica.leader_epoch)
            for room, at_least_one in ((0, False), (0, True), (1, False), (2, False)):
                response = core.read(offset, log.bytes_of(room), at_least_one=at_least_one, only_leader=False)
                found = response.error.value or log.decode(in_memory(response.records))
                wanted = error.value or reads.shown(replica, offset)[: max(room, at_least_one)]
                if found != wanted:
                    yield Change(f"replicas[{broker}]: {room} records from {offset}", wanted, found)


def learn_leader(cores: ReadsCores, action: LearnLeader) -> None:
    consumer = cores.consumers[action.consumer]
    leader_epoch = cores.replica(action.broker).leader_epoch
    cores.consumers[action.consumer] = attrs.evolve(consumer, leader_epoch=leader_epoch)


def consume(cores: ReadsCores, action: Consume) -> None:
    consumer = cores.consumers[action.consumer]
    records = read(cores, action.broker, len(consumer.shown), consumer.leader_epoch)
    assert not isinstance(records, ErrorCode), f"the read is refused: {records.name}"
    cores.consumers[action.consumer] = attrs.evolve(consumer, shown=consumer.shown + records)


def list_latest(cores: ReadsCores, action: ListLatest) -> None:
    consumer = cores.consumers[action.consumer]
    latest = cores.replica(action.broker).latest_offset(consumer.leader_epoch)
    assert not isinstance(latest, ErrorCode), f"the latest offset is refused: {latest.name}"
    cores.consumers[action.consumer] = attrs.evolve(consumer, told=latest)


STEPS: Final = Steps[ReadsCores, [], None](
    on(LearnLeader, learn_leader),
    on(Consume, consume),
    on(ListLatest, list_latest),
    over=steps.STEPS,
)
