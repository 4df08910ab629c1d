"""Running trio deterministically, by a seed, and driving it from synchronous code.

trio orders runnable tasks at random. Hypothesis makes that repeatable inside its tests; `seed_scheduler` does the same
outside them. Time is virtual (`virtual_clock`): when every task waits for time, it jumps. No other module uses trio's
private names.

`GuestRun` hosts a trio program inside a synchronous one, such as a Hypothesis state machine. trio's guest mode makes
its scheduler a queue of ticks. They run only during a call; between two calls the program is frozen: no task runs and
no time passes. A call ends when every task of the program waits again.
"""

from __future__ import annotations

import math
import random
import signal
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, TypeVar, TypeVarTuple, Unpack

import outcome
import trio
from trio._core import _run
from trio._core._instrumentation import Instruments
from trio.abc import Instrument
from trio.testing import MockClock, wait_all_tasks_blocked

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Program = Callable[[], Awaitable[T]]

MAX_TICKS = 100_000
"""Scheduler ticks that one call of a guest run may take before it counts as running for ever."""


class StillBusy(RuntimeError):  # noqa: N818 - a state of affairs
    """The program didn't come to rest within the limit of ticks."""


class ThreadsOwnRandom(random.Random):
    """Random numbers by a seed for the thread that made it; any for other threads, whose loops share trio's name."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._thread = threading.get_ident()
        self._others = random.SystemRandom()

    def random(self) -> float:
        return super().random() if threading.get_ident() == self._thread else self._others.random()

    def getrandbits(self, k: int, /) -> int:
        mine = threading.get_ident() == self._thread
        return super().getrandbits(k) if mine else self._others.getrandbits(k)


@contextmanager
def seed_scheduler(seed: int) -> Iterator[None]:
    """Within, trio schedules as `seed` says; afterwards as before."""
    before = _run._ALLOW_DETERMINISTIC_SCHEDULING, _run._r
    _run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    _run._r = ThreadsOwnRandom(seed)
    try:
        yield
    finally:
        _run._ALLOW_DETERMINISTIC_SCHEDULING, _run._r = before  # type: ignore[misc]


def virtual_clock() -> MockClock:
    """A clock that jumps when every task waits, and else stands still: so what time it is needs no real clock.

    trio asks several times for every step of a task, and `MockClock` computes it each time. To jump, that takes a step
    more, and gathers all statistics of the run for the one number that it needs.
    """
    clock = MockClock(autojump_threshold=0)
    clock.current_time = partial(getattr, clock, "_virtual_base")  # type: ignore[method-assign]
    clock.deadline_to_sleep_time = partial(_jump_to, clock)  # type: ignore[method-assign]
    return clock


def _jump_to(clock: MockClock, deadline: float) -> float:
    """The seconds to sleep when no task can run: none, since the clock jumps.

    `MockClock` jumps after a step in which nothing happens. It is left to that while a task waits for all others to
    wait, or another thread has something to do here: those go first.
    """
    runner = _run.GLOBAL_RUN_CONTEXT.runner
    seconds = deadline - clock.current_time()
    if seconds == math.inf or runner.waiting_for_idle or runner.entry_queue.size():
        return MockClock.deadline_to_sleep_time(clock, deadline)
    if seconds > 0:
        clock.jump(seconds)
    return 0.0


class _Instruments(dict[str, dict[Instrument, None]]):
    """What trio asks five times in each step whether it has something for a hook: here that is a look into a dict."""

    add_instrument = Instruments.add_instrument
    remove_instrument = Instruments.remove_instrument
    call = Instruments.call

    @property
    def data(self) -> dict[str, dict[Instrument, None]]:
        return self


async def _quickly(program: Callable[[Unpack[Ts]], Awaitable[T]], *args: *Ts) -> T:
    """The program, in a run whose steps cost less, and which no signal wakes."""
    if threading.current_thread() is threading.main_thread():
        # A signal with a handler would wake a task of trio's, whose turn takes a number of the seed. Ctrl-C comes
        # through all the same: its handler has the run woken.
        signal.set_wakeup_fd(-1)
    runner = _run.GLOBAL_RUN_CONTEXT.runner
    runner.instruments = _Instruments(runner.instruments)  # type: ignore[assignment]
    return await program(*args)


def run_deterministically(program: Callable[[Unpack[Ts]], Awaitable[T]], *args: *Ts, seed: int) -> T:
    """The result of `program(*args)` in virtual time, scheduled by `seed`; whatever it raises is raised."""
    with seed_scheduler(seed):
        return trio.run(_quickly, program, *args, clock=virtual_clock())


class GuestRun:
    """A trio program that runs only while `call` does; a context manager.

    Raises RuntimeError on entry when trio already runs in this thread.
    """

    def __init__(self, seed: int, max_ticks: int = MAX_TICKS) -> None:
        self._scheduler = seed_scheduler(seed)
        self._max_ticks = max_ticks
        self._ticks: deque[Callable[[], object]] = deque()
        self._program: Callable[[], Awaitable[object]] | None = None
        self._result: outcome.Outcome[Any] | None = None
        self._ended: outcome.Outcome[None] | None = None
        self._closing = False

    def __enter__(self) -> GuestRun:
        self._scheduler.__enter__()
        trio.lowlevel.start_guest_run(
            _quickly,
            self._serve,
            run_sync_soon_threadsafe=self._ticks.append,
            run_sync_soon_not_threadsafe=self._ticks.append,
            done_callback=self._done,
            host_uses_signal_set_wakeup_fd=True,
            clock=virtual_clock(),
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closing = True
        try:
            self._pump(lambda: self._ended is not None)
        finally:
            self._scheduler.__exit__(kind, error, traceback)
        if self._ended is not None and error is None:
            self._ended.unwrap()

    def call(self, program: Callable[[Unpack[Ts]], Awaitable[T]], *args: *Ts) -> T:
        """Run `program(*args)` and all that follows from it, until every task waits; returns its result.

        Raises what the program raises, and StillBusy when the limit of ticks is reached or the run has ended.
        """
        if self._ended is not None:
            raise StillBusy("the program has ended")
        self._result = None
        self._program = lambda: program(*args)
        self._pump(lambda: self._result is not None or self._ended is not None)
        if self._result is None:
            raise StillBusy("the program ended while it was being called")
        result: T = self._result.unwrap()
        return result

    def _pump(self, finished: Callable[[], bool]) -> None:
        for _ in range(self._max_ticks):
            if finished():
                return
            self._ticks.popleft()()
        raise StillBusy(f"the program did not come to rest within {self._max_ticks} ticks of the scheduler")

    def _done(self, ended: outcome.Outcome[None]) -> None:
        self._ended = ended

    async def _serve(self) -> None:
        """Between calls this task is the one that can run, so that no tick ever lets the clock jump."""
        while not self._closing:
            program, self._program = self._program, None
            if program is not None:
                result = await outcome.acapture(program)
                await wait_all_tasks_blocked()
                self._result = result
            await trio.lowlevel.checkpoint()
