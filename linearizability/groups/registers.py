"""Committed offsets as registers: a commit writes one, a read says which commit it has found.

Since that is known, no search is needed (Gibbons and Korach, 1997). A commit and the reads that have found it are a
*cluster*. All of it takes effect between two writes of others. Its *zone* lies between the earliest return and the
latest call: a *forward* zone has a return before a call, and all the time between the two the register has this value.
So two forward zones must not overlap; and a *backward* zone, in which all happened at once perhaps, must not lie within
a forward one.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from tidegauge.linearizability.groups.findings import GroupAnomaly, Name
from tidegauge.linearizability.groups.history import NONE, GroupRows, Kind, rows_where
from tidegauge.linearizability.history import NEVER, Ints, Outcome
from tidegauge.linearizability.log import Level

BEFORE_ALL = -1
"""Before any call."""


def check_registers(rows: GroupRows, level: Level) -> Iterator[GroupAnomaly]:
    """What is wrong with committed offsets."""
    reads = rows.of(Kind.READ)
    found = rows.commit[reads]
    yield from failed(rows, reads[(found != NONE) & (rows.outcome[found] == Outcome.FAIL)])
    has_happened = reads[(found == NONE) | (rows.outcome[found] != Outcome.FAIL)]
    found = rows.commit[has_happened]
    is_soon = (found != NONE) & (rows.returned[has_happened] < rows.call[found])
    yield from too_soon(rows, has_happened[is_soon])
    yield from disordered(rows, has_happened[~is_soon], level)


def failed(rows: GroupRows, reads: Ints) -> Iterator[GroupAnomaly]:
    """A read has found a commit that was refused."""
    if len(reads):
        read = int(reads[0])
        commit = int(rows.commit[read])
        witness = f"{rows.told(read)}, which is that of a commit that failed: {rows.told(commit)}"
        yield GroupAnomaly(Name.FAILED_COMMIT_READ, (commit, read), len(reads), witness)


def too_soon(rows: GroupRows, reads: Ints) -> Iterator[GroupAnomaly]:
    """A read has found a commit before that was called."""
    if len(reads):
        read = int(reads[0])
        commit = int(rows.commit[read])
        witness = f"{rows.told(read)}, before {rows.told(commit)}"
        yield GroupAnomaly(Name.COMMIT_READ_TOO_SOON, (read, commit), len(reads), witness)


@attrs.frozen
class Zones:
    """The clusters of one partition, by the earliest return and the latest call, and the rows that have them."""

    returned: Ints
    called: Ints
    first: Ints
    """The row that returned first."""
    last: Ints
    """The row that was called last."""


def disordered(rows: GroupRows, reads: Ints, level: Level) -> Iterator[GroupAnomaly]:
    """No order of commits and reads explains what was found."""
    conflicts: list[tuple[int, ...]] = []
    commits = rows_where((rows.kind == Kind.COMMIT) & (rows.outcome != Outcome.FAIL))
    for partition in np.unique(rows.partition[reads]):
        zones = zones_of(
            rows, commits[rows.partition[commits] == partition], reads[rows.partition[reads] == partition], level
        )
        conflicts += conflicting(zones)
    if conflicts:
        first = tuple(dict.fromkeys(row for row in conflicts[0] if row != NONE))
        told = "; ".join(map(rows.told, first))
        witness = f"no order of commits explains what was found committed, not even of these: {told}"
        yield GroupAnomaly(Name.COMMITTED_OFFSET_ORDER, first, len(conflicts), witness)


def zones_of(rows: GroupRows, commits: Ints, reads: Ints, level: Level) -> Zones:
    """The clusters: that of the register before any commit comes first; of unknown commits only those that were found.

    A read may be late (level `kafka`): it then says nothing of when it was called, unless all had settled.
    """
    found = rows.commit[reads]
    is_known = (rows.outcome[commits] == Outcome.OK) | np.isin(commits, found)
    commits = commits[is_known]
    settled = rows.of(Kind.SETTLED)
    settled = settled[np.isin(rows.partition[settled], rows.partition[reads])]
    trusted_from = BEFORE_ALL if level is Level.STRICT else int(rows.call[settled].max(initial=BEFORE_ALL))
    trusts = level is Level.STRICT or len(settled) > 0
    calls = np.where(trusts & (rows.call[reads] >= trusted_from), rows.call[reads], BEFORE_ALL)
    own_returns = np.where(rows.outcome[commits] == Outcome.OK, rows.returned[commits], NEVER)
    cluster = np.where(found == NONE, 0, np.searchsorted(commits, found) + 1)
    members = np.concatenate((np.arange(len(commits) + 1), cluster))
    returned = np.concatenate(([BEFORE_ALL], own_returns, rows.returned[reads]))
    called = np.concatenate(([BEFORE_ALL], rows.call[commits], calls))
    names = np.concatenate(([NONE], commits, reads))
    starts = np.searchsorted(np.sort(members), np.arange(len(commits) + 1))
    by_return = np.lexsort((returned, members))[starts]
    latest = np.lexsort((-called, members))[starts]
    return Zones(returned[by_return], called[latest], names[by_return], names[latest])


def conflicting(zones: Zones) -> list[tuple[int, ...]]:
    """The rows of each conflict between two zones."""
    forward = rows_where(zones.returned < zones.called)
    order = forward[np.argsort(zones.returned[forward], kind="stable")]
    conflicts = []
    reach = np.maximum.accumulate(zones.called[order]) if len(order) else order
    holders = _holders(zones, order)
    for place in rows_where(zones.returned[order[1:]] < reach[:-1]) + 1:
        one, other = holders[place - 1], order[place]
        conflicts.append((zones.first[one], zones.last[one], zones.first[other], zones.last[other]))
    backward = rows_where(zones.returned >= zones.called)
    if len(order):
        # a backward zone (call, return) within a forward one (return, call): the last that begins before it, reaches on
        place = np.searchsorted(zones.returned[order], zones.called[backward], side="left") - 1
        is_within = (place >= 0) & (reach[np.maximum(place, 0)] > zones.returned[backward])
        for inner, where in zip(backward[is_within], place[is_within], strict=True):
            one = holders[where]
            conflicts.append((zones.first[one], zones.last[one], zones.first[inner], zones.last[inner]))
    return [tuple(map(int, rows)) for rows in conflicts]


def _holders(zones: Zones, order: Ints) -> Ints:
    """Of each place in an order, the zone up to there that reaches furthest."""
    best = np.maximum.accumulate(zones.called[order]) if len(order) else order
    is_new = zones.called[order] == best
    places = np.maximum.accumulate(np.where(is_new, np.arange(len(order)), 0)) if len(order) else order
    return order[places]
