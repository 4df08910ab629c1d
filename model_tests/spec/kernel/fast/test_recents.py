"""Of the last paths of a program the one is taken that has read what a state has, and none when states are repacked."""

from __future__ import annotations

import numpy as np

from tidegauge.spec.kernel.fast.recents import Recents
from tidegauge.spec.kernel.fast.trie_tables import WAYS, recent

LANES = 2
MASK, OTHER_MASK = 0xFF00, 0xF


def lanes(*values: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(values, np.uint64)


def with_two_paths(recents: Recents, program: int) -> None:
    """One that has read a byte of the first lane and came to leaf 7; one that has read of both, and came to leaf 9."""
    bits, leaves, _ = recents.of(program + 1, LANES)
    paths = bits.reshape(-1, WAYS, 2, LANES)[program]
    paths[0] = [[MASK, 0], [0x1200, 0]]
    paths[2] = [[OTHER_MASK, OTHER_MASK], [3, 4]]
    leaves.reshape(-1, WAYS)[program] = [7, -1, 9, -1]


def found(recents: Recents, program: int, *state: int) -> int:
    bits, leaves, _ = recents.of(program + 1, LANES)
    return int(recent(program, lanes(*state), bits, leaves))


def test_a_state_takes_the_path_that_has_read_what_it_has() -> None:
    recents = Recents()
    with_two_paths(recents, 5)
    assert found(recents, 5, 0x1200, 0) == 7
    assert found(recents, 5, 0xAB12CD, 99) == 7
    assert found(recents, 5, 0x1303, 0x54) == 9
    assert found(recents, 5, 0x1303, 0x55) == -1
    assert found(recents, 5, 0x1304, 0x54) == -1
    assert found(recents, 4, 0x1200, 0) == -1


def test_paths_are_kept_when_there_are_more_programs_and_forgotten_when_states_are_repacked() -> None:
    recents = Recents()
    with_two_paths(recents, 5)
    recents.of(5_000, LANES)
    assert found(recents, 5, 0x1200, 0) == 7
    assert found(recents, 4_999, 0x1200, 0) == -1
    recents.forget()
    assert found(recents, 5, 0x1200, 0) == -1
