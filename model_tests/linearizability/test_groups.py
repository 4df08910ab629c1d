"""Each anomaly of groups has a history that has it, and one that nearly has it and is valid."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tidegauge.linearizability.groups.checking import check_group
from tidegauge.linearizability.groups.findings import Name, Promise
from tidegauge.linearizability.groups.history import GroupRow, GroupRows, Kind, group_history
from tidegauge.linearizability.history import Outcome
from tidegauge.linearizability.log import Level
from tidegauge.model_tests.linearizability import groups_brute_force

Rows = list[GroupRow]
INFO, FAIL = Outcome.INFO, Outcome.FAIL
MOST = Promise.AT_MOST_ONCE


def member(process: int, generation: int, at: int = 0) -> GroupRow:
    return GroupRow(Kind.MEMBER, process, at, generation=generation)


def expect(partition: int, generation: int, at: int = 0) -> GroupRow:
    return GroupRow(Kind.EXPECT, 0, at, generation=generation, partition=partition)


def assign(
    process: int, generation: int, call: int, returned: int, partition: int = -1, *, of: int | None = None
) -> GroupRow:
    return GroupRow(Kind.ASSIGN, process, call, returned, generation, partition, member=of)


def release(process: int, partition: int, at: int) -> GroupRow:
    return GroupRow(Kind.RELEASE, process, at, partition=partition)


def commit(
    process: int, generation: int, call: int, returned: int, offset: int, outcome: Outcome = Outcome.OK, *, of: int = 0
) -> GroupRow:
    return GroupRow(Kind.COMMIT, process, call, returned, generation, of, offset, outcome=outcome)


def read(call: int, returned: int, found: int = -1, offset: int = -1) -> GroupRow:
    return GroupRow(Kind.READ, 9, call, returned, partition=0, offset=offset, commit=found)


def deliver(process: int, generation: int, call: int, returned: int, offset: int) -> GroupRow:
    return GroupRow(Kind.DELIVER, process, call, returned, generation, 0, offset)


def settled(at: int, offset: int) -> GroupRow:
    return GroupRow(Kind.SETTLED, -1, at, partition=0, offset=offset)


TWO = [member(0, 1), member(1, 1), expect(0, 1), expect(1, 1), assign(0, 1, 1, 2), assign(0, 1, 1, 2, 0)]
"""A generation of two members and two partitions, of which one member is told."""
IN_TURN = [commit(0, 1, 0, 1, 5), commit(0, 1, 2, 3, 6)]
AT_ONCE = [settled(0, 0), commit(0, 1, 0, 9, 5), commit(0, 1, 0, 9, 6)]
AGAIN = [deliver(0, 1, 0, 1, 0), commit(0, 1, 2, 3, 1), assign(1, 2, 6, 7, 0), deliver(1, 2, 8, 9, 0)]
"""A record that is delivered again, to another member."""

PAIRS: dict[str, tuple[Name, Rows, Rows]] = {
    "two members own a partition": (
        Name.ASSIGNED_TWICE,
        [assign(0, 1, 0, 1, 0), assign(1, 1, 0, 1, 0)],
        [assign(0, 1, 0, 1, 0), assign(1, 2, 0, 1, 0)],
    ),
    "two processes of a static member": (
        Name.ASSIGNED_TWICE,
        [assign(0, 1, 0, 1, 0, of=7), assign(1, 1, 2, 3, 0, of=8)],
        [assign(0, 1, 0, 1, 0, of=7), assign(1, 1, 2, 3, 0, of=7)],
    ),
    "nobody owns a partition": (Name.UNASSIGNED, [*TWO, assign(1, 1, 1, 2)], TWO),
    "nobody owns a partition that somebody has yet to give back": (
        Name.UNASSIGNED,
        [assign(2, 0, 0, 1, 1), release(2, 1, 2), member(0, 1, 3), expect(1, 1, 3), assign(0, 1, 4, 5)],
        [assign(2, 0, 0, 1, 1), release(2, 1, 4), member(0, 1, 3), expect(1, 1, 3), assign(0, 1, 4, 5)],
    ),
    "two members commit": (
        Name.TWO_COMMITTERS,
        [commit(0, 1, 0, 1, 5), commit(1, 1, 2, 3, 6)],
        [commit(0, 1, 0, 1, 5), commit(1, 1, 2, 3, 6, FAIL), commit(1, 1, 2, 3, 6, of=1), commit(1, 2, 4, 5, 7)],
    ),
    "a commit of a former generation": (
        Name.COMMIT_OF_FORMER_GENERATION,
        [assign(1, 2, 0, 1), commit(0, 1, 2, 3, 6)],
        [assign(1, 2, 0, 1), commit(0, 1, 1, 3, 6)],
    ),
    "a commit of a former generation after another commit, of another partition": (
        Name.COMMIT_OF_FORMER_GENERATION,
        [commit(1, 2, 0, 1, 5, of=1), commit(0, 1, 2, 3, 6)],
        [commit(1, 2, 0, 1, 5, INFO, of=1), commit(0, 1, 2, 3, 6)],
    ),
    "a commit that failed": (
        Name.FAILED_COMMIT_READ,
        [commit(0, 1, 0, 1, 5, FAIL), read(2, 3, 0, 5)],
        [commit(0, 1, 0, 1, 5, INFO), read(2, 3, 0, 5)],
    ),
    "a commit of the future": (
        Name.COMMIT_READ_TOO_SOON,
        [read(0, 1, 1, 5), commit(0, 1, 2, 3, 5)],
        [read(0, 2, 1, 5), commit(0, 1, 2, 3, 5)],
    ),
    "an offset that goes back": (
        Name.COMMITTED_OFFSET_ORDER,
        [*IN_TURN, settled(4, 0), read(4, 5, 0, 5)],
        [*IN_TURN, read(4, 5, 0, 5)],
    ),
    "an offset that is gone": (
        Name.COMMITTED_OFFSET_ORDER,
        [*IN_TURN, settled(4, 0), read(4, 5)],
        [commit(0, 1, 0, 4, 5), settled(4, 0), read(4, 5)],
    ),
    "two reads, of which the later one finds what came before": (
        Name.COMMITTED_OFFSET_ORDER,
        [*AT_ONCE, read(1, 2, 1, 5), read(3, 4, 2, 6), read(5, 6, 1, 5)],
        [*AT_ONCE, read(1, 2, 1, 5), read(3, 5, 2, 6), read(5, 6, 2, 6)],
    ),
    "a commit beyond what was delivered": (
        Name.LOST_DELIVERY,
        [deliver(0, 1, 0, 1, 0), deliver(0, 1, 4, 5, 1), commit(0, 1, 2, 3, 2)],
        [deliver(0, 1, 0, 1, 0), deliver(0, 1, 3, 5, 1), commit(0, 1, 2, 3, 2)],
    ),
    "a delivery of what the group was beyond": (
        Name.DELIVERED_AFTER_COMMIT,
        [deliver(0, 1, 0, 1, 0), commit(0, 1, 2, 3, 1), assign(1, 2, 4, 5, 0), deliver(1, 2, 6, 7, 0)],
        [deliver(0, 1, 0, 1, 0), commit(0, 1, 2, 3, 1), assign(1, 2, 3, 5, 0), deliver(1, 2, 6, 7, 0)],
    ),
    "the same after an operator has set the group back": (
        Name.DELIVERED_AFTER_COMMIT,
        [commit(9, -1, 0, 1, 0), *AGAIN],
        [commit(9, -1, 4, 5, 0), *AGAIN],
    ),
    "a record that is passed over": (
        Name.SKIPPED_DELIVERY,
        [deliver(1, 2, 0, 1, 1), deliver(0, 1, 0, 1, 0), deliver(0, 1, 2, 3, 2)],
        [deliver(1, 2, 0, 1, 3), deliver(0, 1, 0, 1, 0), deliver(0, 1, 2, 3, 2)],
    ),
    "a delivery that goes back": (
        Name.NONMONOTONIC_DELIVERY,
        [deliver(0, 1, 0, 1, 1), deliver(0, 1, 2, 3, 1)],
        [deliver(0, 1, 0, 1, 1), deliver(0, 2, 2, 3, 1)],
    ),
    "a record that is never delivered": (
        Name.UNDELIVERED,
        [deliver(0, 1, 0, 1, 0), settled(2, 2)],
        [deliver(0, 1, 0, 1, 0), settled(2, 1)],
    ),
}  # fmt: skip


def found(rows: Rows, promise: Promise = Promise.AT_LEAST_ONCE, level: Level = Level.KAFKA) -> set[Name]:
    return {one.name for one in check_group(group_history(rows), promise=promise, level=level)}


@pytest.mark.parametrize(("name", "wrong", "right"), PAIRS.values(), ids=PAIRS)
def test_a_history_has_the_anomaly_or_nearly_has_it(name: Name, wrong: Rows, right: Rows) -> None:
    (anomaly,) = check_group(group_history(wrong))
    assert anomaly.name is name
    assert all(f"#{row} p" in anomaly.witness for row in anomaly.rows), "the witness tells of its rows"
    assert found(right) == set()


def test_a_record_is_doubled_where_it_was_to_be_delivered_once_at_most() -> None:
    twice = [deliver(0, 1, 0, 1, 4), deliver(1, 2, 2, 3, 4)]
    assert found(twice, MOST) == {Name.DOUBLED_DELIVERY}
    assert found([twice[0], deliver(1, 2, 2, 3, 5)], MOST) == set()
    assert found(twice) == set(), "at least once is twice perhaps"


def test_each_anomaly_has_its_pair() -> None:
    assert {name for name, _, _ in PAIRS.values()} | {Name.DOUBLED_DELIVERY} == set(Name)


def test_a_read_is_never_late_where_that_is_asked() -> None:
    rows = [*IN_TURN, read(4, 5, 0, 5)]
    assert found(rows) == set()
    assert found(rows, level=Level.STRICT) == {Name.COMMITTED_OFFSET_ORDER}


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (GroupRow(Kind.COMMIT, 0, 0, 1, 1, 0), "kind commit without an offset"),
        (GroupRow(Kind.ASSIGN, 0, 0, 1), "kind assign without a generation"),
        (GroupRow(Kind.RELEASE, 0, 0), "kind release without a partition"),
        (GroupRow(Kind.READ, 0, 0, 1, partition=0, commit=0), "there is no such commit"),
        (GroupRow(Kind.DELIVER, 0, 0, 1, 1, 0, 0, outcome=INFO), "a delivery has happened"),
    ],
)
def test_what_nobody_can_have_recorded_is_refused_by_name(row: GroupRow, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        group_history([row])


# --- beside the oracle ---------------------------------------------------------------------------------------------


def small(rng: Random) -> Rows:
    """A few rows in few places, so that they meet; most of them are about one thing."""
    rows: Rows = []
    theme = rng.choice((tuple(Kind), (Kind.COMMIT, Kind.READ, Kind.SETTLED), (Kind.DELIVER, Kind.COMMIT, Kind.ASSIGN)))
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
        if kind is Kind.COMMIT and rng.random() < 0.2:
            generation = -1
        returned = call + rng.randint(0, 4)
        whose = rng.choice((None, None, 0))
        rows.append(GroupRow(kind, process, call, returned, generation, partition, offset, chosen, whose, outcome))
    return rows


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("promise", Promise)
def test_it_says_what_brute_force_says(level: Level, promise: Promise) -> None:
    seen: set[Name] = set()
    for seed in range(250):
        rows = small(Random(seed))
        said = found(rows, promise, level)
        assert said == groups_brute_force.names(rows, promise, level), (seed, rows)
        seen |= said
    assert len(seen) >= len(Name) - 4


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(8))
def test_it_says_what_brute_force_says_of_many_histories(seed: int) -> None:
    for number in range(20_000):
        rng = Random(f"{seed}/{number}")
        rows, promise, level = small(rng), rng.choice(list(Promise)), rng.choice(list(Level))
        assert found(rows, promise, level) == groups_brute_force.names(rows, promise, level), rows


# --- large ---------------------------------------------------------------------------------------------------------


def large(size: int) -> GroupRows:
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
    return group_history([*rows, settled(10 * size, size)])


def test_a_large_history_is_checked_by_its_arrays() -> None:
    """A rule that compares all pairs of 16,001 rows would take minutes, or memory that is not there."""
    rows = large(2_000)
    assert check_group(rows, level=Level.STRICT) == ()
    rows.generation[rows_of(rows, Kind.COMMIT)[1_000]] = 4
    (anomaly,) = check_group(rows)
    assert anomaly.name is Name.COMMIT_OF_FORMER_GENERATION


def rows_of(rows: GroupRows, kind: Kind) -> list[int]:
    return np.flatnonzero(rows.kind == kind).tolist()
