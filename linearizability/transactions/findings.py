"""What is found in a history, as the table of anomalies has it: a row for each kind in a partition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegauge.linearizability.anomaly import Anomaly, Name
from tidegauge.linearizability.history import ENDS_AND_BEGINNINGS, Operation
from tidegauge.linearizability.transactions.story import Partition, where
from tidegauge.linearizability.witness import Finding


def grouped(rows: Sequence[Operation], findings: Iterable[Finding]) -> list[Anomaly]:
    """The first finding of each kind in each partition, and how many there are."""
    first: dict[tuple[Name, Partition], Finding] = {}
    counts: dict[tuple[Name, Partition], int] = {}
    for one in findings:
        placed = [row for row in one.operations if row.kind not in ENDS_AND_BEGINNINGS] or list(one.operations)
        key = (one.name, where(placed[0]))
        first.setdefault(key, one)
        counts[key] = counts.get(key, 0) + 1
    return [
        Anomaly(
            history=rows[0].history,
            name=name,
            topic=topic,
            partition=partition,
            operations=tuple(row.index for row in one.operations),
            count=counts[name, (topic, partition)],
            witness=one.witness,
        )
        for (name, (topic, partition)), one in first.items()
    ]
