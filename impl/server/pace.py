"""The pace of a task: long work goes on in slices, and other tasks have their turn in between.

Theory of operation
-------------------
A loop serves everybody, so nobody may keep it. A task that works for a peer says how much it does, in units of about a
microsecond (`records.slices`); when it has done a *slice* of them it waits for the loop's next pass. What has come
meanwhile is received and served at that pass.

However many tasks have long work, one of them goes on at each pass, in the order in which they came: what others wait
for is one slice, not one of each. A task for which others wait, as one that holds the controller's turn to decide, goes
ahead of those for which nobody does. What must not be cut in slices, as decompressing is, is called apart from the
loop, and no more than `LANES` of such works are between their first such call and their end: that bounds the memory
that they take together.

Units are counted, never timed: the same requests make the same pauses on every machine and in every run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

import trio

from tidegauge.impl.records.slices import ELEMENT as ELEMENT
from tidegauge.impl.records.slices import Sliced

T = TypeVar("T")
Apart = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Calls a function apart from the loop (`Disk.in_background`)."""

SLICE: Final = 500
"""Units of work after which a task lets others have their turn."""
DECISION_UNITS: Final = 100
"""Units for one decision of the controller."""
LANES: Final = 2


class Line:
    """The tasks of one loop that wait to go on with long work."""

    def __init__(self) -> None:
        self.passes = 0
        """How often a task has waited for a pass."""
        self.lanes = trio.Semaphore(LANES)
        self._waiting = trio.lowlevel.ParkingLot()
        self._ahead = trio.lowlevel.ParkingLot()
        """Those that go first."""
        self._next_is_chosen = False

    async def next_pass(self, *, ahead: bool = False) -> None:
        """Wait for the first pass of the loop at which no other task of this line goes on."""
        self.passes += 1
        if self._next_is_chosen:
            await (self._ahead if ahead else self._waiting).park()
            self._choose_next()
            return
        self._next_is_chosen = True
        try:
            await trio.lowlevel.checkpoint()
        finally:
            self._choose_next()

    def _choose_next(self) -> None:
        """A task that is woken here goes on at the pass after this one."""
        waiting = self._ahead or self._waiting
        self._next_is_chosen = bool(waiting)
        if waiting:
            waiting.unpark()


_LINE: trio.lowlevel.RunVar[Line] = trio.lowlevel.RunVar("line")


def line() -> Line:
    """That of the loop that runs."""
    try:
        return _LINE.get()
    except LookupError:
        _LINE.set(made := Line())
        return made


async def called_here(work: Callable[[], T]) -> T:
    """Where there is nothing apart from the loop."""
    return work()


async def _at_once() -> None:
    """The default of `Pace.until_running`."""


class Pace:
    """How far the task that serves one peer is with its slice."""

    def __init__(
        self,
        apart: Apart = called_here,
        until_running: Callable[[], Awaitable[None]] = _at_once,
        *,
        is_ahead: bool = False,
    ) -> None:
        """`until_running` is asked after each pause (`Clock.until_running`); `is_ahead`: see `ahead`."""
        self.spent = 0
        """Units since the last pause."""
        self._is_ahead = is_ahead
        self._apart = apart
        self._until_running = until_running

    async def did(self, units: int) -> None:
        """Note work that was done; a checkpoint when it makes a slice full."""
        self.spent += units
        if self.spent >= SLICE:
            await self.pause()

    async def pause(self) -> None:
        """Let others have their turn."""
        self.spent = 0
        await line().next_pass(ahead=self._is_ahead)
        await self._until_running()

    @contextmanager
    def ahead(self) -> Iterator[None]:
        """Go ahead of tasks for which nobody waits."""
        before, self._is_ahead = self._is_ahead, True
        try:
            yield
        finally:
            self._is_ahead = before

    async def finish(self, work: Sliced[T]) -> T:
        """The result of work that is done in slices."""
        lanes: trio.Semaphore | None = None
        result = None
        try:
            while True:
                step = work.send(result)
                if isinstance(step, int):
                    result = None
                    await self.did(step)
                else:
                    if lanes is None:
                        await line().lanes.acquire()
                        lanes = line().lanes
                    result = await self._apart(step)
                    await self._until_running()
                    self.spent = 0
        except StopIteration as done:
            value: T = done.value
            return value
        finally:
            if lanes is not None:
                lanes.release()

    def each(self, items: Iterable[T], units: int = ELEMENT) -> Each[T]:
        """The items, one after the other, for `async for`; each of them counts for so many units."""
        return Each(self, items, units)


class Each(Generic[T]):
    """Items that are gone through in slices."""

    def __init__(self, pace: Pace, items: Iterable[T], units: int) -> None:
        self._pace = pace
        self._items = iter(items)
        self._units = units

    def __aiter__(self) -> Each[T]:
        return self

    async def __anext__(self) -> T:
        self._pace.spent += self._units
        if self._pace.spent >= SLICE:
            await self._pace.pause()
        for item in self._items:
            return item
        raise StopAsyncIteration
