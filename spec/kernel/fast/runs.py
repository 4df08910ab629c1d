"""States that are known by files alone, as TLC's `DiskFPSet` has them: their hashes in sorted runs.

What does not fit into the table of a search any more becomes a run. Two runs become one where the later is at least
half as long, so that there are few. A hash only says that a state may be known: who asks compares the states.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import numpy as np
import numpy.typing as npt

from tidegauge.spec.kernel.fast import run_tables
from tidegauge.spec.kernel.storage import Storage

__all__ = ["Runs"]

_BUCKET = 128
"""Hashes, on the average, that have the same beginning: of eight bytes each, they fill a quarter of a page."""

Hashes = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.uint32]


@attrs.frozen(eq=False)
class _Run:
    name: str
    count: int
    hashes: Hashes
    numbers: Numbers
    shift: np.uint64
    index: npt.NDArray[np.int64]
    filter: npt.NDArray[np.uint64]
    """A Bloom filter in memory, 13 bits a hash: most of what is asked for is in no run, and needs no page of it."""

    @classmethod
    def of(cls, name: str, count: int, hashes: Hashes, numbers: Numbers) -> _Run:
        bits = max(1, (count // _BUCKET).bit_length())
        shift, index = np.uint64(64 - bits), np.zeros((1 << bits) + 1, np.int64)
        run_tables.indexed(hashes[:count], shift, index)
        passing = np.zeros(count // run_tables.FILTERED + len(index), np.uint64)
        run_tables.let_pass(hashes[:count], index, passing)
        return cls(name, count, hashes, numbers, shift, index, passing)


class Runs:
    """All runs of a search, the oldest first."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._runs: list[_Run] = []
        self._made = 0

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def counts(self) -> dict[str, int]:
        """What of each array is to be saved."""
        return {name: run.count for run in self._runs for name in _names(run.name)}

    @property
    def saved(self) -> list[tuple[str, int]]:
        """What `reopen` takes."""
        return [(run.name, run.count) for run in self._runs]

    def reopen(self, saved: Iterable[tuple[str, int]]) -> None:
        """Go on with the runs of a checkpoint."""
        for name, count in saved:
            hashes, numbers = map(self._storage.opened, _names(name))
            self._runs.append(_Run.of(name, count, hashes, numbers))
            self._made = max(self._made, int(name.removeprefix("run-")) + 1)

    def clear(self) -> None:
        """Have no run."""
        for run in self._runs:
            self._remove(run)
        self._runs.clear()

    def add(self, hashes: Hashes, first: int) -> None:
        """Add the states from number `first` on, by their hashes."""
        order = np.argsort(hashes)
        run = self._new(len(hashes))
        np.take(hashes, order, out=run.hashes[: run.count])
        run.numbers[: run.count] = order + first
        self._runs.append(_Run.of(run.name, run.count, run.hashes, run.numbers))
        while len(self._runs) > 1 and self._runs[-2].count <= 2 * self._runs[-1].count:
            self._merge()

    def find(self, wanted: Hashes) -> tuple[Hashes, Numbers]:
        """The states that have one of these hashes, which are sorted: hash and number of each."""
        found: Hashes = np.zeros(len(wanted) + 16, np.uint64)
        while True:
            numbers, count = np.zeros(len(found), np.uint32), 0
            for run in self._runs:
                count = run_tables.sought(
                    wanted,
                    run.hashes[: run.count],
                    run.numbers,
                    run.index,
                    run.shift,
                    run.filter,
                    found,
                    numbers,
                    count,
                )
            if count <= len(found):
                return found[:count], numbers[:count]
            found = np.zeros(count, np.uint64)

    def _new(self, count: int) -> _Run:
        name = f"run-{self._made}"
        self._made += 1
        hashes, numbers = _names(name)
        of_hashes, of_numbers = (
            self._storage.array(hashes, np.uint64, count),
            self._storage.array(numbers, np.uint32, count),
        )
        return _Run(name, count, of_hashes, of_numbers, np.uint64(0), _NO_INDEX, _NO_FILTER)

    def _merge(self) -> None:
        first, second = self._runs[-2:]
        both = self._new(first.count + second.count)
        run_tables.merged(
            first.hashes[: first.count], first.numbers, second.hashes[: second.count], second.numbers,
            both.hashes[: both.count], both.numbers,
        )  # fmt: skip
        self._runs[-2:] = [_Run.of(both.name, both.count, both.hashes, both.numbers)]
        for old in (first, second):
            self._remove(old)

    def _remove(self, run: _Run) -> None:
        for name in _names(run.name):
            self._storage.remove(name)


_NO_INDEX: npt.NDArray[np.int64] = np.zeros(0, np.int64)
_NO_FILTER: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)


def _names(run: str) -> tuple[str, str]:
    return f"{run}-hashes", f"{run}-numbers"
