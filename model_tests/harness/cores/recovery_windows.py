"""The same log, whose files are looked at through windows that are smaller than they are.

Recovery reads a MiB of a file at once, and no walk writes so much: with that, nothing would tell whether a batch is
found that lies across the border of two windows. What is found does not depend on how much is read at once: so each
action has a window of its own, from less than a batch to a few.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Final

from tidegauge.impl.storage import survey
from tidegauge.model_tests.harness.cores.log_recovery import RecoveryCores
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.recovery.machine import Recovery
from tidegauge.spec.recovery.state import State

WINDOWS: Final = (90, 130, 160, 200, 250, 320)
"""Bytes: a batch with two records has more than the least; a header has 61."""


@contextmanager
def small_window(size: int = WINDOWS[0]) -> Iterator[None]:
    """In it, a file is read so many bytes at once."""
    before = survey._SCAN_BYTES
    survey._SCAN_BYTES = size
    try:
        yield
    finally:
        survey._SCAN_BYTES = before


class ThroughSmallWindows(RecoveryCores):
    """One log, and what its broker writes down beside it."""

    def __init__(self, machine: Recovery, roles: object = None) -> None:
        super().__init__(machine, roles)
        self._sizes = Random(0)
        self._size = WINDOWS[0]

    def perform(self, action: Action, before: State) -> None:
        self._size = self._sizes.choice(WINDOWS)
        with small_window(self._size):
            super().perform(action, before)

    def abstraction(self, state: State) -> State:
        with small_window(self._size):
            return super().abstraction(state)

    def differences(self, expected: State) -> Iterator[Change]:
        with small_window(self._size):
            yield from [*super().differences(expected)]


def recovery_cores(machine: Recovery, roles: object = None) -> RecoveryCores:
    """What is driven beside a machine: of two walks in three, through small windows."""
    kind = ThroughSmallWindows if machine.max_appends >= 24 else RecoveryCores
    return kind(machine, roles)
