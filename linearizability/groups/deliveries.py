"""What applications were given of a partition, beside what was committed: lost, doubled, skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs
import numpy as np

from tidegauge.linearizability.groups.findings import GroupAnomaly, Name, Promise
from tidegauge.linearizability.groups.history import NONE, GroupRows, Kind, rows_where
from tidegauge.linearizability.history import NEVER, Ints, Outcome


@attrs.frozen(eq=False)
class Delivered:
    """One partition."""

    rows: GroupRows
    partition: int
    deliveries: Ints
    """In the order of the history."""
    commits: Ints
    """Those that may have been taken."""
    settled: int
    """The offset below which each has a record; 0 where nobody says."""

    @property
    def known(self) -> Ints:
        """The offsets that are known to have a record."""
        offsets: Ints = np.union1d(self.rows.offset[self.deliveries], np.arange(self.settled))
        return offsets.astype(np.int64)


@attrs.define
class Found:
    """The rows of each occurrence of one kind of anomaly, and the words for it."""

    name: Name
    why: Callable[..., str]
    rows: list[tuple[int, ...]] = attrs.field(factory=list)

    def anomaly(self, rows: GroupRows) -> Iterator[GroupAnomaly]:
        """What is to be told, if anything."""
        if self.rows:
            first = self.rows[0]
            yield GroupAnomaly(self.name, first, len(self.rows), self.why(*map(rows.told, first)))


def check_deliveries(rows: GroupRows, promise: Promise) -> Iterator[GroupAnomaly]:
    """What is wrong with deliveries."""
    rules = [
        (Found(Name.NONMONOTONIC_DELIVERY, lambda a, b: f"{a}, then {b}: it goes back"), nonmonotonic),
        (Found(Name.SKIPPED_DELIVERY, lambda a, b: f"{a}, then {b}: there is a record between the two"), skipped),
    ]
    if promise is Promise.AT_MOST_ONCE:
        rules.append(
            (Found(Name.DOUBLED_DELIVERY, lambda a, b: f"{a}, and {b}: no record is delivered twice"), doubled)
        )
    else:
        after = "was delivered again, though the group was known to be beyond it when the process was assigned"
        rules += [
            (Found(Name.LOST_DELIVERY, lambda a: f"{a}, and a record below was delivered to nobody before"), lost),
            (Found(Name.DELIVERED_AFTER_COMMIT, lambda a, b: f"{a} {after}: {b}"), after_commit),
            (Found(Name.UNDELIVERED, lambda a: f"{a}, and a record below was never delivered"), undelivered),
        ]
    parts = list(partitions(rows))
    for found, rule in rules:
        for part in parts:
            found.rows += rule(part)
        yield from found.anomaly(rows)


def partitions(rows: GroupRows) -> Iterator[Delivered]:
    """Each partition that something is delivered of, or that has settled."""
    deliveries, settled = rows.of(Kind.DELIVER), rows.of(Kind.SETTLED)
    commits = rows_where((rows.kind == Kind.COMMIT) & (rows.outcome != Outcome.FAIL))
    for partition in np.union1d(rows.partition[deliveries], rows.partition[settled]):
        of_it = [chosen[rows.partition[chosen] == partition] for chosen in (deliveries, commits, settled)]
        yield Delivered(rows, int(partition), of_it[0], of_it[1], int(rows.offset[of_it[2]].max(initial=0)))


def neighbours(part: Delivered) -> tuple[Ints, Ints]:
    """What a process was delivered of the partition in one generation, one after the other."""
    rows, chosen = part.rows, part.deliveries
    order = chosen[np.lexsort((chosen, rows.generation[chosen], rows.process[chosen]))]
    first, second = order[:-1], order[1:]
    is_same = (rows.process[first] == rows.process[second]) & (rows.generation[first] == rows.generation[second])
    return first[is_same], second[is_same]


def nonmonotonic(part: Delivered) -> list[tuple[int, ...]]:
    first, second = neighbours(part)
    is_back = part.rows.offset[second] <= part.rows.offset[first]
    return list(zip(first[is_back].tolist(), second[is_back].tolist(), strict=True))


def skipped(part: Delivered) -> list[tuple[int, ...]]:
    first, second = neighbours(part)
    known, offset = part.known, part.rows.offset
    next_known = np.searchsorted(known, offset[first], side="right")
    is_over = np.searchsorted(known, offset[second], side="left") > next_known
    return list(zip(first[is_over].tolist(), second[is_over].tolist(), strict=True))


def doubled(part: Delivered) -> list[tuple[int, ...]]:
    rows, chosen = part.rows, part.deliveries
    order = chosen[np.lexsort((chosen, rows.offset[chosen]))]
    first, second = order[:-1], order[1:]
    is_same = rows.offset[first] == rows.offset[second]
    return list(zip(first[is_same].tolist(), second[is_same].tolist(), strict=True))


def lost(part: Delivered) -> list[tuple[int, ...]]:
    """A member's commit says that all below was delivered; something was to nobody, or to somebody later only."""
    rows, known = part.rows, part.known
    commits = part.commits[(rows.outcome[part.commits] == Outcome.OK) & (rows.generation[part.commits] != NONE)]
    earliest = np.full(len(known), NEVER, np.int64)
    np.minimum.at(earliest, np.searchsorted(known, rows.offset[part.deliveries]), rows.call[part.deliveries])
    latest_below = np.maximum.accumulate(earliest) if len(earliest) else earliest
    below = np.searchsorted(known, rows.offset[commits], side="left")
    has_below = below > 0
    worst = latest_below[below[has_below] - 1] if len(latest_below) else below[has_below]
    broken = commits[has_below][worst > rows.returned[commits[has_below]]]
    return [(row,) for row in broken.tolist()]


def after_commit(part: Delivered) -> list[tuple[int, ...]]:
    """What was delivered lies below every offset that may have been the committed one since the process was assigned.

    A commit that returned before another one was called, which in turn returned before that, is none of those.
    """
    rows, commits = part.rows, part.commits
    taken = commits[rows.outcome[commits] == Outcome.OK]
    if not len(taken) or not len(part.deliveries):
        return []
    since = first_assigned(part)
    by_return = taken[np.argsort(rows.returned[taken], kind="stable")]
    latest_call = np.maximum.accumulate(rows.call[by_return])
    ended = np.searchsorted(rows.returned[by_return], since, side="left")
    is_bound = ended > 0
    overwritten_before = latest_call[np.maximum(ended, 1) - 1]
    returns = np.where(rows.outcome[commits] == Outcome.OK, rows.returned[commits], NEVER)
    order = np.argsort(returns, kind="stable")
    least = np.minimum.accumulate(rows.offset[commits][order][::-1])[::-1]
    bound = least[np.minimum(np.searchsorted(returns[order], overwritten_before, side="left"), len(least) - 1)]
    is_again = is_bound & (rows.offset[part.deliveries] < bound)
    return [
        (int(delivery), int(by_return[end - 1]))
        for delivery, end in zip(part.deliveries[is_again], ended[is_again], strict=True)
    ]


def first_assigned(part: Delivered) -> Ints:
    """When the process of each delivery first asked for an assignment that has the partition; 0 if it did not."""
    rows, deliveries = part.rows, part.deliveries
    told = rows.of(Kind.ASSIGN)
    told = told[rows.partition[told] == part.partition]
    processes, place = np.unique(rows.process[deliveries], return_inverse=True)
    earliest = np.full(len(processes), NEVER, np.int64)
    at = np.searchsorted(processes, rows.process[told])
    is_there = processes[np.minimum(at, len(processes) - 1)] == rows.process[told]
    np.minimum.at(earliest, at[is_there], rows.call[told][is_there])
    earliest[earliest == NEVER] = 0
    since: Ints = earliest[place]
    return since


def undelivered(part: Delivered) -> list[tuple[int, ...]]:
    rows = part.rows
    missing = np.setdiff1d(np.arange(part.settled), rows.offset[part.deliveries])
    if not len(missing):
        return []
    settled = rows.of(Kind.SETTLED)
    says = settled[(rows.offset[settled] == part.settled) & (rows.partition[settled] == part.partition)]
    return [(int(says[0]),)] * len(missing)
