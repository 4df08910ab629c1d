"""What is no verdict on a history: what nobody read, and how late readers were."""

from __future__ import annotations

from bisect import bisect_left

import attrs
import numpy as np

from tidegauge.linearizability.evidence import Evidence, is_strong, until
from tidegauge.linearizability.groups.parts import of_the_log, with_groups
from tidegauge.linearizability.history import UNKNOWN, Operations
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.rows import partitions


@attrs.frozen
class Measures:
    """Of one partition of one history.

    `unseen`: values acknowledged with acks=all that no fetch ever read. `worst_realtime_lag`: the longest time, in
    nanoseconds, for which a record had been acknowledged when a fetch was called that read up to just before it.
    """

    history: int
    topic: str
    partition: int
    acknowledged: int
    unseen: int
    worst_realtime_lag: int
    laggard: int | None


def measure(operations: Operations) -> tuple[Measures, ...]:
    """The measures of every partition of every history, in order of first appearance; deliveries are reads as well."""
    whose = with_groups(operations)
    if whose.any():
        operations = of_the_log(operations, whose)
    group, _ = partitions(operations)
    order = np.argsort(group, kind="stable")
    cuts = np.flatnonzero(np.diff(group[order])) + 1
    parts = np.split(order, cuts) if len(order) else []
    return tuple(_measure(Evidence(list(operations.take(rows)), Level.KAFKA)) for rows in parts)


def _measure(evidence: Evidence) -> Measures:
    acknowledged = [row for row in evidence.produces if is_strong(row)]
    values = [value for row in acknowledged for value in row.values]
    lag, laggard = 0, None
    ends = sorted((row.offset + len(row.values), until(row)) for row in acknowledged)
    lengths = [length for length, _ in ends]
    earliest = [time for _, time in ends]
    for at in range(len(earliest) - 2, -1, -1):
        earliest[at] = min(earliest[at], earliest[at + 1])
    for row in evidence.fetches:
        end = row.placed[-1] + 1 if row.values else evidence.position(row)
        if end == UNKNOWN:
            continue
        at = bisect_left(lengths, end + 1)
        if at < len(lengths) and row.call - earliest[at] > lag:
            lag, laggard = row.call - earliest[at], row.index
    first = evidence.rows[0]
    return Measures(
        history=first.history,
        topic=first.topic,
        partition=first.partition,
        acknowledged=len(values),
        unseen=sum(not evidence.sightings.get(value) for value in values),
        worst_realtime_lag=lag,
        laggard=laggard,
    )
