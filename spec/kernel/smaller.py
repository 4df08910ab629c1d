"""Then smallest values: an action of a failing list gives way to a smaller one of its class, if the list fails still.

Where a walk has met a failure with broker 2 and offset 5, broker 1 and offset 0 often do as well, and say more clearly
what matters. The list gets no longer by it. It is smaller if, at the first place that differs, an action's values are:
field by field, and so into its messages. An action that is refused gives way to one that is refused as well. First a
number is replaced in all actions at once, since a list that is all about broker 2 fails with none that is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, Final, TypeAlias

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.fields import fields_of
from tidegauge.spec.kernel.guarded import GuardedMachine
from tidegauge.spec.kernel.machine import Action, Machine, NotEnabled
from tidegauge.spec.kernel.minimising import Trial

Order: TypeAlias = tuple[Any, ...]

TRIED: Final = 8
"""A large number gives way to one of so many, from 0 on, or stays."""


def with_smallest_values(
    items: Sequence[Action], trial: Trial[Action], machine: Machine[Any], initial: Any, *, attempts: int | None = None
) -> tuple[Action, ...]:
    """A failing list in which no action can give way to a smaller one of its class, as far as `attempts` trials tell.

    `trial` is that of `minimised`, and `initial` the state in which the list begins.
    """
    trials = _Trials(tuple(items), trial, attempts)
    for renamed in _renamed(given := trials.best):
        if _is_offered(machine, initial, renamed, given):
            trials.take(renamed)
    place = 0
    while place < len(trials.best):
        before = trials.best
        for smaller in smaller_actions(machine, initial, before, place):
            if trials.take((*before[:place], smaller, *before[place + 1 :])):
                break
        place = 0 if len(trials.best) < len(before) else place + 1
    return trials.best


class _Trials:
    """The smallest list that has failed so far."""

    def __init__(self, best: tuple[Action, ...], trial: Trial[Action], attempts: int | None) -> None:
        self.best = best
        self._trial = trial
        self._left = attempts

    def take(self, items: Sequence[Action]) -> bool:
        """Whether the list fails, and is smaller than the best one, which it is from now on."""
        if self._left is not None:
            self._left -= 1
        found = None if self._left is not None and self._left < 0 else self._trial(items)
        if found is None or order_of(found) >= order_of(self.best):
            return False
        self.best = tuple(found)
        return True


def _renamed(items: Sequence[Action]) -> Iterator[tuple[Action, ...]]:
    """The list with one number of a field replaced by a smaller one, in every action that has it there."""
    fields = [(name, value) for action in items for name, value in fields_of(action) if type(value) is int]
    for name, value in sorted(set(fields)):
        for smaller in range(min(value, TRIED)):
            yield tuple(_replaced(action, name, value, smaller) for action in items)


def _replaced(action: Action, name: str, value: int, smaller: int) -> Action:
    has_it = (name, value) in fields_of(action)
    replaced: Action = evolve(action, **{name: smaller}) if has_it else action
    return replaced


def _is_offered(machine: Machine[Any], state: Any, items: Sequence[Action], given: Sequence[Action]) -> bool:
    """Whether the machine offers each action of a list that is not as it was, or refuses it.

    A guard may allow what no party does, such as a fetch of no records where there are some: correct code fails there.
    """
    for action, before in zip(items, given, strict=True):
        try:
            after = machine.step(state, action)
        except NotEnabled:
            continue
        if action != before and action not in tuple(machine.actions(state)):
            return False
        state = after
    return True


def smaller_actions(machine: Machine[Any], initial: Any, items: Sequence[Action], place: int) -> Iterator[Action]:
    """What may stand in a place of the list instead, smallest first: of the same class, and smaller."""
    state, action = _after(machine, initial, items[:place]), items[place]
    kind = type(action)
    try:
        machine.step(state, action)
        alike = [one for one in machine.actions(state) if type(one) is kind]
    except NotEnabled:
        alike = [one for one, _ in machine.refused(state, kind)] if isinstance(machine, GuardedMachine) else []
    own = order_of_value(action)
    orders = {order_of_value(one): one for one in alike}
    yield from (orders[order] for order in sorted(orders) if order < own)


def _after(machine: Machine[Any], state: Any, items: Sequence[Action]) -> Any:
    """The state after those of the actions that are enabled when their turn comes."""
    for action in items:
        try:
            state = machine.step(state, action)
        except NotEnabled:
            continue
    return state


def order_of(items: Sequence[Action]) -> Order:
    """By what lists of actions are compared: how many they are, then what each says."""
    return len(items), *map(order_of_value, items)


def order_of_value(value: object) -> Order:
    """By what values are compared, of whatever classes; objects field by field, tuples by their length first."""
    match value:
        case None:
            return (0,)
        case Enum():
            return 1, list(type(value)).index(value)
        case int():
            return 2, int(value)
        case str():
            return 3, len(value), value
        case tuple():
            return 4, len(value), *map(order_of_value, value)
        case frozenset():
            return 5, len(value), *sorted(map(order_of_value, value))
        case _ if attrs.has(type(value)):
            return 6, type(value).__name__, *(order_of_value(inner) for _, inner in fields_of(value))
    return 7, repr(value)
