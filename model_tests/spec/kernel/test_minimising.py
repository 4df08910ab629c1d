"""Delta debugging finds a list from which nothing can be left out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.spec.kernel.minimising import minimised


@given(st.sets(st.integers(0, 99), max_size=6))
def test_only_the_culprits_are_left(culprits: set[int]) -> None:
    def trial(items: Sequence[int]) -> Sequence[int] | None:
        return items if culprits <= set(items) else None

    assert minimised(range(100), trial) == tuple(sorted(culprits))


def test_what_a_trial_does_not_need_is_left_out_at_once() -> None:
    tried: list[int] = []

    def trial(items: Sequence[int]) -> Sequence[int] | None:
        tried.append(len(items))
        return [item for item in items if item == 7] or None

    assert minimised(range(100), trial) == (7,)
    assert tried == [100, 0]


def test_no_single_item_can_be_left_out() -> None:
    def trial(items: Sequence[int]) -> Sequence[int] | None:
        return items if sum(items) >= 30 else None

    shortest = minimised([1, 2, 3, 4, 5, 6, 7, 8, 9, 10] * 2, trial)
    assert all(trial(shortest[:i] + shortest[i + 1 :]) is None for i in range(len(shortest)))


def test_a_list_that_does_not_fail_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fail"):
        minimised([1, 2, 3], lambda items: None)


def test_the_number_of_trials_is_limited() -> None:
    trials = 0

    def trial(items: Sequence[int]) -> Sequence[int] | None:
        nonlocal trials
        trials += 1
        return items if sum(items) >= 30 else None

    minimised(range(100), trial, attempts=10)
    assert trials == 11, "one for the list itself, and ten"


def test_items_that_only_go_together_are_left_out_wherever_they_begin() -> None:
    def trial(items: Sequence[str]) -> Sequence[str] | None:
        opened, closed = "".join(items).count("("), "".join(items).count(")")
        return items if "x" in items and opened == closed else None

    assert minimised("a(b)c(d)xe", trial) == ("x",)
