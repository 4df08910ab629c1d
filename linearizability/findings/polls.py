"""What a process polled: without gaps, in order, from where it asked or from where it had been."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.findings.known import Known
from tidegauge.linearizability.findings.occurrences import NOBODY, Occurrences, occurrences
from tidegauge.linearizability.history import UNKNOWN, Ints


def find_poll_anomalies(known: Known) -> Iterator[Occurrences]:
    """Skips and steps back, within one fetch (internal) and from a fetch to the next."""
    group, offsets = known.rows.group, known.offsets
    read, reader = known.rows.read
    same = reader[1:] == reader[:-1]
    step = np.diff(offsets[read])
    back = np.flatnonzero(same & (step <= 0))

    def back_again(k: int) -> str:
        before, after = offsets[read[back[k]]], offsets[read[back[k] + 1]]
        return f"offset {after} comes after {before} in one fetch"

    yield occurrences(Name.INT_NONMONOTONIC_POLL, group[reader[back]], (reader[back],), back_again)
    gap = np.flatnonzero(same & (step > 1))
    nobody = np.full(len(gap), NOBODY, np.int64)
    start, stop = offsets[read[gap]] + 1, offsets[read[gap + 1]]
    yield from _skips(known, Name.INT_POLL_SKIP, nobody, reader[gap], start, stop)
    fetches, first, expected = known.rows.fetches, known.fetch_begin, known.position
    teller = known.teller[fetches]
    asked = (first != UNKNOWN) & (expected != UNKNOWN)
    below = np.flatnonzero(asked & (first < expected))
    # A consumer whose position was lost goes back to where the log now ends.
    polled = below[teller[below] >= 0]
    lost = known.elections.excuse(group[fetches[polled]], teller[polled], fetches[polled], first[polled])
    excused = np.zeros(len(fetches), np.bool_)
    excused[polled[lost]] = True
    below = below[~excused[below]]

    def earlier(k: int) -> str:
        return f"it read offset {first[below[k]]} where {expected[below[k]]} came next"

    shown = (teller[below], fetches[below])
    yield occurrences(Name.NONMONOTONIC_POLL, group[fetches[below]], shown, earlier)
    above = np.flatnonzero(asked & (first > expected))
    yield from _skips(known, Name.POLL_SKIP, teller[above], fetches[above], expected[above], first[above])


def _skips(known: Known, name: Name, earlier: Ints, row: Ints, start: Ints, stop: Ints) -> Iterator[Occurrences]:
    """Each `row` passed over the offsets from `start` to `stop`: a skip if a record is known there, else a hole."""
    if not len(row):
        return
    held, group = known.holders, known.rows.group[row]
    # Places are in order of partition and offset; one search finds the first that is not before both.
    offsets, rank = np.unique(np.concatenate((held.offset, start)), return_inverse=True)
    width = len(offsets) + 1
    at = np.searchsorted(held.group * width + rank[: len(held.offset)], group * width + rank[len(held.offset) :])
    safe = np.minimum(at, max(len(held.offset) - 1, 0))
    there = np.zeros(len(row), np.bool_)
    if len(held.offset):
        there = (at < len(held.offset)) & (held.group[safe] == group) & (held.offset[safe] < stop)
    known_there, unknown_there = np.flatnonzero(there), np.flatnonzero(~there)
    holder = held.first[safe[known_there]] if len(held.offset) else known_there

    def skipped(k: int) -> str:
        value = known.values[held.value[holder[k]]]
        return f"it skipped offset {held.offset[safe[known_there[k]]]}, where the value {value} is"

    shown = (earlier[known_there], row[known_there], held.row[holder])
    yield occurrences(name, group[known_there], shown, skipped)

    def nothing(k: int) -> str:
        at = unknown_there[k]
        return f"it skipped offsets {start[at]} to {stop[at] - 1}, of which nobody knows anything"

    passed = (earlier[unknown_there], row[unknown_there])
    yield occurrences(Name.OFFSET_HOLE, group[unknown_there], passed, nothing)
