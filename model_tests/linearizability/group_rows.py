"""One row of a group as tests and the brute force write it, about one partition each; and many of them as a history."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

import attrs

from tidegauge.linearizability.history import OF_MANY, UNKNOWN, Isolation, Operation, Operations, Outcome
from tidegauge.linearizability.history import Kind as KindOfAll

NONE = -1
"""No generation, no partition, no commit."""
TOPIC = "topic"


class Kind(IntEnum):
    """The kinds that a group has, by their codes in a history."""

    MEMBER = KindOfAll.MEMBER
    EXPECT = KindOfAll.EXPECT
    ASSIGN = KindOfAll.ASSIGN
    RELEASE = KindOfAll.RELEASE
    COMMIT = KindOfAll.COMMIT_OFFSETS
    READ = KindOfAll.READ_OFFSETS
    DELIVER = KindOfAll.DELIVER
    SETTLED = KindOfAll.SETTLED
    END = KindOfAll.COMMIT
    ABORT = KindOfAll.ABORT


UNNUMBERED = (Kind.RELEASE, Kind.SETTLED, Kind.READ, Kind.END, Kind.ABORT)
"""These are of no generation."""
ENDS = (Kind.END, Kind.ABORT)
"""These are of a transaction as a whole, and of no group."""


@attrs.frozen
class GroupRow:
    """One row; `commit` of a read is the place of the one that it has found. `stable`: it asks for stable offsets."""

    kind: Kind
    process: int
    call: int
    returned: int | None = None
    generation: int = NONE
    partition: int = NONE
    offset: int = UNKNOWN
    commit: int = NONE
    member: int | None = None
    outcome: Outcome = Outcome.OK
    transaction: int | None = None
    stable: bool = False


def operation(row: GroupRow, index: int, history: int = 0, group: int = 0) -> Operation:
    """The row as an operation."""
    is_of_many = row.kind in map(int, OF_MANY)
    is_about_many = is_of_many or row.kind is Kind.MEMBER or row.kind in ENDS
    return Operation(
        history=history,
        index=index,
        process=row.process,
        kind=KindOfAll(row.kind),
        outcome=row.outcome,
        topic="" if row.kind in ENDS else TOPIC,
        partition=0 if is_about_many else row.partition,
        call=row.call,
        returned=None if row.kind in (Kind.SETTLED, Kind.MEMBER, Kind.EXPECT, Kind.RELEASE) else row.returned,
        offset=UNKNOWN if is_about_many else row.offset,
        values=(row.partition,) if is_of_many and row.partition != NONE else (),
        group=None if row.kind in ENDS else group,
        transaction=row.transaction,
        isolation=Isolation.READ_COMMITTED if row.stable else Isolation.READ_UNCOMMITTED,
        generation=None if row.generation == NONE or row.kind in UNNUMBERED else row.generation,
        member=row.member,
        found=None if row.commit == NONE else row.commit,
    )  # fmt: skip


def at_most_once(index: int, history: int = 0, group: int = 0) -> Operation:
    """What an application declares that commits what it is about to go through."""
    return Operation(
        history=history, index=index, process=-1, kind=KindOfAll.AT_MOST_ONCE, outcome=Outcome.OK, topic="",
        partition=0, call=0, group=group,
    )  # fmt: skip


def history_of(rows: Iterable[GroupRow], *, once: bool = False, history: int = 0, group: int = 0) -> list[Operation]:
    """A group's history; `once`: its application promises at most once."""
    operations = [operation(row, index, history, group) for index, row in enumerate(rows)]
    return [*operations, at_most_once(len(operations), history, group)] if once else operations


def operations_of(rows: Iterable[GroupRow], *, once: bool = False) -> Operations:
    """The same as arrays."""
    return Operations.of(history_of(rows, once=once))
