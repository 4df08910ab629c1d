"""States are kept in as few bits as their words need, and come back as they were, however they are packed again."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tidegauge.spec.kernel.exploration import Engine
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.fast import kernel, packed
from tidegauge.spec.kernel.fast.packing import LANE_BITS, Packing
from tidegauge.spec.kernel.fast.trie_tables import EMPTY
from tidegauge.spec.kernel.progress import Limits
from tidegauge.spec.registry import REGISTRY


def test_states_are_the_same_after_they_were_packed_again() -> None:
    for seed in range(50):
        random = Random(seed)
        words = random.randint(1, 40)
        counts = [random.choice((1, 1, 2, 3, 9, 300, 70_000)) for _ in range(words)]
        packing = Packing([0] * words).for_values(counts)
        states = [[random.randrange(count) for count in counts] for _ in range(20)]
        kept = np.zeros((1, packing.lanes), np.uint64)
        renamings = np.zeros((0, words), np.uint32), np.zeros((0, words), np.int64), np.zeros(words, np.int64)
        rows = np.zeros((len(states), packing.lanes), np.uint64)
        for number, state in enumerate(states):
            table = np.full(8, EMPTY, np.uint64)
            row = np.array(state, np.uint32)
            kernel.added(row, kept, packing.places, table, 0, *renamings, np.zeros((0, 0), np.uint32))
            rows[number] = kept[0]
        wider = packing.for_values([count * random.choice((1, 1, 5)) for count in counts])
        others = np.zeros((len(states), wider.lanes), np.uint64)
        packed.repacked(rows, packing.places, 0, len(states), others, wider.places)
        for where, how in ((rows, packing), (others, wider)):
            for number, state in enumerate(states):
                row = np.zeros(words, np.uint32)
                packed.unpacked(where[number], how.places, row)
                assert row.tolist() == state, f"seed {seed}"


def test_more_words_lie_behind_the_others_and_where_there_is_no_room_there_is_a_lane_to_spare() -> None:
    packing = Packing([30, 30, 20]).longer(3, 2)
    assert (packing.lanes, packing.widths) == (2, (30, 30, 20, 2, 2, 2))
    assert packing.places[:, :3].tolist() == Packing([30, 30, 20]).places.tolist()
    assert packing.places[:, 3:].tolist() == [[1, 1, 1], [20, 22, 24], [3, 3, 3]]
    longer = packing.longer(20, 2)
    assert longer.lanes == 4, "one bit too many for two, and one to spare"
    full = longer.longer(30, 2)
    assert full.lanes == longer.lanes
    assert full.places[:, :26].tolist() == longer.places.tolist()
    assert longer.for_values([1] * 26) is longer
    wider = longer.for_values([1 << 31, *[1] * 25], spare=1)
    assert wider.lanes == Packing(wider.widths).lanes + 1


def test_a_word_takes_the_bits_of_its_numbers_and_lies_in_one_lane() -> None:
    packing = Packing([0, 0, 0, 0]).for_values([1, 2, 5, 1])
    assert packing.widths == (0, 2, 4, 0)
    assert packing.for_values([1, 4, 16, 1]) is packing
    assert packing.for_values([1, 5, 8, 1]).widths == (0, 4, 4, 0)
    wide = Packing([40, 30, 34, 0, 1])
    assert wide.lanes == 3
    assert wide.places.tolist() == [[0, 1, 1, 1, 2], [0, 0, 30, 0, 0], [2**40 - 1, 2**30 - 1, 2**34 - 1, 0, 1]]
    assert all(shift + width <= LANE_BITS for shift, width in zip(wide.places[1].tolist(), wide.widths, strict=True))


def test_words_that_are_more_than_half_full_get_a_bit_where_that_takes_no_lane_more() -> None:
    packing = Packing([0, 0, 0, 0]).for_values([1, 2, 5, 1])
    assert packing.for_values([1, 5, 9, 1]).widths == (0, 4, 5, 0)
    assert packing.for_values([1, 4, 17, 1]).widths == (0, 3, 6, 0)
    crowded = Packing([30, 29, 2]).for_values([1 << 30, 1 << 29, 5])
    assert crowded.widths == (31, 29, 4), "the fullest first, and there is one bit"
    assert crowded.lanes == 1
    full = Packing([30, 30, 1]).for_values([1 << 30, 1 << 30, 5])
    assert full.widths == (30, 30, 4), "there is none"
    assert full.lanes == 1


@pytest.mark.parametrize("name", ["kip320", "shrink", "transactions-coordinator"])
def test_a_state_takes_few_bytes(name: str) -> None:
    """So many states that the smallest tables are filled: these take 190 kB."""
    found = explore(REGISTRY.machine(name), limits=Limits(states=10_000), engine=Engine.FAST)
    assert found.bytes is not None
    assert found.bytes <= 40 * 10_000
