"""What was known of one partition at a moment: what operations that had returned by then said of it.

Each index is made once, by sorting; what is asked then costs as much as what is found.
"""

from __future__ import annotations

from functools import cached_property

import attrs
import numpy as np

from tidegauge.linearizability.arrays import spread
from tidegauge.linearizability.history import NEVER, UNKNOWN, Flags, Ints, Kind, Operations, Outcome

HOLDS_RECORDS = (Kind.PRODUCE, Kind.FETCH, Kind.DELIVER)


@attrs.frozen(eq=False, slots=False)
class Moments:
    """The rows of one partition of a history, in order of index."""

    ops: Operations

    @cached_property
    def _records(self) -> tuple[Ints, Ints, Ints]:
        """Offset, value and row of each record that an operation says is somewhere, by offset and then by return."""
        ops = self.ops
        row = spread(np.arange(len(ops)), ops.counts)
        offset = ops.record_offsets()
        said = np.isin(ops.kind, HOLDS_RECORDS) & (ops.outcome == Outcome.OK)
        there = np.flatnonzero(said[row] & (offset != UNKNOWN))
        there = there[np.lexsort((ops.returned[row[there]], offset[there]))]
        return offset[there], ops.values[there], row[there]

    @cached_property
    def _lengths(self) -> tuple[Ints, Ints, Ints]:
        """By time of return: that, the greatest length of the log that anybody had been told, and by which row."""
        ops = self.ops
        ok = ops.outcome == Outcome.OK
        least = np.full(len(ops), UNKNOWN, np.int64)
        placed = ok & (ops.kind == Kind.PRODUCE) & (ops.acks == -1) & (ops.offset != UNKNOWN)
        least[placed] = (ops.offset + ops.counts)[placed]
        ends = ok & (ops.kind == Kind.LIST_OFFSETS)
        least[ends] = ops.offset[ends]
        fetched = ok & (ops.kind == Kind.FETCH)
        filled = np.flatnonzero(fetched & (ops.counts > 0))
        last = ops.record_offsets()[ops.starts[filled + 1] - 1]
        least[filled] = np.where(last == UNKNOWN, UNKNOWN, last + 1)
        least[fetched] = np.maximum(least, ops.high_watermark)[fetched]
        rows = np.flatnonzero((least != UNKNOWN) & (ops.returned != NEVER))
        rows = rows[np.argsort(ops.returned[rows], kind="stable")]
        if not len(rows):
            return rows, rows, rows
        rises = np.concatenate(([True], least[rows][1:] > np.maximum.accumulate(least[rows])[:-1]))
        best = np.maximum.accumulate(np.where(rises, np.arange(len(rows)), 0))
        return ops.returned[rows], least[rows][best], rows[best]

    @cached_property
    def _written(self) -> tuple[Ints, Ints]:
        """Value and row of each record that was sent, by value."""
        ops = self.ops
        row = spread(np.arange(len(ops)), ops.counts)
        sent = np.flatnonzero((ops.kind == Kind.PRODUCE)[row])
        sent = sent[np.argsort(ops.values[sent], kind="stable")]
        return ops.values[sent], row[sent]

    def length(self, before: int) -> tuple[int, int] | None:
        """The length that the log had at least, by what had returned before a time, and the row that says so."""
        returned, length, row = self._lengths
        at = int(np.searchsorted(returned, before)) - 1
        return None if at < 0 else (int(length[at]), int(row[at]))

    def holders(self, offset: int, before: int, most: int) -> list[tuple[int, int]]:
        """Values that were known to be at an offset before a time, each with the first row that said so."""
        offsets, values, rows = self._records
        low, high = np.searchsorted(offsets, [offset, offset + 1]).tolist()
        high = low + int(np.searchsorted(self.ops.returned[rows[low:high]], before))
        _, first = np.unique(values[low:high], return_index=True)
        return [(int(values[low + at]), int(rows[low + at])) for at in sorted(first.tolist())[:most]]

    def unsound(self, row: int) -> Ints:
        """Which of the records of a row nobody has sent, or somebody whose produce failed: their numbers in the row."""
        ops = self.ops
        values = ops.values[ops.starts[row] : ops.starts[row + 1]]
        written, writers = self._written
        if not len(written):
            return np.arange(len(values))
        at = np.minimum(np.searchsorted(written, values), len(written) - 1)
        wrong: Flags = (written[at] != values) | (ops.outcome[writers[at]] == Outcome.FAIL)
        return np.flatnonzero(wrong)

    def row(self, index: int) -> int:
        """The row of the operation with this index; −1 if it is of another partition."""
        at = int(np.searchsorted(self.ops.index, index))
        return at if at < len(self.ops) and self.ops.index[at] == index else -1
