"""What a step changed, for a reader: the difference of two states by path, and values as one would write them."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from itertools import zip_longest
from typing import TypeVar

import attrs

from tidegauge.spec.kernel.fields import changed_fields_of, fields_of
from tidegauge.spec.kernel.machine import Action

T = TypeVar("T")


class Missing(Enum):
    """The missing side of a value that a step added or took away."""

    ABSENT = "absent"

    def __str__(self) -> str:
        return "–"


ABSENT = Missing.ABSENT


@attrs.frozen
class Change:
    """One value that a step changed; `path` says where, as in `replicas[1].hw`."""

    path: str
    before: object
    after: object

    def __str__(self) -> str:
        return f"{self.path}: {plain(self.before)} → {plain(self.after)}"


def changes(before: object, after: object, path: str = "") -> Iterator[Change]:
    """The innermost differences between two values of the same type, in the order of their fields."""
    if before == after:
        return
    if type(before) is type(after) and attrs.has(type(before)):
        for (name, old), (_, new) in zip(fields_of(before), fields_of(after), strict=True):
            yield from changes(old, new, f"{path}.{name}" if path else name)
    elif isinstance(before, tuple) and isinstance(after, tuple):
        for index, (old, new) in enumerate(zip_longest(before, after, fillvalue=ABSENT)):
            yield from changes(old, new, f"{path}[{index}]")
    else:
        yield Change(path, before, after)


def plain(value: object) -> str:
    """A value as one would write it by hand: sets sorted, enums by name.

    Fields at their defaults are left out, but those of an action: they say to whom and with what.
    """
    if isinstance(value, Missing):
        return str(value)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, frozenset):
        return "{" + ", ".join(plain(item) for item in ordered(value)) + "}"
    if isinstance(value, tuple):
        return "[" + ", ".join(plain(item) for item in value) + "]"
    if attrs.has(type(value)):
        fields = fields_of(value) if isinstance(value, Action) else changed_fields_of(value)
        told = ", ".join(f"{name}={plain(inner)}" for name, inner in fields)
        return f"{type(value).__name__}({told})"
    return str(value)


def ordered(items: frozenset[T]) -> list[T]:
    """The members of a set in an order that is the same in every process."""
    try:
        return sorted(items)  # type: ignore[type-var]
    except TypeError:
        return sorted(items, key=plain)
