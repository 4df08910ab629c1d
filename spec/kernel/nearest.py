"""The enabled action that is nearest to one that is not enabled any more.

An action that receives a message names the whole message. Leave an earlier action out of a trace, and the message that
is sent instead differs in an epoch or an offset; the action is not enabled, though what happens is the same.
Minimising tries the nearest action in its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from tidegauge.spec.kernel.machine import Action, Machine, NotEnabled


def nearest_enabled(machine: Machine[Any], state: Any, action: Action) -> Action | None:
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
    same_beside: Action = attrs.evolve(action, **_messages(nearest))
    return same_beside if _is_enabled(machine, state, same_beside) else nearest


def _messages(action: Action) -> dict[str, Any]:
    fields = {field.name: getattr(action, field.name) for field in attrs.fields(type(action))}
    return {name: value for name, value in fields.items() if attrs.has(type(value))}


def _values(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """The innermost values, each with where it is."""
    if attrs.has(type(value)):
        for field in attrs.fields(type(value)):
            yield from _values(getattr(value, field.name), (*path, field.name))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _values(item, (*path, index))
    else:
        yield path, value


def _agreement(wanted: tuple[Any, ...], found: tuple[Any, ...]) -> int:
    have = dict(found)
    return sum(1 for path, value in wanted if path in have and have[path] == value)


def _is_enabled(machine: Machine[Any], state: Any, action: Action) -> bool:
    try:
        machine.step(state, action)
    except NotEnabled:
        return False
    return True
