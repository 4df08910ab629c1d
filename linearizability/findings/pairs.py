"""Two of those that say something about one thing, who contradict each other, and whom no election excuses."""

from __future__ import annotations

from itertools import combinations

import attrs
import numpy as np

from tidegauge.linearizability.arrays import spread
from tidegauge.linearizability.findings.elections import Elections
from tidegauge.linearizability.history import NEVER, Flags, Ints

FEW = 8
"""Up to so many sayings of one thing all pairs are tried, for all things at once."""


@attrs.frozen(eq=False)
class Sayings:
    """What rows say about things: those of a thing are neighbours and in their order.

    Two of a thing contradict each other if their `what` differs. Then an election that lost what is at the smaller
    `offset` of both excuses them.
    """

    first: Ints
    """The number of the first saying of each thing, and how many sayings there are."""
    group: Ints
    """The partition of each thing."""
    what: Ints
    row: Ints
    offset: Ints

    @classmethod
    def of(cls, thing: Ints, group: Ints, what: Ints, row: Ints, offset: Ints) -> Sayings:
        """Sayings about each `thing`, of which those of one are neighbours."""
        first = np.flatnonzero(np.concatenate(([True], thing[1:] != thing[:-1]))) if len(thing) else thing
        return cls(np.append(first, len(thing)).astype(np.int64), group[first], what, row, offset)


def contradicting(said: Sayings, elections: Elections) -> tuple[Ints, Ints, Ints]:
    """The things that two sayings contradict each other about without excuse, and the first two of each, by number.

    The first pair is the one whose first saying comes first, and of those the one whose second does.
    """
    things = np.arange(len(said.group))
    one = said.first[:-1]
    other = _first_that_differs(said, one)
    differs = other >= 0
    found = np.where(differs, other, -1)
    open_things = np.flatnonzero(differs & (elections.counts[said.group] > 0))
    excused = open_things[_excused(said, elections, open_things, one[open_things], other[open_things])]
    first, second = one.copy(), found
    second[excused] = -1
    sizes = np.diff(said.first)[excused]
    few = excused[sizes <= FEW]
    for i, j in combinations(range(FEW), 2):
        few = few[second[few] < 0]
        has = few[np.diff(said.first)[few] > j]
        a, b = said.first[has] + i, said.first[has] + j
        proven = (said.what[a] != said.what[b]) & ~_excused(said, elections, has, a, b)
        first[has[proven]], second[has[proven]] = a[proven], b[proven]
    for thing in excused[sizes > FEW].tolist():
        first[thing], second[thing] = _among_many(said, elections, thing)
    proven_things = things[second >= 0]
    return proven_things, first[proven_things], second[proven_things]


def _first_that_differs(said: Sayings, one: Ints) -> Ints:
    """The first saying about each thing that differs from its first one; −1 where there is none."""
    counts = np.diff(said.first)
    differs = np.flatnonzero(said.what != spread(said.what[one], counts))
    thing = spread(np.arange(len(one)), counts)[differs]
    other = np.full(len(one), -1, np.int64)
    other[thing[::-1]] = differs[::-1]
    return other


def _excused(said: Sayings, elections: Elections, thing: Ints, a: Ints, b: Ints) -> Flags:
    lowest = np.minimum(said.offset[a], said.offset[b])
    return elections.excuse_either(said.group[thing], said.row[a], said.row[b], lowest)


def _among_many(said: Sayings, elections: Elections, thing: int) -> tuple[int, int]:
    """The first pair among many sayings about one thing; (−1, −1) where there is none."""
    start, stop = int(said.first[thing]), int(said.first[thing + 1])
    candidates = range(start, stop)
    if (said.offset[start:stop] == said.offset[start]).all():
        first = _first_with_partner(said, elections, thing)
        candidates = range(first, first + 1) if first >= 0 else range(0)
    group = said.group[thing]
    for a in candidates:
        others = a + 1 + np.flatnonzero(said.what[a + 1 : stop] != said.what[a])
        if len(others):
            lowest = np.minimum(said.offset[a], said.offset[others])
            same = np.full(len(others), said.row[a])
            excused = elections.excuse_either(np.full(len(others), group), same, said.row[others], lowest)
            if not excused.all():
                return a, int(others[np.argmin(excused)])
    return -1, -1


def _first_with_partner(said: Sayings, elections: Elections, thing: int) -> int:
    """The first of the sayings about one offset that some other one contradicts without excuse; −1 if there is none.

    Let `lost` be the call of the earliest election that may have lost what a saying saw. Two are excused if the `lost`
    of one is not after the `until` of the other. So, by rising `until`, those whose `until` is before my `lost` are a
    prefix, and of them the greatest `lost` of another value decides.
    """
    start, stop = int(said.first[thing]), int(said.first[thing + 1])
    group, offset = int(said.group[thing]), int(said.offset[start])
    row, what = said.row[start:stop], said.what[start:stop]
    lost = np.full(len(row), NEVER, np.int64)
    for election in elections.rows[elections.first[group] : elections.first[group + 1]]:
        if elections.offset[election] <= offset:
            exposed = elections.call[row] < elections.until[election]
            lost = np.where(exposed, np.minimum(lost, elections.call[election]), lost)
    ends = np.minimum(elections.until[row], NEVER - 1)
    order = np.argsort(ends, kind="stable")
    best, runner = _two_greatest(lost[order], what[order])
    before = np.searchsorted(ends[order], lost, side="left") - 1
    there = before >= 0
    mine = order[best[np.maximum(before, 0)]]
    second = runner[np.maximum(before, 0)]
    mine = np.where(what[mine] != what, mine, np.where(second >= 0, order[np.maximum(second, 0)], -1))
    partner = there & (mine >= 0) & (lost[np.maximum(mine, 0)] > ends)
    return start + int(np.argmax(partner)) if partner.any() else -1


def _two_greatest(amount: Ints, what: Ints) -> tuple[Ints, Ints]:
    """For each prefix the number of the greatest amount, and of the greatest of another `what`, −1 for none."""
    best, runner = np.empty(len(amount), np.int64), np.empty(len(amount), np.int64)
    amounts, kinds = amount.tolist(), what.tolist()
    first, second = 0, -1
    for number, (much, kind) in enumerate(zip(amounts, kinds, strict=True)):
        if number:
            if much > amounts[first]:
                if kind != kinds[first]:
                    second = first
                first = number
            elif kind != kinds[first] and (second < 0 or much > amounts[second]):
                second = number
        best[number], runner[number] = first, second
    return best, runner
