"""A toy: a sender numbers its messages, a network may repeat them, and a store must keep each message once.

All that a machine needs is here, in the order in which one writes it: the specification (state, actions, machine), its
bug, the implementation (a core) with the same bug, the binding between the two, and the registration of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import attrs

from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.lockstep.walks import WalkPlan
from tidegauge.model_tests.harness.registry import Registration, registered
from tidegauge.model_tests.harness.report.model import Arrow, PartyView, Step
from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.changes import plain
from tidegauge.spec.kernel.machine import Action, Invariant, Machine, NotEnabled
from tidegauge.spec.kernel.model import Model
from tidegauge.spec.kernel.traces import Trace
from tidegauge.spec.registry import Registration as Specification

# --- the specification ---------------------------------------------------------------------------------------------


@attrs.frozen
class Mail:
    """The state: messages are numbered from 0."""

    sent: int = 0
    on_the_way: tuple[int, ...] = ()
    stored: tuple[int, ...] = ()


@attrs.frozen
class ToyAction(Action):
    """An action has one guard, which returns the reason when it is false, and one effect."""

    def guard(self, machine: Toy, state: Mail) -> str:
        raise NotImplementedError

    def effect(self, machine: Toy, state: Mail) -> Mail:
        raise NotImplementedError


@attrs.frozen
class Send(ToyAction):
    """The sender sends its next message."""

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
class Toy(Machine[Mail]):
    """The machine. Its constants are its fields, its rules are methods."""

    max_messages: int = 2
    action_types = (Send, Deliver)

    def initial(self) -> Iterator[Mail]:
        yield Mail()

    def actions(self, state: Mail) -> Iterator[Action]:
        arrivals = (Deliver(message, repeated) for message in state.on_the_way for repeated in (False, True))
        return (action for action in (Send(), *arrivals) if not action.guard(self, state))

    def step(self, state: Mail, action: Action) -> Mail:
        assert isinstance(action, ToyAction)
        if guard := action.guard(self, state):
            raise NotEnabled(action, guard)
        return action.effect(self, state)

    def accepts(self, state: Mail, message: int) -> bool:
        """The rule: the store keeps what it does not have."""
        return message not in state.stored

    @property
    def invariants(self) -> Mapping[str, Invariant[Mail]]:
        return {"StoredOnce": stored_once}

    @property
    def sometimes(self) -> Mapping[str, Invariant[Mail]]:
        return {"all is stored": lambda state: len(state.stored) == self.max_messages}

    def explain(self, invariant: str, state: Mail) -> Mapping[str, Any]:
        return {"stored": state.stored}


def stored_once(state: Mail) -> bool:
    """The store has no message twice."""
    return len(set(state.stored)) == len(state.stored)


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

# --- the implementation, and the binding between the two -------------------------------------------------------------


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
    """The bug in the implementation."""

    def has(self, message: int) -> bool:
        return False


class ToyCores:
    """The binding: what the core does in each action of the specification, and its state as one of the machine."""

    def __init__(self, machine: Toy, store: type[Store]) -> None:
        self.store = store()
        self.sent = 0
        self.on_the_way: list[int] = []

    def perform(self, action: Action, before: Mail) -> None:
        match action:
            case Send():
                self.on_the_way.append(self.sent)
                self.sent += 1
            case Deliver(message=message, repeated=repeated):
                if not repeated:
                    self.on_the_way.remove(message)
                self.store.receive(message)

    def abstraction(self, state: Mail) -> Mail:
        return Mail(self.sent, tuple(self.on_the_way), tuple(self.store.messages))

    def close(self) -> None:
        """A core has nothing to close."""


# --- the registration ------------------------------------------------------------------------------------------------


def steps(trace: Trace[Mail]) -> tuple[Step, ...]:
    """The lanes of a diagram and the arrows between them; `plain_steps` would show the fields of the state."""
    rest = (
        Step(action.name, plain(action), (), arrows=arrows(action), parties=view(after))
        for _, action, after in trace.transitions()
    )
    return (Step("initial state", "", (), parties=view(trace.initial)), *rest)


def view(state: Mail) -> tuple[PartyView, ...]:
    stored = ", ".join(map(str, state.stored)) or "nothing"
    return PartyView("sender", {"sent": str(state.sent)}), PartyView("store", {"stored": stored})


def arrows(action: Action) -> tuple[Arrow, ...]:
    return (Arrow("sender", "store", f"message {action.message}"),) if isinstance(action, Deliver) else ()


def toy_registered() -> AbstractContextManager[Registration]:
    """The toy is a machine of this project for as long as the context lasts."""
    return registered(
        Specification("toy", Toy(), models=(Model("toy-one", Toy(1), "one message"),), bugs=(FORGETFUL,)),
        Registration(
            "toy",
            roles=Store,
            cores=ToyCores,
            plan=WalkPlan(lambda rng: Toy(rng.randint(1, 9))),
            steps=steps,
            bugs=(CoreBug("toy_1", ForgetfulStore),),
        ),
    )
