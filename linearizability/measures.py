"""What is no verdict on a history: what nobody read, and how late readers were."""

from __future__ import annotations

import attrs
import numpy as np

from tidegauge.linearizability.findings.known import Known
from tidegauge.linearizability.groups.parts import of_the_log, with_groups
from tidegauge.linearizability.history import UNKNOWN, Ints, Operations
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.rows import Rows, partitions


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
    """The measures of every partition of every history, by history; deliveries are reads as well."""
    whose = with_groups(operations)
    if whose.any():
        operations = of_the_log(operations, whose)
    group, _ = partitions(operations)
    known = Known(Rows.of(operations.take(np.argsort(group, kind="stable"))), Level.KAFKA)
    rows, ops = known.rows, known.rows.ops
    _, writer = rows.written
    acknowledged = np.flatnonzero(known.strong[writer])
    unseen = acknowledged[known.first_sighting[known.written_slot[acknowledged]] < 0]
    counts = [np.bincount(rows.group[writer[records]], minlength=rows.groups) for records in (acknowledged, unseen)]
    lag, laggard = _lags(known)
    first = np.flatnonzero(np.concatenate(([True], rows.group[1:] != rows.group[:-1])))[: len(ops)]
    return tuple(
        Measures(
            history=int(ops.history[row]),
            topic=ops.topics[ops.topic[row]],
            partition=int(ops.partition[row]),
            acknowledged=int(counts[0][rows.group[row]]),
            unseen=int(counts[1][rows.group[row]]),
            worst_realtime_lag=int(lag[rows.group[row]]),
            laggard=None if laggard[rows.group[row]] < 0 else int(ops.index[laggard[rows.group[row]]]),
        )
        for row in first.tolist()
    )


def _lags(known: Known) -> tuple[Ints, Ints]:
    """The longest lag of each partition, and the first fetch that had it; −1 where none lagged."""
    rows = known.rows
    lag, laggard = np.zeros(rows.groups, np.int64), np.full(rows.groups, -1, np.int64)
    ends = np.where(known.fetch_end != UNKNOWN, known.fetch_end, known.position)
    fetches, end = rows.fetches[ends != UNKNOWN], ends[ends != UNKNOWN]
    strong = rows.strong
    if not len(strong) or not len(fetches):
        return lag, laggard
    lengths, rank = np.unique(np.concatenate((known.at_least[strong], end)), return_inverse=True)
    width = len(lengths) + 1
    key = rows.group[strong] * width + rank[: len(strong)]
    order = np.argsort(key, kind="stable")
    _, returned = known.clock
    # Each length has the earliest time at which the log was that long; times of later partitions are greater.
    earliest = np.minimum.accumulate(returned[strong[order]][::-1])[::-1]
    at = np.searchsorted(key[order], rows.group[fetches] * width + rank[len(strong) :], side="right")
    safe = np.minimum(at, len(strong) - 1)
    there = (at < len(strong)) & (rows.group[strong[order[safe]]] == rows.group[fetches])
    call, _ = known.clock
    late = np.where(there, call[fetches] - earliest[safe], 0)
    np.maximum.at(lag, rows.group[fetches], late)
    worst = np.flatnonzero((late > 0) & (late == lag[rows.group[fetches]]))[::-1]
    laggard[rows.group[fetches[worst]]] = fetches[worst]
    return lag, laggard
