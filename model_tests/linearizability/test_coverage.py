"""What a verdict covers: no loss is called valid without a note that says which records were not checked."""

from __future__ import annotations

from itertools import groupby
from random import Random

import attrs
import numpy as np
import pytest

from tidegauge.linearizability import coverage, log
from tidegauge.linearizability.check import Verdict, check
from tidegauge.linearizability.coverage import MOST_NAMED, Gap, Totals, cover
from tidegauge.linearizability.generator import generate
from tidegauge.linearizability.history import UNKNOWN, Kind, Operation, Operations, blocks, concatenate
from tidegauge.linearizability.log import Level
from tidegauge.model_tests.linearizability.row_by_row.coverage import gap
from tidegauge.model_tests.linearizability.rows import election, end, fetch, history, produce, settled, unknown
from tidegauge.model_tests.linearizability.test_elections import with_elections
from tidegauge.model_tests.linearizability.test_oracle import histories

Rows = list[Operation]
TWO = [produce(0, 1, 0, 7), produce(2, 3, 1, 8)]
AFTER = settled(10)

PARTIAL: dict[str, tuple[int, int, bool, Rows]] = {
    "a read after the settling that does not reach the end": (2, 1, True, [*TWO, AFTER, fetch(11, 12, 0, 7)]),
    "the only poll begins after the first record": (2, 2, True, [*TWO, fetch(11, 12, 1, 8)]),
    "the same once settled": (2, 1, False, [*TWO, AFTER, fetch(11, 12, 1, 8)]),
    "a poll without a position that begins there": (2, 1, False, [*TWO, AFTER, fetch(11, 12, -1, 8, offsets=[1])]),
    "nobody declared it settled": (2, 2, True, [*TWO, fetch(11, 12, 0, 7, 8), end(13, 14, 2)]),
    "nobody read": (2, 2, True, [*TWO, AFTER]),
    "read before it settled only": (2, 2, True, [*TWO, fetch(8, 11, 0, 7, 8), AFTER]),
    "read between two declarations": (2, 2, True, [*TWO, AFTER, fetch(11, 12, 0, 7, 8), settled(13)]),
    "the end offset only": (2, 2, False, [*TWO, AFTER, end(11, 12, 2)]),
    "the high watermark only": (2, 1, False, [*TWO, AFTER, fetch(11, 12, 0, 7, mark=2)]),
    "an empty fetch beyond the end": (2, 2, True, [*TWO, AFTER, fetch(11, 12, 2)]),
    "a record that was read, of an unknown produce": (1, 1, True, [unknown(0, 7), fetch(1, 2, 0, 7), AFTER]),
    "an end of which nobody read a record": (0, 0, True, [unknown(0, 7), end(0, 0, 0), end(1, 2, 1), AFTER]),
    "a loss that the election does not excuse": (
        2,
        1,
        False,
        [*TWO, produce(4, 5, 2, 9), election(6, 7, 2), AFTER, fetch(11, 12, 1, 8)],
    ),
}
WHOLE: dict[str, tuple[int, Rows]] = {
    "all is read once settled": (2, [*TWO, AFTER, fetch(11, 12, 0, 7), fetch(11, 12, 1, 8, process=2)]),
    "a poll goes on": (2, [*TWO, AFTER, fetch(10, 12, 0, 7), fetch(13, 14, -1, 8, offsets=[1])]),
    "what may be lost need not be read": (0, [unknown(0, 7), produce(0, 1, 0, 8, acks=1), AFTER]),
    "what the election may have taken": (1, [*TWO, election(4, 5, 1), AFTER, fetch(11, 12, 0, 7)]),
    "nothing at all": (0, [AFTER]),
}


@pytest.mark.parametrize("level", list(Level))
@pytest.mark.parametrize("what", PARTIAL)
def test_a_loss_that_no_read_would_show_is_noted(what: str, level: Level) -> None:
    records, unconfirmed, open_end, rows = PARTIAL[what]
    verdicts = check(history(rows), level)
    assert verdicts.valid, [str(one) for one in verdicts.anomalies]
    (row,) = verdicts.table().to_pylist()
    assert (row["records"], row["unconfirmed"], row["open_ends"]) == (records, unconfirmed, open_end)
    assert (f"{unconfirmed} of {records} records" in row["note"]) == (unconfirmed > 0)
    assert ("the end of 1 partition(s)" in row["note"]) == open_end
    ends = "1 partition was not read to its end" if open_end else "0 partitions were not read to their end"
    assert verdicts.coverage.totals.words(verdicts.coverage.gaps).startswith(
        f"not checked: whether {unconfirmed} of {records} records that must not be lost are still there; "
        f"{ends}, in 1 history (docs/history.md"
    )


@pytest.mark.parametrize("what", WHOLE)
def test_a_verdict_that_covers_everything_has_no_note(what: str) -> None:
    records, rows = WHOLE[what]
    verdicts = check(history(rows))
    assert verdicts.valid
    (row,) = verdicts.table().to_pylist()
    assert (row["records"], row["unconfirmed"], row["open_ends"], row["note"]) == (records, 0, 0, None)
    assert verdicts.coverage.totals == Totals(records)


@pytest.mark.parametrize("largest", [coverage.LARGEST_KEY, 0], ids=["by one number", "by all counts"])
def test_each_history_has_its_own_note(largest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage, "LARGEST_KEY", largest)
    made = [attrs.evolve(row, history=number) for number, rows in enumerate(histories(78, 300)) for row in rows]
    together = check(Operations.of(made)).table()
    alone = [check(Operations.of(rows)).table() for _, rows in groupby(made, key=lambda row: row.history)]
    assert together["note"].to_pylist() == [table["note"][0].as_py() for table in alone]
    assert len(set(together["note"].to_pylist())) > 5


def test_where_there_is_no_record_none_is_said_to_have_been_read() -> None:
    assert Totals().words(()) == "checked: no record that must not be lost, for there is none"
    assert Totals(2).words(()).startswith("checked: 2 records that must not be lost; each was read")


def test_the_first_partitions_are_named() -> None:
    elsewhere = attrs.evolve(produce(0, 1, 5, 7), partition=1)
    covered = check(history([*TWO, elsewhere, AFTER, fetch(11, 12, 0, 7, 8)], 4)).coverage
    assert covered.gaps == (Gap(4, "t", 1, records=1, unconfirmed=1, first=5, open_end=True, settled=False),)
    assert str(covered.gaps[0]) == (
        "t-1 of history 4: 1 of 1 records, the first at offset 5, and its end, for nobody declared it settled"
    )


def test_the_counts_are_those_of_the_definition_row_by_row() -> None:
    made = histories(77, 700)
    made += [[attrs.evolve(row, history=700 + seed) for row in with_elections(Random(seed))] for seed in range(700)]
    covered = cover(Operations.of(row for rows in made for row in rows))
    counts = np.stack((covered.records, covered.unconfirmed, covered.open_ends), axis=1).tolist()
    for number, rows in enumerate(made):
        one = gap(rows)
        assert counts[number] == [one.records, one.unconfirmed, one.open_end], number
    assert 50 < covered.complete.sum() < len(made) - 50


@pytest.mark.parametrize("after", [[], [settled(10)], [settled(10), fetch(11, 12, 0, 7)]])
def test_a_value_that_was_produced_twice_is_one_record(after: Rows) -> None:
    rows = list(history([produce(0, 1, 0, 7), produce(2, 3, 1, 7), produce(4, 5, 2, 8), *after]))
    covered, one = cover(Operations.of(rows)), gap(rows)
    assert (covered.records.tolist(), covered.unconfirmed.tolist()) == ([one.records], [one.unconfirmed])
    assert one.records == 2


def test_the_counts_do_not_depend_on_what_else_is_checked() -> None:
    parts = [part for part, _ in generate(30, 40, 5, partitions=3)]
    parts.append(history([*TWO, AFTER, fetch(11, 12, 0, 7)], 1_000))
    whole = cover(concatenate(parts))
    alone = [cover(part) for part in parts]
    assert whole.records.tolist() == [int(count) for one in alone for count in one.records]
    assert whole.unconfirmed.tolist() == [int(count) for one in alone for count in one.unconfirmed]
    assert whole.open_ends.tolist() == [int(count) for one in alone for count in one.open_ends]


@pytest.mark.parametrize("named", [0, 3, MOST_NAMED])
def test_what_is_counted_in_the_pass_that_checks_is_the_same(monkeypatch: pytest.MonkeyPatch, named: int) -> None:
    operations = Operations.of(row for rows in histories(5, 120) for row in rows)
    alone = cover(operations)
    for module in (log, coverage):
        monkeypatch.setattr(module, "BLOCK", 100)
    assert len(list(blocks(operations, 100))) > 3
    assert cover(operations).gaps == alone.gaps
    verdicts = check(operations, named=named)
    together = verdicts.coverage
    assert verdicts.covered is together
    for counts in ("records", "unconfirmed", "open_ends"):
        assert getattr(together, counts).tolist() == getattr(alone, counts).tolist()
    assert together.partitions == alone.partitions > MOST_NAMED
    assert together.gaps == alone.gaps[:named]


def test_verdicts_keep_what_they_cover_without_the_operations() -> None:
    verdicts = check(history([*TWO, AFTER, fetch(11, 12, 0, 7)]))
    detached = verdicts.detached()
    assert detached.rows is None
    assert detached.table() == verdicts.table()
    assert detached.of(0) is Verdict.VALID


JUDGED: dict[str, tuple[Rows, str, str]] = {
    "everything": ([produce(0, 1, 0, 7), AFTER, fetch(11, 12, 0, 7, mark=1)], "records, holes, positions, ends", ""),
    "no end": ([produce(0, 1, 0, 7), fetch(11, 12, 0, 7)], "records, holes, positions", "the end of 1 partition(s)"),
    "a position that nobody knows": (
        [produce(0, 1, 0, 7), AFTER, fetch(11, 12, UNKNOWN, 7, offsets=[0], mark=1)],
        "records, holes, ends",
        "where 1 fetches began, which nobody knows",
    ),
    "an election": (
        [produce(0, 1, 0, 7), election(2, 3, 0), AFTER, fetch(11, 12, 0, mark=0)],
        "records, holes, positions, ends, elections",
        "",
    ),
    "a transaction": (
        [
            attrs.evolve(produce(0, 1, 0, 7), transaction=1),
            attrs.evolve(end(2, 3, UNKNOWN), kind=Kind.COMMIT, transaction=1),
        ],
        "records, transactions",
        "offset holes, stale reads and ends of partitions",
    ),
    "a transaction across an election": (
        [
            attrs.evolve(produce(0, 1, 0, 7), transaction=1),
            attrs.evolve(end(2, 3, UNKNOWN), kind=Kind.COMMIT, transaction=1),
            election(4, 5, 0),
        ],
        "records",
        "offset holes",
    ),
    "a group": (
        [attrs.evolve(produce(0, 1, UNKNOWN), kind=Kind.DELIVER, offset=0, values=(), group=1, member=1)],
        "groups",
        "groups",
    ),
}


@pytest.mark.parametrize("what", JUDGED)
def test_each_row_says_what_was_judged_and_in_words_what_was_not(what: str) -> None:
    rows, judged, note = JUDGED[what]
    (row,) = check(history(rows)).table().to_pylist()
    assert row["judged"] == judged
    assert note in (row["note"] or "")
    assert bool(row["note"]) == bool(note)
