"""A toy: a sender numbers its messages, a network may repeat them, and a store must keep each message once.

All that a machine needs is here: the specification, its bugs, cores with the same bugs, the binding, the registration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import ClassVar

import attrs

from tidegauge.model_tests.harness.lockstep.field_by_field import FieldByField
from tidegauge.model_tests.harness.registry import Registration, registered
from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.guarded import GuardedAction, GuardedMachine
from tidegauge.spec.kernel.machine import Action, Invariant
from tidegauge.spec.kernel.model import Model


@attrs.frozen
class Mail:
    """The state: messages are numbered from 0."""

    sent: int = 0
    on_the_way: tuple[int, ...] = ()
    stored: tuple[int, ...] = ()


class ToyAction(GuardedAction["Toy", Mail]):
    """One guard, which returns the reason when it is false, and one effect."""


@attrs.frozen
class Send(ToyAction):
    """The sender sends its next message, if it likes."""

    fair: ClassVar[bool] = False

    def guard(self, machine: Toy, state: Mail) -> str:
        return "" if state.sent < machine.max_messages else "all messages are sent"

    def effect(self, machine: Toy, state: Mail) -> Mail:
        return attrs.evolve(state, sent=state.sent + 1, on_the_way=(*state.on_the_way, state.sent))


@attrs.frozen
class Deliver(ToyAction):
    """A message arrives; if the network repeats it, it stays on its way."""

    message: int
    repeated: bool = False

    def guard(self, machine: Toy, state: Mail) -> str:
        return "" if self.message in state.on_the_way else f"message {self.message} is not on its way"

    def effect(self, machine: Toy, state: Mail) -> Mail:
        left = tuple(one for one in state.on_the_way if self.repeated or one != self.message)
        stored = (*state.stored, self.message) if machine.accepts(state, self.message) else state.stored
        return attrs.evolve(state, on_the_way=left, stored=stored)


@attrs.frozen
class Toy(GuardedMachine[Mail]):
    """The machine. Its constants are its fields, its rules are methods."""

    max_messages: int = 2
    action_types = (Send, Deliver)
    action_base = ToyAction
    invariants: ClassVar[Mapping[str, Invariant[Mail]]] = {
        "StoredOnce": lambda state: len(set(state.stored)) == len(state.stored)
    }

    def initial(self) -> Iterator[Mail]:
        yield Mail()

    def candidates(self, state: Mail) -> Iterator[ToyAction]:
        yield Send()
        yield from (Deliver(message, repeated) for message in state.on_the_way for repeated in (False, True))

    def accepts(self, state: Mail, message: int) -> bool:
        """The rule: the store keeps what it does not have."""
        return message not in state.stored

    @property
    def converges(self) -> Mapping[str, Invariant[Mail]]:
        return {"what is sent gets stored": lambda state: set(state.stored) == set(range(state.sent))}

    @property
    def sometimes(self) -> Mapping[str, Invariant[Mail]]:
        return {"all is stored": lambda state: len(state.stored) == self.max_messages}


@attrs.frozen
class ForgetfulToy(Toy):
    """The bug in the specification: one rule is overridden."""

    def accepts(self, state: Mail, message: int) -> bool:
        return True


FORGETFUL = Bug(
    name="toy_1",
    title="a store that forgets",
    reference="TOY-1",
    mechanism="The store does not look whether it has a message, and keeps the repeated one as well.",
    violates=("StoredOnce",),
    buggy=ForgetfulToy,
    model=Toy(max_messages=1),
)


@attrs.frozen
class LazyToy(Toy):
    """A bug by which nothing bad happens, and nothing good: what is not stored is delivered again and again."""

    def candidates(self, state: Mail) -> Iterator[ToyAction]:
        yield Send()
        yield from (Deliver(message, repeated=True) for message in state.on_the_way)

    def accepts(self, state: Mail, message: int) -> bool:
        return False


LAZY = Bug(
    name="toy_2",
    title="a store that keeps nothing",
    reference="TOY-2",
    mechanism="The store takes every message for one that it has.",
    violates=("what is sent gets stored",),
    buggy=LazyToy,
    model=Toy(max_messages=1),
)


class Store:
    """The core."""

    def __init__(self) -> None:
        self.messages: list[int] = []

    def has(self, message: int) -> bool:
        return message in self.messages

    def receive(self, message: int) -> None:
        if not self.has(message):
            self.messages.append(message)


class ForgetfulStore(Store):
    """The bug in the core."""

    def has(self, message: int) -> bool:
        return False


class LazyStore(Store):
    """The second bug in the core."""

    def has(self, message: int) -> bool:
        return True


class ToyCores(FieldByField[Mail]):
    """The binding: what the core does in each action; its attributes are the fields of the state."""

    def __init__(self, machine: Toy, store: type[Store]) -> None:
        self.store, self.sent, self.on_the_way = store(), 0, list[int]()
        self.stored = self.store.messages

    def perform(self, action: Action, before: Mail) -> None:
        match action:
            case Send():
                self.on_the_way.append(self.sent)
                self.sent += 1
            case Deliver(message, repeated):
                if not repeated:
                    self.on_the_way.remove(message)
                self.store.receive(message)


def toy_registered() -> AbstractContextManager[Registration]:
    """The toy is a machine of this project for as long as the context lasts."""
    one = Model("toy-one", Toy(1), "one message")
    bugs = {FORGETFUL: ForgetfulStore, LAZY: LazyStore}
    return registered("toy", Toy(), models=(one,), bugs=bugs, cores=ToyCores, roles=Store)
