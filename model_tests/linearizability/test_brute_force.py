"""On 300,000 small histories at both levels the checker gives the verdicts of docs/history.md, and their coverage."""

from __future__ import annotations

import numpy as np
import pytest

from tidegauge.linearizability.check import Verdict, check
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.malformed import find
from tidegauge.model_tests.linearizability.brute_force import Small, Truth, covered, valid
from tidegauge.model_tests.linearizability.small_histories import draw, is_contiguous, operations

HISTORIES = 30_000
SEEDS = range(10)


def shown(small: Small, row: int) -> str:
    return "\n".join(f"{one}, offsets {list(one.placed)}" for one in operations(small.take(np.array([row]))))


def compare(seed: int, count: int) -> tuple[Truth, Truth]:
    """Check `count` histories both ways; which are valid at either level."""
    small = draw(seed, count)
    found = {level: valid(small, level is Level.STRICT) for level in Level}
    records, unconfirmed, open_ends = covered(small)
    plain = is_contiguous(small)
    for rows, contiguous in ((np.flatnonzero(plain), True), (np.flatnonzero(~plain), False)):
        part = operations(small.take(rows), contiguous)
        assert not find(part)
        for level in Level:
            checked = check(part, level, named=0)
            verdicts = checked.verdicts
            expected = np.where(found[level][rows], Verdict.VALID, Verdict.VIOLATED)
            for at in np.flatnonzero(verdicts != expected):
                said = Verdict(int(verdicts[at])).name
                raise AssertionError(f"seed {seed}, {level}: the checker says {said}\n{shown(small, rows[at])}")
        coverage = checked.coverage
        agree = (coverage.records == records[rows]) & (coverage.unconfirmed == unconfirmed[rows])
        agree &= coverage.open_ends == open_ends[rows]
        for at in np.flatnonzero(found[Level.KAFKA][rows] & ~agree):
            raise AssertionError(f"seed {seed}: {coverage.notes()[int(at)]}\n{shown(small, rows[at])}")
    return found[Level.KAFKA], found[Level.STRICT]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_verdicts_are_those_of_the_documented_semantics(seed: int) -> None:
    kafka, strict = compare(seed, HISTORIES)
    assert 0.1 * HISTORIES < (~kafka).sum() < (~strict).sum() < 0.6 * HISTORIES
    assert not (strict & ~kafka).any()


def test_there_are_three_hundred_thousand_and_no_seed_draws_those_of_another() -> None:
    assert HISTORIES * len(SEEDS) >= 300_000
    first, second = (operations(draw(seed, 100)) for seed in (0, 1))
    assert len(first) != len(second) or (first.call != second.call).any()


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(100, 200))
def test_the_verdicts_are_those_of_the_documented_semantics_on_many_more(seed: int) -> None:
    compare(seed, HISTORIES)
