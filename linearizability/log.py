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

from tidegauge.linearizability.history import NEVER, UNKNOWN, Flags, Ints, Kind, Operations, Outcome, blocks

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
    """One screening. Index arrays pick the rows of a kind: `where` with a random mask costs ten times more."""

    def __init__(self, operations: Operations, level: Level) -> None:
        ops = self.ops = operations
        self.level = level
        self.group, self.groups = partitions(ops)
        self.flags: Flags = np.zeros(self.groups, np.bool_)
        self.counts = np.diff(ops.starts)
        ok = ops.outcome == Outcome.OK
        produce = ops.kind == Kind.PRODUCE
        answered = produce & ok & (ops.offset >= 0)
        self.produces = np.flatnonzero(produce)
        self.fetches = np.flatnonzero((ops.kind == Kind.FETCH) & ok)
        self.lists = np.flatnonzero((ops.kind == Kind.LIST_OFFSETS) & ok)
        self.strong = np.flatnonzero(answered & (ops.acks == -1))
        self.weak = np.flatnonzero(answered & (ops.acks != -1))
        self.failed = np.flatnonzero(produce & (ops.outcome == Outcome.FAIL))
        self.unknown = np.flatnonzero(produce & ~answered & (ops.outcome != Outcome.FAIL))

    def suspects(self) -> Iterator[Ints]:
        """The rows of each flagged partition."""
        self.place()
        self.claim()
        self.lay_out()
        self.bound()
        self.hold()
        if not self.flags.any():
            return
        rows = np.flatnonzero(self.flags[self.group])
        rows = rows[np.argsort(self.group[rows], kind="stable")]
        yield from np.split(rows, np.flatnonzero(np.diff(self.group[rows])) + 1)

    def flag(self, rows: Ints, wrong: Flags) -> None:
        """Flag the partitions of those `rows` for which `wrong` holds."""
        if wrong.any():
            self.flags[self.group[rows[wrong]]] = True

    def records(self, rows: Ints) -> tuple[Ints, Ints]:
        """The records of `rows`: where they are in `values`, and the row of each."""
        first = self.ops.starts[rows]
        counts = self.counts[rows]
        if not len(rows) or counts.max() == 1 == counts.min():
            return first, rows
        filled = np.flatnonzero(counts)
        return _runs(first[filled], counts[filled]), _spread(rows[filled], counts[filled])

    def place(self) -> None:
        """Find each produced batch's base offset: what was answered, or where a fetch saw it; check that they agree."""
        ops = self.ops
        wrote, writer = self.records(self.produces)
        read, reader = self.records(self.fetches)
        if ops.offsets is None:
            seen_at = ops.offset[reader] + (read - ops.starts[reader])
        else:
            seen_at = ops.offsets[read]
            self._gaps(wrote, writer, read, reader)
        slot, found, size = _value_slots(self.group[writer], ops.values[wrote], self.group[reader], ops.values[read])
        number = np.arange(len(wrote))
        owner = np.full(size + 1, -1, np.int64)
        owner[slot] = number
        self.flag(writer, owner[slot] != number)
        record = owner[found]
        if len(record) and record.min() < 0:
            self.flag(reader, record < 0)
            known = np.flatnonzero(record >= 0)
            reader, record, seen_at = reader[known], record[known], seen_at[known]
        batch = writer[record]
        base = seen_at - (wrote[record] - ops.starts[batch])
        placed = np.full(len(ops), UNKNOWN, np.int64)
        placed[self.strong] = ops.offset[self.strong]
        placed[batch] = base
        self.flag(reader, (placed[batch] != base) | (base < 0))
        self.flag(self.strong, placed[self.strong] != ops.offset[self.strong])
        weakly = placed[self.weak]
        self.flag(self.weak, (weakly != UNKNOWN) & (weakly != ops.offset[self.weak]))
        self.flag(self.failed, placed[self.failed] != UNKNOWN)
        self.placed: Ints = placed
        self.held = np.flatnonzero(placed >= 0)
        self.held_group = self.group[self.held]

    def _gaps(self, wrote: Ints, writer: Ints, read: Ints, reader: Ints) -> None:
        """Flag batches and fetches with gaps, and fetches that do not begin where they should."""
        offsets = self.ops.record_offsets()
        acked = np.isin(writer, np.concatenate((self.strong, self.weak)))
        for records, rows in ((wrote[acked], writer[acked]), (read, reader)):
            same = rows[1:] == rows[:-1]
            self.flag(rows[1:], same & (np.diff(offsets[records]) != 1))
        rows = self.fetches[self.counts[self.fetches] > 0]
        first = offsets[self.ops.starts[rows]]
        expected = self.ops.offset[rows]
        self.flag(rows, (expected != UNKNOWN) & (first != expected))
        if (self.ops.offset[self.fetches] == UNKNOWN).any():
            self._polls()

    def _polls(self) -> None:
        """A fetch without a position goes on where the process's last one ended."""
        ops = self.ops
        rows = self.fetches[(self.counts[self.fetches] > 0) | (ops.offset[self.fetches] != UNKNOWN)]
        rows = rows[np.lexsort((ops.index[rows], ops.process[rows], self.group[rows]))]
        offsets = ops.record_offsets()
        filled = self.counts[rows] > 0
        first, end = ops.offset[rows], ops.offset[rows]
        first[filled] = offsets[ops.starts[rows[filled]]]
        end[filled] = offsets[ops.starts[rows[filled] + 1] - 1] + 1
        follows = (self.group[rows[1:]] == self.group[rows[:-1]]) & (ops.process[rows[1:]] == ops.process[rows[:-1]])
        self.flag(rows[1:], follows & (ops.offset[rows[1:]] == UNKNOWN) & (first[1:] != end[:-1]))

    def claim(self) -> None:
        """Collect "at least" as `least` of the rows `knowing`, "at most" as `most` of the rows `bounded`."""
        ops = self.ops
        fetches, lists, strong = self.fetches, self.lists, self.strong
        counts, position, mark = self.counts[fetches], ops.offset[fetches], ops.high_watermark[fetches]
        # No value: the end is 0, which says nothing.
        end = (position + counts) * (counts > 0)
        if ops.offsets is not None:
            filled = np.flatnonzero(counts)
            end[filled] = ops.offsets[ops.starts[fetches[filled] + 1] - 1] + 1
        self.flag(fetches, (mark >= 0) & (end > mark))
        self.knowing = np.concatenate((strong, fetches, lists))
        self.least = np.concatenate(
            (ops.offset[strong] + self.counts[strong], np.maximum(end, mark), ops.offset[lists])
        )
        begin = position
        if len(begin) and (begin.min() < 0 or ops.offsets is not None or (mark < begin).any()):
            begin = _begin(ops, fetches, counts)
        self.low_end = np.full(self.groups, NEVER, np.int64)
        fetch_group, list_group = self.group[fetches], self.group[lists]
        self.knowing_group = np.concatenate((self.group[strong], fetch_group, list_group))
        np.minimum.at(self.low_end, fetch_group, begin)
        np.minimum.at(self.low_end, list_group, ops.offset[lists])
        moved = strong[self.placed[strong] != ops.offset[strong]]
        np.minimum.at(self.low_end, self.group[moved], ops.offset[moved])
        self.bounded, self.bounded_group, self.most = self.held, self.held_group, self.placed[self.held]
        np.minimum.at(self.low_end, self.held_group, self.most)
        if self.level is Level.STRICT or (ops.kind == Kind.SETTLED).any():
            self._short_reads(mark, counts)

    def _short_reads(self, mark: Ints, counts: Ints) -> None:
        """Add what reads say about how short the log was, where that counts."""
        ops = self.ops
        short = np.where(mark >= 0, mark, np.where(counts > 0, UNKNOWN, ops.offset[self.fetches]))
        rows = np.concatenate((self.fetches, self.lists))
        most = np.concatenate((short, ops.offset[self.lists]))
        counted = most >= 0
        if self.level is Level.KAFKA:
            counted &= ops.call[rows] >= self._settled()[self.group[rows]]
        self.bounded = np.concatenate((self.bounded, rows[counted]))
        self.bounded_group = self.group[self.bounded]
        self.most = np.concatenate((self.most, most[counted]))

    def _settled(self) -> Ints:
        """Per partition, the call of its last declaration that it has settled."""
        rows = np.flatnonzero(self.ops.kind == Kind.SETTLED)
        since = np.full(self.groups, NEVER, np.int64)
        since[self.group[rows]] = -1
        np.maximum.at(since, self.group[rows], self.ops.call[rows])
        return since

    def lay_out(self) -> None:
        """Give each partition a run of slots, one an offset from its log start to its end, and two to spare."""
        held = self.held
        high = np.full(self.groups, -1, np.int64)
        np.maximum.at(high, self.knowing_group, self.least)
        np.maximum.at(high, self.held_group, self.placed[held] + self.counts[held])
        empty = (high < 0) | (self.low_end == NEVER)
        self.low_end[empty] = 0
        high[empty] = 0
        span = np.maximum(high - self.low_end, 0)
        written = np.bincount(_spread(self.group[self.produces], self.counts[self.produces]), minlength=self.groups)
        # An offset below the end is held by a record that was produced, so a longer log than that cannot be explained.
        wild = span > written
        if wild.any():
            self.flags |= wild
            span[wild] = 0
            self._leave_out(wild)
        self.high = self.low_end + span
        self.base = np.concatenate(([0], np.cumsum(span + 2)))
        self.shift: Ints = self.base[:-1] - self.low_end

    def _leave_out(self, wild: Flags) -> None:
        """Say no more about partitions that are flagged already and would need too long a table."""
        kept = ~wild[self.knowing_group]
        self.knowing, self.knowing_group, self.least = self.knowing[kept], self.knowing_group[kept], self.least[kept]
        kept = ~wild[self.bounded_group]
        self.bounded, self.bounded_group, self.most = self.bounded[kept], self.bounded_group[kept], self.most[kept]
        kept = ~wild[self.held_group]
        self.held, self.held_group = self.held[kept], self.held_group[kept]
        self.weak = self.weak[~wild[self.group[self.weak]]]

    def bound(self) -> None:
        """Rule 2: one suffix minimum over lengths."""
        call, returned = self.ops.call, self.ops.returned[self.knowing]
        horizon = int(max(call.max(), returned.max() if len(returned) else 0)) + 2
        if horizon * (self.groups + 1) >= 1 << 62:
            call, returned, horizon = _ranks(call, returned)
        self.times, self.horizon = call, horizon
        # Each partition's times lie above those of the one before it, so that the minimum does not leak between them.
        reached = np.full(int(self.base[-1]) + 1, NEVER, np.int64)
        group = self.knowing_group
        least = np.maximum(self.least, self.low_end[group])
        np.minimum.at(reached, least + self.shift[group], returned + group * horizon)
        self.reached = np.minimum.accumulate(reached[::-1])[::-1]
        group = self.bounded_group
        most = np.minimum(self.most, self.high[group])
        called = call[self.bounded] + group * horizon
        self.flag(self.bounded, self.reached[most + 1 + self.shift[group]] < called)

    def called(self, rows: Ints) -> Ints:
        """When `rows` were called, on the time scale of `reached`."""
        return self.times[rows] + self.group[rows] * self.horizon

    def hold(self) -> None:
        """Rules 1 and 3: one record an offset; an offset without one needs an unknown produce."""
        holder = np.full(int(self.base[-1]) + 1, -1, np.int64)
        ends = self.base[1:]
        holder[ends - 1] = holder[ends - 2] = holder[-1] = -2
        slots, rows = self._slots(self.held, self.held_group, self.placed[self.held])
        holder[slots] = rows
        self.flag(rows, holder[slots] != rows)
        if (holder == -1).any():
            self._fill(holder)

    def _slots(self, rows: Ints, group: Ints, offset: Ints) -> tuple[Ints, Ints]:
        """The slots of the records of batches that begin at `offset`, and the row of each."""
        counts = self.counts[rows]
        return _runs(offset + self.shift[group], counts), _spread(rows, counts)

    def _fill(self, holder: Ints) -> None:
        ops = self.ops
        weak = self.weak[self.placed[self.weak] < 0]
        weak = weak[ops.offset[weak] + self.counts[weak] <= self.high[self.group[weak]]]
        weak = weak[ops.offset[weak] >= self.low_end[self.group[weak]]]
        slots, rows = self._slots(weak, self.group[weak], ops.offset[weak])
        fits = (holder[slots] == -1) & (self.called(rows) <= self.reached[slots + 1])
        holder[slots[fits]] = rows[fits]
        # A batch that fills only a part of its place is for the closer look.
        filled = np.bincount(rows[fits & (holder[slots] == rows)], minlength=len(ops))[weak]
        self.flag(weak, (self.counts[weak] > 1) & (filled != self.counts[weak]))
        hole = np.flatnonzero(holder == -1)
        where = np.searchsorted(self.base, hole, side="right") - 1
        rows = self.unknown[self.placed[self.unknown] < 0]
        holed = np.zeros(self.groups, np.bool_)
        holed[where] = True
        self.flag(rows, holed[self.group[rows]] & (self.counts[rows] > 1))
        rows = rows[np.argsort(self.called(rows), kind="stable")]
        pick = np.searchsorted(self.group[rows], where) + np.arange(len(hole)) - np.searchsorted(where, where)
        chosen = np.append(rows, 0)[np.minimum(pick, len(rows))]
        fits = (pick < len(rows)) & (self.group[chosen] == where) & (self.called(chosen) <= self.reached[hole + 1])
        self.flags[where[~fits]] = True


def _begin(ops: Operations, fetches: Ints, counts: Ints) -> Ints:
    """The smallest offset that each fetch mentions; NEVER for one that mentions none."""
    asked, mark = ops.offset[fetches], ops.high_watermark[fetches]
    begin = np.where(asked >= 0, asked, NEVER)
    begin = np.minimum(begin, np.where(mark >= 0, mark, NEVER))
    filled = np.flatnonzero(counts)
    begin[filled] = np.minimum(begin[filled], ops.record_offsets()[ops.starts[fetches[filled]]])
    return begin


def _spread(items: Ints, counts: Ints) -> Ints:
    """Each item as often as it counts."""
    if not len(items) or counts.max() == 1 == counts.min():
        return items
    return _sums(items - np.concatenate(([0], items[:-1])), counts, np.zeros(int(counts.sum()), np.int64))


def _runs(first: Ints, counts: Ints) -> Ints:
    """first, first + 1, … as long as each counts."""
    if not len(first) or counts.max() == 1 == counts.min():
        return first
    ends = first + counts - 1
    return _sums(first - np.concatenate(([0], ends[:-1])), counts, np.ones(int(counts.sum()), np.int64))


def _sums(jumps: Ints, counts: Ints, steps: Ints) -> Ints:
    """The running sum of `steps`, with a jump where each run begins; every count is at least 1."""
    steps[np.cumsum(counts) - counts] = jumps
    return np.cumsum(steps)


def _ranks(call: Ints, returned: Ints) -> tuple[Ints, Ints, int]:
    """Times replaced by their ranks, for clocks too long to shift."""
    times, rank = np.unique(np.concatenate((call, returned)), return_inverse=True)
    return rank[: len(call)], rank[len(call) :], len(times) + 2


def _value_slots(writer: Ints, wrote: Ints, reader: Ints, read: Ints) -> tuple[Ints, Ints, int]:
    """A slot for each (partition, value) written, the slot of each one read, and n; slot n is that of values unwritten.

    `writer` and `reader` are the partitions of the values `wrote` and `read`.
    """
    groups = int(max(writer.max() if len(writer) else 0, reader.max() if len(reader) else 0)) + 1
    low = np.full(groups, NEVER, np.int64)
    high = np.full(groups, -NEVER, np.int64)
    np.minimum.at(low, writer, wrote)
    np.maximum.at(high, writer, wrote)
    # The difference may need 64 bits, and as floats the values would lose their last ones before it is taken.
    span = np.where(high >= low, (high - low).view(np.uint64).astype(np.float64), -1.0) + 1.0
    # Values that are dense in their partition, as counters are, index the table themselves.
    if span.sum() > 8 * len(wrote) + 1024:
        return _sorted_slots(writer, wrote, reader, read)
    length = span.astype(np.int64)
    size = int(length.sum())
    shift = np.cumsum(length) - length - low
    found = read + shift[reader]
    outside = (read < low[reader]) | (read > high[reader])
    if outside.any():
        found[outside] = size
    return wrote + shift[writer], found, size


def _sorted_slots(writer: Ints, wrote: Ints, reader: Ints, read: Ints) -> tuple[Ints, Ints, int]:
    """The same for values of any kind: by sorting."""
    values = np.unique(wrote)
    at = np.searchsorted(values, read)
    known = (at < len(values)) & (values[np.minimum(at, len(values) - 1)] == read)
    keys, slot = np.unique(writer * len(values) + np.searchsorted(values, wrote), return_inverse=True)
    want = reader * len(values) + at
    found = np.searchsorted(keys, want)
    known &= (found < len(keys)) & (keys[np.minimum(found, len(keys) - 1)] == want)
    return slot, np.where(known, found, len(keys)), len(keys)
