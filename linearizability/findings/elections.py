"""What declared losses excuse, for many operations at once ("Unclean elections" in docs/history.md)."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from tidegauge.linearizability.history import NEVER, Flags, Ints, Kind, Outcome
from tidegauge.linearizability.rows import Rows


def until(rows: Rows) -> Ints:
    """The end of the interval in which each operation took effect; an unknown one may do so at any later time.

    So may a produce with acks=0 or 1: what one leader has lost, another one may have.
    """
    ops = rows.ops
    forever = (ops.outcome == Outcome.INFO) | ((ops.kind == Kind.PRODUCE) & (ops.acks != -1))
    return np.where(forever, NEVER, ops.returned)


def exposed_from(rows: Rows) -> Ints:
    """For each row, the offset from which a declared loss may have taken what it saw; NEVER where there is none."""
    ops = rows.ops
    elections = np.flatnonzero(ops.kind == Kind.ELECTION)
    if not len(elections):
        return np.full(len(ops), NEVER, np.int64)
    ended, call = ops.returned[elections], ops.call
    times, rank = np.unique(np.concatenate((ended, call)), return_inverse=True)
    key = rows.group[elections] * (len(times) + 1) + rank[: len(elections)]
    order = np.argsort(key, kind="stable")
    lows, low = np.unique(ops.offset[elections], return_inverse=True)
    # The least offset from each election on: ranks of later partitions are greater, so that none leaks between them.
    leaks_not = low[order] + rows.group[elections[order]] * len(lows)
    least = np.minimum.accumulate(leaks_not[::-1])[::-1]
    at = np.searchsorted(key[order], rows.group * (len(times) + 1) + rank[len(elections) :], side="right")
    there = np.minimum(at, len(elections) - 1)
    mine = (at < len(elections)) & (rows.group[elections[order][there]] == rows.group)
    return np.where(mine, lows[least[there] % len(lows)], NEVER)


@attrs.frozen(eq=False)
class Elections:
    """The elections of each partition. Each test costs a pass for each election of the partition that has most."""

    rows: Ints
    """The elections, by partition."""
    first: Ints
    """The number in `rows` of each partition's first one, and their number."""
    offset: Ints
    call: Ints
    until: Ints
    """Of each row of the table, as in `until`."""

    @classmethod
    def of(cls, rows: Rows) -> Elections:
        found = np.flatnonzero(rows.ops.kind == Kind.ELECTION)
        found = found[np.argsort(rows.group[found], kind="stable")]
        first = np.concatenate(([0], np.cumsum(np.bincount(rows.group[found], minlength=rows.groups))))
        return cls(found, first.astype(np.int64), rows.ops.offset, rows.ops.call, until(rows))

    @property
    def counts(self) -> Ints:
        """How many each partition has."""
        return np.diff(self.first)

    def excuse(self, group: Ints, lost: Ints, other: Ints, offset: Ints) -> Flags:
        """May one election have lost what the row `lost` saw at `offset`, before the row `other` took effect?"""
        excused = np.zeros(len(group), np.bool_)
        for at, election in self._each(group):
            excused[at] |= (
                (self.offset[election] <= offset[at])
                & (self.call[lost[at]] < self.until[election])
                & (self.until[other[at]] >= self.call[election])
            )
        return excused

    def excuse_either(self, group: Ints, one: Ints, other: Ints, offset: Ints) -> Flags:
        """The same, whichever of the two was lost."""
        return self.excuse(group, one, other, offset) | self.excuse(group, other, one, offset)

    def latest_end(self, group: Ints, bound: Ints, length: Ints) -> Ints:
        """For each row `bound`, which found a log of at most `length`: what was called before which time may be lost.

        −1 where nothing may.
        """
        since = np.full(len(group), -1, np.int64)
        for at, election in self._each(group):
            applies = (self.offset[election] <= length[at]) & (self.until[bound[at]] >= self.call[election])
            since[at] = np.where(applies, np.maximum(since[at], self.until[election]), since[at])
        return since

    def _each(self, group: Ints) -> Iterator[tuple[Ints, Ints]]:
        """For each number of an election in its partition: the items whose partition has it, and its row for each."""
        number, counts = 0, self.counts
        at = np.flatnonzero(counts[group] > 0) if len(self.rows) else np.zeros(0, np.int64)
        while len(at):
            yield at, self.rows[self.first[group[at]] + number]
            number += 1
            at = at[counts[group[at]] > number]
