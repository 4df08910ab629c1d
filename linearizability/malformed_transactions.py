"""What a row of a transaction must be before it can be checked."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tidegauge.linearizability.arrays import value_slots
from tidegauge.linearizability.history import NEVER, OF_GROUPS, UNKNOWN, Flags, Ints, Kind, Operations, Outcome
from tidegauge.linearizability.transactional import NONE, Transactional

BEYOND = 1 << 62


def transaction_faults(ops: Operations) -> Iterator[tuple[Flags, str]]:
    """Each rule that a row of a transaction may break, and how to say so."""
    kind = ops.kind
    whole = (kind >= Kind.BEGIN) & (kind <= Kind.ABORT)
    commits = kind == Kind.COMMIT_OFFSETS
    said = ops.transactional
    if said is None:
        yield whole, "no transaction: a begin, commit or abort says the number of its transaction"
        yield commits, "no group: say the number of the group whose offset is committed"
        return
    inside = said.transaction != NONE
    yield said.transaction < NONE, "transaction is {transaction}: number the transactions of a history from 0"
    yield whole & ~inside, "no transaction: a begin, commit or abort says the number of its transaction"
    other = (kind == Kind.LIST_OFFSETS) | (kind == Kind.ELECTION) | (kind == Kind.SETTLED)
    yield inside & other, "it is in transaction {transaction}: only sends, fetches and commits of offsets can be"
    yield inside & (kind == Kind.PRODUCE) & (ops.acks != -1), "acks is {acks} in a transaction, which needs -1 (all)"
    yield commits & (said.group < 0), "no group: say the number of the group whose offset is committed"
    others = ~commits & ~np.isin(kind, (*OF_GROUPS, Kind.SETTLED))
    yield others & (said.group != NONE), "group is {group}: only a row about a group has one"
    yield commits & (ops.offset == UNKNOWN), "no offset: say which offset the group commits"
    fetched = (kind == Kind.FETCH) & (ops.outcome == Outcome.OK)
    yield said.stable < NONE, "last_stable_offset is {last_stable_offset}: use null where nobody knows it"
    yield said.stable >= BEYOND, "last_stable_offset is {last_stable_offset}: no log is that long, give less than 2**62"
    yield (
        ~fetched & (said.stable != NONE),
        "last_stable_offset is {last_stable_offset}: only a fetch that is ok has one",
    )
    yield from _within(ops, said)


def _within(ops: Operations, said: Transactional) -> Iterator[tuple[Flags, str]]:
    """Faults between the rows of one transaction: one process, one end, and nothing that goes on after it."""
    rows = np.flatnonzero(said.transaction >= 0)
    number = np.zeros(len(ops), np.int64)
    np.cumsum(ops.history[1:] != ops.history[:-1], out=number[1:])
    nothing = np.zeros(0, np.int64)
    slot, _, size = value_slots(number[rows], said.transaction[rows], nothing, nothing)
    first = np.full(size, len(ops), np.int64)
    np.minimum.at(first, slot, rows)
    yield (
        _flags(ops, rows, ops.process[rows] != ops.process[first[slot]]),
        ("transaction {transaction} has another process before: a transaction is of one process"),
    )
    ends = (ops.kind[rows] == Kind.COMMIT) | (ops.kind[rows] == Kind.ABORT)
    last = np.full(size, -1, np.int64)
    last[slot[ends]] = rows[ends]
    yield (
        _flags(ops, rows, ends & (last[slot] != rows)),
        ("transaction {transaction} ends twice: write the end that counts, as info where nobody knows it"),
    )
    until = np.where(last >= 0, ops.call[last], NEVER)[slot]
    yield (
        _flags(ops, rows, ~ends & (ops.call[rows] > until)),
        ("called at {call}, after the end of transaction {transaction} was: give it a transaction of its own"),
    )
    fetched = (ops.kind[rows] == Kind.FETCH) & (ops.outcome[rows] == Outcome.OK)
    over = np.where(last >= 0, ops.returned[last], NEVER)[slot]
    yield (
        _flags(ops, rows, fetched & (ops.returned[rows] > over)),
        "returned at {returned}, after transaction {transaction} was over: give it a transaction of its own",
    )


def _flags(ops: Operations, rows: Ints, wrong: Flags) -> Flags:
    found = np.zeros(len(ops), np.bool_)
    found[rows[wrong]] = True
    return found
