"""What a specification is.

A protocol is a *machine*: a set of initial states, the actions that may happen in a state, and a pure step from one
state to the next. States and actions are frozen attrs classes, so they hash, compare and print; a step reads no clock,
draws no random number and touches nothing outside its arguments. The same machine therefore serves four masters:

* the explorer, which visits every reachable state,
* the lockstep tests, which keep a state beside a running cluster,
* random simulation,
* trace validation, which asks whether a cluster's log of decisions is a behaviour of the machine.

A machine's constants (processes, records, how many crashes) are its fields: small ones explore, large ones simulate.
A bug is a subclass that overrides one rule.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar

import attrs

from tidegauge.spec.kernel.parts import Part

S = TypeVar("S")

Invariant = Callable[[S], bool]
StepInvariant = Callable[[S, "Action", S], bool]


@attrs.frozen
class LeadsTo(Generic[S]):
    """`when ~> then`: whenever the one holds, the other holds then or later. See spec.kernel.leads_to."""

    when: Invariant[S]
    then: Invariant[S]

    @classmethod
    def again(cls, then: Invariant[S]) -> Self:
        """`then` comes again and again (`[]<>then` in TLA+): in every state it holds, or comes later."""
        return cls(_always, then)


def _always(state: object) -> bool:
    return True


MOST_PROCESSES = 16
"""Of a kind, in one machine. What 16 show, fewer have shown."""


def check_processes(constant: str, count: int) -> None:
    """Raise ValueError, under the name of the machine's constant, for a number of processes that no machine has."""
    if not 1 <= count <= MOST_PROCESSES:
        raise ValueError(f"{constant}={count}: a machine has at least 1 and at most {MOST_PROCESSES} {constant}")


@attrs.frozen
class Action:
    """Something that can happen; its fields say to whom and with what."""

    bounded_as: ClassVar[str] = ""
    """The name by which a machine's bounds count it; empty for the protocol, and for what heals."""
    fair: ClassVar[bool] = True
    """Whether it happens if it may happen again and again; False for what clients and operators choose to do."""

    @property
    def name(self) -> str:
        return type(self).__name__


class NotEnabled(Exception):  # noqa: N818 - a state of affairs, not an error
    """The action's guard is false in this state."""

    def __init__(self, action: Action, guard: str) -> None:
        super().__init__(action, guard)
        self.action = action
        self.guard = guard

    def __str__(self) -> str:
        """In words, which are made when they are asked for: most are never read."""
        return f"{self.action} is not enabled: {self.guard}"


def constants_of(machine: Machine[S]) -> dict[str, Any]:
    """The machine's constants by name."""
    kind: type[Any] = type(machine)
    return {field.name: getattr(machine, field.name) for field in attrs.fields(kind) if field.init}


class Machine(ABC, Generic[S]):
    """A protocol as a state machine."""

    action_types: ClassVar[tuple[type[Action], ...]] = ()
    """Every class of action; coverage reports those that were never enabled."""
    refused_types: ClassVar[tuple[type[Action], ...]] = ()
    """Classes of request that are enabled in no state: all that there is of them is how they are refused."""
    part_types: ClassVar[tuple[type[Part], ...]] = ()
    """Every class of part that its extensions add to states and messages."""

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def kinds(self) -> tuple[type[object], ...]:
        """The classes that the machine is made of: its own, and those of its extensions. They identify it."""
        return (type(self),)

    @property
    def perturbations(self) -> tuple[str, ...]:
        """What its bounds may name."""
        return tuple(dict.fromkeys(kind.bounded_as for kind in self.action_types if kind.bounded_as))

    def exchanged(self, kind: type[object], other: Callable[..., Any]) -> Machine[S]:
        """The same machine, with the same constants, with `other` in place of one of its `kinds`."""
        if kind is not type(self):
            raise ValueError(f"{self.name} is not made of {kind.__name__}")
        exchanged: Machine[S] = other(**constants_of(self))
        return exchanged

    @abstractmethod
    def initial(self) -> Iterable[S]:
        """The states in which a behaviour may begin."""

    @abstractmethod
    def actions(self, state: S) -> Iterable[Action]:
        """All that may happen now, in an order that depends on the state alone."""

    @abstractmethod
    def step(self, state: S, action: Action) -> S:
        """The state after `action`; raises NotEnabled, naming the guard that failed."""

    def successors(self, state: S) -> Iterable[tuple[Action, S]]:
        """Actions with their results; a machine may override it to share work between the two."""
        for action in self.actions(state):
            yield action, self.step(state, action)

    @property
    def invariants(self) -> Mapping[str, Invariant[S]]:
        """What holds in every state, under its name in the literature."""
        return {}

    @property
    def step_invariants(self) -> Mapping[str, StepInvariant[S]]:
        """What holds of every step (before, action, after)."""
        return {}

    @property
    def sometimes(self) -> Mapping[str, Invariant[S]]:
        """Goals: what a search that proves anything must have reached in at least one state."""
        return {}

    @property
    def converges(self) -> Mapping[str, Invariant[S]]:
        """What holds for good in the end, if all that is fair happens: words, and what they say of a state.

        See spec.kernel.convergence.
        """
        return {}

    @property
    def leads_to(self) -> Mapping[str, LeadsTo[S]]:
        """What comes whenever it is owed, though clients never rest: words, and when it is owed and has come.

        See spec.kernel.leads_to.
        """
        return {}

    def is_fair(self, before: S, action: Action, after: S) -> bool:
        """Whether the step is taken in a behaviour that comes to `before` again and again; no perturbation is."""
        return action.fair and not action.bounded_as

    def explain(self, invariant: str, state: S) -> Mapping[str, object]:
        """The values that make `invariant`, or what `converges` or `leads_to` ask for, false in `state`."""
        return {}

    @property
    def interchangeable(self) -> int:
        """How many processes `permute` may rename among themselves; 0 if the machine declares no symmetry."""
        return 0

    @property
    def why_unlike(self) -> str:
        """Why no two processes are interchangeable with these constants, where they are with others; else empty."""
        return ""

    def permute(self, state: S, permutation: tuple[int, ...]) -> S:
        """`state` with process i renamed to permutation[i]; symmetric machines define it."""
        raise NotImplementedError(f"{self.name} declares no symmetry")
