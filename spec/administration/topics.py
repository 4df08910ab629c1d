"""Topics are created, checked, deleted, and get more partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, Self

import attrs

from tidegauge.spec.administration.requests import OUT_OF_BOUNDS, Request, replica_lists
from tidegauge.spec.administration.rules import AdministrationRules
from tidegauge.spec.administration.settings import MIN_INSYNC, POLICY, RETENTION, UNCLEAN, Kind, Resource
from tidegauge.spec.administration.state import NONE, Error, Settings, State, Topic
from tidegauge.spec.kernel.evolving import evolve


@attrs.frozen
class CreateTopic(Request):
    """A topic is created on these brokers; `is_spread`: the request gives numbers, and the controller chooses them."""

    bounded_as: ClassVar[str] = "CreateTopic"

    topic: int
    assignments: tuple[tuple[int, ...], ...]
    settings: Settings = ()
    is_spread: bool = False

    @classmethod
    def candidates(cls, machine: AdministrationRules, state: State) -> Iterable[Self]:
        lists = list(replica_lists(machine))
        most = tuple(range(min(machine.brokers, machine.factor)))
        for name in range(machine.names):
            yield cls(name, ())
            for replicas in lists:
                yield cls(name, (replicas,))
                if replicas and all(broker < machine.brokers and state.is_live[broker] for broker in replicas):
                    yield cls(name, (replicas,), is_spread=len(set(replicas)) == len(replicas))
            if machine.max_partitions > 1:
                first = lists[0]
                yield from (cls(name, (first, other)) for other in lists)
            for setting in machine.settings:
                yield from (cls(name, (most,), settings) for settings in settings_of_new(setting))

    def error(self, machine: AdministrationRules, state: State) -> Error:
        if state.topics[self.topic] is not None:
            return Error.TOPIC_ALREADY_EXISTS
        unknown = Resource(Kind.TOPIC, NONE)
        wrong = machine.settings_error(state, unknown, self.settings)
        if wrong not in (Error.NONE, Error.UNKNOWN_TOPIC_OR_PARTITION):
            return wrong
        if not self.assignments:
            return Error.INVALID_PARTITIONS
        return machine.assignments_error(state, self.assignments, len(self.assignments[0]))

    def guard(self, machine: AdministrationRules, state: State) -> str:
        found = super().guard(machine, state)
        placed = all(map(state.is_live.__getitem__, self.assignments[0])) if not found and self.is_spread else True
        return found if placed else "the controller chooses live brokers"

    def effect(self, machine: AdministrationRules, state: State) -> State:
        partitions = tuple(machine.new_partition(state, replicas) for replicas in self.assignments)
        topic = Topic(machine.next_id(state), partitions, self.settings)
        return evolve(state.with_topic(self.topic, topic), created=state.created + 1).after(self.bounded_as)


def settings_of_new(setting: str) -> Iterator[Settings]:
    """Those with which a topic is created, one that is wrong and one that no topic has among them."""
    values = {MIN_INSYNC: ("2", "0"), UNCLEAN: ("true", "yes"), POLICY: ("compact", "keep"), RETENTION: ("5", "-2")}
    yield from (((setting, value),) for value in values.get(setting, ("1",)))
    yield (("no.setting", "1"),)


@attrs.frozen
class CheckTopic(Request):
    """Creation by numbers, which is only checked (`validate_only`)."""

    topic: int
    partitions: int
    factor: int

    @classmethod
    def candidates(cls, machine: AdministrationRules, state: State) -> Iterable[Self]:
        numbers = [(1, factor) for factor in range(machine.brokers + 2)]
        return [cls(name, *two) for name in range(machine.names) for two in [*numbers, (0, 1), (2, 1), (0, 0)]]

    def error(self, machine: AdministrationRules, state: State) -> Error:
        if state.topics[self.topic] is not None:
            return Error.TOPIC_ALREADY_EXISTS
        if self.partitions < 1 <= self.factor:
            return Error.INVALID_PARTITIONS
        return Error.NONE if 0 < self.factor <= sum(state.is_live) else Error.INVALID_REPLICATION_FACTOR

    def effect(self, machine: AdministrationRules, state: State) -> State:
        return state


@attrs.frozen
class DeleteTopic(Request):
    """A topic is deleted, whatever happens to it."""

    bounded_as: ClassVar[str] = "DeleteTopic"

    topic: int

    @classmethod
    def candidates(cls, machine: AdministrationRules, state: State) -> Iterable[Self]:
        return [cls(name) for name in range(machine.names)]

    def error(self, machine: AdministrationRules, state: State) -> Error:
        return Error.NONE if machine.may_delete(state.topics[self.topic]) else Error.UNKNOWN_TOPIC_OR_PARTITION

    def effect(self, machine: AdministrationRules, state: State) -> State:
        return state.with_topic(self.topic, None).after(self.bounded_as)


@attrs.frozen
class Grow(Request):
    """A topic gets more partitions, on the brokers that the request names, or, `()`, wherever; that is only checked."""

    bounded_as: ClassVar[str] = "Grow"

    topic: int
    count: int
    assignments: tuple[tuple[int, ...], ...]
    is_checked: bool = False
    """`validate_only`."""

    @classmethod
    def candidates(cls, machine: AdministrationRules, state: State) -> Iterable[Self]:
        for name, topic in enumerate(state.topics):
            present = 1 if topic is None else len(topic.partitions)
            for count in range(present, machine.max_partitions + 1):
                yield cls(name, count, (), is_checked=True)
                for replicas in replica_lists(machine):
                    yield cls(name, count, (replicas,))
                    yield cls(name, count, (replicas,), is_checked=True)

    def error(self, machine: AdministrationRules, state: State) -> Error:
        topic = state.topics[self.topic]
        if topic is None:
            return Error.UNKNOWN_TOPIC_OR_PARTITION
        if error := machine.growth_error(topic, self.count):
            return error
        factor = len(topic.partitions[0].replicas)
        if not self.assignments:
            return Error.NONE if factor <= sum(state.is_live) else Error.INVALID_REPLICATION_FACTOR
        if len(self.assignments) != self.count - len(topic.partitions):
            return Error.INVALID_REPLICA_ASSIGNMENT
        return machine.assignments_error(state, self.assignments, factor)

    def guard(self, machine: AdministrationRules, state: State) -> str:
        found = super().guard(machine, state)
        return "" if self.is_checked and found == OUT_OF_BOUNDS else found

    def effect(self, machine: AdministrationRules, state: State) -> State:
        topic = state.topics[self.topic]
        assert topic is not None
        if self.is_checked:
            return state
        more = tuple(machine.new_partition(state, replicas) for replicas in self.assignments)
        return state.with_topic(self.topic, machine.grown(topic, more)).after(self.bounded_as)
