"""Deadlines that are put off: what ends, ends once and in order, and what is put off costs the heap nothing."""

from __future__ import annotations

from random import Random

import pytest

from tidegauge.impl.coordinators.deadlines import SMALL, Deadlines
from tidegauge.model_tests.amounts import amount


@pytest.mark.parametrize("seed", range(amount(8, deep=20)))
def test_what_is_due_is_what_a_table_of_all_deadlines_says(seed: int) -> None:
    rng = Random(seed)
    deadlines: Deadlines[int] = Deadlines()
    table: dict[int, int] = {}
    now = 0
    for _ in range(500):
        key = rng.randrange(12)
        match rng.randrange(4):
            case 0:
                deadlines.cancel(key)
                table.pop(key, None)
            case 1:
                now += rng.randrange(8)
                ended = {one for one, deadline in table.items() if deadline <= now}
                due = list(deadlines.due(now))
                assert set(due) == ended
                assert len(due) == len(ended)
                table = {one: deadline for one, deadline in table.items() if one not in ended}
            case _:
                table[key] = now + rng.randrange(30)
                deadlines.set(key, table[key])
        assert len(deadlines) == len(table)
        first = deadlines.first()
        assert not table or (first is not None and first <= min(table.values()))


def test_a_deadline_that_is_put_off_again_and_again_is_in_the_heap_once() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for now in range(10_000):
        deadlines.set("session", now + 10)
    assert deadlines.entries == 1
    assert list(deadlines.due(10_008)) == []
    assert list(deadlines.due(10_009)) == ["session"]
    assert deadlines.first() is None


def test_what_was_cancelled_does_not_fill_the_heap() -> None:
    deadlines: Deadlines[int] = Deadlines()
    for key in range(10_000):
        deadlines.set(key, 1_000_000 - key)
        deadlines.cancel(key)
    assert deadlines.entries <= SMALL + 2
    for nth in range(10_000):
        deadlines.set(0, 1_000_000 - nth)
        deadlines.cancel(nth + 1)
    assert deadlines.entries <= SMALL + 2


def test_what_is_set_while_others_end_counts() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 1)
    deadlines.set("b", 2)
    ended = []
    for key in deadlines.due(2):
        ended.append(key)
        if key == "a":
            deadlines.cancel("b")
            deadlines.set("c", 1)
            deadlines.set("d", 3)
    assert (ended, deadlines.first()) == (["a", "c"], 3)
