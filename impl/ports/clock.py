"""The clock port: what time it is, in milliseconds. Waiting is trio's business on every host."""

from __future__ import annotations

import time
from typing import Protocol

import trio

SIMULATED_EPOCH_MS = 1_577_836_800_000
"""Wall-clock time at which every simulated run begins: 2020-01-01T00:00:00Z."""


class Clock(Protocol):
    """Wall-clock time."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01T00:00:00Z."""


class SystemClock:
    """The operating system's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class SimulatedClock:
    """Trio's clock, counted from the construction of this object; with trio's MockClock time is free and repeatable.

    `offset_ms` may be set to make this node's clock jump, forwards or back.
    """

    def __init__(self, epoch_ms: int = SIMULATED_EPOCH_MS) -> None:
        self._epoch_ms = epoch_ms
        self._started = trio.current_time()
        self.offset_ms = 0

    def now_ms(self) -> int:
        return self._epoch_ms + self.offset_ms + round((trio.current_time() - self._started) * 1000)
