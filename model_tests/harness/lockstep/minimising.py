"""The shortest list of actions on which specification and implementation still differ, and its counterexample.

Fewest actions come first, then smallest values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final, Generic

import attrs

from tidegauge.model_tests.harness.counterexamples.files import Counterexample, Expected, Failure, Found
from tidegauge.model_tests.harness.lockstep.lockstep import Bind, Difference, Lockstep, M
from tidegauge.spec.kernel.guarded import Refusal
from tidegauge.spec.kernel.machine import Action, Machine, NotEnabled
from tidegauge.spec.kernel.minimising import minimised
from tidegauge.spec.kernel.nearest import nearest_enabled
from tidegauge.spec.kernel.smaller import with_smallest_values

SMALLER: Final = 60
"""Trials with smaller values: each may perform a list beside an implementation."""


def counterexample_of(
    bind: Bind[M], machine: M, actions: Sequence[Action], found: Found, bug: str | None = None
) -> Counterexample:
    """The shortest list found on which the two still differ, to be saved. Raises ValueError if they don't."""
    shortest, difference = minimise(bind, machine, actions)
    return Counterexample(machine, bug, shortest, Expected(Failure.DIFFERENCE, difference.path), found)


def minimise(
    bind: Bind[M], machine: M, actions: Sequence[Action], attempts: int = 600
) -> tuple[tuple[Action, ...], Difference]:
    """The shortest list found on which the two still differ, and the difference. Raises ValueError if they don't.

    Actions are left out first as they are, then with the nearest action in place of each that is not enabled any more;
    each may take `attempts` trials, and to find smaller values `SMALLER` more.
    """

    trials = Trials(bind, machine)

    def needed(shorter: Sequence[Action], nearest: bool = False) -> Sequence[Action] | None:
        performed, difference = trials.perform(shorter, nearest=nearest)
        return None if difference is None else performed

    shortest = minimised(actions, needed, attempts=attempts)
    shortest = minimised(shortest, partial(needed, nearest=True), attempts=attempts)
    initial = next(iter(machine.initial()))
    shortest = with_smallest_values(shortest, partial(needed, nearest=True), machine, initial, attempts=SMALLER)
    difference = difference_of(bind, machine, shortest)
    assert difference is not None, "the shortest list differs, too"
    return shortest, difference


def difference_of(bind: Bind[M], machine: M, actions: Iterable[Action]) -> Difference | None:
    """The first difference when `actions` are performed; None when there is none."""
    return Trials(bind, machine).perform(actions)[1]


class Trials(Generic[M]):
    """Performs lists of actions, each beside an implementation of its own.

    The same actions in the same order do the same again. So what came of them is kept, and no implementation is made
    for a list of which all is known: most lists of a minimising differ only in actions that are not enabled any more.
    """

    def __init__(self, bind: Bind[M], machine: M) -> None:
        self._bind = bind
        self._machine = machine
        self._first = _Place(next(iter(machine.initial())))

    def perform(
        self, actions: Iterable[Action], *, nearest: bool = False
    ) -> tuple[Sequence[Action], Difference | None]:
        """The actions that were performed or refused up to the first difference, and that.

        With `nearest` the nearest action takes the place of each that is not enabled.
        """
        actions = tuple(actions)
        recalled = _Recalled(self._machine, self._first)
        try:
            self._perform_all(recalled, actions, nearest)
        except Difference as difference:
            return recalled.sent, difference
        except _UnknownError:
            return self._perform(actions, nearest)
        return recalled.sent, None

    def _perform(self, actions: Sequence[Action], nearest: bool) -> tuple[Sequence[Action], Difference | None]:
        binding = self._bind(self._machine)
        performed: Sequence[Action] = ()
        try:
            lockstep: Lockstep[M] = Lockstep(self._machine, binding)
            performed = lockstep.sent
            self._perform_all(_Recorded(lockstep, self._first), actions, nearest)
        except Difference as difference:
            return performed, difference
        finally:
            binding.close()
        return performed, None

    def _perform_all(self, performer: _Recalled | _Recorded, actions: Sequence[Action], nearest: bool) -> None:
        for action in actions:
            if not performer.perform(action) and nearest:
                instead = nearest_enabled(self._machine, performer.place.state, action)
                if instead is not None:
                    performer.perform(instead)


@attrs.frozen(eq=False)
class _Place:
    """Where actions have led: the specification's state, and what came of each action that was tried next."""

    state: Any
    tried: dict[Action, _Tried] = attrs.field(factory=dict)


@attrs.frozen(eq=False)
class _Tried:
    """What came of an action."""

    after: _Place
    """The same place if it was not sent at all."""
    is_performed: bool
    difference: Difference | None


class _UnknownError(Exception):
    """Nobody has tried that yet."""


class _Recalled:
    """Performs by what is known. `perform` raises what a lockstep would raise, or _UnknownError."""

    def __init__(self, machine: Machine[Any], place: _Place) -> None:
        self.place = place
        self.sent: list[Action] = []
        self._machine = machine

    def perform(self, action: Action) -> bool:
        tried = self.place.tried.get(action)
        if tried is None:
            if self._is_left_out(action):
                return False
            raise _UnknownError
        if tried.after is not self.place:
            self.sent.append(action)
            self.place = tried.after
        if tried.difference is not None:
            raise tried.difference
        return tried.is_performed

    def _is_left_out(self, action: Action) -> bool:
        """Whether a lockstep leaves it out, whatever the implementation: not enabled, and refused to nobody."""
        try:
            self._machine.step(self.place.state, action)
        except NotEnabled as forbidden:
            return not isinstance(forbidden.guard, Refusal)
        return False


class _Recorded:
    """Performs in lockstep, and keeps what came of it."""

    def __init__(self, lockstep: Lockstep[Any], place: _Place) -> None:
        self.place = place
        self._lockstep = lockstep

    def perform(self, action: Action) -> bool:
        lockstep, before = self._lockstep, len(self._lockstep.sent)
        is_performed, found = False, None
        try:
            is_performed = lockstep.perform(action)
        except Difference as difference:
            found = difference
            raise
        finally:
            after = _Place(lockstep.state) if len(lockstep.sent) > before else self.place
            self.place = self.place.tried.setdefault(action, _Tried(after, is_performed, found)).after
        return is_performed
