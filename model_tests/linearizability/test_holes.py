"""Holes that only batches of unknown outcome may fill: decided where a small condition decides, else searched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.check import Verdict, check
from tidegauge.linearizability.history import Operation, Operations
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.linearizability.rows import end, fetch, history, produce, unknown

MANY = [*range(2, 13)] * 8
"""Sizes of batches, of two records and more."""


def holed(gaps: Sequence[int], batches: Sequence[int], called: Sequence[int] | None = None) -> Operations:
    """A record after each gap, and the batches of unknown outcome, which were called before or at those times."""
    rows: list[Operation] = [end(0, 0, 0)]
    at = 0
    for number, gap in enumerate(gaps):
        rows.append(produce(0, 10 + number, at + gap, 1_000_000 + number))
        at += gap + 1
    value = 0
    for number, size in enumerate(batches):
        rows.append(unknown(called[number] if called else 1, *range(value, value + size)))
        value += size
    return history(rows)


IMPOSSIBLE = {
    "a hole of one among batches of two and more": ([7 + i % 9 for i in range(20)] + [1], MANY),
    "two holes of one, and one such batch": ([12] * 12 + [1, 1], [*MANY, 1]),
    "more holes of three than batches of three": ([7] * 10 + [3] * 9, MANY),
    "odd holes and even batches": ([8] * 12 + [7], [2, 4, 6, 8] * 20),
    "the last hole is the only one that nothing fits": ([6] * 12 + [5], [3, 6, 9, 12] * 20),
}


def test_holes_whose_batches_were_called_too_late_are_a_violation_at_once() -> None:
    gaps, sizes = [30] * 60, [10, 11, 9] * 60
    in_time = holed(gaps, sizes, [10 + number // 3 for number in range(len(sizes))])
    assert check(in_time).valid
    late = holed(gaps, sizes, [10 + number // 3 + (number == 44) for number in range(len(sizes))])
    (anomaly,) = check(late, hole_steps=1_000).anomalies
    assert anomaly.name is Name.OFFSET_HOLE
    assert "no produce accounts for offsets 434 to 463. " in anomaly.witness


@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_holes_that_no_batches_fit_are_a_violation_at_once(what: str) -> None:
    gaps, batches = IMPOSSIBLE[what]
    verdicts = check(holed(gaps, batches), hole_steps=1_000)
    assert verdicts.of(0) is Verdict.VIOLATED
    assert [one.name for one in verdicts.anomalies] == [Name.OFFSET_HOLE]


def test_the_witness_names_the_hole_that_nothing_fits() -> None:
    (anomaly,) = check(holed([7 + i % 9 for i in range(20)] + [1], MANY)).anomalies
    assert "no produce accounts for offset 233. " in anomaly.witness


def test_holes_that_fit_are_filled() -> None:
    assert check(holed([7 + i % 9 for i in range(20)], MANY)).valid
    assert check(holed([12] * 12 + [1, 1], [*MANY, 1, 1])).valid


def test_a_log_may_begin_with_a_batch_that_reaches_over_the_first_offset_that_is_mentioned() -> None:
    mentioned = [fetch(2, 3, 2, mark=2), produce(4, 5, 4, 9)]
    assert check(history([unknown(0, 1, 2, 3, 4), *mentioned])).valid
    assert check(history([produce(0, 1, 1, 1, 2, 3, acks=1), *mentioned])).valid
    for other in (unknown(0, 1), unknown(4, 1, 2, 3), unknown(0, 1, 2, 3, 4, 5), produce(0, 1, 0, 1, 2, 3, acks=1)):
        assert check(history([other, *mentioned])).of(0) is Verdict.VIOLATED, str(other)


def tiles(gaps: Sequence[int], left: Counter[tuple[int, int]], number: int = 0, filled: int = 0) -> bool:
    """Whether batches, by size and call, tile the gaps: every order of every choice is tried."""
    if number == len(gaps):
        return True
    if filled == gaps[number]:
        return tiles(gaps, left, number + 1)
    return any(
        tiles(gaps, left - Counter({(size, call): 1}), number, filled + size)
        for size, call in left
        if filled + size <= gaps[number] and call <= 10 + number
    )


def test_the_search_fills_what_some_order_of_the_batches_fills() -> None:
    found: Counter[bool] = Counter()
    for seed in range(amount(500, deep=800)):
        random = Random(seed)
        gaps = [random.randint(0, 6) for _ in range(random.randint(1, 4))]
        batches = [random.randint(1, 4) for _ in range(random.randint(1, 7))]
        called = [random.choice((1, 1, 11, 12, 13)) for _ in batches]
        expected = tiles(gaps, Counter(zip(batches, called, strict=True)))
        verdict = check(holed(gaps, batches, called)).of(0)
        assert verdict is (Verdict.VALID if expected else Verdict.VIOLATED), (gaps, batches, called)
        found[expected] += 1
    assert min(found.values()) > 100
