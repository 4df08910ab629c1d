"""Symmetry: states that differ only in the names of interchangeable processes (brokers, clients) are explored once.

A machine that treats its processes alike defines `permute`. The images of a state under all renamings are its *orbit*;
the search keeps one state per orbit. It keeps the very state that it reached, not some other member of the orbit, so
that a trace is a real behaviour and replays as it stands.

An orbit is known by the least of its members' keys. A member's key is a tuple of small integers, one per field of the
state: the number under which that field's value was first met. Values are thus compared without needing an order of
their own.

Whether the reduction is sound is checked by counting: the sizes of the orbits must sum to the number of states of the
unreduced search. A machine that treats processes unlike, by an order among them or a favourite, fails it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, permutations
from operator import attrgetter
from typing import Any, Generic, TypeVar

import attrs

from tidegauge.spec.kernel.machine import Machine

S = TypeVar("S")
Key = tuple[int, ...]


class Numbering(dict[object, int]):
    """Numbers values in the order in which they are met."""

    def __init__(self) -> None:
        super().__init__()
        self._next = count().__next__

    def __missing__(self, value: object) -> int:
        number = self[value] = self._next()
        return number


MOST_INTERCHANGEABLE = 8
"""Their renamings are 40,320, each tried on every state."""


class AsymmetryError(Exception):
    """A machine that declares its processes interchangeable, and treats them unlike."""


class Orbits(Generic[S]):
    """Names the orbit of a state, and measures it."""

    def __init__(self, machine: Machine[S]) -> None:
        if machine.interchangeable < 2:
            raise ValueError(
                f"{machine.name} declares no interchangeable processes, since {_why_none(machine)}: "
                "explore it without symmetry"
            )
        if not _renames(machine):
            raise ValueError(
                f"{machine.name} declares {machine.interchangeable} interchangeable processes, but has no `permute` "
                "that renames them: write it, or explore without symmetry"
            )
        if machine.interchangeable > MOST_INTERCHANGEABLE:
            raise ValueError(
                f"{machine.name} has {machine.interchangeable} interchangeable processes, too many to rename: "
                f"explore at most {MOST_INTERCHANGEABLE}, or without symmetry"
            )
        self._permute = machine.permute
        self.renamings = tuple(permutations(range(machine.interchangeable)))[1:]
        """All but the one that changes nothing."""
        self._number = Numbering()
        self._known: dict[Key, tuple[Key, int]] = {}
        self._fields = _fields_of(type(next(iter(machine.initial()))))

    def of(self, state: S) -> tuple[Key, int]:
        """The orbit's name and the number of states in it."""
        own = self._key(state)
        found = self._known.get(own)
        if found is None:
            permute, key = self._permute, self._key
            keys = {own, *[key(permute(state, renaming)) for renaming in self.renamings]}
            # Most steps lead to a state met before, and mostly to the very same one: renaming it again is saved.
            found = self._known[own] = min(keys), len(keys)
        return found

    def _key(self, state: S) -> Key:
        number = self._number
        return tuple([number[value] for value in self._fields(state)])


def _renames(machine: Machine[Any]) -> bool:
    return type(machine).permute is not Machine.permute


def _why_none(machine: Machine[Any]) -> str:
    """The reason for which two processes of this machine are not interchangeable."""
    if not _renames(machine):
        return "it has no `interchangeable` and `permute`, by which a machine says which processes it treats alike"
    return machine.why_unlike or f"its `interchangeable` is {machine.interchangeable}"


def _fields_of(kind: type[Any]) -> Callable[[object], tuple[object, ...]]:
    names = [field.name for field in attrs.fields(kind)]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda state: (getattr(state, names[0]),)
