"""Two witnesses, row by row: the array kernel and the SQL query that shares no code with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidegauge.linearizability import files
from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.check import check
from tidegauge.linearizability.generator import generate
from tidegauge.linearizability.history import UNKNOWN, History, Kind, Operations, Outcome, concatenate
from tidegauge.linearizability.log import Level
from tidegauge.spark_check.catalyst import RULES, check_rules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SAME = {
    "duplicate": {Name.DUPLICATE},
    "aborted_read": {Name.ABORTED_READ},
    "unwritten_read": {Name.UNWRITTEN_READ},
    "inconsistent_offsets": {Name.INCONSISTENT_OFFSETS},
}
"""A rule of the query, and the names that the kernel has for it."""
REAL_TIME = {Name.LOST_WRITE, Name.STALE_READ, Name.END_OFFSET_REGRESSION, Name.APPEND_BELOW_END}
"""The kernel calls a contradiction in time by what was lost; for the query it is `real_time` or `lost_write`."""


def by_query(spark: SparkSession, file: Path, level: Level) -> dict[int, set[str]]:
    """The rules that each history breaks."""
    rows = check_rules(spark, [file], level).collect()
    return {row.history: {rule for rule in RULES if row[rule]} for row in rows}


def merged(rules: set[str]) -> set[str]:
    return {"real_time" if rule == "lost_write" else rule for rule in rules}


def by_kernel(operations: Operations, level: Level) -> dict[int, set[str]]:
    """The same by the kernel, in the query's terms."""
    found: dict[int, set[str]] = {int(one): set() for one in operations.history}
    for one in check(operations, level).anomalies:
        found[one.history] |= {rule for rule, names in SAME.items() if one.name in names}
        found[one.history] |= {"real_time"} if one.name in REAL_TIME else set()
    return found


def handmade() -> Operations:
    """Four small histories: a stale end offset (strict only), a loss once settled, touching intervals, a valid one."""
    made = []
    for number, (end, called, settled) in enumerate(((0, 30, False), (0, 30, True), (0, 20, True), (1, 30, True))):
        one = History(number)
        sent = one.invoke(process=0, kind=Kind.PRODUCE, call=10, values=[7])
        one.ok(sent, returned=20, offset=0)
        if settled:
            one.settled(call=15)
        asked = one.invoke(process=1, kind=Kind.LIST_OFFSETS, call=called)
        one.ok(asked, returned=40, offset=end)
        made.append(one.operations())
    return concatenate(made)


def polled(between: Outcome | None, offset: int | None = None) -> Operations:
    """Two acknowledged records, settled; a fetch of the first one, and then an empty poll without a position.

    `between` them a fetch failed, or nobody knows; it began at `offset`.
    """
    one = History(0)
    for number in range(2):
        one.ok(one.invoke(process=0, kind=Kind.PRODUCE, call=10 * number, values=[number]), returned=20, offset=number)
    one.settled(call=30)
    first = one.invoke(process=1, kind=Kind.FETCH, call=30, position=0)
    one.ok(first, returned=31, values=[0], offsets=[0])
    if between is not None:
        position = UNKNOWN if offset is None else offset
        lost = one.invoke(process=1, kind=Kind.FETCH, call=32, position=position)
        if between is Outcome.FAIL:
            one.fail(lost, returned=33)
    one.ok(one.invoke(process=2, kind=Kind.FETCH, call=34), returned=35)
    one.ok(one.invoke(process=1, kind=Kind.FETCH, call=36), returned=37)
    return one.operations()


@pytest.fixture(scope="module")
def operations() -> Operations:
    parts = [part for part, _ in generate(400, 50, 11, 0.4)]
    small = [part for part, _ in generate(600, 6, 12, 0.6, partitions=1, first_history=1000, unknown_rate=0.3)]
    polls = [polled(None), polled(Outcome.FAIL), polled(Outcome.FAIL, 2), polled(Outcome.INFO), polled(Outcome.INFO, 1)]
    numbered = [_renumbered(poll, 6000 + number) for number, poll in enumerate(polls)]
    return concatenate([*parts, *small, _renumbered(handmade(), 5000), *numbered])


def _renumbered(operations: Operations, first: int) -> Operations:
    operations.history[:] += first
    return operations


@pytest.mark.parametrize("level", list(Level))
def test_the_kernel_and_the_query_agree(
    spark: SparkSession, operations: Operations, level: Level, tmp_path: Path
) -> None:
    files.write(tmp_path / "generated.parquet", operations)
    query = by_query(spark, tmp_path / "generated.parquet", level)
    kernel = by_kernel(operations, level)
    assert {history: merged(rules) for history, rules in query.items()} == kernel
    broken = set().union(*query.values())
    assert broken == set(RULES), "a comparison that never sees a rule broken proves nothing"
    stale = {5000: {"real_time"} if level is Level.STRICT else set(), 5001: {"real_time"}, 5002: set(), 5003: set()}
    stale |= {history: {"real_time"} if history < 6003 else set() for history in range(6000, 6005)}
    assert {history: query[history] for history in stale} == stale


def test_histories_with_an_unclean_election_are_left_out(spark: SparkSession, tmp_path: Path) -> None:
    declared = History(0)
    declared.election(offset=0, call=5)
    plain = History(1)
    plain.ok(plain.invoke(process=0, kind=Kind.FETCH, call=1, position=0), returned=2)
    files.write(tmp_path / "two.parquet", concatenate([declared.operations(), plain.operations()]))
    assert by_query(spark, tmp_path / "two.parquet", Level.KAFKA) == {1: set()}
