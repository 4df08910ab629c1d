"""What a verdict covers: which records that must not be lost a read shows to be there at the end, and which none does.

A record must not be lost once it was acknowledged with acks=all, or read, unless a declared election may have taken it.
It is confirmed by a fetch that was called at or after the last declaration that its partition has settled, and that
returned it. A log that lost one that is not confirmed could have given the same history, so *valid* does not cover it.
Likewise the end of a partition is open if the log was known to be longer than any read shows it since it has settled.

The counts are one pass over arrays, as in `log`; the few partitions that a report names have one of their own.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence

import attrs
import numpy as np
import pyarrow as pa

from tidegauge.linearizability.findings.elections import exposed_from
from tidegauge.linearizability.groups.parts import Grouped
from tidegauge.linearizability.history import NEVER, UNKNOWN, Flags, Ints, Kind, Operations, blocks
from tidegauge.linearizability.judged import Judged
from tidegauge.linearizability.log import BLOCK
from tidegauge.linearizability.plurals import say
from tidegauge.linearizability.rows import Rows

MOST_NAMED = 20
"""How many partitions are named, of those that a verdict does not cover whole."""
LARGEST_KEY = 1 << 62
"""So many rows of counts are told apart by one number each."""


@attrs.frozen
class Gap:
    """A partition of a history of which a verdict does not say everything.

    `records` must not be lost, and `unconfirmed` of them are not confirmed; `first` is the lowest offset of those.
    """

    history: int
    topic: str
    partition: int
    records: int
    unconfirmed: int
    first: int | None
    open_end: bool
    settled: bool
    whose: str = ""
    """The history in words, where they say more than its id."""

    def __str__(self) -> str:
        where = f"{self.topic}-{self.partition} of {self.whose or f'history {self.history}'}"
        of_records = f"{self.unconfirmed} of {self.records} records, the first at offset {self.first}"
        what = [of_records] * bool(self.unconfirmed) + ["its end"] * self.open_end
        why = "nobody read it since it settled" if self.settled else "nobody declared it settled"
        return f"{where}: {', and '.join(what)}, for {why}"


@attrs.frozen
class Totals:
    """Sums over histories: records that must not be lost, those of them that no read shows, and open ends.

    `partial` is how many histories have one of the latter two.
    """

    records: int = 0
    unconfirmed: int = 0
    open_ends: int = 0
    partial: int = 0
    transactions: int = 0
    """Transactions that were checked, and how many of them have no known outcome."""
    unknown: int = 0
    groups: int = 0
    """Consumer groups that were checked."""

    def __add__(self, other: Totals) -> Totals:
        return Totals(*map(operator.add, attrs.astuple(self), attrs.astuple(other)))

    def words(self, gaps: Iterable[object]) -> str:
        """What was checked and what was not, with examples of the latter."""
        parts = []
        if self.groups:
            parts.append(f"checked: {say(self.groups, 'group')}")
        if self.transactions:
            count = say(self.transactions, "transaction")
            unknown = f" (no client was told the outcome of {self.unknown:,})" if self.unknown else ""
            parts.append(f"checked: {count}{unknown}")
        if self.records or not self.groups:
            parts.append(self._of_records(gaps))
        return "; ".join(parts)

    def _of_records(self, gaps: Iterable[object]) -> str:
        if not self.records and not self.partial:
            return "checked: no record that must not be lost, for there is none"
        all_of_them = f"{self.records:,} records that must not be lost"
        if not self.partial:
            return f"checked: {all_of_them}; each was read after its partition had settled"
        first = "; ".join(map(str, gaps))
        one = self.open_ends == 1
        partitions, end = (
            ("1 partition was", "its end") if one else (f"{self.open_ends:,} partitions were", "their end")
        )
        histories = say(self.partial, "history", "histories")
        return (
            f"not checked: whether {self.unconfirmed:,} of {all_of_them} are still there; {partitions} not read "
            f"to {end}, in {histories} (docs/history.md, What valid covers). The first: {first}"
        )


@attrs.frozen
class Kinds:
    """How many histories are checked as logs, as transactions, and by the rules of groups besides, or alone."""

    logs: int
    transactions: int
    groups: int


@attrs.frozen(eq=False)
class Promised:
    """For each history: its transactions, those whose outcome no client was told, and those of them that a read shows
    to be committed. The rest may be either.
    """

    transactions: Ints
    unknown: Ints
    inferred: Ints


NOT_CHECKED = "offset holes, stale reads and ends of partitions, for it has transactions"
"""What is not checked of a history with transactions."""


@attrs.frozen(eq=False)
class Coverage:
    """For each history, in the order of the operations: what must not be lost, and what no read shows at the end."""

    records: Ints
    """How many records must not be lost."""
    unconfirmed: Ints
    """How many of them are not confirmed."""
    open_ends: Ints
    """Of how many partitions the end is open."""
    partitions: int
    """How many partitions have one or the other."""
    gaps: tuple[Gap, ...]
    """The first MOST_NAMED of them."""
    promised: Promised | None = None
    """What is known of transactions; None if no history has any."""
    grouped: Grouped | None = None
    """What is known of groups; None if no history has any."""
    logs: int | None = None
    """How many histories have more than groups; None: all of them."""
    judged: Judged | None = None
    """What was judged of each history; None as long as this is of a part of the operations only."""

    @property
    def parts(self) -> Ints:
        """Which of judged.PARTS were judged of each history, as bits."""
        assert self.judged is not None, "it is counted of all operations together"
        return self.judged.with_ends(self.open_ends)

    @property
    def complete(self) -> Flags:
        """Whether the verdict on each history covers everything that it could."""
        complete: Flags = (self.unconfirmed == 0) & (self.open_ends == 0)
        return complete

    @property
    def totals(self) -> Totals:
        """The sums over all histories."""
        sums = (int(counts.sum()) for counts in (self.records, self.unconfirmed, self.open_ends, ~self.complete))
        promised = () if self.promised is None else (self.promised.transactions, self.promised.unknown)
        groups = 0 if self.grouped is None else int(self.grouped.groups.sum())
        return attrs.evolve(Totals(*sums, *(int(counts.sum()) for counts in promised)), groups=groups)

    @property
    def kinds(self) -> Kinds:
        """How many histories have been checked by the rules of each part."""
        has_transactions = np.zeros(len(self.records), np.bool_)
        if self.promised is not None:
            has_transactions = self.promised.transactions > 0
        logs = len(self.records) if self.logs is None else self.logs
        groups = 0 if self.grouped is None else int((self.grouped.groups > 0).sum())
        return Kinds(logs - int(has_transactions.sum()), int(has_transactions.sum()), groups)

    def notes(self) -> pa.Array:
        """For each history in words what its verdict does not cover; null where that is nothing."""
        columns = [self.unconfirmed, self.records, self.open_ends]
        if self.promised is not None:
            columns += [self.promised.transactions, self.promised.unknown, self.promised.inferred]
        if self.grouped is not None:
            columns += [np.zeros(len(self.records), np.int64)] * (6 - len(columns))
            columns += attrs.astuple(self.grouped)
        columns = [np.zeros(len(self.records), np.int64) if self.judged is None else self.judged.unplaced, *columns]
        rows, distinct = _distinct(columns)
        return pa.array((_note(*row) for row in distinct), pa.string()).take(rows)

    def with_groups(self, mine: Flags, grouped: Grouped) -> Coverage:
        """The same with groups: this one has the histories where `mine` holds, and the others have groups alone."""

        def placed(counts: Ints) -> Ints:
            values = np.zeros(len(mine), np.int64)
            values[mine] = counts
            return values

        promised = self.promised and Promised(*map(placed, _columns(self.promised)))
        records, unconfirmed, open_ends = map(placed, (self.records, self.unconfirmed, self.open_ends))
        return Coverage(records, unconfirmed, open_ends, self.partitions, self.gaps, promised, grouped, int(mine.sum()))

    def beside(self, other: Coverage, mine: Flags) -> Coverage:
        """Both: this one's histories where `mine` holds, the other's elsewhere."""

        def merged(first: Ints, second: Ints) -> Ints:
            both = np.zeros(len(mine), np.int64)
            both[mine], both[~mine] = first, second
            return both

        promised = []
        for one in (self, other):
            none = np.zeros(len(one.records), np.int64)
            promised.append(one.promised or Promised(none, none, none))
        return Coverage(
            records=merged(self.records, other.records),
            unconfirmed=merged(self.unconfirmed, other.unconfirmed),
            open_ends=merged(self.open_ends, other.open_ends),
            partitions=self.partitions + other.partitions,
            gaps=self.gaps + other.gaps,
            promised=Promised(*(merged(*pair) for pair in zip(*map(_columns, promised), strict=True))),
        )


def _columns(promised: Promised) -> tuple[Ints, Ints, Ints]:
    return promised.transactions, promised.unknown, promised.inferred


def _distinct(columns: Sequence[Ints]) -> tuple[pa.Array, list[tuple[int, ...]]]:
    """Which of the distinct rows each row of counts is, and these: histories differ in few ways."""
    sizes = [int(column.max(initial=0)) + 1 for column in columns]
    if math.prod(sizes) > LARGEST_KEY:
        every = zip(*(column.tolist() for column in columns), strict=True)
        numbers: dict[tuple[int, ...], int] = {}
        return pa.array([numbers.setdefault(row, len(numbers)) for row in every], pa.int64()), list(numbers)
    keys = np.zeros(len(columns[0]), np.int64)
    for column, size in zip(columns, sizes, strict=True):
        keys *= size
        keys += column
    encoded = pa.array(keys).dictionary_encode()
    rest, digits = encoded.dictionary.to_numpy(), []
    for size in reversed(sizes):
        rest, digit = np.divmod(rest, size)
        digits.append(digit.tolist())
    return encoded.indices, [*zip(*reversed(digits), strict=True)]


def _note(
    unplaced: int,
    unconfirmed: int,
    records: int,
    open_ends: int,
    transactions: int = 0,
    unknown: int = 0,
    inferred: int = 0,
    groups: int = 0,
    unnumbered: int = 0,
    unsettled: int = 0,
) -> str | None:
    parts = [NOT_CHECKED] * bool(transactions)
    if unknown > inferred:
        parts.append(f"what became of {unknown - inferred} of {transactions} transactions, which no read shows")
    if unconfirmed:
        of_them = f"{unconfirmed} of {records} records that must not be lost"
        parts.append(f"{of_them}, which nobody read after their partition had settled")
    if unplaced:
        parts.append(f"where {unplaced} fetches began, which nobody knows")
    if open_ends:
        parts.append(f"the end of {open_ends} partition(s), which nobody read after it had settled")
    if unnumbered:
        parts.append(f"who owned what in a generation, of {unnumbered} of {groups} groups, of which no row says one")
    if unsettled:
        parts.append(f"whether all was delivered, of {unsettled} of {groups} groups, which nobody declared settled")
    return f"not checked: {'; '.join(parts)}" if parts else None


def cover(operations: Operations) -> Coverage:
    """What verdicts on `operations`, which are well formed and sorted by history, cover."""
    covering = Covering(operations, operations.history_starts)
    for start, stop in blocks(operations, BLOCK):
        block = operations if stop - start == len(operations) else operations.slice(start, stop)
        covering.add(Rows.of(block), start)
    return covering.coverage()


class Covering:
    """What verdicts on operations cover, counted block by block, all of them and in their order."""

    def __init__(self, operations: Operations, starts: Ints, most_named: int = MOST_NAMED) -> None:
        """`starts` are the operations' `history_starts`; `most_named` is how many partitions are named, of those that
        are not covered whole.
        """
        self._operations = operations
        self.most_named = most_named
        self._starts = starts
        self._totals = np.zeros((3, len(starts) - 1), np.int64)
        self._gaps: list[Ints] = [np.zeros(0, np.int64)]
        self._more = 0
        self._judged: Judged | None = None

    def add(self, rows: Rows, start: int, among: Ints | None = None) -> None:
        """Count a block, which begins at row `start` of the operations, or of those of their rows that are `among`."""
        parts = _Parts.of(rows)
        there = parts.first < len(rows.ops)
        first = parts.first[there] + start
        if among is not None:
            first = among[first]
        of_history = np.searchsorted(self._starts, first, side="right") - 1
        for total, counted in zip(self._totals, (parts.records, parts.unconfirmed, parts.open_ends), strict=True):
            np.add.at(total, of_history, counted[there])
        self._gaps.append(first[((parts.unconfirmed > 0) | parts.open_ends)[there]])

    def add_counted(self, counts: Ints, gaps: Ints, total: int, kinds: Ints) -> None:
        """Add what was counted of each history, the first rows of the first of `total` partitions with a gap, and which
        kinds of rows each history has, as bits.
        """
        self._judged = Judged.of_kinds(kinds)
        self._totals += counts
        self._gaps.append(gaps)
        self._more += total - len(gaps)

    def coverage(self) -> Coverage:
        """All that was counted."""
        found = np.sort(np.concatenate(self._gaps))
        first = found[: self.most_named].tolist()
        named = tuple(_gap(self._operations, self._starts, row) for row in first)
        records, unconfirmed, open_ends = self._totals
        partitions = len(found) + self._more
        return Coverage(records, unconfirmed, open_ends, partitions, named, judged=self._judged)


@attrs.frozen(eq=False)
class _Parts:
    """The same for each partition of a block, by its number."""

    records: Ints
    unconfirmed: Ints
    open_ends: Flags
    first: Ints
    """The first row of each; the number of rows where there is none."""

    @classmethod
    def of(cls, rows: Rows) -> _Parts:
        ops = rows.ops
        since = rows.settled()
        exposed = exposed_from(rows) if (ops.kind == Kind.ELECTION).any() else None
        records, unconfirmed = _records(rows, since, exposed)
        first = np.full(rows.groups, len(ops), np.int64)
        first[rows.group[::-1]] = np.arange(len(ops))[::-1]
        # The end is open wherever something may be lost and nobody declared it settled.
        open_ends = records > 0
        if ((since != NEVER) | ~open_ends)[first < len(ops)].any():
            open_ends = _open_ends(rows, since, exposed)
        return cls(records, unconfirmed, open_ends, first)


def _records(rows: Rows, since: Ints, exposed: Ints | None) -> tuple[Ints, Ints]:
    """How many records of each partition must not be lost, and how many of them are not confirmed."""
    ops = rows.ops
    (wrote, writer), (read, reader) = rows.written, rows.read
    slot, found, size = rows.value_slots
    strong = np.zeros(len(ops), np.bool_)
    strong[rows.strong] = True
    kept = strong[writer]
    returned: Ints | slice = found
    if exposed is not None:
        offsets = ops.record_offsets()
        kept &= offsets[wrote] < exposed[writer]
        returned = found[offsets[read] < exposed[reader]]
    must = np.zeros(size + 1, np.bool_)
    must[slot] = kept
    must[returned] = True
    # Slots of values that nobody produced are left out, and a value that was produced twice is one record.
    owner = np.empty(size + 1, np.int64)
    number = np.arange(len(slot))
    owner[slot] = number
    counted = np.flatnonzero(must[slot] & (owner[slot] == number))
    group = rows.group[writer[counted]]
    records = np.bincount(group, minlength=rows.groups)
    late = ops.call[reader] >= since[rows.group[reader]] if since.min() != NEVER else np.zeros(len(reader), np.bool_)
    if not late.any():
        return records, records
    confirmed = np.zeros(size + 1, np.bool_)
    confirmed[found[late]] = True
    return records, np.bincount(group[~confirmed[slot[counted]]], minlength=rows.groups)


def _open_ends(rows: Rows, since: Ints, exposed: Ints | None) -> Flags:
    """Whether each partition's log was known to be longer than any read shows it since it has settled."""
    ops = rows.ops
    strong, fetches, lists = rows.strong, rows.fetches, rows.lists
    begin, end = _extent(rows)
    mark = ops.high_watermark[fetches]
    reads = np.concatenate((fetches, lists))
    shown = np.concatenate((np.maximum(end, mark), ops.offset[lists]))
    claims = np.concatenate((strong, reads))
    least = np.concatenate((ops.offset[strong] + rows.counts[strong], shown))
    if exposed is not None:
        least = np.minimum(least, exposed[claims])
    reached = np.full(rows.groups, UNKNOWN, np.int64)
    np.maximum.at(reached, rows.group[claims], least)
    # Nothing is lost below the smallest offset that anybody mentions.
    known = np.full(rows.groups, NEVER, np.int64)
    lowest = np.concatenate(
        (ops.offset[strong], np.where(mark >= 0, np.minimum(begin, mark), begin), ops.offset[lists])
    )
    np.minimum.at(known, rows.group[claims], lowest)
    late = ops.call[reads] >= since[rows.group[reads]]
    np.maximum.at(known, rows.group[reads[late]], shown[late])
    return reached > known


def _extent(rows: Rows) -> tuple[Ints, Ints]:
    """Where each fetch begins, NEVER where nobody knows, and after which offset it ends, UNKNOWN if it read nothing."""
    ops, fetches = rows.ops, rows.fetches
    counts = rows.counts[fetches]
    begin = np.where(rows.position >= 0, rows.position, NEVER)
    end = np.where(counts > 0, rows.position + counts, UNKNOWN)
    if ops.offsets is not None:
        filled = np.flatnonzero(counts)
        begin[filled] = np.minimum(begin[filled], ops.offsets[ops.starts[fetches[filled]]])
        end[filled] = ops.offsets[ops.starts[fetches[filled] + 1] - 1] + 1
    return begin, end


def _gap(operations: Operations, starts: Ints, first: int) -> Gap:
    """The partition of row `first`; histories begin at `starts`."""
    at = int(np.searchsorted(starts, first, side="right")) - 1
    rows = operations.slice(int(starts[at]), int(starts[at + 1]))
    same = (rows.topic == operations.topic[first]) & (rows.partition == operations.partition[first])
    return gap(rows.take(np.flatnonzero(same)))


def gap(operations: Operations) -> Gap:
    """What is not covered of one partition, given its operations in order of index."""
    rows = Rows.of(operations)
    part, group = _Parts.of(rows), int(rows.group[0])
    since = rows.settled()
    return Gap(
        history=int(operations.history[0]),
        topic=operations.topics[operations.topic[0]],
        partition=int(operations.partition[0]),
        records=int(part.records[group]),
        unconfirmed=int(part.unconfirmed[group]),
        first=_lowest(rows, since) if part.unconfirmed[group] else None,
        open_end=bool(part.open_ends[group]),
        settled=bool(since[group] != NEVER),
    )


def _lowest(rows: Rows, since: Ints) -> int:
    """The lowest offset of the records that must not be lost and are not confirmed, of which there are some."""
    ops, offsets, exposed = rows.ops, rows.ops.record_offsets(), exposed_from(rows)
    (wrote, writer), (read, reader) = rows.written, rows.read
    slot, found, size = rows.value_slots
    strong = np.zeros(len(ops), np.bool_)
    strong[rows.strong] = True
    low = np.full(size + 1, NEVER, np.int64)
    for records, row, at in (
        (wrote[strong[writer]], writer[strong[writer]], slot[strong[writer]]),
        (read, reader, found),
    ):
        kept = offsets[records] < exposed[row]
        np.minimum.at(low, at[kept], offsets[records[kept]])
    late = ops.call[reader] >= since[rows.group[reader]]
    low[found[late]] = NEVER
    return int(low[slot].min())
