"""The rows of groups as arrays: one for each partition or record that an operation is about.

A *process* is one life of a client. A *member* is who the assignment is for: processes of one static member are one.
"""

from __future__ import annotations

import attrs
import numpy as np

from tidegauge.linearizability.groups.decisions import Decisions
from tidegauge.linearizability.history import NEVER, OF_MANY, Flags, Ints, Isolation, Kind, Operations, Outcome
from tidegauge.linearizability.membership import Membership
from tidegauge.linearizability.transactional import NONE

BEFORE_ALL = -1
"""Before any call."""
_WIDTH = 1 << 32
"""More than there are numbers of 32 bits."""


@attrs.frozen(eq=False)
class GroupTable:
    """The rows of the groups of many histories, in their order.

    Groups, partitions, generations, members and processes have numbers of their own: no two groups share any, and those
    of generations rise with the generation. Times are ranks.
    """

    ops: Operations
    operation: Ints
    """The row of `ops` that each row is of."""
    kind: Ints
    outcome: Ints
    """Of a commit or a delivery in a transaction, what became of that."""
    is_taken: Flags
    """Whether the response says that it was done."""
    in_transaction: Flags
    is_stable: Flags
    """Whether a read asks for what no transaction may yet change."""
    group: Ints
    process: Ints
    member: Ints
    is_members: Flags
    """Whether it says whose it is, by its member or its generation."""
    generation: Ints
    partition: Ints
    placed: Ints
    """The partition by its number in the history."""
    offset: Ints
    commit: Ints
    """The row of the commit that a read has found; NONE if it has found none."""
    call: Ints
    returned: Ints
    closing: Ints
    """Before that nobody has found a commit: the call of its own, or of the end of its transaction."""
    never: int
    """The rank of a return that did not come."""
    at_most_once: Flags
    """By group: whether its application promises that no record is delivered twice."""

    @classmethod
    def of(cls, ops: Operations, decisions: Decisions) -> GroupTable:
        """The table of operations that are all of groups, and what becomes of them."""
        assert ops.transactional is not None, "each of them has its group"
        said = ops.membership or Membership.blank(len(ops))
        history = np.zeros(len(ops), np.int64)
        np.cumsum(ops.history[1:] != ops.history[:-1], out=history[1:])
        groups, group = np.unique(history * _WIDTH + ops.transactional.group, return_inverse=True)
        at_most_once = np.zeros(len(groups), np.bool_)
        at_most_once[group[ops.kind == Kind.AT_MOST_ONCE]] = True
        operation, inside = _expanded(ops)
        whose, kind = group[operation], ops.kind[operation].astype(np.int64)
        placed, offset = _places(ops, operation, inside)
        topics = np.unique(whose * len(ops.topics) + ops.topic[operation], return_inverse=True)[1]
        process = ops.process.astype(np.int64)
        member = np.where(said.member == NONE, process, said.member)
        call, returned, closing, never = _ranks(ops, decisions.closing)
        return cls(
            ops=ops,
            operation=operation,
            kind=kind,
            outcome=decisions.outcome[operation].astype(np.int64),
            is_taken=(ops.outcome == Outcome.OK)[operation],
            in_transaction=(ops.transactional.transaction != NONE)[operation],
            is_stable=(ops.isolation == Isolation.READ_COMMITTED)[operation],
            group=whose,
            process=_numbered(whose, process[operation] + (1 << 31)),
            member=_numbered(whose, member[operation] + (1 << 31)),
            is_members=((said.member != NONE) | (said.generation != NONE))[operation],
            generation=_numbered(whose, said.generation[operation].astype(np.int64)),
            partition=_numbered(topics, placed),
            placed=placed,
            offset=offset,
            commit=_found(ops, history, said.found.astype(np.int64), operation),
            call=call[operation],
            returned=returned[operation],
            closing=closing[operation],
            never=never,
            at_most_once=at_most_once,
        )

    def __len__(self) -> int:
        return len(self.operation)

    def of_kind(self, kind: Kind) -> Ints:
        """The rows of a kind that are done for certain."""
        return rows_where((self.kind == kind) & (self.outcome == Outcome.OK))

    def clock(self, whose: Ints, times: Ints) -> Ints:
        """Times in stretches, one for each number of `whose`; BEFORE_ALL and `never` are the ends of its stretch."""
        moments: Ints = whose * (self.never + 2) + times + 1
        return moments


def rows_where(flags: Flags) -> Ints:
    """The places at which flags are set."""
    return np.flatnonzero(flags)


def _expanded(ops: Operations) -> tuple[Ints, Ints]:
    """The operation of each row, and its number in that: of its values, and of an assignment first the whole."""
    counts = np.ones(len(ops), np.int64)
    many, delivered = np.isin(ops.kind, OF_MANY), ops.kind == Kind.DELIVER
    counts[many] = ops.counts[many] + (ops.kind[many] == Kind.ASSIGN)
    counts[delivered] = np.maximum(1, ops.counts[delivered])
    counts[ops.kind == Kind.AT_MOST_ONCE] = 0
    operation = np.repeat(np.arange(len(ops)), counts)
    inside: Ints = np.arange(len(operation)) - np.repeat(np.cumsum(counts) - counts, counts)
    return operation, inside


def _places(ops: Operations, operation: Ints, inside: Ints) -> tuple[Ints, Ints]:
    """The partition and the offset of each row; NONE where it has none."""
    kind = ops.kind[operation]
    partition = ops.partition[operation].astype(np.int64)
    partition[kind == Kind.MEMBER] = NONE
    many = rows_where(np.isin(kind, OF_MANY))
    value = ops.starts[operation[many]] + inside[many] - (kind[many] == Kind.ASSIGN)
    is_whole = (kind[many] == Kind.ASSIGN) & (inside[many] == 0)
    partition[many] = NONE
    partition[many[~is_whole]] = ops.values[value[~is_whole]]
    offset = ops.offset[operation].copy()
    records = rows_where((kind == Kind.DELIVER) & (ops.counts[operation] > 0))
    if len(records):
        offset[records] = ops.record_offsets()[ops.starts[operation[records]] + inside[records]]
    return partition, offset


def _numbered(whose: Ints, numbers: Ints) -> Ints:
    """Numbers from 0 for each pair, in their order; those below 0 stay NONE."""
    there = rows_where(numbers >= 0)
    found = np.full(len(numbers), NONE, np.int64)
    found[there] = np.unique(whose[there] * _WIDTH + numbers[there], return_inverse=True)[1]
    return found


def _ranks(ops: Operations, closing: Ints) -> tuple[Ints, Ints, Ints, int]:
    """Calls, returns and `closing` as ranks, and the rank of NEVER; what is declared returns as it is called."""
    declared = np.isin(ops.kind, (Kind.MEMBER, Kind.EXPECT, Kind.RELEASE, Kind.SETTLED))
    returned = np.where(declared, ops.call, ops.returned)
    times, rank = np.unique(np.concatenate((ops.call, returned, closing, [NEVER])), return_inverse=True)
    call, returned, closing = np.split(rank[:-1], 3)
    return call, returned, closing, len(times) - 1


def _found(ops: Operations, history: Ints, found: Ints, operation: Ints) -> Ints:
    """The row of the commit that each read has found."""
    commits = rows_where(ops.kind == Kind.COMMIT_OFFSETS)
    reads = rows_where((ops.kind == Kind.READ_OFFSETS) & (found != NONE))
    keys = history[commits] * _WIDTH + ops.index[commits]
    rows = np.full(len(ops), NONE, np.int64)
    rows[reads] = np.searchsorted(operation, commits[np.searchsorted(keys, history[reads] * _WIDTH + found[reads])])
    return rows[operation]


# --- pairs of numbers, sorted by both --------------------------------------------------------------------------------


def keyed(high: Ints, low: Ints) -> Ints:
    """Two numbers as one; neither is below -1 or beyond 2^31."""
    keys: Ints = ((high + 1) << 32) | (low + 1)
    return keys
