"""Transactions and their records as arrays, for many histories at a time."""

from __future__ import annotations

from functools import cached_property

import attrs
import numpy as np

from tidegauge.linearizability.arrays import runs, spread, value_slots
from tidegauge.linearizability.history import NEVER, UNKNOWN, Flags, Ints, Isolation, Kind, Operations, Outcome
from tidegauge.linearizability.positions import positions
from tidegauge.linearizability.rows import Rows
from tidegauge.linearizability.transactional import NONE, Transactional

BLOCK = 1 << 15
"""Operations looked at at a time: their tables stay in a core's cache."""
SPARSE = 8
"""A partition with more than so many offsets a record is looked at by itself."""


@attrs.frozen(eq=False)
class Flagged:
    """The histories of a block that break a rule, as the passes find them."""

    history: Ints
    """The number of each row's history in the block."""
    flags: Flags

    def flag(self, rows: Ints, wrong: Flags) -> None:
        """Flag the histories of those `rows` for which `wrong` is true."""
        if wrong.any():
            self.flags[self.history[rows[wrong]]] = True


@attrs.frozen(eq=False)
class Transactions:
    """The transactions of a block, numbered through."""

    of_row: Ints
    """The number of each row's transaction; NONE where it is in none."""
    end: Ints
    """The row that ends each; -1 where none does."""
    committed: Flags
    """Whether the response to its commit says so."""
    unknown: Flags
    """Whether its commit was called, and nobody knows what became of it."""

    def __len__(self) -> int:
        return len(self.end)

    @classmethod
    def of(cls, ops: Operations, history: Ints, said: Transactional) -> Transactions:
        of_row, size = _numbered(ops, history, said.transaction)
        ends = np.flatnonzero((ops.kind == Kind.COMMIT) | (ops.kind == Kind.ABORT))
        end = np.full(size, -1, np.int64)
        end[of_row[ends]] = ends
        commit = (end >= 0) & (ops.kind[end] == Kind.COMMIT) if size else np.zeros(0, np.bool_)
        outcome = ops.outcome[end] if size else np.zeros(0, np.int8)
        return cls(of_row, end, commit & (outcome == Outcome.OK), commit & (outcome == Outcome.INFO))


@attrs.frozen(eq=False)
class Records:
    """The records whose place is known, by a response or by a fetch, and a table with a slot for each offset."""

    row: Ints
    """The produce of each."""
    slot: Ints
    base: Ints
    """Per row of the block, the base offset of its batch; UNKNOWN where nobody says."""
    low: Ints
    """Per partition the smallest offset of a record, and below the greatest plus one; both 0 without records."""
    high: Ints
    first: Ints
    """Per partition its first slot, and in the end their number. Each has one slot more than offsets."""
    shift: Ints
    """Per partition, from offsets to slots."""

    @property
    def slots(self) -> int:
        return int(self.first[-1])

    def at(self, group: Ints, offset: Ints) -> Ints:
        """The slots of offsets in partitions; those outside are moved to the nearest end."""
        inside = np.minimum(np.maximum(offset, self.low[group]), self.high[group])
        inside += self.shift[group]
        return inside

    def below(self, slots: Ints) -> Ints:
        """How many of `slots`, which differ, are below each slot, and below the end."""
        there = np.zeros(self.slots + 1, np.int64)
        there[slots + 1] = 1
        return np.cumsum(there, out=there)


@attrs.frozen(eq=False)
class Fetches:
    """The completed fetches."""

    row: Ints
    begin: Ints
    """Where each began: its position, or else its first record; UNKNOWN where nobody knows."""
    end: Ints
    """After its last record, or where it began."""
    committed: Flags
    """Whether it was read_committed."""


@attrs.frozen(eq=False, slots=False)
class Table:
    """What the passes over a block take."""

    rows: Rows
    said: Transactional
    history: Ints
    histories: int
    transactions: Transactions
    records: Records
    fetches: Fetches
    visible: Flags
    """Which of the records a read_committed fetch returns."""
    committed: Flags
    """Which transactions are committed: by their responses, or because a read_committed fetch read of them."""
    readings: tuple[Ints, Ints]
    """Who read of whom: the fetch and the produce of each record that a read_committed fetch returned."""

    @property
    def ops(self) -> Operations:
        return self.rows.ops

    @cached_property
    def seen(self) -> tuple[Ints, Ints]:
        """The slots of the visible records, and their produces."""
        which = np.flatnonzero(self.visible)
        return self.records.slot[which], self.records.row[which]

    @cached_property
    def seen_below(self) -> Ints:
        """How many visible records are below each slot, counted over the whole block."""
        return self.records.below(self.seen[0])

    @classmethod
    def of(cls, ops: Operations, flagged: Flagged) -> Table:
        """The table of a block; what does not even fit a table is flagged and left out of it."""
        said = ops.transactional
        assert said is not None, "a history without transactions is the log checker's"
        rows = Rows.of(ops)
        transactions = Transactions.of(ops, flagged.history, said)
        fetches = _fetches(rows, transactions)
        records, reader, writer = _place(rows, flagged)
        careful = ops.isolation[reader] == Isolation.READ_COMMITTED
        reader, writer = reader[careful], writer[careful]
        of = transactions.of_row[writer]
        inside = of >= 0
        committed = transactions.committed.copy()
        flagged.flag(reader[inside], ~(transactions.committed | transactions.unknown)[of[inside]])
        committed[of[inside]] |= transactions.unknown[of[inside]]
        home = transactions.of_row[records.row]
        visible = (home < 0) | np.append(committed, False)[home]
        return cls(
            rows, said, flagged.history, len(flagged.flags), transactions, records, fetches, visible, committed,
            (reader, writer),
        )  # fmt: skip


def _numbered(ops: Operations, history: Ints, transaction: Ints) -> tuple[Ints, int]:
    """The transaction of each row by its number in the block, and how many numbers there are."""
    starts = ops.history_starts
    if not len(ops):
        return transaction, 0
    length = np.maximum.reduceat(transaction, starts[:-1]).astype(np.float64) + 1
    if length.sum() <= 8 * len(ops) + 1024:
        # Numbered from 0 on, as they should be: each history's follow those of the one before.
        ends = np.cumsum(length).astype(np.int64)
        first = np.repeat(ends - length.astype(np.int64), np.diff(starts))
        return np.where(transaction >= 0, transaction + first, NONE), int(ends[-1])
    rows = np.flatnonzero(transaction >= 0)
    nothing = np.zeros(0, np.int64)
    slot, _, size = value_slots(history[rows], transaction[rows], nothing, nothing)
    of_row = np.full(len(ops), NONE, np.int64)
    of_row[rows] = slot
    return of_row, size


def _fetches(rows: Rows, transactions: Transactions) -> Fetches:
    """Where each fetch began and ended."""
    ops, fetches = rows.ops, rows.fetches
    begin = rows.position
    if len(begin) and ops.offset[fetches].min() == UNKNOWN:
        # A consumer rewinds after an abort, and nobody says to where.
        inside = transactions.of_row >= 0
        rewinds = inside & ~np.append(transactions.committed, False)[transactions.of_row]
        begin = positions(ops, rows.group, fetches, rewinds)
    begin = begin.copy()
    end = begin.copy()
    filled = np.flatnonzero(rows.counts[fetches])
    offsets = ops.record_offsets()
    first = offsets[ops.starts[fetches[filled]]]
    begin[filled] = np.where(begin[filled] == UNKNOWN, first, begin[filled])
    end[filled] = offsets[ops.starts[fetches[filled] + 1] - 1] + 1
    return Fetches(fetches, begin, end, ops.isolation[fetches] == Isolation.READ_COMMITTED)


def _place(rows: Rows, flagged: Flagged) -> tuple[Records, Ints, Ints]:
    """Where each record is; and for each record read, the fetch and the produce. Flags what contradicts itself."""
    ops = rows.ops
    (wrote, writer), (read, reader) = rows.written, rows.read
    offsets = ops.record_offsets()
    slot, found, size = rows.value_slots
    number = np.arange(len(wrote))
    owner = np.full(size + 1, -1, np.int64)
    owner[slot] = number
    flagged.flag(writer, owner[slot] != number)
    record = owner[found]
    if len(record) and record.min() < 0:
        flagged.flag(reader, record < 0)
        known = np.flatnonzero(record >= 0)
        reader, record, read = reader[known], record[known], read[known]
    batch = writer[record]
    base = offsets[read] - (wrote[record] - ops.starts[batch])
    placed = np.full(len(ops), UNKNOWN, np.int64)
    placed[rows.strong] = ops.offset[rows.strong]
    placed[batch] = base
    flagged.flag(reader, (placed[batch] != base) | (base < 0))
    flagged.flag(rows.strong, placed[rows.strong] != ops.offset[rows.strong])
    flagged.flag(rows.failed, placed[rows.failed] != UNKNOWN)
    if ops.offsets is not None:
        strong = np.zeros(len(ops), np.bool_)
        strong[rows.strong] = True
        flagged.flag(writer, strong[writer] & (offsets[wrote] != ops.offset[writer] + (wrote - ops.starts[writer])))
    return _lay_out(rows, placed, flagged), reader, batch


def _lay_out(rows: Rows, base: Ints, flagged: Flagged) -> Records:
    """A slot for each offset between a partition's lowest and highest record; two records in one are flagged."""
    held = np.flatnonzero(base >= 0)
    group, counts = rows.group[held], rows.counts[held]
    low, high = np.full(rows.groups, NEVER, np.int64), np.zeros(rows.groups, np.int64)
    np.minimum.at(low, group, base[held])
    np.maximum.at(high, group, base[held] + counts)
    low[low == NEVER] = 0
    written = np.bincount(group, counts, rows.groups).astype(np.int64)
    sparse = high - low > SPARSE * written + 64
    if sparse.any():
        flagged.flag(held, sparse[group])
        held = held[~sparse[group]]
        group, counts = rows.group[held], rows.counts[held]
        high[sparse] = low[sparse]
    first = np.concatenate(([0], np.cumsum(high - low + 1)))
    shift = first[:-1] - low
    slots = runs(base[held] + shift[group], counts)
    row = spread(held, counts)
    number = np.arange(len(slots))
    holder = np.full(int(first[-1]), -1, np.int64)
    holder[slots] = number
    flagged.flag(row, holder[slots] != number)
    return Records(row, slots, base, low, high, first, shift)


def with_transactions(ops: Operations) -> Flags:
    """Which histories, in their order, have to do with transactions."""
    starts = ops.history_starts
    whose = np.zeros(len(starts) - 1, np.bool_)
    if ops.transactional is not None:
        inside = (ops.transactional.transaction != NONE) | (ops.transactional.group != NONE)
        whose = np.logical_or.reduceat(inside, starts[:-1])
    return whose
