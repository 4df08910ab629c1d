"""Machines whose actions each carry one guard and one effect: what follows from the two is here, once.

A guard returns the reason why its action may not happen, or nothing when it may. Where a party could send the request
all the same, the reason is a `Refusal`: it names the error of the response, and the state stays as it is. Any other
reason says that nobody can make the action happen: a message arrives only if it is on its way. Lockstep sends what is
refused (`attempts`) and checks that the implementation refuses it likewise.

A machine only says which actions are worth asking (`candidates`). Mostly every class of action says that for itself:
then the machine is an `EnumeratingMachine`, and a class that the constants rule out is asked in no state.

An action is given the machine's *rules*, the class that declares what a bug or an extension may override. Rules know
no action, and so rules, actions and machine import each other one way only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from functools import cached_property, lru_cache, partial
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


class Refusal(str):
    """Why a request that a party can send is refused, and the error of the response.

    An error of value 0 (NONE, OK) says that the request is taken and changes nothing.
    """

    __slots__ = ("error",)

    error: IntEnum

    def __new__(cls, reason: str, error: IntEnum) -> Self:
        refusal = super().__new__(cls, reason)
        refusal.error = error
        return refusal

    def __reduce__(self) -> tuple[object, ...]:
        return Refusal, (str(self), self.error)


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

    def tried(self, machine: R_contra, state: S) -> S | None:
        """The state after it; None where the guard forbids it. A class whose guard asks for the effect asks once."""
        return None if self.guard(machine, state) else self.effect(machine, state)


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

    @classmethod
    def candidate_rules(cls, machine: B_contra) -> Sequence[Callable[[S], Iterable[GuardedAction[B_contra, S]]]]:
        """Functions that give the candidates one behind the other, each of which looks at less: at one process, say."""
        return [partial(cls.candidates, machine)]

    @classmethod
    def attempts(cls, machine: B_contra, state: S) -> Iterable[GuardedAction[B_contra, S]]:
        """Those that a party may send though its guard refuses them: the near misses of what is enabled."""
        return cls.candidates(machine, state)


@attrs.frozen
class AttemptedAction(EnumeratedAction[B_contra, S]):
    """An action that is attempted only: the guard refuses it in every state, and if it were taken nothing would change.

    A class whose refusal a bug may remove has an effect of its own.
    """

    @classmethod
    def candidates(cls, machine: B_contra, state: S) -> Iterable[GuardedAction[B_contra, S]]:
        return ()

    def effect(self, machine: B_contra, state: S) -> S:
        return state


class GuardedMachine(Machine[S]):
    """A machine of guarded actions."""

    action_base: ClassVar[type[GuardedAction[Any, Any]]]
    """The class that every action of the machine extends."""

    @property
    def attempted_types(self) -> tuple[type[Action], ...]:
        """The classes of action that a party may attempt when they are not enabled."""
        return (*self.action_types, *self.refused_types)

    def attempts(self, state: S, kind: type[Action]) -> Iterable[Action]:
        """Actions of one class that a party may attempt; the guards of some refuse them."""
        return (action for action in self.candidates(state) if type(action) is kind)

    def refused(self, state: S, kind: type[Action]) -> list[tuple[Action, Refusal]]:
        """The attempts of one class that are refused in the state."""
        if not issubclass(kind, GuardedAction):
            return []
        attempts: Iterable[GuardedAction[Any, Any]] = self.attempts(state, kind)  # type: ignore[assignment]
        return [(one, reason) for one in attempts if isinstance(reason := one.guard(self, state), Refusal)]

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
            after = action.tried(self, state)
            if after is not None:
                yield action, after


class RuledMachine(GuardedMachine[S]):
    """A machine whose candidates are given by rules, one behind the other, each of which looks at less than all."""

    @abstractmethod
    def candidate_rules(self) -> Sequence[Callable[[S], Iterable[GuardedAction[Any, S]]]]:
        """The rules, which depend on the machine's constants alone."""

    def candidates(self, state: S) -> Iterable[GuardedAction[Self, S]]:
        return [action for rule in _rules_of(self) for action in rule(state)]


@lru_cache(1 << 10)
def _rules_of(machine: RuledMachine[S]) -> Sequence[Callable[[S], Iterable[GuardedAction[Any, S]]]]:
    """The rules of a machine, made once: a class with slots and more than one base has no room for them."""
    return machine.candidate_rules()


class EnumeratingMachine(GuardedMachine[C]):
    """A machine whose classes of action each say which instances are worth asking, and whose bounds are a constant."""

    action_types: ClassVar[tuple[type[EnumeratedAction[Any, Any]], ...]] = ()

    bounds: Bounds

    @cached_property
    def possible_types(self) -> tuple[type[EnumeratedAction[Any, C]], ...]:
        """The classes of action that the constants let happen."""
        return tuple(kind for kind in self.action_types if kind.is_possible(self))

    def candidates(self, state: C) -> Iterable[GuardedAction[Self, C]]:
        return [action for kind in self.possible_types for action in kind.candidates(self, state)]

    @cached_property
    def attempted_types(self) -> tuple[type[Action], ...]:
        return (*self.possible_types, *self.refused_types)

    def attempts(self, state: C, kind: type[Action]) -> Iterable[Action]:
        return kind.attempts(self, state) if issubclass(kind, EnumeratedAction) else ()

    def is_fair(self, before: C, action: Action, after: C) -> bool:
        """A step that counts for no bound: an action may be a perturbation in one of its forms only."""
        return action.fair and before.spent == after.spent

    def may_perturb(self, state: C, name: str) -> bool:
        """Whether the bounds allow the perturbation once more."""
        return self.bounds.allow(name, state.spent)
