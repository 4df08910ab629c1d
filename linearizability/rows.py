"""The operations of a block, as the passes over arrays take them: the partition of each, and the rows of each kind."""

from __future__ import annotations

from functools import cached_property

import attrs
import numpy as np

from tidegauge.linearizability.arrays import runs, spread, value_slots
from tidegauge.linearizability.history import NEVER, Ints, Kind, Operations, Outcome
from tidegauge.linearizability.positions import positions


def partitions(operations: Operations, starts: Ints | None = None) -> tuple[Ints, int]:
    """For each row the number of its (history, topic, partition), and how many numbers there are.

    `starts` are its `history_starts`, where they are known.
    """
    if not len(operations):
        return np.zeros(0, np.int64), 0
    starts = operations.history_starts if starts is None else starts
    topic, partition = operations.topic, operations.partition
    if len(starts) == 2 and (topic == topic[0]).all() and (partition == partition[0]).all():
        return np.zeros(len(operations), np.int64), 1
    history = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    width = int(operations.partition.max()) + 1
    code = operations.topic.astype(np.int64) * width + operations.partition
    codes = int(code.max()) + 1
    total = (len(starts) - 1) * codes
    if total <= 2 * len(operations) + 64:
        return history * codes + code, total
    found, group = np.unique(history * codes + code, return_inverse=True)
    return group.astype(np.int64), len(found)


@attrs.frozen(eq=False, slots=False)
class Rows:
    """The operations of a block: the partition of each, and the rows of each kind.

    The rows of a kind are an array of indices: `where` with a random mask takes ten times as long. What several passes
    look up is looked up once; nobody changes it.
    """

    ops: Operations
    group: Ints
    """The number of the partition of each row."""
    groups: int
    counts: Ints
    """How many records each row has."""
    produces: Ints
    fetches: Ints
    """Completed fetches, as the other kinds below are completed too, but for `failed` and `unknown`."""
    position: Ints
    """Where each of `fetches` began; UNKNOWN where nobody knows."""
    lists: Ints
    strong: Ints
    """Produces that were acknowledged with acks=all: they must not be lost."""
    weak: Ints
    """Produces that were acknowledged with another acks: they may be lost."""
    failed: Ints
    unknown: Ints

    @classmethod
    def of(cls, ops: Operations) -> Rows:
        group, groups = partitions(ops)
        ok = ops.outcome == Outcome.OK
        produce = ops.kind == Kind.PRODUCE
        acknowledged = produce & ok & (ops.offset >= 0)
        failed = ops.outcome == Outcome.FAIL
        fetches = np.flatnonzero((ops.kind == Kind.FETCH) & ok)
        return cls(
            ops,
            group,
            groups,
            np.diff(ops.starts),
            np.flatnonzero(produce),
            fetches,
            positions(ops, group, fetches),
            np.flatnonzero((ops.kind == Kind.LIST_OFFSETS) & ok),
            np.flatnonzero(acknowledged & (ops.acks == -1)),
            np.flatnonzero(acknowledged & (ops.acks != -1)),
            np.flatnonzero(produce & failed),
            np.flatnonzero(produce & ~acknowledged & ~failed),
        )

    def records(self, rows: Ints) -> tuple[Ints, Ints]:
        """The records of `rows`: where they are in `values`, and the row of each."""
        first = self.ops.starts[rows]
        counts = self.counts[rows]
        if not len(rows) or counts.max() == 1 == counts.min():
            return first, rows
        filled = np.flatnonzero(counts)
        return runs(first[filled], counts[filled]), spread(rows[filled], counts[filled])

    @cached_property
    def written(self) -> tuple[Ints, Ints]:
        """The records of `produces`: where they are in `values`, and the row of each."""
        return self.records(self.produces)

    @cached_property
    def read(self) -> tuple[Ints, Ints]:
        """The same of `fetches`."""
        return self.records(self.fetches)

    @cached_property
    def value_slots(self) -> tuple[Ints, Ints, int]:
        """A slot for each record that was written, the slot of each that was read (`arrays.value_slots`)."""
        (wrote, writer), (read, reader), values = self.written, self.read, self.ops.values
        # Of one partition nobody looks at the numbers, which are all 0.
        mine, theirs = (self.group[:1],) * 2 if self.groups == 1 else (self.group[writer], self.group[reader])
        return value_slots(mine, values[wrote], theirs, values[read], self.groups)

    def settled(self) -> Ints:
        """Per partition, the call of its last declaration that it has settled; NEVER where there is none."""
        declared = np.flatnonzero(self.ops.kind == Kind.SETTLED)
        since = np.full(self.groups, NEVER, np.int64)
        since[self.group[declared]] = -1
        np.maximum.at(since, self.group[declared], self.ops.call[declared])
        return since
