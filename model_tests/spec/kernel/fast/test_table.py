"""The table has every state after it has grown, by however many threads, and after states have other hashes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tidegauge.model_tests.spec.kernel.fast.test_limited_memory import Narrow
from tidegauge.spec.kernel.fast import run_tables, table
from tidegauge.spec.kernel.fast.in_memory import InMemory
from tidegauge.spec.kernel.fast.kernel import slot_of
from tidegauge.spec.kernel.fast.packed import hashed
from tidegauge.spec.kernel.fast.packing import Packing
from tidegauge.spec.kernel.fast.table import Table
from tidegauge.spec.kernel.fast.threads import Threads
from tidegauge.spec.kernel.fast.trie_tables import EMPTY

Hashes = npt.NDArray[np.uint64]

NO_RENAMINGS = (
    np.zeros((0, 1), np.uint32),
    np.zeros((0, 1), np.int64),
    np.zeros(1, np.int64),
    np.zeros((0, 0), np.uint32),
)
PLACES = Packing([60]).places


def rows_of(rows: npt.NDArray[np.uint64]) -> Any:
    return lambda: (rows, PLACES, *NO_RENAMINGS)


def found(slots: Hashes, hash_: int) -> set[int]:
    """The numbers of states that are found under a hash."""
    numbers, slot, half = set[int](), int(slot_of(np.uint64(hash_), slots)), hash_ & 0xFFFFFFFF
    while slots[slot] != EMPTY:
        if int(slots[slot]) >> 32 == half:
            numbers.add(int(slots[slot]) & 0xFFFFFFFF)
        slot = (slot + 1) % len(slots)
    return numbers


def crowded(count: int, slots: int, seed: int) -> Hashes:
    """Hashes of so many states, half of which want the last slot of a part: they lie in the next one too."""
    rng = np.random.default_rng(seed)
    halves = rng.integers(0, 1 << 32, count).astype(np.uint64)
    borders = rng.integers(1, 9, count).astype(np.uint64) * np.uint64(1 << 29) - np.uint64((1 << 32) // slots)
    rng.shuffle(borders)
    halves[: count // 2] = borders[: count // 2] + rng.integers(0, (1 << 32) // slots, count // 2).astype(np.uint64)
    return halves | rng.integers(0, 1 << 32, count).astype(np.uint64) << np.uint64(32)


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 8])
def test_no_state_is_lost_when_the_table_grows_by_parts(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_MOVED", 1)
    threads = Threads(workers)
    with threads.working():
        grown = Table(InMemory(), rows_of(np.zeros((1, 1), np.uint64)), threads)
        size = len(grown.slots)
        hashes = crowded(size * 3 // 4, size, workers)
        run_tables.put_states(grown.slots, hashes, np.arange(len(hashes), dtype=np.uint32))
        before = np.sort(grown.slots[grown.slots != EMPTY])
        for doubled in (2 * size, 4 * size):
            grown.make_room(doubled // 2 * 3 // 4, 1)
            assert len(grown.slots) == doubled
            assert np.array_equal(np.sort(grown.slots[grown.slots != EMPTY]), before)
            for number, hash_ in enumerate(hashes.tolist()):
                assert number in found(grown.slots, hash_)


@pytest.mark.parametrize("memory", [None, 1 << 19])
def test_states_that_are_packed_in_another_way_are_found_by_their_new_hashes(memory: int | None) -> None:
    """With limited memory most of them are in runs, and some of these in the table again."""
    count = 40_000
    rows = np.arange(count, dtype=np.uint64).reshape(-1, 1) * np.uint64(7)
    storage = InMemory() if memory is None else Narrow(memory)
    kept = Table(storage, rows_of(rows), Threads())

    def hash_of(number: int) -> int:
        return int(hashed(rows[number]))

    for number in range(count):
        if not number % 1000:
            while not kept.have_room(number, 1000) and kept.shrink(number):
                pass
        run_tables.put_states(kept.slots, np.array([hash_of(number)], np.uint64), np.array([number], np.uint32))
    assert bool(kept.first) is (memory is not None)
    back = [3, 500, 900] if memory else []
    kept.fetch(np.array(sorted(map(hash_of, back)), np.uint64))
    rows[:] = rows * np.uint64(5) + np.uint64(1)
    kept.hash_again(count)
    for number in (*back, *range(kept.first, count)):
        assert number in found(kept.slots, hash_of(number))
    away = [number for number in range(0, kept.first, 37) if number not in back]
    assert not any(number in found(kept.slots, hash_of(number)) for number in away)
    kept.fetch(np.array(sorted(map(hash_of, away)), np.uint64))
    for number in away:
        assert number in found(kept.slots, hash_of(number))
    assert sum(size for _, size in kept.runs.saved) == kept.first
    if memory is not None:
        assert away
        assert {name.removesuffix("-hashes") for name in storage._arrays if name.endswith("-hashes")} == {
            name for name, _ in kept.runs.saved
        }
