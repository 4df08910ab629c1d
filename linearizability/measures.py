"""What is no verdict on a history: what nobody read, how late readers were, and of what ends nothing is known."""

from __future__ import annotations

from bisect import bisect_left

import attrs
import numpy as np

from tidegauge.linearizability.evidence import Evidence, is_strong, until
from tidegauge.linearizability.history import NEVER, Kind, Operations, Outcome
from tidegauge.linearizability.log import Level, partitions


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
    """The measures of every partition of every history, in order of first appearance."""
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
        end = row.placed[-1] + 1 if row.values else row.offset
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


@attrs.frozen
class OpenEnd:
    """A partition of a history with records, whose end no read shows: a loss there would be seen by nobody."""

    history: int
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} of history {self.history}"


def open_ends(operations: Operations, named: int = 100) -> tuple[int, tuple[OpenEnd, ...]]:
    """How many partitions are not declared settled, or not read since; and the first `named` of them to appear.

    At the level `kafka` a short read proves nothing there (docs/history.md, "Levels").
    """
    group, groups = partitions(operations)
    kind, ok = operations.kind, operations.outcome == Outcome.OK
    since = np.full(groups, -1, np.int64)
    declared = kind == Kind.SETTLED
    np.maximum.at(since, group[declared], operations.call[declared])
    read = np.full(groups, -1, np.int64)
    reading = ok & ((kind == Kind.FETCH) | (kind == Kind.LIST_OFFSETS))
    np.maximum.at(read, group[reading], operations.call[reading])
    written = np.zeros(groups, np.bool_)
    written[group[(kind == Kind.PRODUCE) & (operations.outcome != Outcome.FAIL)]] = True
    first = np.full(groups, NEVER, np.int64)
    np.minimum.at(first, group, np.arange(len(operations)))
    rows = np.sort(first[written & ((since < 0) | (read < since))])
    first_rows = operations.take(rows[:named])
    return len(rows), tuple(OpenEnd(row.history, row.topic, row.partition) for row in first_rows)
