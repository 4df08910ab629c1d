"""What is known of states before they are expanded: their steps, and the states to which these lead.

Two look ahead. Where a program has to run in a state, the kernel goes on behind it to see what else has to; it keeps
the steps that it finds meanwhile. And with more than one worker, threads look up a part of a level each before it is
expanded. They share all that is known, and only read it; so each state is numbered by the one thread that expands, and
what is found does not depend on how many there are. Compiled code runs without Python's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tidegauge.spec.kernel.fast import kernel, looking
from tidegauge.spec.kernel.fast.recents import RecentPaths, Recents

__all__ = ["Ahead", "clear_states", "look_ahead"]

Arrays: TypeAlias = tuple[npt.NDArray[Any], ...]

ROOM: Final = 1 << 15
"""Steps that each thread, and the kernel, may keep: eight for each state that it looks at."""
_FEW: Final = 64
"""States a thread, for fewer of which it is not worth its while."""
_MANY_ASKED: Final = 4
"""In one of how many states a program has to run so that looking ahead is in vain."""


class Ahead:
    """The steps of the states that are expanded next, and the threads that look them up."""

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers
        self._threads: ThreadPoolExecutor | None = None
        self._recents = [Recents() for _ in range(workers)]
        self._shared = ROOM * workers if workers > 1 else 0
        """Places before those of the kernel."""
        self._at: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        """By state: the place of its first step; -1 where nothing is known."""
        self._counts = self._at.copy()
        self._known: npt.NDArray[np.int64] = np.zeros((self._shared + ROOM, 3), np.int64)
        """By step: its program, its leaf, and the number of the state that it leads to."""
        self._hashes: npt.NDArray[np.uint64] = np.zeros(max(1, self._shared), np.uint64)
        self._rows: npt.NDArray[np.uint64] = np.zeros((len(self._hashes), 1), np.uint64)
        """By step of a thread: the new state that it leads to, packed."""
        self._info: npt.NDArray[np.int64] = np.zeros(3, np.int64)
        self._asked, self._states = 0, 1

    @contextmanager
    def working(self) -> Iterator[None]:
        """The threads are there."""
        if self.workers == 1:
            yield
            return
        with ThreadPoolExecutor(self.workers, "explorer") as self._threads:
            yield
        self._threads = None

    @property
    def arrays(self) -> Arrays:
        """What the kernel has to know of it."""
        return self._at, self._counts, self._known, self._hashes, self._rows, self._info

    def begin(self, start: int, end: int, lanes: int) -> None:
        """Nothing is known of the states from `start` to `end`, which are expanded next."""
        if end - start > len(self._at):
            self._at = np.zeros(end - start, np.int64)
            self._counts = self._at.copy()
        self._at[: end - start] = -1
        if self._rows.shape[1] != lanes:
            self._rows = np.zeros((len(self._hashes), lanes), np.uint64)
        self._info[:] = start, self._shared, 1

    def forget(self) -> None:
        """States are packed in another way."""
        self._info[kernel.IS_PACKED] = 0
        for recents in self._recents:
            recents.forget()

    def is_worthwhile(self, states: int, asked: int) -> bool:
        """Whether threads find anything in so many states, after programs have run so often."""
        is_known = (asked - self._asked) * _MANY_ASKED <= self._states
        self._asked, self._states = asked, states
        return is_known and self.shares(states)

    def shares(self, states: int) -> bool:
        """Whether so many states are enough for all threads."""
        return self._threads is not None and states >= _FEW * self.workers

    def share(
        self,
        start: int,
        end: int,
        programs: int,
        lanes: int,
        look: Callable[[int, int, int, int, RecentPaths], None],
    ) -> None:
        """Have each thread look at its part of the states.

        `look` takes the first state and that behind the last one, the first place and that behind the last one, and
        paths of so many programs that this thread has walked of late.
        """
        paths = [recents.of(programs, lanes) for recents in self._recents]
        self._shared_out(
            start, end, lambda worker, first, last: look(first, last, worker * ROOM, (worker + 1) * ROOM, paths[worker])
        )

    def spread(self, start: int, end: int, work: Callable[[int, int], None]) -> None:
        """Have each thread do something with its part of the states, if they are enough for all."""
        if self.shares(end - start):
            self._shared_out(start, end, lambda _, first, last: work(first, last))
        else:
            work(start, end)

    def _shared_out(self, start: int, end: int, work: Callable[[int, int, int], None]) -> None:
        """`work` takes the number of a thread, the first of its states, and that behind the last one."""
        assert self._threads is not None
        borders = [start + (end - start) * worker // self.workers for worker in range(self.workers + 1)]
        parts = [
            self._threads.submit(work, worker, first, last) for worker, (first, last) in enumerate(pairwise(borders))
        ]
        for part in parts:
            part.result()


def look_ahead(search: Any, start: int, end: int) -> None:
    """Before a `FastSearch` expands the states from `start` to `end`: have its threads look up their steps."""
    ahead, tries, questions, lanes = search.ahead, search.tries, search.layout.questions, search.packing.lanes
    ahead.begin(start, end, lanes)
    if not ahead.is_worthwhile(end - start, search.asked):
        return
    compiled: Any = looking.looked_up  # numba has its types from the calls

    def look(first: int, last: int, free: int, room: int, paths: RecentPaths) -> None:
        compiled(
            first, last, free, room, search.bases, tries.roots, tries.node_word, tries.keys, tries.codes,
            tries.leaf_start, tries.leaf_items, search.rows, search.packing.places, search.table.slots, search.count,
            len(search.chosen), questions.words, questions.table, *paths, *search.renamed_words(), ahead.arrays,
        )  # fmt: skip

    ahead.share(start, end, tries.programs, lanes, look)


def clear_states(search: Any) -> npt.NDArray[np.bool_]:
    """Which of the new states of a `FastSearch` threads have judged: nothing is to be said of these."""
    ahead, tries, questions, base, end = (
        search.ahead,
        search.tries,
        search.layout.questions,
        search.checked,
        search.count,
    )
    if not ahead.shares(end - base):
        return _NONE
    clear: npt.NDArray[np.bool_] = np.zeros(end - base, np.bool_)
    programs, wanted = search.judging()
    compiled: Any = looking.cleared  # numba has its types from the calls

    def look(first: int, last: int, free: int, room: int, paths: RecentPaths) -> None:
        compiled(
            first, last, base, programs, wanted, tries.roots, tries.node_word, tries.keys, tries.codes, search.rows,
            search.packing.places, questions.words, questions.table, *paths, clear,
        )  # fmt: skip

    ahead.share(base, end, tries.programs, search.packing.lanes, look)
    return clear


_NONE: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
