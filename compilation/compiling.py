"""What numba takes to compile, by a clock, and a clock that stands still meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from numba.core.event import Event, Listener, install_listener

__all__ = ["Compiling"]


class Compiling(Listener):
    """Seconds of a clock: those in which numba compiles, which holds a lock meanwhile, and `clock` with the others."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = self._spent = 0.0
        self._depth = 0
        """Functions that are being compiled, each for the one before it."""

    @property
    def seconds(self) -> float:
        return self._spent + (self._clock() - self._began if self._depth else 0.0)

    def clock(self) -> float:
        return self._clock() - self.seconds

    @contextmanager
    def noticed(self) -> Iterator[None]:
        """What is compiled from here on is counted."""
        with install_listener("numba:compile", self):
            yield

    def on_start(self, event: Event) -> None:
        if not self._depth:
            self._began = self._clock()
        self._depth += 1

    def on_end(self, event: Event) -> None:
        self._depth -= 1
        if not self._depth:
            self._spent += self._clock() - self._began
