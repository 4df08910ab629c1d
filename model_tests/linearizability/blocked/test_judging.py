"""Blocks give what the single pass gives, however small: verdict, anomalies, counts, witnesses, and what is covered."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random

import attrs
import numpy as np
import pytest

from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.blocked.flow import Cut
from tidegauge.linearizability.blocked.judging import NotForBlocks, judge
from tidegauge.linearizability.blocked.whole import Sizes
from tidegauge.linearizability.generator import generate
from tidegauge.linearizability.history import UNKNOWN, Kind, Operation, Operations, Outcome
from tidegauge.linearizability.log import Level
from tidegauge.model_tests.amounts import amount, crossed
from tidegauge.model_tests.linearizability import spoiled as spoiling
from tidegauge.model_tests.linearizability.blocked.side_by_side import compare, side_by_side
from tidegauge.model_tests.linearizability.rows import election, end, fetch, history, produce, settled, unknown
from tidegauge.model_tests.linearizability.small_histories import draw, operations
from tidegauge.model_tests.linearizability.test_findings import MAKERS
from tidegauge.model_tests.linearizability.test_jepsen import SECTIONS
from tidegauge.model_tests.linearizability.test_jepsen import operations as parsed

SIZES = (1, 2, 3, 7)
RUNS = (0, 1, 2, 5)
"""Bits of the offsets in a run: runs of one offset to 32."""


def without_elections(rows: Operations) -> list[Operation]:
    return [row for row in rows if row.kind is not Kind.ELECTION]


def made(seed: int) -> Iterator[list[Operation]]:
    """A history of each maker: some poll without positions, some settle at a time of their own."""
    random = Random(seed)
    for make in MAKERS.values():
        rows = without_elections(history(make(random)))
        if random.random() < 0.4:
            rows = without_elections(history([*rows, settled(random.randint(0, 40))]))
        share = random.choice((0.0, 0.5))
        yield [polled(row) if row.kind is Kind.FETCH and random.random() < share else row for row in rows]


def polled(row: Operation) -> Operation:
    """The same fetch, of a client that asks for no offset."""
    if row.outcome is not Outcome.OK:
        return attrs.evolve(row, offset=UNKNOWN)
    return attrs.evolve(row, offset=UNKNOWN, offsets=row.placed if row.values else None)


@pytest.mark.parametrize(("size", "run", "level"), crossed(SIZES, RUNS, tuple(Level)))
def test_histories_of_all_makers_are_judged_in_blocks_as_at_once(size: int, run: int, level: Level) -> None:
    seeds = range(100 * size, 100 * size + amount(4, deep=100))
    cut = side_by_side((rows for seed in seeds for rows in made(seed)), size)
    found = compare(cut, level, Sizes(run=run, buckets=3), f"seeds {seeds}, blocks of {size}, runs of 2^{run}")
    assert {one.name for one in found.anomalies} >= {Name.UNWRITTEN_READ, Name.OFFSET_HOLE, Name.REUSED_VALUE}


@pytest.mark.parametrize(("size", "level"), crossed(SIZES, tuple(Level)))
def test_small_histories_of_every_kind_are_judged_in_blocks_as_at_once(size: int, level: Level) -> None:
    small = operations(draw(size, amount(60, deep=2_000)))
    starts = small.history_starts.tolist()
    each = (list(small.slice(*bounds)) for bounds in itertools.pairwise(starts))
    compare(side_by_side(each, size), level, Sizes(run=1, buckets=2), f"seed {size}, blocks of {size}")


@pytest.mark.parametrize("size", SIZES)
def test_every_fixture_of_the_catalogue_and_its_twin_are_judged_in_blocks_as_at_once(size: int) -> None:
    pairs = [parsed(lines) for section in SECTIONS for lines in (section.lines, section.twin)]
    logs = [rows for rows in pairs if rows.transactional is None and not (rows.kind == Kind.ELECTION).any()]
    assert len(logs) > 20
    found = compare(side_by_side(map(list, logs), size), Level.KAFKA, Sizes(run=1, buckets=2), f"blocks of {size}")
    assert len({one.name for one in found.anomalies}) > 10


@pytest.mark.parametrize("size", [30, 110])
def test_any_one_anomaly_at_the_end_of_a_long_history_is_found_in_blocks(size: int) -> None:
    ((rows, _),) = generate(1, 100, 5, partitions=1, clients=3)
    each = [list(spoiled) for spoiled in spoiling.spoiled(rows).values()]
    found = compare(side_by_side(each, size), Level.STRICT, Sizes(run=4, buckets=3), f"blocks of {size}")
    assert {one.name for one in found.anomalies} >= set(spoiling.spoiled(rows))


def test_holes_that_batches_fill_are_decided_in_blocks_as_at_once() -> None:
    rows = spoiling.with_batches(400, 3)
    compare(Cut(attrs.evolve(rows, history=rows.history + 7), (0, 100, 101, 300)), Level.KAFKA, Sizes(run=5), "holes")


def test_runs_of_offsets_of_which_nobody_says_anything_are_holes() -> None:
    rows = [end(0, 1, 0), produce(0, 1, 0, 1), unknown(0, 2), produce(2, 3, 99, 3)]
    enough = [*rows, *(unknown(0, value) for value in range(10, 107))]
    late = [*rows, *(unknown(2 if value < 12 else 0, value) for value in range(10, 107))]
    later = [*rows, *(unknown(4 if value < 12 else 0, value) for value in range(10, 107))]
    cut = side_by_side((list(history(one)) for one in (rows, enough, late, later)), 50)
    found = compare(cut, Level.KAFKA, Sizes(run=3, buckets=2), "holes")
    assert [one.topic[:5] for one in found.anomalies] == ["00000", "00003"]


FAR_APART = {
    "whether a record was read after another took its place": [
        produce(0, 1, 0, 1), fetch(2, 3, 0, 1), produce(4, 5, 0, 2), fetch(6, 7, 0, 1),
    ],
    "a batch that two place differently is where the first says": [
        unknown(0, 1, 2, 3), fetch(2, 3, 0, 1), fetch(4, 5, 5, 2, process=3), produce(6, 7, 1, 9), end(8, 9, 7),
    ],
    "the strongest of many claims": [
        end(0, 1, 3), end(0, 2, 5, process=3), end(0, 3, 5, process=4), produce(6, 7, 1, 1), end(8, 9, 9),
    ],
    "settled twice": [
        produce(0, 1, 0, 1), settled(2), fetch(3, 4, 0, 1), settled(5), produce(6, 7, 1, 2), fetch(8, 9, 1, 2),
    ],
}  # fmt: skip
"""Histories in which rows that prove something together are in different blocks."""


@pytest.mark.parametrize("what", FAR_APART)
def test_what_rows_of_several_blocks_prove_together_is_found(what: str) -> None:
    compare(side_by_side([list(history(FAR_APART[what]))], 1), Level.KAFKA, Sizes(run=1, buckets=2), what)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([produce(0, 1, 0, 1), election(2, 3, 0)], "unclean elections"),
        ([attrs.evolve(produce(0, 1, 0, 1), transaction=3)], "transactions"),
        ([attrs.evolve(end(0, 1, 0), kind=Kind.MEMBER, group=1, member=2)], "groups"),
    ],
)
def test_what_blocks_do_not_judge_is_said(rows: list[Operation], why: str) -> None:
    judged = judge(Cut.into(history([*rows, fetch(5, 6, 0, 1)]), 1), 0)
    assert str(judged) == f"one task judges it, since it has {why}"


def test_rows_out_of_order_between_blocks_are_not_for_blocks() -> None:
    rows = history([produce(0, 1, 0, 1), fetch(2, 3, 0, 1)])
    assert "not in order of index" in str(judge(Cut.into(rows.take(np.array([1, 0])), 1), 0))


def test_too_many_rows_that_break_rules_are_left_to_one_task() -> None:
    rows = history([produce(0, 1, 0, 1), *(fetch(2, 3, 0, value) for value in range(10, 40))])
    assert isinstance(judge(Cut.into(rows, 5), 0, sizes=Sizes(buckets=1, evidence=60)), NotForBlocks)
    assert not isinstance(judge(Cut.into(rows, 5), 0, sizes=Sizes(buckets=1, evidence=4_000)), NotForBlocks)
