"""How much one task does before it lets others have their turn: function calls between two checkpoints, never time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import attrs
import trio


@attrs.define(eq=False)
class Steps(trio.abc.Instrument):
    """Counts calls, of Python's functions and of built-in ones, in each step of each task but one."""

    ignored: trio.lowlevel.Task
    most: int = 0
    """Calls in the largest step."""
    total: int = 0
    _calls: int = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._calls = 0

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self.ignored:
            return
        self.most = max(self.most, self._calls)
        self.total += self._calls

    def count(self, frame: FrameType, event: str, argument: Any) -> None:
        """For `sys.setprofile`."""
        if event in ("call", "c_call"):
            self._calls += 1


@contextmanager
def counted_steps() -> Iterator[Steps]:
    """The steps of all tasks of the loop but the caller's own, from here to the end of the block."""
    steps = Steps(trio.lowlevel.current_task())
    before = sys.getprofile()
    trio.lowlevel.add_instrument(steps)
    sys.setprofile(steps.count)
    try:
        yield steps
    finally:
        sys.setprofile(before)
        trio.lowlevel.remove_instrument(steps)
