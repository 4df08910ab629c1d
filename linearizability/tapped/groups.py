"""The histories of consumer groups: what members were assigned, what they committed, and what they found committed.

A response does not say which commit it has found. It is the last one of this offset and this metadata that was called
before, if those are neighbours: with others between them nobody can say, and the read is left out, as is one that has
found what nobody has committed through the tap. Which records a member was given the protocol does not say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from tidegauge.linearizability.history import UNKNOWN, Isolation, Kind, Operation, Outcome
from tidegauge.linearizability.tapped.lines import Assigned, Committed, Found
from tidegauge.linearizability.tapped.transactions import Transactions

CERTAINLY_NOT: Final = frozenset(
    {
        12,  # OFFSET_METADATA_TOO_LARGE
        14,  # COORDINATOR_LOAD_IN_PROGRESS
        22,  # ILLEGAL_GENERATION
        25,  # UNKNOWN_MEMBER_ID
        27,  # REBALANCE_IN_PROGRESS
        29,  # TOPIC_AUTHORIZATION_FAILED
        30,  # GROUP_AUTHORIZATION_FAILED
        47,  # INVALID_PRODUCER_EPOCH
        48,  # INVALID_TXN_STATE
        82,  # FENCED_INSTANCE_ID
        90,  # PRODUCER_FENCED
        110,  # FENCED_MEMBER_EPOCH
        113,  # STALE_MEMBER_EPOCH
    }
)
"""Errors with which a coordinator says that it has written no offset."""
CONSUMER: Final = "consumer"
Place = tuple[str, int]


@attrs.define(eq=False)
class Group:
    """What was done by the members of a group, and to it."""

    name: str
    number: int
    assigned: list[Assigned] = attrs.field(factory=list)
    commits: list[Committed] = attrs.field(factory=list)
    found: list[Found] = attrs.field(factory=list)
    _members: dict[str, int] = attrs.field(factory=dict)

    @property
    def in_transactions(self) -> bool:
        """Whether offsets are committed in transactions."""
        return any(one.producer is not None for one in self.commits)

    @property
    def of_epochs(self) -> bool:
        """Whether members go on in epochs of their own (KIP-848): one commits in its own while others are ahead."""
        return any(one.protocol == CONSUMER for one in self.assigned)

    def member(self, name: str | None) -> int | None:
        """The number of a member."""
        return None if name is None else self._members.setdefault(name, len(self._members))


@attrs.frozen(eq=False)
class Rows:
    """The rows of a group, and for each read which of the rows it has found."""

    rows: list[Operation]
    found: dict[int, int]
    """By the number of a read among the rows, that of the commit."""


def groups(assigned: Iterable[Assigned], commits: Iterable[Committed], found: Iterable[Found]) -> list[Group]:
    """All groups, with what belongs to each."""
    by_name: dict[str, Group] = {}

    def of(name: str) -> Group:
        return by_name.setdefault(name, Group(name, len(by_name)))

    for assignment in assigned:
        of(assignment.group).assigned.append(assignment)
    for commit in commits:
        of(commit.group).commits.append(commit)
    for read in found:
        of(read.group).found.append(read)
    return list(by_name.values())


def rows_of(group: Group, transactions: Transactions | None) -> Rows:
    """The rows of a group; with `transactions` if it commits in some."""
    commits = sorted(group.commits, key=lambda one: one.call)
    rows = [_commit(one, group, transactions) for one in commits]
    places: dict[Place, list[int]] = {}
    for number, commit in enumerate(commits):
        if rows[number].outcome is not Outcome.FAIL:
            places.setdefault((commit.topic, commit.partition), []).append(number)
    found: dict[int, int] = {}
    for read in group.found:
        row = _read(read, group)
        if read.offset is not None:
            which = _which(read, commits, places.get((read.topic, read.partition), ()))
            if which is None:
                continue
            found[len(rows)] = which
        rows.append(row)
    rows += [row for one in group.assigned for row in _assignments(one, group)]
    return Rows(rows, found)


def indexed(parts: Iterable[Rows], others: Iterable[Operation], history: int) -> list[Operation]:
    """All of these as the rows of one history, in the order of their calls, each read with the commit it has found."""
    every: list[tuple[Operation, int | None]] = [(row, None) for row in others]
    for part in parts:
        first = len(every)
        every += [
            (row, None if number not in part.found else first + part.found[number])
            for number, row in enumerate(part.rows)
        ]
    order = sorted(range(len(every)), key=lambda number: every[number][0].call)
    index = {number: place for place, number in enumerate(order)}
    rows = []
    for number in order:
        row, found = every[number]
        row = attrs.evolve(row, index=index[number], history=history)
        rows.append(row if found is None else attrs.evolve(row, found=index[found]))
    return rows


def _commit(commit: Committed, group: Group, transactions: Transactions | None) -> Operation:
    row = Operation(
        index=0,
        process=commit.process,
        kind=Kind.COMMIT_OFFSETS,
        outcome=_outcome(commit),
        topic=commit.topic,
        partition=commit.partition,
        call=commit.call,
        returned=commit.returned,
        offset=commit.offset,
        group=group.number,
        generation=None if group.of_epochs else commit.generation,
        member=group.member(commit.member),
    )
    if commit.producer is None or transactions is None:
        return row
    mine = transactions.of(commit.producer, commit.call)
    return attrs.evolve(row, process=mine.process, transaction=mine.number)


def _outcome(commit: Committed) -> Outcome:
    if commit.returned is None or commit.error is None:
        return Outcome.INFO
    if not commit.error:
        return Outcome.OK
    return Outcome.FAIL if commit.error in CERTAINLY_NOT else Outcome.INFO


def _read(read: Found, group: Group) -> Operation:
    return Operation(
        index=0,
        process=read.process,
        kind=Kind.READ_OFFSETS,
        outcome=Outcome.OK,
        topic=read.topic,
        partition=read.partition,
        call=read.call,
        returned=read.returned,
        offset=UNKNOWN if read.offset is None else read.offset,
        isolation=Isolation.READ_COMMITTED if read.stable else Isolation.READ_UNCOMMITTED,
        group=group.number,
    )


def _which(read: Found, commits: Sequence[Committed], numbers: Sequence[int]) -> int | None:
    """The commit that a read has found; None where nobody can say."""
    before = [number for number in numbers if commits[number].call <= read.returned]
    alike = [
        place
        for place, number in enumerate(before)
        if (commits[number].offset, commits[number].metadata) == (read.offset, read.metadata)
    ]
    if not alike or alike[-1] - alike[0] + 1 != len(alike):
        return None
    return before[alike[-1]]


def _assignments(assigned: Assigned, group: Group) -> Iterable[Operation]:
    for topic, partitions in assigned.topics.items():
        yield Operation(
            index=0,
            process=assigned.process,
            kind=Kind.ASSIGN,
            outcome=Outcome.OK,
            topic=topic,
            partition=0,
            call=assigned.call,
            returned=assigned.returned,
            values=partitions,
            group=group.number,
            generation=assigned.generation,
            member=group.member(assigned.member),
        )
