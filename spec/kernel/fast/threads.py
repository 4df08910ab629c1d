"""Threads that share compiled work: it holds no lock of Python's, so that each has a core of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import pairwise
from queue import SimpleQueue
from typing import Final, TypeVar

__all__ = ["Threads"]

T = TypeVar("T")

_FEW: Final = 64
"""States a thread, for fewer of which it is not worth its while."""
_AT_ONCE_S: Final = 0.0002
"""How long the search's own thread runs Python before it lets another one take its next item."""


class Threads:
    """So many threads, which are there while the search is `working`; one worker is the search's own thread."""

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers
        self._pool: ThreadPoolExecutor | None = None

    @contextmanager
    def working(self) -> Iterator[None]:
        """The threads are there."""
        if self.workers == 1:
            yield
            return
        interval = sys.getswitchinterval()
        try:
            sys.setswitchinterval(min(interval, _AT_ONCE_S))
            with ThreadPoolExecutor(self.workers, "explorer") as self._pool:
                yield
        finally:
            self._pool = None
            sys.setswitchinterval(interval)

    def shares(self, states: int, few: int | None = None) -> bool:
        """Whether so many states, or slots, are enough for all threads: `few` for each."""
        return self._pool is not None and states >= (_FEW if few is None else few) * self.workers

    def each(
        self,
        count: int,
        work: Callable[[int, int], T],
        meanwhile: Callable[[int, T], None] | None = None,
        is_wanted: Callable[[T], object] = bool,
    ) -> list[T]:
        """What `work` gives for each item of so many; it takes the number of a thread, and the item.

        A thread takes the next item when it is done with one. `meanwhile` is called here with each item and what it
        gave, in their order, while threads work on others, as soon as one of those that are done `is_wanted`. What a
        thread raises is raised once all are at rest.
        """
        assert self._pool is not None
        items, found, waiting, done = iter(range(count)), dict[int, T](), set[int](), SimpleQueue[bool]()

        def run(worker: int) -> None:
            try:
                for item in items:  # Python's lock gives each to one thread
                    given = found[item] = work(worker, item)
                    if meanwhile is not None and is_wanted(given):
                        waiting.add(item)
                    if waiting:
                        done.put(False)
            finally:
                done.put(True)

        parts, working, at = [self._pool.submit(run, worker) for worker in range(self.workers)], self.workers, 0
        try:
            while working:
                working -= done.get()
                while meanwhile is not None and at in found:
                    waiting.discard(at)
                    meanwhile(at, found[at])
                    at += 1
        finally:
            wait(parts)
        for part in parts:
            part.result()
        return [found[item] for item in range(count)]

    def spread(self, start: int, end: int, work: Callable[[int, int], None], few: int | None = None) -> None:
        """Have each thread do something with its part of the states, if they are enough for all."""
        if not self.shares(end - start, few):
            work(start, end)
            return
        borders = [start + (end - start) * part // self.workers for part in range(self.workers + 1)]
        parts = [*pairwise(borders)]
        self.each(len(parts), lambda _, part: work(*parts[part]))
