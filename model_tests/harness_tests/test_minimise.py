"""Delta debugging finds a list from which nothing can be left out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.model_tests.harness.lockstep.minimising import minimised


@given(st.sets(st.integers(0, 99), max_size=6))
def test_only_the_culprits_are_left(culprits: set[int]) -> None:
    def fails(items: Sequence[int]) -> bool:
        return culprits <= set(items)

    assert minimised(range(100), fails) == tuple(sorted(culprits))


def test_no_single_item_can_be_left_out() -> None:
    def fails(items: Sequence[int]) -> bool:
        return sum(items) >= 30

    shortest = minimised([1, 2, 3, 4, 5, 6, 7, 8, 9, 10] * 2, fails)
    assert all(not fails(shortest[:i] + shortest[i + 1 :]) for i in range(len(shortest)))


def test_a_list_that_does_not_fail_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fail"):
        minimised([1, 2, 3], lambda items: False)


def test_the_number_of_judgements_is_limited() -> None:
    asked = 0

    def fails(items: Sequence[int]) -> bool:
        nonlocal asked
        asked += 1
        return sum(items) >= 30

    minimised(range(100), fails, attempts=10)
    assert asked == 11, "one for the list itself, and ten"
