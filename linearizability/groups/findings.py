"""What the rules have found in groups, as the table of anomalies has it: a row for each kind in a partition."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from tidegauge.linearizability.anomaly import Anomaly, Name
from tidegauge.linearizability.groups.table import GroupTable
from tidegauge.linearizability.history import Ints
from tidegauge.linearizability.transactional import NONE
from tidegauge.linearizability.witness import finding


@attrs.frozen(eq=False)
class Found:
    """All occurrences of one kind of anomaly, by the rows that prove them.

    Each array of `rows` has a row of each occurrence, NONE where that needs no more; the last one's are of the
    partition in which it is. `counts`: how many an occurrence stands for, where that is not one.
    """

    name: Name
    reason: str
    rows: tuple[Ints, ...]
    counts: Ints | None = None

    def anomalies(self, table: GroupTable) -> Iterator[tuple[int, Anomaly]]:
        """The first occurrence in each partition, with how many there are; and the operation that comes first in it."""
        if not len(self.rows[-1]):
            return
        counts = np.ones(len(self.rows[-1]), np.int64) if self.counts is None else self.counts
        whose = table.partition[self.rows[-1]]
        order = np.argsort(whose, kind="stable")
        starts = np.concatenate(([0], np.flatnonzero(np.diff(whose[order])) + 1))
        totals = np.add.reduceat(counts[order], starts)
        for first, count in zip(order[starts].tolist(), totals.tolist(), strict=True):
            rows = [int(column[first]) for column in self.rows if column[first] != NONE]
            yield rows[-1], self._anomaly(table, rows, count)

    def _anomaly(self, table: GroupTable, rows: list[int], count: int) -> Anomaly:
        ops = table.ops
        shown = finding(self.name, self.reason, *(ops.row(int(table.operation[row])) for row in rows))
        at = int(table.operation[rows[-1]])
        partition = int(table.placed[rows[-1]])
        return Anomaly(
            history=int(ops.history[at]),
            name=self.name,
            topic=ops.topics[ops.topic[at]],
            partition=partition,
            operations=tuple(one.index for one in shown.operations),
            count=count,
            witness=shown.witness,
        )
