"""The clock port: what time it is, in milliseconds, and whether the node gets any.

There are two readings. The wall clock (`now_ms`) says when something happened: it stands in records, and is held
against their timestamps. But it may step at any time, forwards or back: an operator sets it, NTP corrects it, a virtual
machine is resumed. So durations that live in memory are counted on the steady clock (`steady_ms`): sessions, how far
a follower lags behind, quotas, delays.

Waiting is trio's business on every host. But a node may be stopped for a while (a suspended process, a long garbage
collection) while time goes on for the others; on the simulated host that is a fault, and every task that wakes up by
itself asks `until_running` before it decides anything.

To wake up costs a process more than what an idle node then does. So waits that may be shorter end together (*timer
coalescing*): who waits at most `period_ms`, again and again, asks `coalesced_ms` how long to wait. On the system's
clock such waits end at multiples of the period, for all nodes of the process alike. The period does not change: only
the first wait is shorter. Who is asked by another node to wait for at most so long holds the request for `held_ms`:
what was to end a moment after such an instant ends there. On the simulated host waking up costs nothing, and no two
nodes wake up together by rule.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final, Protocol

import trio

SIMULATED_EPOCH_MS = 1_577_836_800_000
"""Wall-clock time at which every simulated run begins: 2020-01-01T00:00:00Z."""
SHORTEST_PART: Final = 8
"""No wait is made shorter than this part of its period."""
HELD_PART_MS: Final = 50
"""Holds end at multiples of this, which the periods of what an idle node does are multiples of."""


class Clock(Protocol):
    """Wall-clock time, and time that never steps."""

    @property
    def is_stopped(self) -> bool:
        """Whether the node is stopped: whether `until_running` waits."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01T00:00:00Z: the wall clock, which may step forwards or back."""

    def steady_ms(self) -> int:
        """Milliseconds that never step: only the difference between two readings in one process means anything."""

    async def until_running(self) -> None:
        """Return when the node is not stopped: at once, without a checkpoint, when it is not."""

    def coalesced_ms(self, period_ms: int) -> int:
        """How long to wait where at most `period_ms` is right, so that many such waits end together."""

    def held_ms(self, wait_ms: float) -> float:
        """How long to hold a request that says at most `wait_ms`, so that many such holds end together."""


class StoppableClock:
    """A clock whose node can be stopped, and whose wall clock can be made to jump: `offset_ms`, forwards or back."""

    def __init__(self) -> None:
        self._resumed: trio.Event | None = None
        self.is_stopped = False
        self.offset_ms = 0

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01T00:00:00Z: the wall clock, which may step forwards or back."""
        raise NotImplementedError

    def steady_ms(self) -> int:
        """Milliseconds that never step."""
        raise NotImplementedError

    def coalesced_ms(self, period_ms: int) -> int:
        """How long to wait where at most `period_ms` is right."""
        return period_ms

    def held_ms(self, wait_ms: float) -> float:
        """How long to hold a request that says at most `wait_ms`."""
        return wait_ms

    def stop(self) -> None:
        """Stop the node: what waits in `until_running` does not go on."""
        if self._resumed is None:
            self._resumed = trio.Event()
            self.is_stopped = True

    def go_on(self) -> None:
        """Let a stopped node run again."""
        if self._resumed is not None:
            self._resumed.set()
            self._resumed = None
            self.is_stopped = False

    async def until_running(self) -> None:
        while self._resumed is not None:
            await self._resumed.wait()


class SystemClock(StoppableClock):
    """The operating system's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self.offset_ms

    def steady_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def coalesced_ms(self, period_ms: int) -> int:
        if period_ms <= 0:
            return period_ms
        since_ms = trio.current_time() * 1000 % period_ms
        return min(period_ms, max(period_ms // SHORTEST_PART, math.ceil(period_ms - since_ms)))

    def held_ms(self, wait_ms: float) -> float:
        early_ms = (trio.current_time() * 1000 + wait_ms) % HELD_PART_MS
        return wait_ms - early_ms if early_ms * SHORTEST_PART <= wait_ms else wait_ms


class SimulatedClock(StoppableClock):
    """Trio's clock, counted from `started`; with trio's MockClock time is free and repeatable.

    Without `started` it is counted from the construction of this object.
    """

    def __init__(self, epoch_ms: int = SIMULATED_EPOCH_MS, started: float | None = None) -> None:
        super().__init__()
        self._epoch_ms = epoch_ms
        self.started = trio.current_time() if started is None else started

    def now_ms(self) -> int:
        return self._epoch_ms + self.offset_ms + round((trio.current_time() - self.started) * 1000)

    def steady_ms(self) -> int:
        return self._epoch_ms + round((trio.current_time() - self.started) * 1000)


steady_ns: Final[Callable[[], int]] = time.monotonic_ns
"""Nanoseconds that never step, for threads that no clock of a node serves."""
