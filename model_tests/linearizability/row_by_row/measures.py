"""What nobody read of one partition, and how late its readers were, row by row."""

from __future__ import annotations

from bisect import bisect_left

from tidegauge.linearizability.evidence import is_strong, until
from tidegauge.linearizability.history import UNKNOWN
from tidegauge.linearizability.measures import Measures
from tidegauge.model_tests.linearizability.row_by_row.evidence import Evidence


def measures(evidence: Evidence) -> Measures:
    """The measures of one partition."""
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
