"""What happens to brokers: fencing, restarts, removal by an operator; and the producer ids that they ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar, Self

import attrs

from tidegauge.spec.administration.requests import OUT_OF_BOUNDS, AdministrationAction, Request
from tidegauge.spec.administration.rules import AdministrationRules
from tidegauge.spec.administration.state import Error, Partition, State, Topic
from tidegauge.spec.kernel.evolving import evolve


@attrs.frozen
class AllocateBlock(Request):
    """A broker asks for producer ids, one that is not registered or an earlier process of one included."""

    broker: int
    is_last_process: bool = True

    @classmethod
    def candidates(cls, machine: AdministrationRules, state: State) -> Iterable[Self]:
        return [cls(0), cls(0, is_last_process=False), cls(machine.brokers), cls(machine.brokers, False)]

    def error(self, machine: AdministrationRules, state: State) -> Error:
        return machine.block_error(state, self.broker, is_last_process=self.is_last_process)

    def effect(self, machine: AdministrationRules, state: State) -> State:
        return evolve(state, blocks=state.blocks - 1)


@attrs.frozen
class Fence(AdministrationAction):
    """A broker's session expires."""

    bounded_as: ClassVar[str] = "Fence"

    broker: int

    @classmethod
    def candidates(cls, machine: AdministrationRules, state: State) -> Iterable[Self]:
        return [cls(broker) for broker in range(machine.brokers)]

    def guard(self, machine: AdministrationRules, state: State) -> str:
        if not state.is_live[self.broker]:
            return "it is fenced"
        return "" if machine.may_perturb(state, self.bounded_as) else OUT_OF_BOUNDS

    def effect(self, machine: AdministrationRules, state: State) -> State:
        return standing(machine, with_broker(state, self.broker), self.broker, machine.fenced).after(self.bounded_as)


@attrs.frozen
class Unfence(AdministrationAction):
    """A fenced broker sends a heartbeat."""

    broker: int

    @classmethod
    def candidates(cls, machine: AdministrationRules, state: State) -> Iterable[Self]:
        return [cls(broker) for broker in range(machine.brokers)]

    def guard(self, machine: AdministrationRules, state: State) -> str:
        if not state.is_registered[self.broker]:
            return "no such broker is known"
        return "it is live" if state.is_live[self.broker] else ""

    def effect(self, machine: AdministrationRules, state: State) -> State:
        return standing(machine, with_broker(state, self.broker, is_live=True), self.broker, unchanged)


@attrs.frozen
class Restart(AdministrationAction):
    """A new process of a broker registers, and may have lost what its log ended with."""

    bounded_as: ClassVar[str] = "Restart"

    broker: int

    @classmethod
    def candidates(cls, machine: AdministrationRules, state: State) -> Iterable[Self]:
        return [cls(broker) for broker in range(machine.brokers)]

    def guard(self, machine: AdministrationRules, state: State) -> str:
        if not state.is_registered[self.broker]:
            return "it was removed"
        return "" if machine.may_perturb(state, self.bounded_as) else OUT_OF_BOUNDS

    def effect(self, machine: AdministrationRules, state: State) -> State:
        after = standing(machine, with_broker(state, self.broker), self.broker, machine.restarted)
        return after.after(self.bounded_as)


@attrs.frozen
class Unregister(Request):
    """An operator removes a broker that is gone for good; its id stays in the replica lists."""

    bounded_as: ClassVar[str] = "Unregister"

    broker: int

    @classmethod
    def candidates(cls, machine: AdministrationRules, state: State) -> Iterable[Self]:
        return [cls(broker) for broker in range(machine.brokers + 1)]

    def error(self, machine: AdministrationRules, state: State) -> Error:
        return Error.NONE if state.is_known(self.broker) else Error.BROKER_ID_NOT_REGISTERED

    def effect(self, machine: AdministrationRules, state: State) -> State:
        gone = with_broker(state, self.broker, is_registered=False)
        return standing(machine, gone, self.broker, machine.removed).after(self.bounded_as)


@attrs.frozen
class Register(AdministrationAction):
    """A broker that was removed comes back."""

    broker: int

    @classmethod
    def candidates(cls, machine: AdministrationRules, state: State) -> Iterable[Self]:
        return [cls(broker) for broker in range(machine.brokers)]

    def guard(self, machine: AdministrationRules, state: State) -> str:
        return "it is registered" if state.is_registered[self.broker] else ""

    def effect(self, machine: AdministrationRules, state: State) -> State:
        return standing(machine, with_broker(state, self.broker), self.broker, machine.restarted)


def with_broker(state: State, broker: int, *, is_registered: bool = True, is_live: bool = False) -> State:
    """The same, with another standing of one broker."""
    registered, live = list(state.is_registered), list(state.is_live)
    registered[broker], live[broker] = is_registered, is_live
    return evolve(state, is_registered=tuple(registered), is_live=tuple(live))


def unchanged(state: State, topic: Topic, partition: Partition, broker: int) -> Partition:
    """What a broker's coming back means for a partition, before somebody is elected."""
    return partition


def standing(
    machine: AdministrationRules,
    state: State,
    broker: int,
    change: Callable[[State, Topic, Partition, int], Partition],
) -> State:
    """A broker's standing has changed: its partitions are changed, and led accordingly."""
    for name, topic in enumerate(state.topics):
        for index, old in enumerate(() if topic is None else topic.partitions):
            if topic is not None and broker in old.replicas:
                new = change(state, topic, old, broker)
                state = state.with_partition(name, index, machine.led(state, topic, old, new))
    return state
