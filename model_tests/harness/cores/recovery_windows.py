"""The same log, whose files are looked at through a window that is smaller than they are.

Recovery reads a MiB of a file at once, and no walk writes so much: with that, nothing would tell whether a batch is
found that lies across the border of two windows. What is found does not depend on how much is read at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tidegauge.impl.storage import survey
from tidegauge.model_tests.harness.cores.log_recovery import RecoveryCores
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.recovery.machine import Recovery
from tidegauge.spec.recovery.state import State

WINDOW: Final = 90
"""Bytes: less than a batch with two records has, and more than a header."""


@contextmanager
def small_window() -> Iterator[None]:
    """In it, a file is read so many bytes at once."""
    before = survey._SCAN_BYTES
    survey._SCAN_BYTES = WINDOW
    try:
        yield
    finally:
        survey._SCAN_BYTES = before


class ThroughSmallWindows(RecoveryCores):
    """One log, and what its broker writes down beside it."""

    def perform(self, action: Action, before: State) -> None:
        with small_window():
            super().perform(action, before)

    def abstraction(self, state: State) -> State:
        with small_window():
            return super().abstraction(state)

    def differences(self, expected: State) -> Iterator[Change]:
        with small_window():
            yield from [*super().differences(expected)]


def recovery_cores(machine: Recovery, roles: object = None) -> RecoveryCores:
    """What is driven beside a machine: of a walk in three, through small windows."""
    kind = ThroughSmallWindows if machine.max_appends == 24 else RecoveryCores
    return kind(machine, roles)
