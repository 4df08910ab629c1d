"""Waits that have a deadline, without a cancel scope for each.

Nearly every wait of a broker has a deadline, and nearly none reaches it. A cancel scope costs more than the rest of
such a wait. Here one system task of the loop sleeps until the first deadline, and sets no cancel scope but its own.
What a wait costs is an entry of a heap. An entry whose wait has ended stays until it is the last one of the heap, its
deadline has passed, or most entries are such.
"""

from __future__ import annotations

import heapq
import math
from typing import Final

import trio
from trio.lowlevel import Abort, Task, current_task, reschedule, wait_task_rescheduled

MOST_ENDED: Final = 256
"""Entries of waits that have ended, above which they are dropped once they are the most."""


class Signal:
    """What one task at a time waits for: to be set."""

    __slots__ = ("_task", "is_set")

    def __init__(self) -> None:
        self.is_set = False
        self._task: Task | None = None

    def set(self) -> None:
        """Let the task that waits go on, or the next that comes."""
        self.is_set = True
        self.wake()

    def clear(self) -> None:
        """Wait again."""
        self.is_set = False

    def wake(self) -> None:
        """Let the task that waits go on, though nothing is set."""
        if (task := self._task) is not None:
            self._task = None
            reschedule(task)

    async def wait(self) -> None:
        """Wait until it is set: a checkpoint in any case."""
        if self.is_set:
            await trio.lowlevel.checkpoint()
            return
        assert self._task is None, "one task at a time waits for a signal"
        self._task = current_task()
        await wait_task_rescheduled(self._abort)

    def _abort(self, _: object) -> Abort:
        self._task = None
        return Abort.SUCCEEDED


class _Entry:
    """A wait."""

    __slots__ = ("deadline", "signal")

    def __init__(self, deadline: float, signal: Signal) -> None:
        self.deadline = deadline
        self.signal: Signal | None = signal
        """None when the wait has ended."""


class Deadlines:
    """The waits of one loop."""

    def __init__(self) -> None:
        self.time = trio.lowlevel.current_clock().current_time
        """Trio's time."""
        self._heap: list[tuple[float, int, _Entry]] = []
        self._entered = 0
        self._ended = 0
        """Entries of the heap whose waits have ended."""
        self._until = math.inf
        """Until when the system task sleeps."""
        self._sleep = trio.CancelScope()

    def __len__(self) -> int:
        """Entries, also of waits that have ended."""
        return len(self._heap)

    async def wait(self, signal: Signal, deadline: float) -> bool:
        """Wait until the signal is set or the deadline has come, in trio's time; whether it is set."""
        if signal.is_set or deadline == math.inf:
            await signal.wait()
            return signal.is_set
        entry = _Entry(deadline, signal)
        self._entered += 1
        heapq.heappush(self._heap, (deadline, self._entered, entry))
        if deadline < self._until:
            self._sleep.deadline = self._until = deadline
        try:
            await signal.wait()
        finally:
            if entry.signal is not None:
                self._end(entry)
        return signal.is_set

    def _end(self, entry: _Entry) -> None:
        heap = self._heap
        if heap[-1][2] is entry:
            heap.pop()
            return
        entry.signal = None
        self._ended += 1
        if self._ended > MOST_ENDED and self._ended * 2 > len(heap):
            heap[:] = [item for item in heap if item[2].signal is not None]
            heapq.heapify(heap)
            self._ended = 0

    async def expire(self) -> None:
        """Wake each wait at its deadline, for as long as the loop runs."""
        heap = self._heap
        while True:
            with self._sleep:
                await trio.sleep_forever()
            now = self.time()
            while heap and (heap[0][0] <= now or heap[0][2].signal is None):
                entry = heapq.heappop(heap)[2]
                if entry.signal is None:
                    self._ended -= 1
                else:
                    signal, entry.signal = entry.signal, None
                    signal.wake()
            self._until = heap[0][0] if heap else math.inf
            self._sleep = trio.CancelScope(deadline=self._until)


_DEADLINES: trio.lowlevel.RunVar[Deadlines] = trio.lowlevel.RunVar("deadlines")


def deadlines() -> Deadlines:
    """Those of the loop that runs."""
    try:
        return _DEADLINES.get()
    except LookupError:
        _DEADLINES.set(made := Deadlines())
        trio.lowlevel.spawn_system_task(made.expire, name="deadlines of waits")
        return made
