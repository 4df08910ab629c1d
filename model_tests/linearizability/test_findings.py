"""The passes over arrays find what the rules find row by row: anomalies, how often, who is shown, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import pytest

from tidegauge.linearizability.anomaly import Anomaly, Name
from tidegauge.linearizability.coverage import gap
from tidegauge.linearizability.findings import pairs
from tidegauge.linearizability.findings.looking import look
from tidegauge.linearizability.history import Kind, Operation, Operations
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.measures import measure
from tidegauge.linearizability.rows import partitions
from tidegauge.model_tests.linearizability import lossy_log
from tidegauge.model_tests.linearizability.random_histories import spoiled, valid
from tidegauge.model_tests.linearizability.row_by_row.coverage import gap as gap_row_by_row
from tidegauge.model_tests.linearizability.row_by_row.evidence import Evidence
from tidegauge.model_tests.linearizability.row_by_row.finders import check_partition
from tidegauge.model_tests.linearizability.row_by_row.measures import measures
from tidegauge.model_tests.linearizability.rows import election, end, fetch, history, produce, unknown
from tidegauge.model_tests.linearizability.test_elections import with_elections

RUNS = 120
MANY = tuple(range(100, 140))

Rows = list[Operation]


def plain(random: Random) -> Rows:
    return spoiled(random, valid(random, most=8, longest_batch=random.choice((1, 3))))


def broken(random: Random) -> Rows:
    faults = tuple(random.choice(lossy_log.FAULTS) for _ in range(random.choice((1, 2, 3))))
    return lossy_log.run(random, faults, late=random.random() < 0.5).rows


def crowded(random: Random) -> Rows:
    """Many who say something of few values and offsets, under elections: every pair of them may contradict."""
    rows: Rows = [produce(0, 1, offset, 10 + offset) for offset in range(3)]
    for number in range(random.randint(8, 30)):
        call = random.randint(2, 40)
        rows.append(
            fetch(call, call + random.randint(0, 5), random.randint(0, 3), random.randint(10, 13), process=number)
        )
    for _ in range(random.randint(0, 3)):
        call = random.randint(0, 40)
        rows.append(election(call, random.choice((None, call + random.randint(0, 9))), random.randint(0, 2)))
    return rows


def reusing(random: Random) -> Rows:
    return [*plain(random), *(unknown(random.randint(0, 9), random.choice((10, 11, 20))) for _ in range(2))]


def holed(random: Random) -> Rows:
    rows: Rows = [end(0, 0, 0), end(50, 51, random.randint(1, 9))]
    rows += [produce(call, call + 1, call, call, acks=random.choice((-1, 1))) for call in random.sample(range(9), 3)]
    rows += [unknown(random.randint(0, 30), *MANY[4 * k :][: random.choice((1, 1, 1, 2))]) for k in range(5)]
    return [*rows, election(60, 60, random.randint(0, 9))] if random.random() < 0.3 else rows


def without_produces(random: Random) -> Rows:
    return [row for row in plain(random) if row.kind is not Kind.PRODUCE]


MAKERS: dict[str, Callable[[Random], Rows]] = {
    "spoiled": plain,
    "with elections": with_elections,
    "of a broken log": broken,
    "crowded": crowded,
    "with values that are reused": reusing,
    "with holes": holed,
    "without produces": without_produces,
}


def told(anomalies: Sequence[Anomaly]) -> dict[Name, tuple[int, tuple[int, ...], str]]:
    return {one.name: (one.count, one.operations, one.witness) for one in anomalies}


def parts(operations: Operations) -> list[np.ndarray]:
    group, _ = partitions(operations)
    order = np.argsort(group, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(group[order])) + 1)


def compare(what: str, level: Level, seeds: range) -> None:
    made = {seed: list(history(MAKERS[what](Random(seed)), seed)) for seed in seeds}
    operations = Operations.of(row for rows in made.values() for row in rows)
    found: dict[int, list[Anomaly]] = {}
    for one in look(operations, parts(operations), level):
        found.setdefault(one.history, []).append(one)
    assert list(found) == sorted(found)
    for seed, rows in made.items():
        expected, mine = told(check_partition(rows, level)), told(found.get(seed, ()))
        shown = "\n".join(map(str, rows))
        for name in sorted(expected.keys() | mine.keys(), key=list(Name).index):
            assert mine.get(name) == expected.get(name), f"{what}, seed {seed}, {level}: {name.value}\n{shown}"


@pytest.mark.parametrize("level", list(Level))
@pytest.mark.parametrize("what", MAKERS)
def test_what_is_found_in_many_partitions_at_once_is_what_is_found_row_by_row(what: str, level: Level) -> None:
    compare(what, level, range(RUNS))


def test_many_who_speak_of_one_thing_are_looked_at_like_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "FEW", 2)
    for what in ("crowded", "with elections", "of a broken log"):
        compare(what, Level.KAFKA, range(RUNS))


@pytest.mark.deep
@pytest.mark.parametrize("first", range(RUNS, 40 * RUNS, RUNS))
@pytest.mark.parametrize("what", MAKERS)
def test_the_same_of_many_more(what: str, first: int) -> None:
    for level in Level:
        compare(what, level, range(first, first + RUNS))


def test_the_measures_and_what_a_verdict_does_not_cover_are_those_row_by_row() -> None:
    for what, make in MAKERS.items():
        made = [list(history(make(Random(seed)), seed)) for seed in range(RUNS // 3)]
        operations = Operations.of(row for rows in made for row in rows)
        for number, one in enumerate(measure(operations)):
            assert one == measures(Evidence(made[number], Level.KAFKA)), f"{what}, seed {number}"
        # What a value that is reused counts for is nobody's business: such a history is not checked.
        for number, rows in enumerate(made if make is not reusing else ()):
            assert gap(Operations.of(rows)) == gap_row_by_row(rows), f"{what}, seed {number}"
