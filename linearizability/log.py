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

Nothing here sorts operations, and every pass is linear. Each takes the values of the ones before it:

    _place    -> _Batches       where each batch is (rule 1)
    _claim    -> _Claims, twice "at least" and "at most"
    _lay_out  -> _Layout        a table with a slot for each offset
    _bound    -> _Reached       by when the log had each length (rule 2)
    _hold                       what holds each offset (rules 1 and 3)

and adds the partitions that break its rule to `_Flagged`. No pass excuses a loss. `findings` looks closer at what they
flag and knows about elections; what they do not flag is valid.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from types import ModuleType
from typing import Protocol

import attrs
import numpy as np

from tidegauge.linearizability.arrays import lift, lower, of_each, ranks, runs, spread
from tidegauge.linearizability.compiled_code import columns, compiled, fixed
from tidegauge.linearizability.history import NEVER, UNKNOWN, Flags, Ints, Kind, Operations, blocks
from tidegauge.linearizability.rows import Rows

BLOCK = 1 << 17
"""Operations screened at a time: their tables stay in a core's cache."""
MOST_PLACES = 1 << 22
"""Partitions of topics for which compiled code has a table, or as many as there are operations."""
MOST_ROWS = 1 << 30
"""Operations, or records, that its tables number."""


class Level(Enum):
    """What a short read proves; see "Levels" in docs/history.md."""

    KAFKA = "kafka"
    STRICT = "strict"


@attrs.frozen(eq=False)
class Suspects:
    """Partitions of histories that break a rule when no loss is excused: `rows[k]` are the operations of the k-th."""

    rows: tuple[Ints, ...]

    def __len__(self) -> int:
        return len(self.rows)


class Counting(Protocol):
    """What counts the records and ends that verdicts cover, along with the screening (`coverage.Covering`)."""

    @property
    def most_named(self) -> int: ...

    def add(self, rows: Rows, at: int, among: Ints | None = None) -> None:
        """Count a block, which begins at row `at` of the operations, or of those of their rows that are `among`."""

    def add_counted(self, counts: Ints, gaps: Ints, total: int, kinds: Ints) -> None:
        """Add what was counted of each history, the first rows of the first of `total` partitions with a gap, and which
        kinds of rows each history has, as bits.
        """


def screen(operations: Operations, level: Level = Level.KAFKA, counting: Counting | None = None) -> Suspects:
    """Every (history, topic, partition) that needs a closer look; all others are valid.

    `operations` is well formed (`malformed.find` is empty) and sorted by history.
    """
    code = compiled(len(operations))
    found = None if code is None else _screened(code, operations, level, counting)
    if found is None:
        return Suspects(tuple(_screen(operations, level, counting)))
    among = np.flatnonzero(found.rows)
    some = _screen(operations.take(among), level, None) if len(among) else ()
    if counting is not None:
        counting.add_counted(found.counts, found.gaps, found.total, found.kinds)
        among_others = np.flatnonzero(np.repeat(~found.counted, np.diff(operations.history_starts)))
        others = operations.take(among_others)
        for start, stop in blocks(others, BLOCK):
            counting.add(Rows.of(others.slice(start, stop)), start, among_others)
    return Suspects(tuple(among[rows] for rows in some))


def _screen(operations: Operations, level: Level, counting: Counting | None) -> Iterator[Ints]:
    """The rows of each partition that breaks a rule, by arrays."""
    for start, stop in blocks(operations, BLOCK):
        rows = Rows.of(operations if stop - start == len(operations) else operations.slice(start, stop))
        yield from (found + start for found in _suspects(rows, level))
        if counting is not None:
            counting.add(rows, start)


@attrs.frozen(eq=False)
class _Screened:
    """What compiled code has found."""

    rows: Flags
    """The rows that arrays are to look at."""
    counts: Ints
    counted: Flags
    """The histories of which `counts` has something."""
    gaps: Ints
    total: int
    kinds: Ints
    """The kinds of rows that each history has, as bits, and `compiled.UNPLACED`."""


def _screened(code: ModuleType, ops: Operations, level: Level, counting: Counting | None) -> _Screened | None:
    """What compiled code finds; None for operations that are not for it, or where arrays would look at most of them."""
    if not len(ops):
        return None
    width = int(ops.partition.max()) + 1
    codes = width * (int(ops.topic.max()) + 1)
    if codes > max(MOST_PLACES, len(ops)) or max(len(ops), len(ops.values)) >= MOST_ROWS:
        return None
    named = -1 if counting is None else counting.most_named
    _, rows, counts, counted, gaps, total, kinds = code.screen(
        ops.history_starts, fixed(ops.topic), fixed(ops.partition), width, codes, columns(ops),
        level is Level.STRICT, named,
    )  # fmt: skip
    if 2 * np.count_nonzero(rows) > len(ops):
        return None
    return _Screened(rows, counts, counted, gaps, int(total), kinds)


@attrs.frozen(eq=False)
class _Flagged:
    """The partitions that break a rule, as the passes find them: the one thing that every pass adds to."""

    group: Ints
    flags: Flags

    def flag(self, rows: Ints, wrong: Flags) -> None:
        """Flag the partitions of those `rows` for which `wrong` is true."""
        if wrong.any():
            self.flags[self.group[rows[wrong]]] = True

    def rows(self) -> Iterator[Ints]:
        """The rows of each flagged partition."""
        if not self.flags.any():
            return
        rows = np.flatnonzero(self.flags[self.group])
        rows = rows[np.argsort(self.group[rows], kind="stable")]
        yield from np.split(rows, np.flatnonzero(np.diff(self.group[rows])) + 1)


@attrs.frozen(eq=False)
class _Batches:
    """Produced batches whose base offset is known, by a response or by a fetch that read them."""

    base: Ints
    """The base offset of each row's batch; UNKNOWN where nobody says."""
    rows: Ints
    """The rows with a known one."""
    group: Ints
    """The partition of each of `rows`."""
    offset: Ints
    """The base offset of each of `rows`."""
    moved: Ints
    """The rows that a response put elsewhere."""

    def without(self, left_out: Flags) -> _Batches:
        """These batches but for those of the partitions `left_out`."""
        kept = ~left_out[self.group]
        return attrs.evolve(self, rows=self.rows[kept], group=self.group[kept], offset=self.offset[kept])


@attrs.frozen(eq=False)
class _Claims:
    """What `rows` say about the log's length: that it was at least, or at most, `length` at some instant of each."""

    rows: Ints
    group: Ints
    """The partition of each of `rows`."""
    length: Ints

    def without(self, left_out: Flags) -> _Claims:
        """These claims but for those about the partitions `left_out`."""
        kept = ~left_out[self.group]
        return _Claims(self.rows[kept], self.group[kept], self.length[kept])


@attrs.frozen(eq=False)
class _Layout:
    """A table with a run of slots for each partition: one an offset from its log start to its end, and two to spare."""

    start: Ints
    """Each partition's log start: the smallest offset that anybody mentions."""
    end: Ints
    """Each partition's log end: the greatest length that anybody claims."""
    first: Ints
    """The first slot of each partition, and after the last one the number of slots."""
    shift: Ints
    """What to add to an offset of each partition to get its slot."""
    too_long: Flags
    """Partitions longer than what was produced to them explains. They have no slots but the two."""

    @property
    def slots(self) -> int:
        return int(self.first[-1])


@attrs.frozen(eq=False)
class _Reached:
    """By when the log had reached each length."""

    by: Ints
    """For each slot, the earliest return of an operation that claims at least that length."""
    call: Ints
    """When each row was called."""
    group: Ints
    horizon: int
    """How far each partition's times in `by` lie above those of the partition before it."""

    def called(self, rows: Ints) -> Ints:
        """When `rows` were called, on the scale of `by`."""
        return self.call[rows] + self.group[rows] * self.horizon


def _suspects(rows: Rows, level: Level) -> Iterator[Ints]:
    """The rows of each partition of a block that breaks a rule."""
    flagged = _Flagged(rows.group, np.zeros(rows.groups, np.bool_))
    batches = _place(rows, flagged)
    at_least, at_most, log_start = _claim(rows, batches, level, flagged)
    layout = _lay_out(rows, batches, at_least, log_start)
    weak = rows.weak
    if layout.too_long.any():
        left_out = layout.too_long
        flagged.flags[left_out] = True
        batches, at_least, at_most = batches.without(left_out), at_least.without(left_out), at_most.without(left_out)
        weak = weak[~left_out[rows.group[weak]]]
    reached = _bound(rows, at_least, at_most, layout, flagged)
    _hold(rows, batches, weak, layout, reached, flagged)
    yield from flagged.rows()


# --- rule 1: where each batch is -------------------------------------------------------------------------------------


def _place(rows: Rows, flagged: _Flagged) -> _Batches:
    """Find each batch's base offset, from its response or from a fetch that read it; flag where they disagree."""
    ops = rows.ops
    (wrote, writer), (read, reader) = rows.written, rows.read
    if ops.offsets is None:
        read_at = ops.offset[reader] + (read - ops.starts[reader])
    else:
        read_at = ops.offsets[read]
        _flag_gaps(rows, (wrote, writer), (read, reader), flagged)
    slot, found, size = rows.value_slots
    number = np.arange(len(wrote))
    owner = np.full(size + 1, -1, np.int64)
    owner[slot] = number
    flagged.flag(writer, owner[slot] != number)
    record = owner[found]
    if len(record) and record.min() < 0:
        flagged.flag(reader, record < 0)
        known = np.flatnonzero(record >= 0)
        reader, record, read_at = reader[known], record[known], read_at[known]
    batch = writer[record]
    # Where each batch has one record, `written` has the produces themselves.
    base = read_at if writer is rows.produces else read_at - (wrote[record] - ops.starts[batch])
    placed = np.full(len(ops), UNKNOWN, np.int64)
    told = ops.offset[rows.strong]
    placed[rows.strong] = told
    placed[batch] = base
    flagged.flag(reader, placed[batch] != base)
    flagged.flag(reader, base < 0)
    elsewhere = placed[rows.strong] != told
    flagged.flag(rows.strong, elsewhere)
    weakly = placed[rows.weak]
    flagged.flag(rows.weak, (weakly != UNKNOWN) & (weakly != ops.offset[rows.weak]))
    flagged.flag(rows.failed, placed[rows.failed] != UNKNOWN)
    held = np.flatnonzero(placed >= 0)
    return _Batches(placed, held, rows.group[held], placed[held], rows.strong[elsewhere])


def _flag_gaps(rows: Rows, written: tuple[Ints, Ints], read: tuple[Ints, Ints], flagged: _Flagged) -> None:
    """Flag batches and fetches with gaps, and fetches that do not begin where they should."""
    ops = rows.ops
    offsets = ops.record_offsets()
    wrote, writer = written
    responded = np.concatenate((rows.strong, rows.weak))
    acknowledged = np.isin(writer, responded)
    for records, row in ((wrote[acknowledged], writer[acknowledged]), read):
        same = row[1:] == row[:-1]
        flagged.flag(row[1:], same & (np.diff(offsets[records]) != 1))
    flagged.flag(responded, offsets[ops.starts[responded]] != ops.offset[responded])
    filled = np.flatnonzero(rows.counts[rows.fetches] > 0)
    fetches, expected = rows.fetches[filled], rows.position[filled]
    flagged.flag(fetches, (expected != UNKNOWN) & (offsets[ops.starts[fetches]] != expected))


# --- what operations claim about the log's length --------------------------------------------------------------------


def _claim(rows: Rows, batches: _Batches, level: Level, flagged: _Flagged) -> tuple[_Claims, _Claims, Ints]:
    """Collect the claims "at least" and "at most", and the smallest offset mentioned of each partition."""
    ops = rows.ops
    fetches, lists, strong = rows.fetches, rows.lists, rows.strong
    counts, position, mark = rows.counts[fetches], rows.position, ops.high_watermark[fetches]
    # A fetch without records ends at 0, which claims nothing.
    end = (position + counts) * (counts > 0)
    if ops.offsets is not None:
        filled = np.flatnonzero(counts)
        end[filled] = ops.offsets[ops.starts[fetches[filled] + 1] - 1] + 1
    flagged.flag(fetches, (mark >= 0) & (end > mark))
    fetch_group, list_group = rows.group[fetches], rows.group[lists]
    at_least = _Claims(
        np.concatenate((strong, fetches, lists)),
        np.concatenate((rows.group[strong], fetch_group, list_group)),
        np.concatenate((ops.offset[strong] + rows.counts[strong], np.maximum(end, mark), ops.offset[lists])),
    )
    begin = position
    if len(begin) and (begin.min() < 0 or ops.offsets is not None or (mark < begin).any()):
        begin = _begin(ops, fetches, counts)
    low = np.full(rows.groups, NEVER, np.int64)
    lower(low, fetch_group, begin)
    lower(low, list_group, ops.offset[lists])
    lower(low, rows.group[batches.moved], ops.offset[batches.moved])
    at_most = _Claims(batches.rows, batches.group, batches.offset)
    lower(low, at_most.group, at_most.length)
    if level is Level.STRICT or (ops.kind == Kind.SETTLED).any():
        at_most = _with_short_reads(at_most, rows, mark, counts, level)
    return at_least, at_most, low


def _with_short_reads(at_most: _Claims, rows: Rows, mark: Ints, counts: Ints, level: Level) -> _Claims:
    """Add what reads say about how short the log was, where the level or a declaration lets that count."""
    ops = rows.ops
    short = np.where(mark >= 0, mark, np.where(counts > 0, UNKNOWN, rows.position))
    reads = np.concatenate((rows.fetches, rows.lists))
    most = np.concatenate((short, ops.offset[rows.lists]))
    counted = most >= 0
    if level is Level.KAFKA:
        counted &= ops.call[reads] >= rows.settled()[rows.group[reads]]
    bounded = np.concatenate((at_most.rows, reads[counted]))
    return _Claims(bounded, rows.group[bounded], np.concatenate((at_most.length, most[counted])))


def _begin(ops: Operations, fetches: Ints, counts: Ints) -> Ints:
    """The smallest offset that each fetch mentions; NEVER for one that mentions none."""
    asked, mark = ops.offset[fetches], ops.high_watermark[fetches]
    begin = np.where(asked >= 0, asked, NEVER)
    begin = np.minimum(begin, np.where(mark >= 0, mark, NEVER))
    filled = np.flatnonzero(counts)
    begin[filled] = np.minimum(begin[filled], ops.record_offsets()[ops.starts[fetches[filled]]])
    return begin


def _lay_out(rows: Rows, batches: _Batches, at_least: _Claims, log_start: Ints) -> _Layout:
    """Give each partition its slots."""
    high = np.full(rows.groups, -1, np.int64)
    lift(high, at_least.group, at_least.length)
    lift(high, batches.group, batches.offset + rows.counts[batches.rows])
    empty = (high < 0) | (log_start == NEVER)
    start = np.where(empty, 0, log_start)
    high[empty] = 0
    span = np.maximum(high - start, 0)
    wrote, writer = rows.written
    written = len(wrote) if rows.groups == 1 else np.bincount(rows.group[writer], minlength=rows.groups)
    # A record that was produced holds each offset below the end, so nothing explains a log that is longer than that.
    too_long = span > written
    span[too_long] = 0
    first = np.concatenate(([0], np.cumsum(span + 2)))
    return _Layout(start, start + span, first, first[:-1] - start, too_long)


# --- rule 2: lengths and times ---------------------------------------------------------------------------------------


def _bound(rows: Rows, at_least: _Claims, at_most: _Claims, layout: _Layout, flagged: _Flagged) -> _Reached:
    """Flag operations that were called after the log had outgrown their bound: one suffix minimum over lengths."""
    call, returned = rows.ops.call, rows.ops.returned[at_least.rows]
    horizon = int(max(call.max(), returned.max() if len(returned) else 0)) + 2
    if horizon * (rows.groups + 1) >= 1 << 62:
        call, returned, horizon = ranks(call, returned)
    # Each partition's times lie above those of the one before it, so that the minimum does not leak between them.
    reached = np.full(layout.slots + 1, NEVER, np.int64)
    above = np.arange(rows.groups) * horizon
    group = at_least.group
    least = np.maximum(at_least.length, of_each(layout.start, group))
    np.minimum.at(reached, least + of_each(layout.shift, group), returned + of_each(above, group))
    reached = np.minimum.accumulate(reached[::-1])[::-1]
    group = at_most.group
    most = np.minimum(at_most.length, of_each(layout.end, group))
    called = call[at_most.rows] + of_each(above, group)
    flagged.flag(at_most.rows, reached[most + of_each(layout.shift + 1, group)] < called)
    return _Reached(reached, call, rows.group, horizon)


# --- rules 1 and 3: one record an offset -----------------------------------------------------------------------------


def _hold(rows: Rows, batches: _Batches, weak: Ints, layout: _Layout, reached: _Reached, flagged: _Flagged) -> None:
    """Flag offsets with two records, and offsets with none that no unknown produce can fill."""
    holder = np.full(layout.slots + 1, -1, np.int64)
    ends = layout.first[1:]
    holder[ends - 1] = holder[ends - 2] = holder[-1] = -2
    slots, row = _slots(rows, layout, batches.rows, batches.group, batches.offset)
    holder[slots] = row
    flagged.flag(row, holder[slots] != row)
    if (holder == -1).any():
        _fill_weakly(rows, batches, weak, layout, reached, holder, flagged)
        _fill_with_unknown(rows, batches, layout, reached, holder, flagged)


def _slots(rows: Rows, layout: _Layout, batch: Ints, group: Ints, base: Ints) -> tuple[Ints, Ints]:
    """The slots of the records of batches that begin at the offsets `base`, and the row of each."""
    counts = rows.counts[batch]
    return runs(base + of_each(layout.shift, group), counts), spread(batch, counts)


def _fill_weakly(
    rows: Rows, batches: _Batches, weak: Ints, layout: _Layout, reached: _Reached, holder: Ints, flagged: _Flagged
) -> None:
    """Fill holes with batches acknowledged by acks=1 that nobody has read: they are at their offset, or lost."""
    ops = rows.ops
    weak = weak[batches.base[weak] < 0]
    weak = weak[ops.offset[weak] + rows.counts[weak] <= layout.end[rows.group[weak]]]
    weak = weak[ops.offset[weak] >= layout.start[rows.group[weak]]]
    slots, row = _slots(rows, layout, weak, rows.group[weak], ops.offset[weak])
    fits = (holder[slots] == -1) & (reached.called(row) <= reached.by[slots + 1])
    holder[slots[fits]] = row[fits]
    # A batch that fills only a part of its place needs the closer look.
    filled = np.bincount(row[fits & (holder[slots] == row)], minlength=len(ops))[weak]
    flagged.flag(weak, (rows.counts[weak] > 1) & (filled != rows.counts[weak]))


def _fill_with_unknown(
    rows: Rows, batches: _Batches, layout: _Layout, reached: _Reached, holder: Ints, flagged: _Flagged
) -> None:
    """Match the k-th hole of each partition with its k-th unknown produce; flag holes whose deadline it misses."""
    hole = np.flatnonzero(holder == -1)
    where = np.searchsorted(layout.first, hole, side="right") - 1
    unknown = rows.unknown[batches.base[rows.unknown] < 0]
    holed = np.zeros(rows.groups, np.bool_)
    holed[where] = True
    flagged.flag(unknown, holed[rows.group[unknown]] & (rows.counts[unknown] > 1))
    unknown = unknown[np.argsort(reached.called(unknown), kind="stable")]
    pick = np.searchsorted(rows.group[unknown], where) + np.arange(len(hole)) - np.searchsorted(where, where)
    chosen = np.append(unknown, 0)[np.minimum(pick, len(unknown))]
    fits = (pick < len(unknown)) & (rows.group[chosen] == where) & (reached.called(chosen) <= reached.by[hole + 1])
    flagged.flags[where[~fits]] = True
