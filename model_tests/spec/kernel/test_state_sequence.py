"""The states of a search as a sequence: by their numbers, in slices, and one after the other up to the last."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import pytest

from tidegauge.spec.kernel.state_sequence import StateSequence


class Search:
    """One whose state number n is 10 n; it makes no state beyond those that it has."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.states = StateSequence[int](lambda: self.count, self.made)

    def made(self, numbers: Sequence[int]) -> list[int]:
        assert all(0 <= number < self.count for number in numbers)
        return [10 * number for number in numbers]


@pytest.mark.parametrize("count", [0, 1, 4])
def test_a_loop_over_all_states_ends_with_the_last(count: int) -> None:
    states, listed = Search(count).states, [10 * number for number in range(count)]
    assert [*islice(states, count + 2)] == listed
    assert [*reversed(states)] == listed[::-1]
    assert 10 * count not in states


def test_states_are_had_by_numbers_and_slices_as_from_a_list() -> None:
    states, listed = Search(4).states, [0, 10, 20, 30]
    assert [states[number] for number in (0, 3, -1, -4)] == [0, 30, 30, 0]
    assert [*states[1:]] == listed[1:]
    assert [*states[::-2]] == listed[::-2]
    assert states.index(20) == 2
    for number in (4, -5):
        with pytest.raises(IndexError):
            states[number]


def test_states_that_the_search_finds_meanwhile_are_in_the_loop() -> None:
    search, seen = Search(1), []
    for state in search.states:
        seen.append(state)
        search.count = min(search.count + 1, 3)
    assert seen == [0, 10, 20]
