"""What a step changed, for a reader: the difference of two states by path, and values as one would write them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache
from itertools import zip_longest
from operator import attrgetter
from typing import Any, TypeVar

import attrs

from tidegauge.spec.kernel.fields import changed_fields_of, fields_of, names_of
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
    found: list[Change] = []
    _look_for_changes(before, after, path, found)
    return iter(found)


def _look_for_changes(before: object, after: object, path: str, found: list[Change]) -> None:
    if before is after or before == after:  # most of a state is the very same object after a step
        return
    kind: Any = type(before)
    if (names := names_of(kind)) and kind is type(after):
        for name in names:
            _look_for_changes(getattr(before, name), getattr(after, name), f"{path}.{name}" if path else name, found)
    elif isinstance(before, tuple) and isinstance(after, tuple):
        for index, (old, new) in enumerate(zip_longest(before, after, fillvalue=ABSENT)):
            _look_for_changes(old, new, f"{path}[{index}]", found)
    elif kind is not type(after) or not attrs.has(kind):
        found.append(Change(path, before, after))


def plain(value: object) -> str:
    """A value as one would write it by hand: sets sorted, enums by name.

    Fields at their defaults are left out, but those of an action: they say to whom and with what.
    """
    kind: Any = type(value)
    return _writer_of(kind)(value)


@cache
def _writer_of(kind: type) -> Callable[[Any], str]:
    """What writes a value of a class."""
    if issubclass(kind, Enum):
        return str if issubclass(kind, Missing) else attrgetter("name")
    if issubclass(kind, frozenset):
        return _plain_set
    if issubclass(kind, tuple):
        return _plain_row
    if not attrs.has(kind):
        return str
    fields = fields_of if issubclass(kind, Action) else changed_fields_of
    return lambda value: f"{kind.__name__}({', '.join([f'{name}={plain(inner)}' for name, inner in fields(value)])})"


def _plain_set(value: frozenset[Any]) -> str:
    return "{" + ", ".join([plain(item) for item in ordered(value)]) + "}"


def _plain_row(value: tuple[Any, ...]) -> str:
    return "[" + ", ".join([plain(item) for item in value]) + "]"


def ordered(items: frozenset[T]) -> list[T]:
    """The members of a set in an order that is the same in every process."""
    try:
        return sorted(items)  # type: ignore[type-var]
    except TypeError:
        return sorted(items, key=plain)
