"""Machines whose actions each carry one guard and one effect: what follows from the two is here, once.

A guard returns the reason why its action may not happen, or nothing when it may. A machine only says which actions are
worth asking (`candidates`). Mostly every class of action says that for itself: then the machine is an
`EnumeratingMachine`, and a class that the constants rule out is asked in no state.

An action is given the machine's *rules*, the class that declares what a bug or an extension may override. Rules know
no action, and so rules, actions and machine import each other one way only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import attrs

from tidegauge.spec.kernel.bounds import Bounds, Spent
from tidegauge.spec.kernel.machine import Action, Machine, NotEnabled


class Bounded(Protocol):
    """Rules that bound perturbations."""

    @property
    def bounds(self) -> Bounds:
        """How often each may happen."""


class Spending(Protocol):
    """A state that counts perturbations."""

    @property
    def spent(self) -> Spent:
        """How often each has happened."""


R_contra = TypeVar("R_contra", contravariant=True)
B_contra = TypeVar("B_contra", bound=Bounded, contravariant=True)
S = TypeVar("S")
C = TypeVar("C", bound=Spending)


@attrs.frozen
class GuardedAction(Action, ABC, Generic[R_contra, S]):
    """An action with one guard and one effect, of a machine with these rules."""

    @abstractmethod
    def guard(self, machine: R_contra, state: S) -> str:
        """What forbids the action now; empty when it may happen."""

    @abstractmethod
    def effect(self, machine: R_contra, state: S) -> S:
        """The state after it."""


@attrs.frozen
class EnumeratedAction(GuardedAction[B_contra, S]):
    """An action whose class says which instances are worth asking."""

    @classmethod
    def is_possible(cls, machine: B_contra) -> bool:
        """Whether the machine's constants let it happen at all; what they rule out is not tried in any state."""
        return not cls.bounded_as or cls.bounded_as in machine.bounds

    @classmethod
    @abstractmethod
    def candidates(cls, machine: B_contra, state: S) -> Iterable[GuardedAction[B_contra, S]]:
        """Those worth asking the guard about, in an order that depends on the state alone."""


class GuardedMachine(Machine[S]):
    """A machine of guarded actions."""

    action_base: ClassVar[type[GuardedAction[Any, Any]]]
    """The class that every action of the machine extends."""

    @abstractmethod
    def candidates(self, state: S) -> Iterable[GuardedAction[Self, S]]:
        """The actions whose guards are worth asking, in an order that depends on the state alone."""

    def actions(self, state: S) -> Iterable[Action]:
        for action in self.candidates(state):
            if not action.guard(self, state):
                yield action

    def step(self, state: S, action: Action) -> S:
        if not isinstance(action, self.action_base):
            raise TypeError(f"{action!r} is not an action of {self.name}: those extend {self.action_base.__name__}")
        if failed := action.guard(self, state):
            raise NotEnabled(action, failed)
        after: S = action.effect(self, state)
        return after

    def successors(self, state: S) -> Iterable[tuple[Action, S]]:
        for action in self.candidates(state):
            if not action.guard(self, state):
                yield action, action.effect(self, state)


class EnumeratingMachine(GuardedMachine[C]):
    """A machine whose classes of action each say which instances are worth asking, and whose bounds are a constant."""

    action_types: ClassVar[tuple[type[EnumeratedAction[Any, Any]], ...]] = ()

    bounds: Bounds

    @cached_property
    def _possible(self) -> tuple[type[EnumeratedAction[Any, C]], ...]:
        """The classes of action that the constants let happen."""
        return tuple(kind for kind in self.action_types if kind.is_possible(self))

    def candidates(self, state: C) -> Iterable[GuardedAction[Self, C]]:
        return [action for kind in self._possible for action in kind.candidates(self, state)]

    def may_perturb(self, state: C, name: str) -> bool:
        """Whether the bounds allow the perturbation once more."""
        return self.bounds.allow(name, state.spent)
