"""What a process polled: without gaps, in order, from where it asked or from where it had been."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.history import Operation
from tidegauge.linearizability.witness import Finding, finding
from tidegauge.model_tests.linearizability.row_by_row.evidence import Evidence


def find_poll_anomalies(evidence: Evidence) -> Iterator[Finding]:
    """Skips and steps back, within one fetch (internal) and from a fetch to the next."""
    for row in evidence.fetches:
        for before, after in pairwise(row.placed):
            if after <= before:
                reason = f"offset {after} comes after {before} in one fetch"
                yield finding(Name.INT_NONMONOTONIC_POLL, reason, row)
            elif after > before + 1:
                yield _skip(evidence, Name.INT_POLL_SKIP, row, before + 1, after)
    for row in evidence.fetches:
        if row.values and row.index in evidence.began:
            yield from _between(evidence, row, *evidence.began[row.index])


def _between(evidence: Evidence, row: Operation, expected: int, earlier: Operation | None) -> Iterator[Finding]:
    first = row.placed[0]
    shown = (row,) if earlier is None else (earlier, row)
    if first < expected:
        # A consumer whose position was lost goes back to where the log now ends.
        if earlier is None or not evidence.excused(earlier, row, first):
            reason = f"it read offset {first} where {expected} came next"
            yield finding(Name.NONMONOTONIC_POLL, reason, *shown)
    elif first > expected:
        yield _skip(evidence, Name.POLL_SKIP, row, expected, first, *shown[:-1])


def _skip(evidence: Evidence, name: Name, row: Operation, start: int, stop: int, *earlier: Operation) -> Finding:
    """A gap is a skip if somebody knows a record in it, and else a hole in the log."""
    offset = min((one for one in evidence.holders if start <= one < stop), default=None)
    if offset is not None:
        value, knows = evidence.holders[offset][0]
        return finding(name, f"it skipped offset {offset}, where the value {value} is", *earlier, row, knows)
    reason = f"it skipped offsets {start} to {stop - 1}, of which nobody knows anything"
    return finding(Name.OFFSET_HOLE, reason, *earlier, row)
