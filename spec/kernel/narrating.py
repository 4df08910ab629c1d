"""A trace told step by step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from tidegauge.spec.kernel.changes import changes, plain
from tidegauge.spec.kernel.fields import fields_of
from tidegauge.spec.kernel.traces import Trace

S = TypeVar("S")


def narrate(trace: Trace[S]) -> Iterator[str]:
    """A trace as lines of text: the initial state, part by part, then each action with what it changed.

    Actions count from 1, as everywhere; the initial state is number 0.
    """
    yield "0. initial state"
    for name, value in fields_of(trace.initial):
        yield f"     {name}: {plain(value)}"
    for number, (before, action, after) in enumerate(trace.transitions(), start=1):
        yield f"{number}. {plain(action)}"
        for change in changes(before, after):
            yield f"     {change}"
