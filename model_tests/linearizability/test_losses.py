"""No loss goes unsaid: whatever a broken log does, the verdict is *violated*, or says what it does not cover."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import attrs
import pytest

from tidegauge.linearizability.check import Verdict, Verdicts, check
from tidegauge.linearizability.history import Kind, Operations
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.malformed import find
from tidegauge.linearizability.model import LogModel, calls
from tidegauge.linearizability.search import SearchVerdict, search
from tidegauge.model_tests.linearizability.lossy_log import FAULTS, LossyLog, run
from tidegauge.model_tests.linearizability.row_by_row.evidence import Evidence

RUNS = 3_000
DECLARED = ("elect", "forget the start")
"""Faults that are no violation: one is declared in the history, the other is retention or DeleteRecords."""


def recorded(
    faults: Callable[[Random], tuple[str, ...]], level: Level, seeds: range
) -> tuple[list[LossyLog], Verdicts]:
    """Runs with some faults each, and the verdicts on what their clients saw; reads are late at the level `kafka`."""
    logs = []
    for seed in seeds:
        random = Random(seed)
        logs.append(run(random, faults(random), late=level is Level.KAFKA))
    rows = [
        attrs.evolve(row, history=number, index=index)
        for number, log in enumerate(logs)
        for index, row in enumerate(sorted(log.rows, key=lambda row: row.call))
    ]
    operations = Operations.of(rows)
    assert not find(operations)
    return logs, check(operations, level)


def told(verdicts: Verdicts, number: int) -> str:
    assert verdicts.rows is not None
    anomalies = [str(one) for one in verdicts.anomalies if one.history == number]
    return "\n".join([*anomalies, *(str(row) for row in verdicts.rows if row.history == number)])


def losses_are_said(level: Level, seeds: range) -> None:
    logs, verdicts = recorded(
        lambda random: tuple(random.choice(FAULTS) for _ in range(random.choice((0, 1, 1, 2, 3)))), level, seeds
    )
    found: Counter[str] = Counter()
    for number, log in enumerate(logs):
        lost = [value for value in log.kept if not log.is_there(value)]
        verdict, complete = verdicts.of(number), bool(verdicts.coverage.complete[number])
        assert verdict is not Verdict.UNKNOWN
        silent = bool(lost) and verdict is Verdict.VALID and complete
        assert not silent, f"{level}, seed {seeds[number]}: {lost} of {log.log}\n{told(verdicts, number)}"
        found[f"{'lost' if lost else 'kept'}, {verdict.name.lower()}, {'complete' if complete else 'partial'}"] += 1
    least = len(logs) // 50
    for what in (
        "lost, violated, partial",
        "lost, valid, partial",
        "kept, valid, complete",
        "kept, violated, complete",
    ):
        assert found[what] > least, found


@pytest.mark.parametrize("level", list(Level))
def test_a_lost_record_is_a_violation_or_the_verdict_does_not_cover_it(level: Level) -> None:
    losses_are_said(level, range(RUNS))


@pytest.mark.parametrize("level", list(Level))
def test_a_log_with_declared_losses_only_is_valid(level: Level) -> None:
    logs, verdicts = recorded(
        lambda random: tuple(random.choice(DECLARED) for _ in range(random.choice((0, 1, 2)))), level, range(RUNS)
    )
    for number in range(len(logs)):
        assert verdicts.of(number) is Verdict.VALID, f"{level}, seed {number}\n{told(verdicts, number)}"


@pytest.mark.parametrize("level", list(Level))
def test_the_general_search_agrees_where_it_speaks(level: Level) -> None:
    """On histories that begin at 0, without elections, of which every position is known."""
    logs, verdicts = recorded(lambda random: (random.choice(FAULTS[:-1]),), level, range(1_000))
    spoken: Counter[SearchVerdict] = Counter()
    for number, log in enumerate(logs):
        rows = [attrs.evolve(row, index=at) for at, row in enumerate(sorted(log.rows, key=lambda row: row.call))]
        evidence = Evidence(rows, level)
        single = all(len(row.values) == 1 for row in evidence.produces)
        if evidence.log_start or not single or any(row.index not in evidence.began for row in evidence.fetches):
            continue
        asked = [attrs.evolve(row, offset=evidence.position(row)) if row.kind is Kind.FETCH else row for row in rows]
        model = LogModel(level=level, settled=evidence.settled, atomic=True)
        response = search(model, calls(asked, atomic=True)).verdict
        spoken[response] += 1
        expected = Verdict.VALID if response is SearchVerdict.OK else Verdict.VIOLATED
        assert verdicts.of(number) is expected, f"{level}, seed {number}\n{told(verdicts, number)}"
    assert min(spoken[SearchVerdict.OK], spoken[SearchVerdict.ILLEGAL]) > 10, spoken


@pytest.mark.deep
@pytest.mark.parametrize("level", list(Level))
@pytest.mark.parametrize("first", range(RUNS, 40 * RUNS, RUNS))
def test_a_lost_record_is_a_violation_or_not_covered_in_many_more(level: Level, first: int) -> None:
    losses_are_said(level, range(first, first + RUNS))
