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
    is_soon = (found != NONE) & ~is_failed & (table.returned[reads] < table.closing[found])
    reason = "it found the offset of a commit that failed, or whose transaction did"
    yield Found(Name.FAILED_COMMIT_READ, reason, (found[is_failed], reads[is_failed]))
    reason = "it found the offset of a commit that had not been called, or the end of its transaction had not"
    yield Found(Name.COMMIT_READ_TOO_SOON, reason, (found[is_soon], reads[is_soon]))
    spans = spans_of(table, reads[~is_failed & ~is_soon], level)
    is_torn = spans.is_torn(table)
    reason = "it was to wait for the end of a transaction that has committed an offset, or to find that"
    yield Found(Name.UNSTABLE_OFFSET_READ, reason, (spans.open[is_torn], spans.reads[is_torn]))
    yield disordered(table, spans.of(~is_torn))


@attrs.frozen(eq=False)
class Spans:
    """When each of these reads took effect: at `called` at the earliest, at `returned` at the latest, by the clock."""

    reads: Ints
    called: Ints
    returned: Ints
    open: Ints
    """The last commit in a transaction that it came after, or else the first that it came before; NONE without any."""

    def is_torn(self, table: GroupTable) -> Flags:
        """Whether there is no such instant, or what was found had not been called then."""
        torn: Flags = self.returned < np.maximum(self.called, _sources(table, self.reads))
        return torn

    def of(self, chosen: Flags) -> Spans:
        """Those that are chosen."""
        return Spans(self.reads[chosen], self.called[chosen], self.returned[chosen], self.open[chosen])


def spans_of(table: GroupTable, reads: Ints, level: Level) -> Spans:
    """Each read between its call, unless it may be late, and its return.

    A stable one does not take effect from the time that a committed transaction has written an offset of the partition
    until its end is called: so it comes after that end where it, or what it has found, was called after that was
    written, and before that was written where it returned before the end was called. It finds no offset before the end
    of its own transaction is called. Another one may find an offset while one that was written after it is not decided.
    """
    place, found = table.partition[reads], table.commit[reads]
    called = table.clock(place, np.where(is_trusted(table, reads, level), table.call[reads], BEFORE_ALL))
    returned = table.clock(place, table.returned[reads])
    spans = Spans(reads, called, returned, np.full(len(reads), NONE, np.int64))
    closed = rows_where((table.kind == Kind.COMMIT_OFFSETS) & table.in_transaction & (table.outcome == Outcome.OK))
    stable = rows_where(table.is_stable[reads])
    if len(closed) and len(stable):
        _keep_off(spans, stable, table, closed)
    is_own = (found != NONE) & table.in_transaction[found] & table.is_stable[reads]
    spans.called[is_own] = np.maximum(spans.called, table.clock(place, table.closing[found]))[is_own]
    return spans


def _keep_off(spans: Spans, stable: Ints, table: GroupTable, closed: Ints) -> None:
    """Move these reads behind the ends of the transactions that they come after, and before what they come before."""
    whose = table.partition[closed]
    written, ended = table.clock(whose, table.returned[closed]), table.clock(whose, table.closing[closed])
    returned = spans.returned[stable]
    # Of partitions before, all is earlier, and of those after, later: no other one's is the largest, or the least.
    order = np.argsort(written, kind="stable")
    asked = np.searchsorted(written[order], np.maximum(spans.called[stable], _sources(table, spans.reads)[stable]))
    holder, chosen = _holders(ended[order]), asked > 0
    rows, latest = stable[chosen], order[holder[asked[chosen] - 1]]
    is_later = ended[latest] > spans.called[rows]
    spans.called[rows[is_later]] = ended[latest[is_later]]
    spans.open[rows[is_later]] = closed[latest[is_later]]
    order = np.argsort(-ended, kind="stable")
    asked = np.searchsorted(-ended[order], -returned)
    holder, chosen = _holders(-written[order]), asked > 0
    rows, earliest = stable[chosen], order[holder[asked[chosen] - 1]]
    is_earlier = written[earliest] < spans.returned[rows]
    spans.returned[rows[is_earlier]] = written[earliest[is_earlier]]
    alone = is_earlier & (spans.open[rows] == NONE)
    spans.open[rows[alone]] = closed[earliest[alone]]


def _sources(table: GroupTable, reads: Ints) -> Ints:
    """When what each read has found was called, by the clock."""
    found = table.commit[reads]
    return table.clock(table.partition[reads], np.where(found == NONE, BEFORE_ALL, table.call[found]))


def _holders(values: Ints) -> Ints:
    """At each place, where the largest value so far is first."""
    largest = np.maximum.accumulate(values)
    is_new = np.concatenate(([True], largest[1:] > largest[:-1]))[: len(values)]
    holders: Ints = np.maximum.accumulate(np.where(is_new, np.arange(len(values)), 0))
    return holders


@attrs.frozen(eq=False)
class Zones:
    """Clusters, by the earliest return and the latest call, and the rows that have them; NONE for the first ones."""

    returned: Ints
    called: Ints
    first: Ints
    """The row that returned first."""
    last: Ints
    """The row that was called last."""


def disordered(table: GroupTable, spans: Spans) -> Found:
    """No order of commits and reads explains what was found."""
    one, other = conflicting(zones := zones_of(table, spans))
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


def zones_of(table: GroupTable, spans: Spans) -> Zones:
    """The clusters: that of each register before any commit comes first; of unknown commits those that were found."""
    partitions = int(table.partition.max(initial=NONE)) + 1
    reads, found = spans.reads, table.commit[spans.reads]
    commits = rows_where((table.kind == Kind.COMMIT_OFFSETS) & (table.outcome != Outcome.FAIL))
    commits = commits[(table.outcome[commits] == Outcome.OK) | np.isin(commits, found)]
    place = table.partition
    is_ok = table.outcome[commits] == Outcome.OK
    own_returns = table.clock(place[commits], np.where(is_ok, table.returned[commits], table.never))
    begins = table.clock(np.arange(partitions), np.full(partitions, BEFORE_ALL))
    clusters = partitions + len(commits)
    cluster = np.where(found == NONE, place[reads], partitions + np.searchsorted(commits, found))
    members = np.concatenate((np.arange(clusters), cluster))
    returned = np.concatenate((begins, own_returns, spans.returned))
    called = np.concatenate((begins, table.clock(place[commits], table.call[commits]), spans.called))
    names = np.concatenate((np.full(partitions, NONE), commits, reads))
    starts = np.searchsorted(np.sort(members), np.arange(clusters))
    by_return = np.lexsort((returned, members))[starts]
    latest = np.lexsort((-called, members))[starts]
    return Zones(returned[by_return], called[latest], names[by_return], names[latest])


def is_trusted(table: GroupTable, reads: Ints, level: Level) -> Flags:
    """Whether each read says what was committed when it was called, or later.

    It may be late at level `kafka`, or where it does not ask for stable offsets and transactions commit some, unless
    all had settled.
    """
    places = int(table.partition.max(initial=NONE)) + 1
    settled = table.of_kind(Kind.SETTLED)
    since = np.full(places, NONE, np.int64)
    np.maximum.at(since, table.partition[settled], table.call[settled])
    since[since == NONE] = table.never
    trusted: Flags = table.call[reads] >= since[table.partition[reads]]
    if level is Level.STRICT:
        is_mixed = np.zeros(places, np.bool_)
        inside = (table.kind == Kind.COMMIT_OFFSETS) & table.in_transaction & (table.outcome != Outcome.FAIL)
        is_mixed[table.partition[inside]] = True
        trusted |= table.is_stable[reads] | ~is_mixed[table.partition[reads]]
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
