"""Replicas move, join the ISR, and lead by an operator's will."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Self

import attrs

from tidegauge.spec.administration.requests import AdministrationAction, Request, indices, replica_lists
from tidegauge.spec.administration.rules import AdministrationRules
from tidegauge.spec.administration.state import NONE, Error, State
from tidegauge.spec.kernel.evolving import evolve


@attrs.frozen
class Reassign(Request):
    """A partition is to move to other brokers; `keeps_factor`: to as many as it has."""

    bounded_as: ClassVar[str] = "Reassign"

    topic: int
    index: int
    target: tuple[int, ...]
    keeps_factor: bool = False

    @classmethod
    def candidates(cls, machine: AdministrationRules, state: State) -> Iterable[Self]:
        return [
            cls(name, index, target, keeps_factor)
            for name in range(machine.names)
            for index in indices(machine)
            for target in replica_lists(machine)
            for keeps_factor in ((False, True) if machine.brokers not in target else (False,))
        ]

    def error(self, machine: AdministrationRules, state: State) -> Error:
        partition = state.partition(self.topic, self.index)
        if partition is None:
            return Error.UNKNOWN_TOPIC_OR_PARTITION
        if error := machine.assignment_error(state, self.target):
            return error
        if self.keeps_factor and len(self.target) != len(partition.target):
            return Error.INVALID_REPLICATION_FACTOR
        return Error.NONE

    def effect(self, machine: AdministrationRules, state: State) -> State:
        topic, old = state.topics[self.topic], state.partition(self.topic, self.index)
        assert topic is not None
        assert old is not None
        moved = machine.completed(machine.reassigned(old, self.target))
        after = state.with_partition(self.topic, self.index, machine.led(state, topic, old, moved))
        return after.after(self.bounded_as)


@attrs.frozen
class CancelReassignment(Request):
    """A partition is to stay where it was."""

    topic: int
    index: int

    @classmethod
    def candidates(cls, machine: AdministrationRules, state: State) -> Iterable[Self]:
        return [cls(name, index) for name in range(machine.names) for index in indices(machine)]

    def error(self, machine: AdministrationRules, state: State) -> Error:
        topic, partition = state.topics[self.topic], state.partition(self.topic, self.index)
        if topic is None or partition is None:
            return Error.UNKNOWN_TOPIC_OR_PARTITION
        if not partition.is_reassigned:
            return Error.NO_REASSIGNMENT_IN_PROGRESS
        return Error.NONE if machine.may_cancel(state, topic, partition) else Error.INVALID_REPLICA_ASSIGNMENT

    def effect(self, machine: AdministrationRules, state: State) -> State:
        topic, old = state.topics[self.topic], state.partition(self.topic, self.index)
        assert topic is not None
        assert old is not None
        kept = tuple(broker for broker in old.replicas if broker not in old.adding)
        cancelled = machine.led(state, topic, old, machine.only_on(old, kept))
        return state.with_partition(self.topic, self.index, cancelled)


@attrs.frozen
class JoinIsr(AdministrationAction):
    """A live replica has caught up, and its leader has it join the ISR."""

    topic: int
    index: int
    broker: int

    @classmethod
    def candidates(cls, machine: AdministrationRules, state: State) -> Iterable[Self]:
        return [
            cls(name, index, broker)
            for name, topic in enumerate(state.topics)
            if topic is not None
            for index in range(len(topic.partitions))
            for broker in range(machine.brokers)
        ]

    def guard(self, machine: AdministrationRules, state: State) -> str:
        partition = state.partition(self.topic, self.index)
        if partition is None or partition.leader == NONE or self.broker not in partition.replicas:
            return "nobody asks for that"
        if self.broker in partition.isr or not state.is_live[self.broker]:
            return "it is in sync, or down"
        return ""

    def effect(self, machine: AdministrationRules, state: State) -> State:
        topic, old = state.topics[self.topic], state.partition(self.topic, self.index)
        assert topic is not None
        assert old is not None
        isr = old.isr | {self.broker}
        new = evolve(old, isr=isr, elr=machine.elr_after(state, topic, old, isr, old.elr))
        return state.with_partition(self.topic, self.index, machine.led(state, topic, old, machine.completed(new)))


@attrs.frozen
class ElectPreferred(Request):
    """An operator wants the first of the replica list to lead (KIP-183)."""

    topic: int
    index: int

    @classmethod
    def candidates(cls, machine: AdministrationRules, state: State) -> Iterable[Self]:
        return [cls(name, index) for name in range(machine.names) for index in indices(machine)]

    def error(self, machine: AdministrationRules, state: State) -> Error:
        partition = state.partition(self.topic, self.index)
        if partition is None:
            return Error.UNKNOWN_TOPIC_OR_PARTITION
        if partition.leader == partition.replicas[0]:
            return Error.ELECTION_NOT_NEEDED
        return Error.NONE if machine.may_prefer(partition) else Error.PREFERRED_LEADER_NOT_AVAILABLE

    def effect(self, machine: AdministrationRules, state: State) -> State:
        topic, old = state.topics[self.topic], state.partition(self.topic, self.index)
        assert topic is not None
        assert old is not None
        preferred = old.replicas[0]
        new = evolve(old, leader=preferred, last_known_leader=preferred)
        return state.with_partition(self.topic, self.index, machine.led(state, topic, old, new))


@attrs.frozen
class ElectUncleanly(Request):
    """An operator prefers a leader that may lack committed records to none (KIP-460)."""

    topic: int
    index: int

    @classmethod
    def candidates(cls, machine: AdministrationRules, state: State) -> Iterable[Self]:
        return [cls(name, index) for name in range(machine.names) for index in indices(machine)]

    def error(self, machine: AdministrationRules, state: State) -> Error:
        partition = state.partition(self.topic, self.index)
        if partition is None:
            return Error.UNKNOWN_TOPIC_OR_PARTITION
        if not machine.may_elect_uncleanly(partition):
            return Error.ELECTION_NOT_NEEDED
        is_one_live = any(map(state.is_live.__getitem__, partition.replicas))
        return Error.NONE if is_one_live else Error.ELIGIBLE_LEADERS_NOT_AVAILABLE

    def effect(self, machine: AdministrationRules, state: State) -> State:
        topic, old = state.topics[self.topic], state.partition(self.topic, self.index)
        assert topic is not None
        assert old is not None
        led = machine.led(state, topic, old, old, is_unclean_allowed=True)
        return state.with_partition(self.topic, self.index, led)
