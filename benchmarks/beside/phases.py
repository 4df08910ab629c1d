"""What the threads of the fast engine would take if each had a core of its own, by their CPU seconds.

Threads wait for each other between phases. A phase is as long as the CPU seconds of its items, which threads take one
after the other. What the search's own thread does meanwhile takes a core from them; what else it does comes to these.
So it is known on a loaded machine, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tidegauge.spec.kernel.fast.threads import Threads

__all__ = ["Phases"]


class Phases:
    """CPU seconds of phases: of all threads, of the longest one in each, and of the search's own meanwhile."""

    def __init__(self) -> None:
        self.all_s = self.longest_s = self.meanwhile_s = 0.0

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Each phase counts from here on."""
        each = Threads.each

        def timed(
            threads: Threads,
            count: int,
            work: Callable[[int, int], Any],
            meanwhile: Callable[[int, Any], None] | None = None,
            is_wanted: Callable[[Any], object] = bool,
        ) -> list[Any]:
            spent: dict[int, float] = {}
            asking = 0.0

            def run(worker: int, item: int) -> Any:
                began = time.thread_time()
                try:
                    return work(worker, item)
                finally:
                    spent[item] = time.thread_time() - began

            def ask(item: int, given: Any) -> None:
                nonlocal asking
                began = time.thread_time()
                if meanwhile is not None:
                    meanwhile(item, given)
                asking += time.thread_time() - began

            found = each(threads, count, run, meanwhile and ask, is_wanted)
            self.add([spent[item] for item in range(count)], threads.workers, asking)
            return found

        Threads.each = timed  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            Threads.each = each  # type: ignore[method-assign]

    def add(self, items_s: list[float], threads: int, meanwhile_s: float = 0.0) -> None:
        """A phase of such items, each of which goes to the thread that is free first, on as many cores as threads."""
        ends = [0.0] * threads
        for item_s in items_s:
            ends[ends.index(min(ends))] += item_s
        self.all_s += sum(items_s)
        self.longest_s += max(*ends, meanwhile_s, (sum(ends) + meanwhile_s) / threads)
        self.meanwhile_s += meanwhile_s
