"""Messages on their way: a tuple of which rules take one, or to which they add one.

A rule that asks for one message, and takes it or sends another, depends on that one alone, and not on what else is on
its way. A field marked with MESSAGES, changed by functions that are `one_at_a_time`, is followed by the fast engine in
this way; everywhere else it is a tuple as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final, TypeVar

__all__ = ["MESSAGES", "one_at_a_time"]

M = TypeVar("M")

MESSAGES: Final[Mapping[object, object]] = {"messages": True}
"""Metadata of a field of attrs."""


def one_at_a_time(change: Callable[[tuple[M, ...], M], tuple[M, ...]]) -> Callable[[tuple[M, ...], M], tuple[M, ...]]:
    """A function that makes other messages of some messages and one more, and depends on nothing else."""

    @wraps(change)
    def changed(messages: Any, message: M) -> tuple[M, ...]:
        if type(messages) is tuple:
            return change(messages, message)
        found: tuple[M, ...] = messages.changed(change, message)
        return found

    return changed
