"""A log that was found shorter than another operation had known it to be: rule 2 of `log`, with excuses."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.arrays import expand
from tidegauge.linearizability.findings.known import Known
from tidegauge.linearizability.findings.occurrences import Occurrences, occurrences
from tidegauge.linearizability.history import NEVER, UNKNOWN, Flags, Ints, Kind


@attrs.frozen(eq=False)
class Contradictions:
    """Of the k-th, row `after[k]` found the log at most `most[k]` long, when `before[k]` had known it longer."""

    before: Ints
    after: Ints
    most: Ints


def find_contradictions(known: Known) -> Iterator[Occurrences]:
    """Operations that found the log shorter than another had already known it to be."""
    found = contradictions(known)
    ops, before, after = known.rows.ops, found.before, found.after
    group, teller = known.rows.group, known.teller[found.after]
    told = (teller >= 0) & (ops.high_watermark[after] == UNKNOWN)
    names = _names(known, found)
    for name in _NAMES:
        mine = np.flatnonzero(names == _NAMES.index(name))

        def reason(k: int, mine: Ints = mine) -> str:
            at = mine[k]
            earlier, later = before[at], after[at]
            text = (
                f"the log was at least {known.at_least[earlier]} long when #{ops.index[earlier]} returned at "
                f"{ops.returned[earlier]}, but #{ops.index[later]}, called at {ops.call[later]}, found it at most "
                f"{found.most[at]} long"
            )
            return f"{text}, polling on from where #{ops.index[teller[at]]} ended" if told[at] else text

        shown = (before[mine], np.where(told[mine], teller[mine], -1), after[mine])
        yield occurrences(name, group[after[mine]], shown, reason)
    both = (ops.kind[before] == Kind.PRODUCE) & (ops.kind[after] == Kind.PRODUCE)
    sent = np.flatnonzero(both & (ops.process[before] == ops.process[after]) & known.strong[after])

    def back(k: int) -> str:
        a, b = before[sent[k]], after[sent[k]]
        return f"process {ops.process[b]} sent to {ops.offset[a]} and then to {ops.offset[b]}"

    yield occurrences(Name.NONMONOTONIC_SEND, group[after[sent]], (before[sent], after[sent]), back)


def contradictions(known: Known) -> Contradictions:
    """Each pair (at least, at most) of rule 2, the strongest for each bound, that no one election excuses."""
    bounds, most = known.at_most
    claims = np.flatnonzero(known.at_least != UNKNOWN)
    _, returned = known.clock
    claims = claims[np.argsort(returned[claims], kind="stable")]
    group = known.rows.group[bounds]
    # What was called before this time and claims more than the bound may have been lost before the bound was seen.
    since = known.elections.latest_end(group, bounds, most)
    before = np.full(len(bounds), -1, np.int64)
    plain = np.flatnonzero(since < 0)
    before[plain] = _strongest(known, claims, bounds[plain])
    open_bounds = np.flatnonzero(since >= 0)
    # The times of a partition from which on claims count, each with the bounds that it is for.
    keys = np.stack((group[open_bounds], since[open_bounds]), axis=1)
    times, which = np.unique(keys, axis=0, return_inverse=True)
    nth = np.arange(len(times)) - np.searchsorted(times[:, 0], times[:, 0])
    for number in range(int(nth.max()) + 1 if len(nth) else 0):
        counts_from = np.full(known.rows.groups, NEVER, np.int64)
        now = nth == number
        counts_from[times[now, 0]] = times[now, 1]
        mine = open_bounds[now[which.ravel()]]
        counted = claims[known.rows.ops.call[claims] >= counts_from[known.rows.group[claims]]]
        before[mine] = _strongest(known, counted, bounds[mine])
    longer = np.flatnonzero(before >= 0)
    longer = longer[known.at_least[before[longer]] > most[longer]]
    return Contradictions(before[longer], bounds[longer], most[longer])


def _strongest(known: Known, claims: Ints, bounds: Ints) -> Ints:
    """For each of the rows `bounds` the greatest of `claims` that had returned before its call; −1 where none had.

    `claims` are in order of return.
    """
    if not len(claims):
        return np.full(len(bounds), -1, np.int64)
    call, returned = known.clock
    group, length = known.rows.group[claims], known.at_least[claims]
    best = _running_greatest(group, length)
    at = np.searchsorted(returned[claims], call[bounds], side="left") - 1
    there = (at >= 0) & (group[np.maximum(at, 0)] == known.rows.group[bounds])
    return np.where(there, claims[best[np.maximum(at, 0)]], -1)


def _running_greatest(group: Ints, length: Ints) -> Ints:
    """For each item the first of its group that has the greatest length up to it; groups do not fall."""
    width = int(length.max()) + 1
    if width * (int(group.max()) + 2) >= 1 << 62:
        lengths, length = np.unique(length, return_inverse=True)
        width = len(lengths) + 1
    height = length + group * width
    greatest = np.maximum.accumulate(height)
    rises = np.concatenate(([True], height[1:] > greatest[:-1]))
    best: Ints = np.maximum.accumulate(np.where(rises, np.arange(len(length)), 0))
    return best


_NAMES = (Name.STALE_READ, Name.END_OFFSET_REGRESSION, Name.APPEND_BELOW_END, Name.LOST_WRITE)


def _names(known: Known, found: Contradictions) -> Ints:
    """What each contradiction is, as an index into _NAMES."""
    ops, before, after = known.rows.ops, found.before, found.after
    kind, later = ops.kind[before], ops.kind[after]
    ends = (kind == Kind.LIST_OFFSETS) | (known.rows.counts[before] == 0)
    survived = np.zeros(len(before), np.bool_)
    survived[~ends] = _survived(known, before[~ends], after[~ends], found.most[~ends])
    settled = ops.call[after] >= known.settled[known.rows.group[after]]
    names = np.full(len(before), _NAMES.index(Name.STALE_READ))
    names[(kind == Kind.FETCH) & (later == Kind.LIST_OFFSETS)] = _NAMES.index(Name.END_OFFSET_REGRESSION)
    names[~survived & settled] = _NAMES.index(Name.LOST_WRITE)
    appended = later == Kind.PRODUCE
    names[appended] = np.where(survived, _NAMES.index(Name.APPEND_BELOW_END), _NAMES.index(Name.LOST_WRITE))[appended]
    of_ends = np.where(later == Kind.FETCH, _NAMES.index(Name.STALE_READ), _NAMES.index(Name.END_OFFSET_REGRESSION))
    return np.where(ends, of_ends, names)


def _survived(known: Known, before: Ints, after: Ints, most: Ints) -> Flags:
    """Whether a record of `before` at `most` or beyond was read by a fetch that was not called before `after`."""
    ops = known.rows.ops
    rows, which = np.unique(before, return_inverse=True)
    counts = known.rows.counts[rows]
    records = expand(ops.starts[rows], counts)
    owner = np.repeat(np.arange(len(rows)), counts)
    slot = known.slot_of_value[records]
    order = np.lexsort((known.offsets[records], owner))
    offset, last = known.offsets[records[order]], known.last_read[slot[order]]
    # By falling owner and offset, so that the last read of a record or a later one of its row accumulates.
    calls, rank = np.unique(last, return_inverse=True)
    fall = (len(rows) - 1 - owner[order]) * len(calls) + rank
    latest = calls[np.maximum.accumulate(fall[::-1])[::-1] % len(calls)] if len(calls) else last
    offsets, place = np.unique(np.concatenate((offset, most)), return_inverse=True)
    key = owner[order] * (len(offsets) + 1) + place[: len(offset)]
    at = np.searchsorted(key, which * (len(offsets) + 1) + place[len(offset) :], side="left")
    safe = np.minimum(at, max(len(key) - 1, 0))
    there = (at < len(key)) & (owner[order][safe] == which)
    survived: Flags = there & (latest[safe] >= ops.call[after])
    return survived
