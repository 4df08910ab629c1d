"""What a group's history has, or nearly has, is said of it; beside brute force, and of many histories at once."""

from __future__ import annotations

from random import Random

import attrs
import pytest

from tidegauge.linearizability.anomaly import Anomaly, Name
from tidegauge.linearizability.check import check
from tidegauge.linearizability.history import Isolation, Operation, Operations, Outcome
from tidegauge.linearizability.history import Kind as KindOfAll
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.malformed import find
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.linearizability import groups_brute_force
from tidegauge.model_tests.linearizability.group_cases import (
    FAIL,
    IN_TURN,
    INFO,
    OPEN,
    PAIRS,
    SETTLED_LATE,
    Rows,
    assign,
    commit,
    consumed,
    deliver,
    end,
    expect,
    made,
    member,
    read,
    release,
    settled,
    stable,
)
from tidegauge.model_tests.linearizability.group_rows import ENDS, GroupRow, Kind, history_of, operations_of
from tidegauge.model_tests.linearizability.offsets_by_model import explained

OF_GROUPS = {name for name in Name if name.of_groups}


def found(rows: Rows, level: Level = Level.KAFKA, *, once: bool = False) -> set[Name]:
    return {one.name for one in check(operations_of(rows, once=once), level).anomalies}


@pytest.mark.parametrize(("name", "wrong", "right"), PAIRS.values(), ids=PAIRS)
def test_a_history_has_the_anomaly_or_nearly_has_it(name: Name, wrong: Rows, right: Rows) -> None:
    (anomaly,) = check(operations_of(wrong)).anomalies
    assert anomaly.name is name
    assert all(f"#{row} p" in anomaly.witness for row in anomaly.operations), "the witness tells of its rows"
    assert not find(operations_of(wrong))
    assert not find(operations_of(right))
    assert found(right) == set()


def test_a_record_is_doubled_where_it_was_to_be_delivered_once_at_most() -> None:
    twice = [deliver(0, 1, 0, 1, 4), deliver(1, 2, 2, 3, 4)]
    assert found(twice, once=True) == {Name.DOUBLED_DELIVERY}
    assert found([twice[0], deliver(1, 2, 2, 3, 5)], once=True) == set()
    assert found(twice) == set(), "at least once is twice perhaps"


def test_what_is_passed_over_below_a_declared_end_has_a_record() -> None:
    over = [deliver(0, 1, 0, 1, 0), deliver(0, 1, 2, 3, 2)]
    assert found([*over, settled(4, 2)], once=True) == {Name.SKIPPED_DELIVERY}
    assert found([*over, settled(4, 1)], once=True) == set()


def test_without_generations_a_process_goes_on_until_it_is_assigned_anew() -> None:
    before, after = deliver(0, -1, 0, 1, 1), deliver(0, -1, 6, 7, 1)
    assert found([before, after]) == {Name.NONMONOTONIC_DELIVERY}
    assert found([before, release(1, 0, 3), after]) == {Name.NONMONOTONIC_DELIVERY}, "another one has"
    assert found([before, release(0, 0, 3), after]) == set()
    assert found([before, assign(0, -1, 3, 4, 0), after]) == set()


def test_a_process_in_two_groups_goes_on_in_the_one_though_the_other_assigns_it_anew() -> None:
    rows = [deliver(0, -1, 0, 1, 1), assign(0, -1, 3, 4, 0), deliver(0, -1, 6, 7, 1)]
    whole = [attrs.evolve(row, group=int(place == 1)) for place, row in enumerate(history_of(rows))]
    assert {one.name for one in check(Operations.of(whole)).anomalies} == {Name.NONMONOTONIC_DELIVERY}


def test_an_anomaly_is_told_of_each_partition_that_has_it() -> None:
    two = [row for of in (0, 1) for row in (commit(0, 1, 0, 1, 5, of=of), commit(1, 1, 2, 3, 6, of=of))]
    told = check(operations_of(two)).anomalies
    assert [(one.partition, one.operations, one.count) for one in told] == [(0, (0, 1), 1), (1, (2, 3), 1)]


def test_each_anomaly_has_its_pair() -> None:
    assert {name for name, _, _ in PAIRS.values()} == OF_GROUPS


def test_what_was_made_of_a_record_in_a_transaction_that_is_aborted_proves_nothing_but_that_there_is_one() -> None:
    first, again = made(0, 1, 0, 1, 0), made(1, 1, 6, 7, 0)
    assert found([first, end(0, 4, 5, FAIL), again, end(1, 8, 9)]) == set(), "it is made again"
    assert found([first, end(0, 4, 5, INFO), again, end(1, 8, 9)]) == set(), "or may have to be"
    assert found([first, end(0, 4, 5), deliver(1, 1, 6, 7, 0)]) == set(), "the other one was in no transaction"
    beyond = [made(0, 1, 0, 1, 0), end(0, 4, 5, FAIL), commit(1, 1, 6, 7, 1)]
    assert found(beyond) == {Name.LOST_DELIVERY}, "the group goes on behind a record of which nothing was made"


def test_a_read_is_never_late_where_that_is_asked() -> None:
    rows = [*IN_TURN, read(4, 5, 0, 5)]
    assert found(rows) == set()
    assert found(rows, level=Level.STRICT) == {Name.COMMITTED_OFFSET_ORDER}


def test_a_read_that_does_not_ask_for_stable_offsets_may_find_what_a_transaction_is_about_to_change() -> None:
    rows = [*OPEN, end(0, 9, 10)]
    assert found([*rows, stable(4, 8, 0, 5)], Level.STRICT) == {Name.UNSTABLE_OFFSET_READ}
    assert found([*rows, read(4, 8, 0, 5)], Level.STRICT) == set()
    assert found([*rows, stable(11, 12, 0, 5)], Level.STRICT) == {Name.COMMITTED_OFFSET_ORDER}
    assert found([*rows, read(11, 12, 0, 5)], Level.STRICT) == set(), "its marker may not be there yet"
    another = [*rows, consumed(1, 4, 5, 7, generation=2), end(1, 6, 7)]
    both = [*another, read(11, 12, 1, 6), stable(13, 14, 3, 7)]
    assert found(both, Level.STRICT) == set(), "what was written after it is not decided yet"


def produce(index: int, value: int, offset: int, transaction: int | None) -> Operation:
    """A record of `out`."""
    return Operation(
        index=index, process=0 if transaction is not None else 7, kind=KindOfAll.PRODUCE, outcome=Outcome.OK,
        topic="out", partition=0, call=2 + 2 * offset, returned=3 + 2 * offset, offset=offset, values=(value,),
        transaction=transaction,
    )  # fmt: skip


def fetch(index: int, value: int, offset: int, isolation: Isolation = Isolation.READ_COMMITTED) -> Operation:
    """From the beginning of `out`."""
    return Operation(
        index=index, process=8, kind=KindOfAll.FETCH, outcome=Outcome.OK, topic="out", partition=0, call=13,
        returned=14, offset=0, values=(value,), offsets=(offset,), isolation=isolation,
    )  # fmt: skip


@pytest.mark.parametrize("isolation", Isolation)
def test_a_record_that_was_read_says_that_the_offset_of_its_transaction_is_committed(isolation: Isolation) -> None:
    rows = history_of([*OPEN, end(0, 8, None, INFO), *SETTLED_LATE])
    sent = produce(len(rows), 70, 0, transaction=0)
    assert check(Operations.of([*rows, sent])).valid, "it may be aborted"
    told = check(Operations.of([*rows, sent, fetch(len(rows) + 1, 70, 0, isolation)])).anomalies
    is_told = isolation is Isolation.READ_COMMITTED
    assert [one.name for one in told] == [Name.COMMITTED_OFFSET_ORDER] * is_told


def test_an_offset_that_was_found_says_that_the_records_of_its_transaction_are_committed() -> None:
    rows = [*OPEN, end(0, 8, 9, INFO), stable(11, 12, 1, 6)]
    passed_over = [produce(4, 70, 0, transaction=0), produce(5, 71, 1, transaction=None), fetch(6, 71, 1)]
    (anomaly,) = check(Operations.of([*history_of(rows), *passed_over])).anomalies
    assert anomaly.name is Name.LOST_WRITE
    other = [*OPEN, end(0, 8, 9, INFO), stable(11, 12, 0, 5)]
    assert check(Operations.of([*history_of(other), *passed_over])).valid, "it was aborted"


# --- beside the oracle ---------------------------------------------------------------------------------------------


ALONE = tuple(kind for kind in Kind if kind not in ENDS)
MOST = 3
"""Transactions of a small history."""


def small(rng: Random) -> Rows:
    """A few rows in few places, so that they meet; most of them are about one thing. Some name no generation."""
    rows: Rows = []
    of_commits = (Kind.COMMIT, Kind.COMMIT, Kind.READ, Kind.READ, Kind.SETTLED)
    theme = rng.choice((ALONE, of_commits, (Kind.DELIVER, Kind.COMMIT, Kind.ASSIGN)))
    transactions = rng.choice((0, 0, 1, 2, MOST))
    for _ in range(rng.randint(2, 8)):
        kind, call = rng.choice(theme), rng.randint(0, 12)
        process = rng.randint(0, 2)
        outcome = rng.choice((Outcome.OK, Outcome.OK, INFO, FAIL)) if kind is Kind.COMMIT else Outcome.OK
        found = [place for place, row in enumerate(rows) if row.kind is Kind.COMMIT]
        chosen = rng.choice([-1, *found]) if kind is Kind.READ else -1
        places = (-1, 0, 1) if kind is Kind.ASSIGN else (0, 0, 1)
        partition = rows[chosen].partition if chosen >= 0 else rng.choice(places)
        offset = rows[chosen].offset if chosen >= 0 else -1 if kind is Kind.READ else rng.randint(0, 3)
        generation = rng.randint(0, 2)
        if kind in (Kind.COMMIT, Kind.ASSIGN, Kind.DELIVER) and rng.random() < 0.2:
            generation = -1
        returned = call + rng.randint(0, 4)
        whose = rng.choice((None, None, 0))
        is_inside = kind in (Kind.COMMIT, Kind.DELIVER) and transactions > 0 and rng.random() < 0.7
        transaction = rng.randrange(transactions) if is_inside else None
        rows.append(
            GroupRow(
                kind, process if transaction is None else transaction, call, returned, generation, partition, offset,
                chosen, whose, outcome, transaction, kind is Kind.READ and rng.random() < 0.7,
            )
        )  # fmt: skip
    return [*rows, *(one for number in range(transactions) for one in ended(rows, number, rng))]


def ended(rows: Rows, transaction: int, rng: Random) -> Rows:
    """How the transaction ends: it was committed, aborted, nobody knows, or nothing was called."""
    calls = [row.call for row in rows if row.transaction == transaction]
    if not calls or rng.random() < 0.1:
        return []
    call = max(calls) + rng.randint(0, 5)
    kind = rng.choice((Kind.END, Kind.END, Kind.END, Kind.ABORT))
    outcome = rng.choice((Outcome.OK, Outcome.OK, INFO, FAIL))
    return [GroupRow(kind, transaction, call, call + rng.randint(0, 4), outcome=outcome, transaction=transaction)]


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("once", [False, True])
def test_it_says_what_brute_force_says(level: Level, once: bool) -> None:
    seen: set[Name] = set()
    for seed in range(250):
        rows = small(Random(seed))
        said = found(rows, level, once=once)
        assert said == groups_brute_force.names(rows, level, once=once), (seed, rows)
        seen |= said
    assert len(seen) >= 8


@pytest.mark.parametrize("level", Level)
def test_nothing_is_said_of_what_a_coordinator_may_have_told(level: Level) -> None:
    for seed in range(amount(100, deep=300)):
        rows = explained(Random(f"{level.value}/{seed}"), level)
        assert found(rows, level) == set(), (seed, rows)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(8))
def test_it_says_what_brute_force_says_of_many_histories(seed: int) -> None:
    for number in range(20_000):
        rng = Random(f"{seed}/{number}")
        rows, once, level = small(rng), rng.random() < 0.5, rng.choice(list(Level))
        assert found(rows, level, once=once) == groups_brute_force.names(rows, level, once=once), rows


@pytest.mark.parametrize("level", Level)
def test_groups_of_many_histories_are_checked_at_once_as_each_is_alone(level: Level) -> None:
    whole: list[Operation] = []
    alone: list[Anomaly] = []
    for history in range(60):
        rng = Random(f"many/{history}")
        mine: list[Operation] = []
        for group in range(rng.choice((1, 2, 3))):
            rows = history_of(small(rng), once=rng.random() < 0.3, history=history, group=group)
            shift = len(mine)
            mine += [
                attrs.evolve(
                    row,
                    index=row.index + shift,
                    found=None if row.found is None else row.found + shift,
                    transaction=None if row.transaction is None else row.transaction + MOST * group,
                )
                for row in rows
            ]
            alone += check(Operations.of(mine[shift:]), level).anomalies
        whole += mine
    together = check(Operations.of(whole), level).anomalies
    assert len({one.name for one in together}) >= 8
    assert sorted(map(str, together)) == sorted(map(str, alone))


# --- large ---------------------------------------------------------------------------------------------------------


def large(size: int) -> Rows:
    """A valid history: two members in turns, generation by generation, and one partition."""
    rows: Rows = []
    for number in range(size):
        at, process = 10 * number, number % 2
        rows += [
            member(process, number, at),
            expect(0, number, at),
            assign(process, number, at, at + 1),
            assign(process, number, at, at + 1, 0),
            deliver(process, number, at + 2, at + 3, number),
            commit(process, number, at + 4, at + 5, number + 1),
            read(at + 6, at + 7, len(rows) + 5, number + 1),
            release(process, 0, at + 8),
        ]
    return [*rows, settled(10 * size, size)]


def test_a_large_history_is_checked_by_its_arrays() -> None:
    """A rule that compares all pairs of 16,001 rows would take minutes, or memory that is not there."""
    rows = large(2_000)
    assert found(rows, Level.STRICT) == set()
    place = [place for place, row in enumerate(rows) if row.kind is Kind.COMMIT][1_000]
    rows[place] = attrs.evolve(rows[place], generation=4)
    (anomaly,) = check(operations_of(rows)).anomalies
    assert anomaly.name is Name.COMMIT_OF_FORMER_GENERATION
