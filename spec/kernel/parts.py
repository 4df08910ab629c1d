"""Parts of a state that its class does not name: each is owned by an extension of the machine.

A class that may be extended has a field `parts: Parts = ()`. A part is a frozen attrs class of which every field has a
default. It is read by `LogStart.of(replica)` and written by `with_part(replica, LogStart(3))`. A part with all its
fields at their defaults is the same as no part, and is never stored: so a machine without the extension has the states
that it always had, and equal states stay equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self, TypeAlias, TypeVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.fields import fields_of


@attrs.frozen
class Part:
    """A part of a state, owned by an extension. Parts are ordered by class name, then by their fields."""

    @classmethod
    def of(cls, owner: Extended) -> Self:
        """The owner's part of this class."""
        for part in owner.parts:
            if type(part) is cls:
                return part
        try:
            return _DEFAULTS[cls]  # type: ignore[return-value]  # each class is the key of its own instance
        except KeyError:
            return cls.default()

    def renamed(self, names: Sequence[int]) -> Self:
        """The part when each process has its new name; one that names processes overrides it."""
        return self

    @classmethod
    def default(cls) -> Self:
        """The part of an owner that has none of this class."""
        found = _DEFAULTS.get(cls)
        if not isinstance(found, cls):
            found = _DEFAULTS[cls] = cls()
        return found

    def __lt__(self, other: object) -> bool:
        return _order(self) < _order(other) if isinstance(other, Part) else NotImplemented


_DEFAULTS: dict[type[Part], Part] = {}

Parts: TypeAlias = tuple[Part, ...]


class Extended(Protocol):
    """A class that has parts."""

    @property
    def parts(self) -> Parts:
        """Those that are not at their defaults, by class name."""


E = TypeVar("E", bound=Extended)


def _order(part: Part) -> tuple[str, tuple[object, ...]]:
    return type(part).__name__, tuple(value for _, value in fields_of(part))


def _name(part: Part) -> str:
    return type(part).__name__


def updated(parts: Parts, part: Part) -> Parts:
    """`parts` with this one in place of the other of its class."""
    kind = type(part)
    if not parts:
        return () if part == kind.default() else (part,)
    others = [other for other in parts if type(other) is not kind]
    if part == kind.default():
        return tuple(others)
    return (part,) if not others else tuple(sorted((*others, part), key=_name))


def parts_of(*parts: Part) -> Parts:
    """These parts, each of a class of its own, as an owner has them."""
    if len(parts) == 1:
        return () if parts[0] == type(parts[0]).default() else parts
    return tuple(sorted((part for part in parts if part != type(part).default()), key=_name))


def with_part(owner: E, part: Part) -> E:
    """`owner` with this part in place of the other of its class."""
    if part == type(part).of(owner):
        return owner
    parts = updated(owner.parts, part)
    changed: E = evolve(owner, parts=parts)  # type: ignore[misc]
    return changed
