"""What of a history a person needs to see of an anomaly: its operations, those around them, and the log at that moment.

However large the history, so many operations and offsets are chosen and no more. A partition is indexed once for all of
its anomalies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import combinations
from typing import Final

import attrs
import numpy as np

from tidegauge.linearizability.anomaly import Anomaly
from tidegauge.linearizability.history import (
    OF_MANY,
    UNKNOWN,
    Flags,
    Ints,
    Kind,
    Operation,
    Operations,
    Outcome,
)
from tidegauge.linearizability.report.moments import HOLDS_RECORDS, Moments

AROUND: Final = 3
"""Operations of the partition before and after each one of the anomaly."""
WITNESSES: Final = 12
"""Operations of the anomaly: cycles may have many."""
COLUMNS: Final = 4
"""Operations whose word on the log has a column."""
OFFSETS: Final = 12
"""Offsets that are worth a look, each with its neighbours."""
FOCUS: Final = 4
"""Those of one kind."""
SAID: Final = 3
"""Values that were known to be at one offset."""
VALUES: Final = 8
"""Records of an operation that are written out."""


@attrs.frozen
class Line:
    """An operation that is shown, with its first records."""

    operation: Operation
    is_witness: bool
    records: int
    """How many records it has; `operation` has the first ones."""
    passed_over: int
    """Operations on the partition between the line before and this one, which are not shown."""


@attrs.frozen
class Offset:
    """One offset of the log: what was known to be there, and what each operation of the anomaly says of it."""

    offset: int
    known: tuple[tuple[int, int], ...]
    """Values, each with the operation that was the first to know."""
    said: tuple[str, ...]


@attrs.frozen
class LogView:
    """The log when an operation was called, by what had returned before."""

    before: int
    """The operation: the one of the anomaly that was called last."""
    at: int
    """When it was called."""
    length: tuple[int, int] | None
    """How long the log was at least, and the operation that says so."""
    columns: tuple[int, ...]
    offsets: tuple[Offset, ...]


@attrs.frozen
class Timeline:
    """An anomaly with what is shown of its history."""

    anomaly: Anomaly
    lines: tuple[Line, ...]
    witnesses: int
    """How many operations prove the anomaly; the first ones are among the lines."""
    log: LogView | None
    """None where no operation of the anomaly says anything of the log."""


@attrs.define(eq=False)
class Timelines:
    """The timelines of anomalies of `operations`, in which those were found."""

    operations: Operations
    _partitions: dict[tuple[int, str, int], Moments] = attrs.field(factory=dict, init=False)

    def of(self, anomaly: Anomaly) -> Timeline:
        """The timeline of one anomaly."""
        whole = self._history(anomaly.history)
        moments = self._moments(whole, anomaly)
        indices = anomaly.operations[:WITNESSES]
        witnesses = [whole.row(int(np.searchsorted(whole.index, index))) for index in indices]
        log = None if not witnesses else _Log(moments, witnesses).view()
        others = set() if log is None else {by for one in log.offsets for _, by in one.known}
        shown = sorted({*indices, *self._around(moments, indices), *others, *self._of_transactions(whole, witnesses)})
        return Timeline(anomaly, tuple(_lines(whole, moments, shown, indices)), len(anomaly.operations), log)

    @cached_property
    def _starts(self) -> dict[int, tuple[int, int]]:
        starts = self.operations.history_starts
        heads = self.operations.history[starts[:-1]].tolist()
        return dict(zip(heads, zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True), strict=True))

    def _history(self, history: int) -> Operations:
        return self.operations.slice(*self._starts[history])

    def _moments(self, whole: Operations, anomaly: Anomaly) -> Moments:
        key = anomaly.history, anomaly.topic, anomaly.partition
        if key not in self._partitions:
            self._partitions[key] = Moments(whole.take(np.flatnonzero(_about(whole, *key[1:]))))
        return self._partitions[key]

    def _around(self, moments: Moments, indices: Iterable[int]) -> set[int]:
        """The operations on the partition that were called just before and after those of the anomaly."""
        found: set[int] = set()
        for index in indices:
            at = int(np.searchsorted(moments.ops.index, index))
            found.update(moments.ops.index[max(at - AROUND, 0) : at + AROUND + 1].tolist())
        return found

    def _of_transactions(self, whole: Operations, witnesses: Iterable[Operation]) -> set[int]:
        """How the transactions of the anomaly's operations began and ended."""
        numbers = {one.transaction for one in witnesses if one.transaction is not None}
        if not numbers or whole.transactional is None:
            return set()
        own = np.isin(whole.transactional.transaction, sorted(numbers))
        ends = own & np.isin(whole.kind, (Kind.BEGIN, Kind.COMMIT, Kind.ABORT))
        return set(whole.index[np.flatnonzero(ends)[: 2 * WITNESSES]].tolist())


def _about(whole: Operations, topic: str, partition: int) -> Flags:
    """The rows about a partition: assignments of many partitions are about each of them."""
    codes = [code for code, name in enumerate(whole.topics) if name == topic]
    named = np.isin(whole.topic, codes)
    about: Flags = named & (whole.partition == partition)
    many = np.flatnonzero(named & np.isin(whole.kind, OF_MANY))
    for row in many.tolist():
        about[row] = partition in whole.values[whole.starts[row] : whole.starts[row + 1]]
    return about


def _lines(whole: Operations, moments: Moments, shown: Sequence[int], witnesses: Sequence[int]) -> Iterable[Line]:
    before = -1
    for index in shown:
        row = int(np.searchsorted(whole.index, index))
        first, last = np.searchsorted(moments.ops.index, [before + 1, index]).tolist()
        records = int(whole.starts[row + 1] - whole.starts[row])
        yield Line(_shortened(whole, row), index in witnesses, records, last - first)
        before = index


def _shortened(whole: Operations, row: int) -> Operation:
    """A row with its first records alone: one fetch may have read a million."""
    start = int(whole.starts[row])
    stop = min(int(whole.starts[row + 1]), start + VALUES)
    narrow = whole.slice(row, row + 1)
    offsets = None if narrow.offsets is None else narrow.offsets[: stop - start]
    cut = attrs.evolve(
        narrow, starts=np.array([0, stop - start], np.int64), values=narrow.values[: stop - start], offsets=offsets
    )
    return cut.row(0)


@attrs.frozen(eq=False, slots=False)
class _Log:
    """What the operations of an anomaly say of the log, beside what was known of it."""

    moments: Moments
    witnesses: Sequence[Operation]

    def view(self) -> LogView | None:
        """None if they say nothing."""
        last = max(self.witnesses, key=lambda one: (one.call, one.index))
        length = self.moments.length(last.call)
        offsets = self.chosen(None if length is None else length[0])
        columns = [one for one in self.witnesses if _says(one)][:COLUMNS]
        if not offsets or not columns:
            return None
        index = self.moments.ops.index
        return LogView(
            before=last.index,
            at=last.call,
            length=None if length is None else (length[0], int(index[length[1]])),
            columns=tuple(one.index for one in columns),
            offsets=tuple(
                Offset(
                    offset,
                    tuple((value, int(index[by])) for value, by in self.moments.holders(offset, last.call, SAID)),
                    tuple(self.said(one, offset) for one in columns),
                )
                for offset in offsets
            ),
        )

    def records(self, one: Operation) -> tuple[Ints, Ints]:
        """Offsets and values that an operation says are in the log, by offset."""
        if one.outcome is not Outcome.OK or one.kind not in HOLDS_RECORDS:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return self._records[one.index]

    @cached_property
    def _records(self) -> dict[int, tuple[Ints, Ints]]:
        found = {}
        for one in self.witnesses:
            offsets, values = np.array(one.placed, np.int64), np.array(one.values, np.int64)
            order = np.argsort(offsets[offsets != UNKNOWN], kind="stable")
            found[one.index] = offsets[offsets != UNKNOWN][order], values[offsets != UNKNOWN][order]
        return found

    def chosen(self, length: int | None) -> list[int]:
        """The offsets that are worth a look, each with its neighbours: where they differ, then where each ends."""
        worth: dict[int, None] = {}
        few = self.witnesses[:COLUMNS]
        for one, other in combinations(few, 2):
            worth |= dict.fromkeys(_contested(*self.records(one), *self.records(other)))
        for one in few:
            worth |= dict.fromkeys(self.unsound(one))
        for one in few:
            offsets, _ = self.records(one)
            worth |= dict.fromkeys([*_marks(one), *offsets[:1].tolist(), *offsets[-1:].tolist()])
        if worth and length is not None:
            worth |= {length: None}
        most = list(worth)[:OFFSETS]
        return sorted({near for offset in most for near in (offset - 1, offset, offset + 1) if near >= 0})

    def unsound(self, one: Operation) -> list[int]:
        """The offsets of a read at which it is wrong by itself: of records that nobody sent, or out of their order."""
        row = self.moments.row(one.index)
        if one.kind not in (Kind.FETCH, Kind.DELIVER) or not one.values or row < 0:
            return []
        placed = np.array(one.placed, np.int64)
        jumps = np.flatnonzero(np.diff(placed) != 1) + 1
        return [*placed[self.moments.unsound(row)][:FOCUS].tolist(), *placed[jumps][:FOCUS].tolist()]

    def said(self, one: Operation, offset: int) -> str:
        """What an operation says of an offset, in words."""
        offsets, values = self.records(one)
        low, high = np.searchsorted(offsets, [offset, offset + 1]).tolist()
        words = [f"record {value}" for value in values[low:high][:SAID].tolist()]
        return ", ".join([*words, *(name for at, name in _marks(one).items() if at == offset)])


def _contested(offsets: Ints, values: Ints, others: Ints, their: Ints) -> list[int]:
    """Offsets at which two operations have different values, and those of values that they have at different ones."""
    _, mine, theirs = np.intersect1d(offsets, others, return_indices=True)
    apart = offsets[mine][values[mine] != their[theirs]][:FOCUS]
    _, mine, theirs = np.intersect1d(values, their, return_indices=True)
    moved = offsets[mine] != others[theirs]
    return [*apart.tolist(), *offsets[mine][moved][:FOCUS].tolist(), *others[theirs][moved][:FOCUS].tolist()]


def _marks(one: Operation) -> dict[int, str]:
    """Offsets that an operation names without a record there."""
    marks: dict[int, list[str]] = {}
    if one.offset != UNKNOWN and one.outcome is not Outcome.FAIL:
        name = {
            Kind.FETCH: "reads from here",
            Kind.LIST_OFFSETS: "end offset",
            Kind.ELECTION: "lost from here",
            Kind.COMMIT_OFFSETS: "committed",
            Kind.READ_OFFSETS: "found committed",
        }.get(one.kind)
        if name is not None:
            marks.setdefault(one.offset, []).append(name)
    if one.high_watermark is not None:
        marks.setdefault(one.high_watermark, []).append("high watermark")
    if one.last_stable_offset is not None:
        marks.setdefault(one.last_stable_offset, []).append("last stable offset")
    return {offset: ", ".join(names) for offset, names in marks.items()}


def _says(one: Operation) -> bool:
    return bool(_marks(one)) or (one.outcome is Outcome.OK and one.kind in HOLDS_RECORDS and bool(one.values))
