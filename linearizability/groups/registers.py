"""Committed offsets as registers: a commit writes one, a read says which commit it has found.

Since that is known, no search is needed (Gibbons and Korach, 1997). A commit and the reads that have found it are a
*cluster*. All of it takes effect between two writes of others. Its *zone* lies between the earliest return and the
latest call: a *forward* zone has a return before a call, and all the time between the two the register has this value.
So two forward zones must not overlap; and a *backward* zone, in which all happened at once perhaps, must not lie within
a forward one. Each partition has a stretch of the clock of its own, so zones of two of them never meet.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.groups.findings import Found
from tidegauge.linearizability.groups.table import BEFORE_ALL, GroupTable, rows_where
from tidegauge.linearizability.history import Flags, Ints, Kind, Outcome
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.transactional import NONE


def check_registers(table: GroupTable, level: Level) -> Iterator[Found]:
    """What is wrong with committed offsets."""
    reads = table.of_kind(Kind.READ_OFFSETS)
    found = table.commit[reads]
    is_failed = (found != NONE) & (table.outcome[found] == Outcome.FAIL)
    is_soon = (found != NONE) & ~is_failed & (table.returned[reads] < table.call[found])
    reason = "it found the offset of a commit that failed"
    yield Found(Name.FAILED_COMMIT_READ, reason, (found[is_failed], reads[is_failed]))
    reason = "it found the offset of a commit that had not been called"
    yield Found(Name.COMMIT_READ_TOO_SOON, reason, (found[is_soon], reads[is_soon]))
    yield disordered(table, reads[~is_failed & ~is_soon], level)


@attrs.frozen(eq=False)
class Zones:
    """Clusters, by the earliest return and the latest call, and the rows that have them; NONE for the first ones."""

    returned: Ints
    called: Ints
    first: Ints
    """The row that returned first."""
    last: Ints
    """The row that was called last."""


def disordered(table: GroupTable, reads: Ints, level: Level) -> Found:
    """No order of commits and reads explains what was found."""
    one, other = conflicting(zones := zones_of(table, reads, level))
    reason = "no order of commits explains what was found committed, not even of these"
    return Found(
        Name.COMMITTED_OFFSET_ORDER,
        reason,
        _with_partition_last(zones.first[one], zones.last[one], zones.first[other], zones.last[other]),
    )


def _with_partition_last(*columns: Ints) -> tuple[Ints, ...]:
    """The last one says the partition: the first zone of a partition may have no row there."""
    last = columns[-1].copy()
    for column in columns[:-1]:
        last = np.where(last == NONE, column, last)
    return *columns[:-1], last


def zones_of(table: GroupTable, reads: Ints, level: Level) -> Zones:
    """The clusters: that of each register before any commit comes first; of unknown commits only those that were found.

    A read may be late (level `kafka`): it then says nothing of when it was called, unless all had settled.
    """
    partitions = int(table.partition.max(initial=NONE)) + 1
    found = table.commit[reads]
    commits = rows_where((table.kind == Kind.COMMIT_OFFSETS) & (table.outcome != Outcome.FAIL))
    commits = commits[(table.outcome[commits] == Outcome.OK) | np.isin(commits, found)]
    place = table.partition
    calls = table.clock(place[reads], np.where(is_trusted(table, reads, level), table.call[reads], BEFORE_ALL))
    is_ok = table.outcome[commits] == Outcome.OK
    own_returns = table.clock(place[commits], np.where(is_ok, table.returned[commits], table.never))
    begins = table.clock(np.arange(partitions), np.full(partitions, BEFORE_ALL))
    clusters = partitions + len(commits)
    cluster = np.where(found == NONE, place[reads], partitions + np.searchsorted(commits, found))
    members = np.concatenate((np.arange(clusters), cluster))
    returned = np.concatenate((begins, own_returns, table.clock(place[reads], table.returned[reads])))
    called = np.concatenate((begins, table.clock(place[commits], table.call[commits]), calls))
    names = np.concatenate((np.full(partitions, NONE), commits, reads))
    starts = np.searchsorted(np.sort(members), np.arange(clusters))
    by_return = np.lexsort((returned, members))[starts]
    latest = np.lexsort((-called, members))[starts]
    return Zones(returned[by_return], called[latest], names[by_return], names[latest])


def is_trusted(table: GroupTable, reads: Ints, level: Level) -> Flags:
    """Whether each read says what was committed when it was called, or later."""
    if level is Level.STRICT:
        return np.ones(len(reads), np.bool_)
    settled = table.of_kind(Kind.SETTLED)
    since = np.full(int(table.partition.max(initial=NONE)) + 1, NONE, np.int64)
    np.maximum.at(since, table.partition[settled], table.call[settled])
    since[since == NONE] = table.never
    trusted: Flags = table.call[reads] >= since[table.partition[reads]]
    return trusted


def conflicting(zones: Zones) -> tuple[Ints, Ints]:
    """The pairs of zones that contradict each other."""
    forward = rows_where(zones.returned < zones.called)
    order = forward[np.argsort(zones.returned[forward], kind="stable")]
    if not len(order):
        return order, order
    reach = np.maximum.accumulate(zones.called[order])
    is_new = np.concatenate(([True], reach[1:] > reach[:-1]))
    holder = order[np.maximum.accumulate(np.where(is_new, np.arange(len(order)), 0))]
    place = rows_where(zones.returned[order[1:]] < reach[:-1]) + 1
    # a backward zone (call, return) within a forward one (return, call): the last that begins before it, reaches on
    backward = rows_where(zones.returned >= zones.called)
    before = np.searchsorted(zones.returned[order], zones.called[backward], side="left") - 1
    is_within = (before >= 0) & (reach[np.maximum(before, 0)] > zones.returned[backward])
    return (
        np.concatenate((holder[place - 1], holder[before[is_within]])),
        np.concatenate((order[place], backward[is_within])),
    )
