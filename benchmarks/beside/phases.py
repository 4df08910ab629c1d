"""What the threads of the fast engine would take if each had a core of its own, by their CPU seconds.

Threads wait for each other between phases. A phase is as long as the CPU seconds of its items, which threads take one
after the other; that of the search's own thread comes to these. So it is known on a loaded machine, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tidegauge.spec.kernel.fast.threads import Threads

__all__ = ["Phases"]


class Phases:
    """CPU seconds of phases: of all threads, and of the one that takes longest in each."""

    def __init__(self) -> None:
        self.all_s = self.longest_s = 0.0

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Each phase counts from here on."""
        each = Threads.each

        def timed(threads: Threads, count: int, work: Callable[[int, int], Any]) -> list[Any]:
            spent: dict[int, float] = {}

            def run(worker: int, item: int) -> Any:
                began = time.thread_time()
                try:
                    return work(worker, item)
                finally:
                    spent[item] = time.thread_time() - began

            found = each(threads, count, run)
            self.add([spent[item] for item in range(count)], threads.workers)
            return found

        Threads.each = timed  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            Threads.each = each  # type: ignore[method-assign]

    def add(self, items_s: list[float], threads: int) -> None:
        """A phase of such items, each of which goes to the thread that is free first."""
        ends = [0.0] * threads
        for item_s in items_s:
            ends[ends.index(min(ends))] += item_s
        self.all_s += sum(items_s)
        self.longest_s += max(ends)
