"""What a million timers cost: the coordinators' heap of deadlines beside a hierarchical timing wheel and trio's own.

`python -m benchmarks.timers [--quick]` prints a table: µs of CPU to set a timer, to put it off, to cancel it and to let
it fire, and bytes a timer. With --quick 100,000 of them. Sessions are set at the time that it is plus a constant, one
after the other, so each ends later than those before; a heap does worst when each ends sooner. Trio's are cancel
scopes with a deadline, one in the other in one task: to put one off is to set its deadline, to cancel it to leave it.

The wheel is Kafka's (ticks of 1 ms, wheels of 20 slots, each wheel's slots as long as the wheel before): it sets and
cancels in O(1). In Python the arithmetic of a slot costs more than a heap in C, which is why brokers use heaps.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from random import Random
from time import process_time
from typing import Final

import attrs
import trio
from rich.console import Console
from rich.table import Table

from benchmarks.options import parser
from tidegauge.impl.coordinators.deadlines import Deadlines

SESSION_MS: Final = 45_000
LATER_MS: Final = 3_000
"""What a timer is put off by: a heartbeat."""
STEP_MS: Final = 10
"""Between two looks at what is due."""


class Timer:
    """One timer of a wheel."""

    __slots__ = ("bucket", "deadline")

    def __init__(self, deadline: int) -> None:
        self.deadline = deadline
        self.bucket: dict[Timer, None] | None = None
        """The slot that it waits in; None when it has fired or was cancelled."""


class TimingWheel:
    """Timers by deadline in ms; wheels are made as far as deadlines reach."""

    SLOTS: Final = 20

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms
        self._slots: dict[tuple[int, int], dict[Timer, None]] = {}
        """By the time at which a slot begins and its length."""
        self._queue: list[tuple[int, int]] = []
        """The slots that hold timers or held some, a heap."""

    def set(self, deadline: int) -> Timer:
        """A timer that fires at this time, at once if it has passed."""
        timer = Timer(deadline)
        self._put(timer)
        return timer

    def put_off(self, timer: Timer, deadline: int) -> None:
        """It fires at this time, whatever was said before."""
        self.cancel(timer)
        timer.deadline = deadline
        self._put(timer)

    def cancel(self, timer: Timer) -> None:
        """It does not fire."""
        if timer.bucket is not None:
            del timer.bucket[timer]
            timer.bucket = None

    def due(self, now_ms: int) -> list[Timer]:
        """What has fired since the last look."""
        fired: list[Timer] = []
        while self._queue and self._queue[0][0] <= now_ms:
            begins, length = slot = heappop(self._queue)
            self.now_ms = max(self.now_ms, begins)
            for timer in self._slots.pop(slot):
                if length == 1:
                    timer.bucket = None
                    fired.append(timer)
                else:
                    self._put(timer)
        self.now_ms = now_ms
        return fired

    def _put(self, timer: Timer) -> None:
        deadline, length = max(timer.deadline, self.now_ms), 1
        while deadline >= self.now_ms - self.now_ms % length + self.SLOTS * length:
            length *= self.SLOTS
        slot = deadline - deadline % length, length
        bucket = self._slots.get(slot)
        if bucket is None:
            bucket = self._slots[slot] = {}
            heappush(self._queue, slot)
        bucket[timer] = None
        timer.bucket = bucket


@attrs.frozen
class Figures:
    """µs of CPU each, and bytes a timer; nan for what was not measured."""

    set: float
    put_off: float
    cancel: float
    fire: float
    bytes_each: float


def a_heap(deadlines: Sequence[int]) -> Figures:
    """The coordinators' deadlines: half are cancelled, half fire."""
    known: Deadlines[int] = Deadlines()
    keys = range(len(deadlines))
    return Figures(
        each(known.set, keys, deadlines),
        each(known.set, keys, put_off(deadlines)),
        each(known.cancel, keys[::2]),
        each(lambda now: list(known.due(now)), looks(deadlines)) * len(looks(deadlines)) / len(keys[1::2]),
        bytes_of(len(deadlines), lambda: filled_heap(deadlines)),
    )


def filled_heap(deadlines: Sequence[int]) -> Deadlines[int]:
    known: Deadlines[int] = Deadlines()
    for key, deadline in enumerate(deadlines):
        known.set(key, deadline)
    return known


def a_wheel(deadlines: Sequence[int]) -> Figures:
    """The same with the wheel."""
    wheel, timers = TimingWheel(), list[Timer]()
    return Figures(
        each(lambda deadline: timers.append(wheel.set(deadline)), deadlines),
        each(wheel.put_off, timers, put_off(deadlines)),
        each(wheel.cancel, timers[::2]),
        each(wheel.due, looks(deadlines)) * len(looks(deadlines)) / len(timers[1::2]),
        bytes_of(len(deadlines), lambda: filled_wheel(deadlines)),
    )


def filled_wheel(deadlines: Sequence[int]) -> tuple[TimingWheel, list[Timer]]:
    wheel = TimingWheel()
    return wheel, [wheel.set(deadline) for deadline in deadlines]


async def trios(deadlines: Sequence[int]) -> Figures:
    """Cancel scopes, of which none fires: that would cancel all within."""
    began, scopes = trio.current_time() + 1_000_000, list[trio.CancelScope]()

    def enter(deadline: int) -> None:
        scopes.append(trio.CancelScope(deadline=began + deadline / 1000))
        scopes[-1].__enter__()

    def delay(scope: trio.CancelScope) -> None:
        scope.deadline += LATER_MS / 1000

    def leave(_: int) -> None:
        scopes.pop().__exit__(None, None, None)

    set_us, put_off_us, cancel_us = each(enter, deadlines), each(delay, scopes), each(leave, deadlines)
    tracemalloc.start()
    each(enter, deadlines)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    each(leave, deadlines)
    return Figures(set_us, put_off_us, cancel_us, float("nan"), held / len(deadlines))


def put_off(deadlines: Sequence[int]) -> list[int]:
    return [deadline + LATER_MS for deadline in deadlines]


def looks(deadlines: Sequence[int]) -> range:
    return range(0, max(deadlines) + LATER_MS + STEP_MS, STEP_MS)


def each(call: Callable[..., object], *arguments: Sequence[object]) -> float:
    """µs of CPU of each call, with one of each of the arguments."""
    began = process_time()
    for given in zip(*arguments, strict=True):
        call(*given)
    return (process_time() - began) / len(arguments[0]) * 1e6


def bytes_of(count: int, make: Callable[[], object]) -> float:
    """Bytes that each of so many takes in what is made."""
    tracemalloc.start()
    made = make()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del made
    return held / count


def main(words: Sequence[str] | None = None) -> None:
    quick = parser("timers", __doc__, quick="100,000 timers in place of 1,000,000").parse_args(words).quick
    count = 100_000 if quick else 1_000_000
    random = Random(1)
    orders = {
        "one after the other": [SESSION_MS + number * SESSION_MS // count for number in range(count)],
        "in any order": [random.randrange(1, 2 * SESSION_MS) for _ in range(count)],
        "each sooner": [2 * SESSION_MS - number * SESSION_MS // count for number in range(count)],
    }
    table = Table(f"{count:,} timers, set", "as", "set", "put off", "cancel", "fire", "bytes", box=None, pad_edge=False)
    gc.disable()
    for order, deadlines in orders.items():
        for name, figures in (
            ("a heap", a_heap(deadlines)),
            ("a timing wheel", a_wheel(deadlines)),
            ("trio's", trio.run(trios, deadlines)),
        ):
            shown = (figures.set, figures.put_off, figures.cancel, figures.fire)
            table.add_row(order, name, *(f"{figure:.2f}" for figure in shown), f"{figures.bytes_each:.0f}")
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
