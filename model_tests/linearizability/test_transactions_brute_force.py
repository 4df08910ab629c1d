"""On small random histories with transactions the checker gives the verdicts of docs/history.md, at both levels."""

from __future__ import annotations

from collections import Counter

import attrs
import numpy as np
import pytest

from tidegauge.linearizability.check import Verdict, check
from tidegauge.linearizability.history import Operation, Operations
from tidegauge.linearizability.log import Level
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.linearizability.small_transactions import draw
from tidegauge.model_tests.linearizability.transactions_brute_force import valid

HISTORIES = amount(600, deep=1_500)


def compare(seed: int, count: int) -> Counter[tuple[Level, bool, bool]]:
    """Check `count` histories both ways; counts by level, by whether they are honest, and by whether they are valid."""
    drawn, honest = draw(seed, count)
    counts: Counter[tuple[Level, bool, bool]] = Counter()
    histories = [rows for rows in _histories(drawn) if any(row.transaction is not None for row in rows)]
    for level in Level:
        verdicts = check(drawn, level)
        by_number = dict(zip(verdicts.histories.tolist(), verdicts.verdicts.tolist(), strict=True))
        for rows in histories:
            number = rows[0].history
            expected = valid(rows, level is Level.STRICT)
            said = Verdict(by_number[number])
            if (said is Verdict.VALID) != expected:
                told = "\n".join(f"{row}, offsets {row.offsets}" for row in rows)
                raise AssertionError(f"seed {seed}, {level}: the checker says {said.name}\n{told}")
            counts[level, number in honest, expected] += 1
    return counts


def _histories(operations: Operations) -> list[list[Operation]]:
    starts = operations.history_starts.tolist()
    return [
        list(operations.slice(start, stop)) for start, stop in zip(starts, [*starts[1:], len(operations)], strict=True)
        if stop > start
    ]  # fmt: skip


def test_the_verdicts_are_those_of_the_documented_semantics() -> None:
    counts = compare(0, HISTORIES)
    assert sum(counts.values()) > 1.7 * HISTORIES
    # What a real log shows its clients is valid; of the others both verdicts occur often.
    assert not counts[Level.KAFKA, True, False]
    assert counts[Level.KAFKA, False, False] > 0.1 * HISTORIES < counts[Level.KAFKA, False, True]
    assert counts[Level.STRICT, False, False] > counts[Level.KAFKA, False, False]
    assert counts[Level.STRICT, True, False] > 0.02 * HISTORIES


def test_how_transactions_are_numbered_makes_no_difference() -> None:
    drawn, _ = draw(1, 300)
    said = drawn.transactional
    assert said is not None
    sparse = attrs.evolve(said, transaction=np.where(said.transaction >= 0, said.transaction * 10**12 + 7, -1))
    for level in Level:
        verdicts = check(drawn, level).verdicts
        assert verdicts.any()
        assert not verdicts.all()
        assert (verdicts == check(attrs.evolve(drawn, transactional=sparse), level).verdicts).all()


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(100, 180))
def test_the_verdicts_are_those_of_the_documented_semantics_on_many_more(seed: int) -> None:
    compare(seed, HISTORIES)
