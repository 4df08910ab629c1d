"""The log checker: one array pass over one history or a million.

Theory of operation
-------------------
A log whose appends return offsets needs no search. Every operation says "the log was at least L long" or "at most U
long" at one instant of its interval, so a history is linearizable if and only if

1. values and offsets are one-to-one, and a failed or unknown value is nowhere that it may not be;
2. no operation that returned before another was called has L greater than the other's U;
3. every offset below the greatest L is held by a record, or there is an unknown produce that may be there.

For (1) a record's place is looked up in tables indexed by value and by offset: scatter, gather, compare. For (2), order
the claims by length instead of time: with `reached[x]` the earliest return of an operation with L ≥ x (one suffix
minimum over offsets), an operation with bound U is contradicted if and only if reached[U + 1] < its call. For (3), the
log reached a hole at x no later than reached[x + 1], its deadline, and deadlines grow with x; so by Hall's theorem the
k-th hole of a partition needs the k-th unknown produce, in order of call, to be called by then (earliest deadline
first).

Nothing here sorts operations, and every step is linear. The pass excuses no loss: what it flags is looked at closer by
`judge.py`, which knows about elections; what it does not flag is valid.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

import attrs
import numpy as np

from linearizability.history import NEVER, UNKNOWN, Flags, Ints, Kind, Operations, Outcome, blocks

BLOCK = 1 << 17
"""Operations screened at a time: their tables stay in a core's cache."""


class Level(Enum):
    """What a short answer to a read proves; see "Levels" in docs/history.md."""

    KAFKA = "kafka"
    STRICT = "strict"


@attrs.frozen(eq=False)
class Suspects:
    """Partitions of histories that break a rule when no loss is excused: `rows[k]` are the operations of the k-th."""

    rows: tuple[Ints, ...]

    def __len__(self) -> int:
        return len(self.rows)


def screen(operations: Operations, level: Level = Level.KAFKA) -> Suspects:
    """Every (history, topic, partition) that needs a closer look; all others are valid.

    `operations` is well formed (`malformed.find` is empty) and sorted by history.
    """
    suspects: list[Ints] = []
    for start, stop in blocks(operations, BLOCK):
        block = _Block(operations if stop - start == len(operations) else operations.slice(start, stop), level)
        suspects.extend(rows + start for rows in block.suspects())
    return Suspects(tuple(suspects))


def partitions(operations: Operations) -> tuple[Ints, int]:
    """For each row the number of its (history, topic, partition), and how many numbers there are."""
    if not len(operations):
        return np.zeros(0, np.int64), 0
    history = np.zeros(len(operations), np.int64)
    np.cumsum(operations.history[1:] != operations.history[:-1], out=history[1:])
    width = int(operations.partition.max()) + 1
    code = operations.topic.astype(np.int64) * width + operations.partition
    codes = int(code.max()) + 1
    total = (int(history[-1]) + 1) * codes
    if total <= 2 * len(operations) + 64:
        return history * codes + code, total
    found, group = np.unique(history * codes + code, return_inverse=True)
    return group.astype(np.int64), len(found)


class _Block:
    """One screening. Arrays are per row unless said otherwise; `flags` is per partition."""

    def __init__(self, operations: Operations, level: Level) -> None:
        self.ops = operations
        self.level = level
        self.group, self.groups = partitions(operations)
        self.flags: Flags = np.zeros(self.groups, np.bool_)
        self.counts = operations.counts
        ok = operations.outcome == Outcome.OK
        self.produce: Flags = operations.kind == Kind.PRODUCE
        self.fetch: Flags = (operations.kind == Kind.FETCH) & ok
        self.list: Flags = (operations.kind == Kind.LIST_OFFSETS) & ok
        answered = self.produce & ok & (operations.offset >= 0)
        self.strong: Flags = answered & (operations.acks == -1)
        self.weak: Flags = answered & (operations.acks != -1)

    def suspects(self) -> Iterator[Ints]:
        """The rows of each flagged partition."""
        self.place()
        self.claims()
        self.tables()
        self.bounds()
        self.holes()
        if not self.flags.any():
            return
        rows = np.flatnonzero(self.flags[self.group])
        order = np.argsort(self.group[rows], kind="stable")
        rows = rows[order]
        cuts = np.flatnonzero(np.diff(self.group[rows])) + 1
        yield from np.split(rows, cuts)

    def flag(self, rows: Ints, wrong: Flags) -> None:
        """Flag the partitions of those `rows` for which `wrong` holds."""
        if wrong.any():
            self.flags[self.group[rows[wrong]]] = True

    def place(self) -> None:
        """Find each produced batch's base offset: what was answered, or where a fetch saw it; check that they agree."""
        ops = self.ops
        of_record = np.repeat(np.arange(len(ops)), self.counts)
        offsets = ops.record_offsets()
        wrote = np.flatnonzero(self.produce[of_record])
        read = np.flatnonzero(self.fetch[of_record])
        writer = of_record[wrote]
        reader = of_record[read]
        self._gaps(offsets, wrote, writer, read, reader)
        slot, found, size = _value_slots(self.group, writer, ops.values[wrote], reader, ops.values[read])
        owner = np.full(size, -1, np.int64)
        owner[slot] = np.arange(len(wrote))
        self.flag(writer, owner[slot] != np.arange(len(wrote)))
        record = np.where(found >= 0, owner[found], -1) if size else np.full(len(read), -1)
        self.flag(reader, record < 0)
        seen = record >= 0
        if not seen.all():
            read, reader, record = read[seen], reader[seen], record[seen]
        batch = writer[record]
        base = offsets[read] - (wrote[record] - ops.starts[batch])
        placed = np.where(self.strong, ops.offset, UNKNOWN)
        placed[batch] = base
        self.flag(reader, (placed[batch] != base) | (base < 0))
        moved = placed != ops.offset
        every = np.arange(len(ops))
        self.flag(every, self.strong & moved)
        self.flag(every, self.weak & moved & (placed != UNKNOWN))
        self.flag(every, (placed != UNKNOWN) & (ops.outcome == Outcome.FAIL))
        self.placed: Ints = placed
        self.first = _first(offsets, ops.starts)
        self.last = _last(offsets, ops.starts)

    def _gaps(self, offsets: Ints, wrote: Ints, writer: Ints, read: Ints, reader: Ints) -> None:
        """Flag batches and fetches with gaps, and fetches that do not begin where they should."""
        if self.ops.offsets is None:
            return
        acked = (self.strong | self.weak)[writer]
        for records, rows in ((wrote[acked], writer[acked]), (read, reader)):
            same = rows[1:] == rows[:-1]
            self.flag(rows[1:], same & (np.diff(offsets[records]) != 1))
        begins = self.fetch & (self.counts > 0)
        rows = np.flatnonzero(begins)
        first = offsets[self.ops.starts[rows]]
        expected = self.ops.offset[rows]
        self.flag(rows, (expected != UNKNOWN) & (first != expected))
        if (expected == UNKNOWN).any():
            self._polls(rows, first)

    def _polls(self, rows: Ints, first: Ints) -> None:
        """A fetch without a position goes on where the process's last one ended."""
        last = self.ops.record_offsets()[self.ops.starts[rows + 1] - 1]
        order = np.lexsort((self.ops.index[rows], self.ops.process[rows], self.group[rows]))
        rows, first, last = rows[order], first[order], last[order]
        follows = (self.group[rows[1:]] == self.group[rows[:-1]]) & (
            self.ops.process[rows[1:]] == self.ops.process[rows[:-1]]
        )
        goes_on = self.ops.offset[rows[1:]] == UNKNOWN
        self.flag(rows[1:], follows & goes_on & (first[1:] != last[:-1] + 1))

    def claims(self) -> None:
        """At least `least`, at most `most`; `low` is the smallest offset that the row mentions."""
        ops = self.ops
        mark = np.where(self.fetch, ops.high_watermark, UNKNOWN)
        has = self.counts > 0
        least = np.where(self.strong, ops.offset + self.counts, UNKNOWN)
        least = np.where(self.fetch, np.where(has, self.last + 1, UNKNOWN), least)
        self.flag(np.arange(len(ops)), (mark != UNKNOWN) & (least > mark))
        least = np.maximum(least, mark)
        self.least: Ints = np.where(self.list, ops.offset, least)
        most = np.where(self.placed != UNKNOWN, self.placed, NEVER)
        short = np.where(self.list, ops.offset, NEVER)
        exact = np.where(mark != UNKNOWN, mark, np.where(has, NEVER, np.where(ops.offset < 0, NEVER, ops.offset)))
        short = np.where(self.fetch, exact, short)
        if self.level is Level.KAFKA:
            short = np.where(ops.call >= self._settled()[self.group], short, NEVER)
        self.most: Ints = np.minimum(most, short)
        written = np.where(self.strong, np.minimum(ops.offset, most), most)
        begin = np.where(has, self.first, NEVER)
        begin = np.where(ops.offset >= 0, np.minimum(begin, ops.offset), begin)
        begin = np.where(mark >= 0, np.minimum(begin, mark), begin)
        self.low: Ints = np.where(self.fetch, begin, np.where(self.list, ops.offset, written))

    def _settled(self) -> Ints:
        """Per partition, the call of its last declaration that it has settled."""
        since = np.full(self.groups, NEVER, np.int64)
        rows = np.flatnonzero(self.ops.kind == Kind.SETTLED)
        if len(rows):
            since[self.group[rows]] = -1
            np.maximum.at(since, self.group[rows], self.ops.call[rows])
        return since

    def tables(self) -> None:
        """Give each partition a run of slots, one an offset from its log start to its end, and two to spare."""
        ops, group = self.ops, self.group
        self.low_end = np.full(self.groups, NEVER, np.int64)
        np.minimum.at(self.low_end, group, self.low)
        high = np.full(self.groups, -1, np.int64)
        top = np.maximum(self.least, np.where(self.placed >= 0, self.placed + self.counts, UNKNOWN))
        np.maximum.at(high, group, top)
        empty = (high < 0) | (self.low_end == NEVER)
        self.low_end[empty] = 0
        high[empty] = 0
        span = np.maximum(high - self.low_end, 0)
        written = np.where(self.produce & (ops.outcome != Outcome.FAIL), self.counts, 0)
        records = np.bincount(group, weights=written, minlength=self.groups).astype(np.int64)
        # An offset below the end is held by a record that was produced, so a longer log than that cannot be explained.
        wild = span > records
        self.flags |= wild
        span[wild] = 0
        self.judged: Flags = ~wild[group]
        self.high = self.low_end + span
        self.base = np.concatenate(([0], np.cumsum(span + 2)))
        self.shift: Ints = (self.base[:-1] - self.low_end)[group]

    def bounds(self) -> None:
        """Rule 2: one suffix minimum over lengths."""
        ops = self.ops
        finite = ops.returned != NEVER
        horizon = int(max(ops.call.max(), np.where(finite, ops.returned, 0).max())) + 2
        if horizon * (self.groups + 1) >= 1 << 62:
            call, returned, horizon = _ranks(ops.call, ops.returned)
        else:
            call, returned = ops.call, ops.returned
        lift = self.group * horizon
        claims = np.flatnonzero((self.least >= 0) & finite & self.judged)
        reached = np.full(int(self.base[-1]) + 1, NEVER, np.int64)
        # Each partition's times lie above those of the one before it, so that the minimum does not leak between them.
        np.minimum.at(reached, self.least[claims] + self.shift[claims], returned[claims] + lift[claims])
        self.reached = np.minimum.accumulate(reached[::-1])[::-1]
        bounded = np.flatnonzero((self.most != NEVER) & self.judged)
        most = np.minimum(self.most[bounded], self.high[self.group[bounded]])
        late = self.reached[most + 1 + self.shift[bounded]] < call[bounded] + lift[bounded]
        self.flag(bounded, late)
        self.call_time: Ints = call + lift

    def holes(self) -> None:
        """Rules 1 and 3: one record an offset; an offset without one needs an unknown produce."""
        holder = np.full(int(self.base[-1]) + 1, -1, np.int64)
        ends = self.base[1:]
        holder[ends - 1] = holder[ends - 2] = holder[-1] = -2
        rows = np.flatnonzero((self.placed >= 0) & self.judged)
        slots, rows = _spread(self.placed[rows] + self.shift[rows], self.counts[rows], rows)
        holder[slots] = rows
        self.flag(rows, holder[slots] != rows)
        if (holder == -1).any():
            self._fill(holder)

    def _fill(self, holder: Ints) -> None:
        weak = np.flatnonzero(self.weak & (self.placed < 0) & self.judged)
        weak = weak[self.ops.offset[weak] + self.counts[weak] <= self.high[self.group[weak]]]
        weak = weak[self.ops.offset[weak] >= self.low_end[self.group[weak]]]
        slots, rows = _spread(self.ops.offset[weak] + self.shift[weak], self.counts[weak], weak)
        fits = (holder[slots] == -1) & (self.call_time[rows] <= self.reached[slots + 1])
        holder[slots[fits]] = rows[fits]
        # A batch that fills only a part of its place is for the closer look.
        filled = np.bincount(rows[fits & (holder[slots] == rows)], minlength=len(self.ops))[weak]
        self.flag(weak, (self.counts[weak] > 1) & (filled != self.counts[weak]))
        hole = np.flatnonzero(holder == -1)
        if not len(hole):
            return
        where = np.searchsorted(self.base, hole, side="right") - 1
        unknown = self.produce & (self.ops.outcome != Outcome.FAIL) & ~self.strong & ~self.weak & (self.placed < 0)
        rows = np.flatnonzero(unknown)
        holed = np.zeros(self.groups, np.bool_)
        holed[where] = True
        self.flag(rows, holed[self.group[rows]] & (self.counts[rows] > 1))
        rows = rows[np.lexsort((self.call_time[rows], self.group[rows]))]
        first = np.searchsorted(self.group[rows], where)
        rank = np.arange(len(hole)) - np.searchsorted(where, where)
        pick = first + rank
        within = pick < len(rows)
        chosen = rows[np.minimum(pick, len(rows) - 1)] if len(rows) else np.zeros(len(hole), np.int64)
        fits = within & (self.group[chosen] == where) & (self.call_time[chosen] <= self.reached[hole + 1])
        self.flags[where[~fits]] = True


def _first(offsets: Ints, starts: Ints) -> Ints:
    """The offset of each row's first value; UNKNOWN for a row without values."""
    if not len(offsets):
        return np.full(len(starts) - 1, UNKNOWN, np.int64)
    picked: Ints = offsets[np.minimum(starts[:-1], len(offsets) - 1)]
    return np.where(starts[1:] > starts[:-1], picked, UNKNOWN)


def _last(offsets: Ints, starts: Ints) -> Ints:
    """The offset of each row's last value; UNKNOWN for a row without values."""
    if not len(offsets):
        return np.full(len(starts) - 1, UNKNOWN, np.int64)
    return np.where(starts[1:] > starts[:-1], offsets[starts[1:] - 1], UNKNOWN)


def _spread(slot: Ints, counts: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """The slots of all records of batches that begin at `slot`, and their rows."""
    if not len(rows) or counts.max() == 1 == counts.min():
        return slot, rows
    starts = np.cumsum(counts) - counts
    within = np.arange(int(counts.sum())) - np.repeat(starts, counts)
    return np.repeat(slot, counts) + within, np.repeat(rows, counts)


def _ranks(call: Ints, returned: Ints) -> tuple[Ints, Ints, int]:
    """Times replaced by their ranks, for clocks too long to shift."""
    times, rank = np.unique(np.concatenate((call, returned)), return_inverse=True)
    return rank[: len(call)], rank[len(call) :], len(times) + 2


def _value_slots(group: Ints, writer: Ints, wrote: Ints, reader: Ints, read: Ints) -> tuple[Ints, Ints, int]:
    """A slot for each (partition, value) written; for each one read its slot, or −1; the number of slots."""
    if not len(wrote):
        return np.zeros(0, np.int64), np.full(len(read), -1, np.int64), 0
    groups = int(group.max()) + 1
    low = np.full(groups, NEVER, np.int64)
    high = np.full(groups, -NEVER, np.int64)
    np.minimum.at(low, group[writer], wrote)
    np.maximum.at(high, group[writer], wrote)
    with np.errstate(over="ignore"):
        span = np.where(high >= low, high - low + 1, 0)
    # Values that are dense in their partition, as counters are, index the table themselves.
    if (span >= 0).all() and float(span.sum(dtype=np.float64)) <= 8 * len(wrote) + 1024:
        base = np.cumsum(span) - span
        inside = (read >= low[group[reader]]) & (read <= high[group[reader]])
        found = np.where(inside, read - low[group[reader]] + base[group[reader]], -1)
        return wrote - low[group[writer]] + base[group[writer]], found, int(span.sum())
    return _sorted_slots(group[writer], wrote, group[reader], read)


def _sorted_slots(writer: Ints, wrote: Ints, reader: Ints, read: Ints) -> tuple[Ints, Ints, int]:
    """The same for values of any kind: by sorting."""
    values = np.unique(wrote)
    at = np.searchsorted(values, read)
    known = (at < len(values)) & (values[np.minimum(at, len(values) - 1)] == read)
    keys, slot = np.unique(writer * len(values) + np.searchsorted(values, wrote), return_inverse=True)
    want = reader * len(values) + at
    found = np.searchsorted(keys, want)
    known &= (found < len(keys)) & (keys[np.minimum(found, len(keys) - 1)] == want)
    return slot, np.where(known, found, -1), len(keys)
