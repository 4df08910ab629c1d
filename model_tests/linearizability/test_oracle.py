"""The fast checker gives the verdict of the general search, on small random histories, at both levels."""

from __future__ import annotations

from collections import Counter
from random import Random

import attrs
import pytest

from tidegauge.linearizability.check import Verdict, check
from tidegauge.linearizability.history import NEVER, Kind, Operation, Operations
from tidegauge.linearizability.log import Level, screen
from tidegauge.linearizability.model import LogModel, calls
from tidegauge.linearizability.search import SearchVerdict, search
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.linearizability.random_histories import spoiled, valid
from tidegauge.model_tests.linearizability.row_by_row.finders import check_partition

BATCH = 500


def histories(seed: int, count: int) -> list[list[Operation]]:
    """A third valid, two thirds spoiled; some with a declaration that the partition has settled."""
    made = []
    for number in range(count):
        random = Random(f"{seed}/{number}")
        rows = valid(random, most=random.choice((4, 6, 8)), longest_batch=random.choice((1, 1, 3)))
        if number % 3:
            rows = spoiled(random, rows)
        if random.random() < 0.3:
            settled = Operation(
                index=len(rows), process=-1, kind=Kind.SETTLED, outcome=rows[0].outcome, topic="t", partition=0,
                call=random.randint(0, 15),
            )  # fmt: skip
            rows.append(settled)
        made.append([attrs.evolve(row, history=number) for row in rows])
    return made


def searched(rows: list[Operation], level: Level) -> SearchVerdict:
    settled = [row.call for row in rows if row.kind is Kind.SETTLED]
    atomic = all(len(row.values) == 1 for row in rows if row.kind is Kind.PRODUCE)
    model = LogModel(level=level, settled=settled[0] if settled else NEVER, atomic=atomic)
    return search(model, calls(rows, atomic)).verdict


def compare(seed: int, count: int, level: Level) -> Counter[SearchVerdict]:
    """Check `count` histories both ways, in one table; returns how often each result came."""
    made = histories(seed, count)
    operations = Operations.of(row for rows in made for row in rows)
    verdicts = check(operations, level)
    flagged = {int(operations.history[rows[0]]) for rows in screen(operations, level).rows}
    responses: Counter[SearchVerdict] = Counter()
    for number, rows in enumerate(made):
        response = searched(rows, level)
        responses[response] += 1
        expected = Verdict.VALID if response is SearchVerdict.OK else Verdict.VIOLATED
        shown = "\n".join(map(str, rows))
        assert verdicts.of(number) is expected, f"{seed}/{number}, {level}: the search says {response}\n{shown}"
        closer = bool(check_partition(rows, level))
        assert closer <= (number in flagged), f"{seed}/{number}, {level}: the screening missed it\n{shown}"
        # Of batches of one record the array pass alone decides.
        longer = any(len(row.values) > 1 for row in rows if row.kind is Kind.PRODUCE)
        assert longer or closer == (number in flagged), f"{seed}/{number}, {level}: flagged for nothing\n{shown}"
    return responses


@pytest.mark.parametrize("level", list(Level))
@pytest.mark.parametrize("seed", range(amount(2, deep=4)))
def test_the_fast_checker_agrees_with_the_general_search(seed: int, level: Level) -> None:
    responses = compare(seed, BATCH, level)
    assert responses[SearchVerdict.OK] > BATCH / 5
    assert responses[SearchVerdict.ILLEGAL] > BATCH / 15


@pytest.mark.deep
@pytest.mark.parametrize("level", list(Level))
def test_the_fast_checker_agrees_with_the_general_search_on_a_hundred_thousand(level: Level) -> None:
    for seed in range(100, 300):
        compare(seed, BATCH, level)
