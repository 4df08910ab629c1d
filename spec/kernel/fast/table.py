"""The numbers of states by their hashes: in one table as long as they fit into memory, and behind it in sorted runs.

Where memory is limited, the table keeps the states that were found last. Before some states are expanded, the search
says which hashes their steps lead to that the table does not have; those of them that a run has are *fetched* into the
table, with their numbers. So the compiled code finds in the table whatever it has to find, and what it does not find is
new: it needs to know nothing of runs, and finds the same states in the same order as without a limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tidegauge.spec.kernel.fast import run_tables
from tidegauge.spec.kernel.fast.runs import Hashes, Runs
from tidegauge.spec.kernel.fast.threads import Threads
from tidegauge.spec.kernel.fast.trie_tables import EMPTY
from tidegauge.spec.kernel.storage import Storage

__all__ = ["Table"]

_SMALLEST = 1 << 12
_SHARE = 4
"""What part of the memory the table takes: as much again is needed to sort what leaves it."""
_STEPS = 64
"""Steps of a state, mostly: so much room the compiled code wants to see, though they lead to known states."""

_AT_ONCE = 1 << 18
"""States whose hashes are looked at together."""
_MOVED = 1 << 15
"""Slots for fewer of which it is not worth a thread's while to move what is in them."""

Rows: TypeAlias = tuple[Any, ...]
"""What `run_tables.hashes_of` has to know of states: rows, places, and what renamings do."""


class Table:
    """Numbers by hashes. `rows` gives the rows of all states and what compiled code has to know of them."""

    def __init__(self, storage: Storage, rows: Callable[[], Rows], threads: Threads) -> None:
        self._rows, self._threads = rows, threads
        self.runs = Runs(storage)
        self.slots: npt.NDArray[np.uint64] = np.full(2 * _SMALLEST, EMPTY, np.uint64)
        self.most = _slots_in(storage.memory)
        """Slots at most; 0 for no limit."""
        self.first = 0
        """The first state that is in no run; those before it are in one each."""
        self._fetched: list[tuple[Hashes, npt.NDArray[np.uint32]]] = []
        self._fetched_count = 0
        if self.most:
            self.slots = np.full(min(self.most, len(self.slots)), EMPTY, np.uint64)

    @property
    def absent(self) -> int:
        """States that are in a run and not in the table."""
        return self.first - self._fetched_count

    def is_narrow(self, count: int) -> bool:
        """Whether the table may not grow as is needed with so many states."""
        return self.first > 0 or (self.most > 0 and count > _room_of(self.most) // 2)

    def have_room(self, count: int, more: int) -> bool:
        """Have room for so many more states than `count`, if the table may become as large; whether it has."""
        if not self.most:
            self.make_room(count, more)
            return True
        while not self.is_narrow(count) and 2 * len(self.slots) <= self.most and not self.has_room(count, more):
            self._grow()
        return self.has_room(count, more)

    def make_room(self, count: int, more: int) -> None:
        """Have room for so many more states than `count`, however large the table becomes."""
        while count - self.absent + more > _room_of(len(self.slots)):
            self._grow()

    def _grow(self) -> None:
        """Move all to a table twice as large: what is in a part of the slots to the same part of that."""
        slots: npt.NDArray[np.uint64] = np.empty(2 * len(self.slots), np.uint64)

        def move(first: int, end: int) -> None:
            run_tables.emptied(slots, 2 * first, 2 * end)
            run_tables.moved(self.slots, first, end, slots, 2 * first, 2 * end)

        self._threads.spread(0, len(self.slots), move, _MOVED)
        run_tables.moved_rest(self.slots, slots)
        self.slots = slots

    def has_room(self, count: int, more: int) -> bool:
        """Whether so many more states fit into as much as the table may take."""
        return count - self.absent + more + _STEPS <= _room_of(min(len(self.slots), self.most))

    def fetch(self, wanted: Hashes) -> None:
        """Have in the table what the runs have of these hashes, which are sorted, and of which it has none."""
        hashes, numbers = self.runs.find(wanted)
        run_tables.put_states(self.slots, hashes, numbers)
        self._fetched.append((hashes, numbers))
        self._fetched_count += len(hashes)

    def shrink(self, count: int) -> bool:
        """Have all but the latest states leave the table: into a run, if they are in none. False if that is done."""
        size = min(len(self.slots), self.most)
        if count - self.first > _room_of(size) // 2:
            first = count - _room_of(size) // 4
            self.runs.add(self._hashes(np.arange(self.first, first)), self.first)
            self.first = first
        elif not self._fetched_count and size == len(self.slots):
            return False
        self._fetched, self._fetched_count = [], 0
        self._placed(size, count)
        return True

    def reopen(self, runs: Any, first: int, count: int) -> None:
        """Go on with the states of a checkpoint: without a limit, all of them in the table, whatever runs it had."""
        if self.most:
            self.runs.reopen(runs)
            self.first = first
        size = len(self.slots)
        while count - self.first > _room_of(size):
            size *= 2
        self._placed(size, count)

    def _hashes(self, numbers: npt.NDArray[Any]) -> Hashes:
        """The hashes of the states of these numbers."""
        numbers, rows = numbers.astype(np.int64), self._rows()
        found: Hashes = np.zeros(len(numbers), np.uint64)
        self._threads.spread(
            0, len(numbers), lambda first, end: run_tables.hashes_of(numbers[first:end], *rows, found[first:end])
        )
        return found

    def hash_again(self, count: int) -> None:
        """States have other hashes, since they are packed in another way or have more words."""
        self.runs.clear()
        for start in range(0, self.first, _AT_ONCE):
            self.runs.add(self._hashes(np.arange(start, min(start + _AT_ONCE, self.first))), start)
        self._fetched = [(self._hashes(numbers), numbers) for _, numbers in self._fetched]
        self._placed(len(self.slots), count)

    def _placed(self, size: int, count: int) -> None:
        self.slots = np.full(size, EMPTY, np.uint64)
        for start in range(self.first, count, _AT_ONCE):
            kept = np.arange(start, min(start + _AT_ONCE, count), dtype=np.uint32)
            run_tables.put_states(self.slots, self._hashes(kept), kept)
        for hashes, numbers in self._fetched:
            run_tables.put_states(self.slots, hashes, numbers)


def _room_of(slots: int) -> int:
    """States that a table may have, so that looking for one takes a few looks."""
    return slots // 4 * 3


def _slots_in(memory: int | None) -> int:
    if memory is None:
        return 0
    slots = _SMALLEST
    while 2 * slots * 8 * _SHARE <= memory:
        slots *= 2
    return slots
