"""The enabled action that is nearest to one that is not enabled any more.

An action that receives a message names the whole message. Leave an earlier action out of a trace, and the message that
is sent instead differs in an epoch or an offset; the action is not enabled, though what happens is the same.
Minimising tries the nearest action in its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias, TypeVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.fields import fields_of
from tidegauge.spec.kernel.machine import Action, Machine, NotEnabled

S = TypeVar("S")

Path: TypeAlias = tuple[str | int, ...]
"""Where a value is: the names of fields and the places in tuples that lead to it."""

Values: TypeAlias = tuple[tuple[Path, object], ...]


def nearest_enabled(machine: Machine[S], state: S, action: Action) -> Action | None:
    """The enabled action of the same class that agrees in most values; None if there is none.

    What the action says beside its messages stays as it is where that is enabled. An action without a message has no
    other in its place.
    """
    if not _messages(action):
        return None
    values = tuple(_values(action))
    alike = (candidate for candidate in machine.actions(state) if type(candidate) is type(action))
    nearest = max(alike, key=lambda candidate: _agreement(values, tuple(_values(candidate))), default=None)
    if nearest is None:
        return None
    same_beside: Action = evolve(action, **_messages(nearest))
    return same_beside if _is_enabled(machine, state, same_beside) else nearest


def _messages(action: Action) -> dict[str, object]:
    return {name: value for name, value in fields_of(action) if attrs.has(type(value))}


def _values(value: object, path: Path = ()) -> Iterator[tuple[Path, object]]:
    """The innermost values, each with where it is."""
    if attrs.has(type(value)):
        for name, inner in fields_of(value):
            yield from _values(inner, (*path, name))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _values(item, (*path, index))
    else:
        yield path, value


def _agreement(wanted: Values, found: Values) -> int:
    have = dict(found)
    return sum(1 for path, value in wanted if path in have and have[path] == value)


def _is_enabled(machine: Machine[S], state: S, action: Action) -> bool:
    try:
        machine.step(state, action)
    except NotEnabled:
        return False
    return True
