"""Values of which rules ask one thing at a time: messages on their way, what perturbations have been spent, members.

A rule that asks for one message, and takes it or sends another, depends on that one alone, and not on what else is on
its way. A field marked with PIECEMEAL holds a tuple. Functions that are a `question` ask something of it, and functions
that are `one_at_a_time` change it. The fast engine follows both without reading the whole; everywhere else the field
is a tuple as any other, and the functions are what they are.

A field marked with IN_PARTS holds a tuple of any length, or an instance of one of several classes, or None: the members
of a group, a response that may be there. The fast engine takes it apart, so that a rule which looks at the ids of
members does not depend on what else is known of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final, TypeVar, cast

__all__ = ["IN_PARTS", "PIECEMEAL", "one_at_a_time", "question"]

M = TypeVar("M")
B = TypeVar("B")
Q = TypeVar("Q", bound=Callable[..., Any])

PIECEMEAL: Final[Mapping[object, object]] = {"piecemeal": True}
"""Metadata of a field of attrs."""
IN_PARTS: Final[Mapping[object, object]] = {"in parts": True}
"""Metadata of a field of attrs."""


def question(ask: Q) -> Q:
    """A function that asks something of a tuple and more arguments.

    What it returns depends on these alone, and has a hash. The same field's tuple after a step may be among them.
    """

    @wraps(ask)
    def asked(values: Any, *arguments: Any) -> Any:
        if type(values) is tuple:
            return ask(values, *arguments)
        return values.asked(ask, arguments)

    return cast(Q, asked)


def one_at_a_time(change: Callable[[tuple[M, ...], B], tuple[M, ...]]) -> Callable[[tuple[M, ...], B], tuple[M, ...]]:
    """A function that makes another tuple of one and what it is changed by, and depends on nothing else."""

    @wraps(change)
    def changed(values: Any, by: B) -> tuple[M, ...]:
        if type(values) is tuple:
            return change(values, by)
        found: tuple[M, ...] = values.changed(change, by)
        return found

    return changed
