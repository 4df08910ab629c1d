"""What applications were given of a partition, beside what was committed: lost, doubled, skipped.

What they made of a record may be in a transaction (consume, transform, produce): then it is delivered if that is
committed, and was not if it is aborted; a group of which two committed transactions have a record has doubled it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import attrs
import numpy as np

from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.groups.assignments import rank
from tidegauge.linearizability.groups.findings import Found
from tidegauge.linearizability.groups.table import BEFORE_ALL, GroupTable, keyed, rows_where
from tidegauge.linearizability.history import Flags, Ints, Kind, Outcome
from tidegauge.linearizability.transactional import NONE


def check_deliveries(table: GroupTable) -> Iterator[Found]:
    """What is wrong with deliveries."""
    known = Known(table)
    yield from successions(known)
    yield doubled(known)
    yield lost(known)
    yield after_commit(known)
    yield undelivered(known)


@attrs.frozen(eq=False, slots=False)
class Known:
    """The offsets that are known to have a record: those that were read, and those below a declared end."""

    table: GroupTable

    @cached_property
    def deliveries(self) -> Ints:
        """Those that have happened."""
        return self.table.of_kind(Kind.DELIVER)

    @cached_property
    def possible(self) -> Ints:
        """Those that may have happened: all but those in transactions that are aborted."""
        return rows_where((self.table.kind == Kind.DELIVER) & (self.table.outcome != Outcome.FAIL))

    @cached_property
    def ends(self) -> Ints:
        """By partition: the offset below which each has a record; 0 where nobody says."""
        table, settled = self.table, self.table.of_kind(Kind.SETTLED)
        ends = np.zeros(int(table.partition.max(initial=NONE)) + 1, np.int64)
        np.maximum.at(ends, table.partition[settled], table.offset[settled])
        return ends

    @cached_property
    def read(self) -> tuple[Ints, Ints, Ints]:
        """The partition and the offset of each record that was read, sorted, each once, and when first delivered.

        Never, where all that was made of it was aborted.
        """
        table, rows = self.table, rows_where(self.table.kind == Kind.DELIVER)
        when = np.where(table.outcome[rows] == Outcome.FAIL, table.never, table.call[rows])
        order = np.lexsort((when, table.offset[rows], table.partition[rows]))
        place, offset = table.partition[rows[order]], table.offset[rows[order]]
        is_first = np.ones(len(order), np.bool_)
        is_first[1:] = (place[1:] != place[:-1]) | (offset[1:] != offset[:-1])
        return place[is_first], offset[is_first], when[order][is_first]

    @cached_property
    def begins(self) -> Ints:
        """By partition: where its offsets begin in `read`."""
        begins: Ints = np.searchsorted(self.read[0], np.arange(len(self.ends) + 1))
        return begins

    def below(self, partitions: Ints, offsets: Ints, *, or_at: bool = False) -> Ints:
        """How many pairs of `read` come before each (partition, offset)."""
        place, offset, _ = self.read
        return rank(place, offset, partitions, offsets, "right" if or_at else "left")

    def delivered_below(self, partitions: Ints, offsets: Ints) -> Ints:
        """How many offsets of each partition below each offset may have been delivered."""
        place, offset, when = self.read
        is_delivered = when != self.table.never
        place, offset = place[is_delivered], offset[is_delivered]
        begins = np.searchsorted(place, partitions)
        return rank(place, offset, partitions, offsets, "left") - begins

    def promised(self, rows: Ints, *, at_most_once: bool) -> Ints:
        """Those rows that are of groups of this promise."""
        chosen: Ints = rows[self.table.at_most_once[self.table.group[rows]] == at_most_once]
        return chosen


def successions(known: Known) -> Iterator[Found]:
    """What a process was delivered of a partition, one after the other, goes back or passes over a record.

    Only within one generation; where nobody knows that, until the process is assigned anything anew or gives it back.
    One of which nobody knows whether it has happened proves nothing, and neither do the two beside it.
    """
    table, rows = known.table, known.possible
    stint = _stints(table)
    order = rows[np.lexsort((rows, stint[rows], table.process[rows], table.partition[rows]))]
    first, second = order[:-1], order[1:]
    is_same = (table.partition[first] == table.partition[second]) & (table.process[first] == table.process[second])
    is_same &= stint[first] == stint[second]
    is_same &= (table.outcome[first] == Outcome.OK) & (table.outcome[second] == Outcome.OK)
    first, second = first[is_same], second[is_same]
    before, after = table.offset[first], table.offset[second]
    place = table.partition[first]
    is_back = after <= before
    yield Found(Name.NONMONOTONIC_DELIVERY, "it goes back", (first[is_back], second[is_back]))
    between = known.below(place, after) > known.below(place, before, or_at=True)
    is_over = ~is_back & (between | (before + 1 < np.minimum(after, known.ends[place])))
    yield Found(Name.SKIPPED_DELIVERY, "there is a record between the two", (first[is_over], second[is_over]))


def _stints(table: GroupTable) -> Ints:
    """The generation of each row; where it has none, how often its process was assigned anew before, below 0."""
    order = np.lexsort((np.arange(len(table)), table.process))
    changes = np.isin(table.kind[order], (Kind.ASSIGN, Kind.RELEASE)) & (table.outcome[order] == Outcome.OK)
    counted = np.empty(len(table), np.int64)
    counted[order] = np.cumsum(changes)
    return np.where(table.generation == NONE, NONE - 1 - counted, table.generation)


def doubled(known: Known) -> Found:
    """A record was delivered twice, and was to be once at most: by a promise, or as both are in transactions."""
    table, rows = known.table, known.deliveries
    rows = rows[table.at_most_once[table.group[rows]] | table.in_transaction[rows]]
    order = rows[np.lexsort((rows, table.offset[rows], table.partition[rows]))]
    first, second = order[:-1], order[1:]
    is_same = (table.partition[first] == table.partition[second]) & (table.offset[first] == table.offset[second])
    return Found(Name.DOUBLED_DELIVERY, "no record is delivered twice", (first[is_same], second[is_same]))


def lost(known: Known) -> Found:
    """A member's commit says that all below was delivered; something was to nobody, or to somebody later only."""
    table = known.table
    commits = table.of_kind(Kind.COMMIT_OFFSETS)
    commits = known.promised(commits[table.is_members[commits]], at_most_once=False)
    place, offset = table.partition[commits], table.offset[commits]
    delivered, _, earliest = known.read
    latest = np.maximum.accumulate(table.clock(delivered, earliest))
    below = known.below(place, offset)
    is_late = below > known.begins[place]
    is_late[is_late] = latest[below[is_late] - 1] > table.clock(place[is_late], table.returned[commits[is_late]])
    least = np.minimum(offset, known.ends[place])
    is_missing = known.delivered_below(place, least) < least
    reason = "it says that all below was delivered, and a record below was delivered to nobody before"
    return Found(Name.LOST_DELIVERY, reason, (commits[is_late | is_missing],))


def after_commit(known: Known) -> Found:
    """What was delivered lies below every offset that may have been the committed one since the process was assigned.

    A commit that returned before another one was called, which in turn returned before that, is none of those. One in a
    transaction proves nothing: a member that does not ask for stable offsets may be told the one before for a while.
    """
    table = known.table
    deliveries = known.promised(known.deliveries, at_most_once=False)
    commits = rows_where((table.kind == Kind.COMMIT_OFFSETS) & (table.outcome != Outcome.FAIL))
    is_taken = (table.outcome[commits] == Outcome.OK) & ~table.in_transaction[commits]
    place = table.partition
    returned = table.clock(place[commits], np.where(is_taken, table.returned[commits], table.never))
    order = np.argsort(returned, kind="stable")
    commits, returned, is_taken = commits[order], returned[order], is_taken[order]
    taken = rows_where(is_taken)
    if not len(taken):
        return Found(Name.DELIVERED_AFTER_COMMIT, "", (taken, taken))
    latest_call = np.maximum.accumulate(table.clock(place[commits[taken]], table.call[commits[taken]]))
    since = table.clock(place[deliveries], _first_assigned(table, deliveries))
    ended = np.searchsorted(returned[taken], since, side="left")
    by = commits[taken[np.maximum(ended, 1) - 1]]
    is_bound = (ended > 0) & (place[by] == place[deliveries])
    # Larger offsets, and those of later partitions, have larger ranks: the least one from here on is of this partition.
    ranks = np.lexsort((table.offset[commits], place[commits]))
    rank_of = np.empty(len(commits), np.int64)
    rank_of[ranks] = np.arange(len(commits))
    least = np.minimum.accumulate(rank_of[::-1])[::-1]
    from_here = np.searchsorted(returned, latest_call[np.maximum(ended, 1) - 1], side="left")
    bound = table.offset[commits[ranks[least[np.minimum(from_here, len(commits) - 1)]]]]
    is_again = is_bound & (table.offset[deliveries] < bound)
    reason = "it was delivered again, though the group was known to be beyond it when the process was assigned"
    return Found(Name.DELIVERED_AFTER_COMMIT, reason, (by[is_again], deliveries[is_again]))


def _first_assigned(table: GroupTable, deliveries: Ints) -> Ints:
    """When the process of each delivery first asked for an assignment that has the partition; else BEFORE_ALL."""
    told = table.of_kind(Kind.ASSIGN)
    told = told[table.partition[told] != NONE]
    asked = keyed(table.process[told], table.partition[told])
    order = np.lexsort((table.call[told], asked))
    asked, calls = asked[order], table.call[told][order]
    wanted = keyed(table.process[deliveries], table.partition[deliveries])
    at = np.searchsorted(asked, wanted, side="left")
    is_there: Flags = at < len(asked)
    is_there[is_there] = asked[at[is_there]] == wanted[is_there]
    since = np.full(len(deliveries), BEFORE_ALL, np.int64)
    since[is_there] = calls[at[is_there]]
    return since


def undelivered(known: Known) -> Found:
    """A record is known to be there, and was never delivered."""
    table = known.table
    settled = known.promised(table.of_kind(Kind.SETTLED), at_most_once=False)
    place = table.partition[settled]
    says = settled[table.offset[settled] == known.ends[place]]
    says = says[np.unique(table.partition[says], return_index=True)[1]]
    place, end = table.partition[says], table.offset[says]
    missing = end - known.delivered_below(place, end)
    is_open = missing > 0
    reason = "a record below was never delivered"
    return Found(Name.UNDELIVERED, reason, (says[is_open],), missing[is_open])
