"""What becomes of offsets that are committed in transactions: whether they are, and from when on they may be found.

The response to a commit_offsets says that it was taken; whether it counts, the end of its transaction says. Where
nobody knows that, what was read does: an offset that was found, or a record that read_committed has returned, is
committed, and so is all of its transaction. What was delivered in a transaction has happened as it has.
"""

from __future__ import annotations

import attrs
import numpy as np

from tidegauge.linearizability.arrays import runs, spread, value_slots
from tidegauge.linearizability.history import NEVER, Codes, Flags, Ints, Isolation, Kind, Operations, Outcome
from tidegauge.linearizability.membership import NONE


@attrs.frozen(eq=False)
class Decisions:
    """Of each row; of others than commits of offsets and deliveries in transactions what the row itself says."""

    outcome: Codes
    """ok: committed; fail: it never is; info: nobody knows."""
    closing: Ints
    """When the end of its transaction was called, or it was itself: before that nobody can have found it."""

    def take(self, rows: Ints) -> Decisions:
        """Those of the given rows."""
        return Decisions(self.outcome[rows], self.closing[rows])

    def slice(self, start: int, stop: int) -> Decisions:
        """Those of rows start to stop."""
        return Decisions(self.outcome[start:stop], self.closing[start:stop])


def decide(ops: Operations, whose: Flags) -> tuple[Decisions, Ints]:
    """What is decided in the histories `whose`, which have groups, and the commits that only a found offset tells."""
    decisions = Decisions(ops.outcome.copy(), ops.call.copy())
    number = np.repeat(np.arange(len(whose)), np.diff(ops.history_starts))
    extra = ops.transactional
    assert extra is not None, "each row of a group has it"
    inside = np.flatnonzero(whose[number] & (extra.transaction != NONE))
    commits = inside[np.isin(ops.kind[inside], (Kind.COMMIT_OFFSETS, Kind.DELIVER))]
    nothing = np.zeros(0, np.int64)
    if not len(commits):
        return decisions, nothing
    slot, _, size = value_slots(number[inside], extra.transaction[inside], nothing, nothing)
    home = np.full(len(ops), size, np.int64)
    home[inside] = slot
    end = np.full(size + 1, NONE, np.int64)
    ends = inside[np.isin(ops.kind[inside], (Kind.COMMIT, Kind.ABORT))]
    end[home[ends]] = ends
    is_commit = (end != NONE) & (ops.kind[end] == Kind.COMMIT)
    result = np.where(is_commit, ops.outcome[end], Outcome.FAIL)
    is_unknown = result == Outcome.INFO
    found = np.zeros(size + 1, np.bool_)
    found[home[_commits_found(ops, number)]] = True
    found &= is_unknown
    result[found] = Outcome.OK
    result[is_unknown & _is_read(ops, number, home, is_unknown)] = Outcome.OK
    of = result[home[commits]]
    decisions.outcome[commits] = np.where(of == Outcome.OK, ops.outcome[commits], of)
    decisions.outcome[commits[ops.outcome[commits] == Outcome.FAIL]] = Outcome.FAIL
    decisions.closing[commits] = np.where(end == NONE, NEVER, ops.call[end])[home[commits]]
    return decisions, end[found]


def told(ops: Operations, commits: Ints) -> Operations:
    """The same with these commits of transactions, of unknown outcome, as done; nobody knows by when they were."""
    if not len(commits):
        return ops
    outcome, returned = ops.outcome.copy(), ops.returned.copy()
    outcome[commits], returned[commits] = Outcome.OK, NEVER
    return attrs.evolve(ops, outcome=outcome, returned=returned)


def _commits_found(ops: Operations, number: Ints) -> Ints:
    """The commits of offsets that reads have found."""
    if ops.membership is None:
        return np.zeros(0, np.int64)
    said = ops.membership.found.astype(np.int64)
    reads = np.flatnonzero((ops.kind == Kind.READ_OFFSETS) & (ops.outcome == Outcome.OK) & (said != NONE))
    keys = (number << 32) + ops.index
    rows: Ints = np.searchsorted(keys, (number[reads] << 32) + said[reads])
    return rows


def _is_read(ops: Operations, number: Ints, home: Ints, is_asked: Flags) -> Flags:
    """Of which of the transactions asked for read_committed has returned a record."""
    seen = np.zeros(len(is_asked), np.bool_)
    writers = np.flatnonzero((ops.kind == Kind.PRODUCE) & is_asked[home])
    if not len(writers):
        return seen
    careful = np.isin(ops.kind, (Kind.FETCH, Kind.DELIVER)) & (ops.isolation == Isolation.READ_COMMITTED)
    readers = np.flatnonzero(careful & (ops.outcome == Outcome.OK) & np.isin(number, number[writers]))
    rows = np.concatenate((writers, readers))
    topics = number[rows] * len(ops.topics) + ops.topic[rows]
    place = np.unique((topics << 32) + ops.partition[rows], return_inverse=True)[1]
    writer, wrote = _values(ops, writers, place[: len(writers)])
    reader, read = _values(ops, readers, place[len(writers) :])
    slot, sought, size = value_slots(writer, wrote, reader, read)
    is_there = np.zeros(size + 1, np.bool_)
    is_there[sought] = True
    seen[spread(home[writers], ops.counts[writers])[is_there[slot]]] = True
    return seen


def _values(ops: Operations, rows: Ints, place: Ints) -> tuple[Ints, Ints]:
    """The place and the value of each record of these rows."""
    counts = ops.counts[rows]
    return spread(place, counts), ops.values[runs(ops.starts[:-1][rows], counts)]
