"""May unknown produces fill the holes of a log?

A hole is an offset below the known end of the log that no known record holds. A batch of unknown outcome may fill it if
it was called before the deadline: the earliest return of an operation that knew the log to reach beyond. Batches
of one record need no search: deadlines grow with the offset, so the earliest call goes to the lowest hole. Longer
batches must tile the runs of holes, which is an exact-cover search (bin packing: no fast rule decides it); it is
memoised, and bounded by its steps. Three conditions spare most of it: each run must fit some batches when it has all to
itself; by the deadline of each run as many records must have been called as it and the runs before it have offsets;
and runs that only batches of certain sizes fit must not have more offsets than those have records.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from itertools import accumulate

import attrs

from tidegauge.linearizability.history import NEVER


class Filling(Enum):
    """Can all holes be filled?"""

    FILLED = "filled"
    IMPOSSIBLE = "impossible"
    UNDECIDED = "undecided"


@attrs.frozen
class Hole:
    """Offsets [start, stop) that nobody is known to hold; a batch there ends by `limit`, where a known record is."""

    start: int
    stop: int
    limit: int


@attrs.frozen(slots=False)
class Deadlines:
    """When the log is known to have reached each length: `when[k]` from length `lengths[k - 1] + 1` to `lengths[k]`."""

    lengths: Sequence[int]
    when: Sequence[int]

    @property
    def end(self) -> int:
        return self.lengths[-1] if self.lengths else 0

    def beyond(self, offset: int) -> int:
        """By when the log was longer than `offset`."""
        at = bisect_right(self.lengths, offset)
        return self.when[at] if at < len(self.when) else NEVER


Loose = tuple[int, int]
"""Size and call of a batch that may be in the log, anywhere."""
Pinned = tuple[int, int, int]
"""Base offset, size and call of one that is there, or nowhere."""
Moved = Mapping[tuple[int, int], int]
"""(size, offset) -> the earliest call of such batches that may be anywhere from the offset on."""


@attrs.frozen
class Batches:
    """What may fill holes."""

    loose: Sequence[Loose] = ()
    pinned: Sequence[Pinned] = ()
    moved: Moved = attrs.Factory(dict)
    free: frozenset[int] = frozenset()
    """Offsets whose known record a declared loss may have taken, so that another one may be there now."""


def widen(holes: Sequence[Hole], free: frozenset[int]) -> list[Hole]:
    """The holes with the `free` offsets around them, which a batch may take or not; those that meet are one."""
    wide: list[Hole] = []
    for hole in holes:
        first, limit = hole.start, hole.limit
        while first - 1 in free:
            first -= 1
        while limit in free:
            limit += 1
        if wide and wide[-1].limit >= first:
            wide[-1] = Hole(wide[-1].start, hole.stop, limit)
        else:
            wide.append(Hole(first, hole.stop, limit))
    return wide


def fill(holes: Sequence[Hole], batches: Batches, deadlines: Deadlines, limit: int) -> tuple[Filling, Hole | None]:
    """Fill the holes, one at least; if that fails, the first that stays open. Gives up after `limit` steps."""
    if batches.free:
        holes = widen(holes, batches.free)
    return _Search(deadlines, batches, limit).run(holes)


class _Search:
    """Depth first over the holes, from the lowest offset; remembers what failed."""

    def __init__(self, deadlines: Deadlines, batches: Batches, limit: int) -> None:
        self.free, self.moved = batches.free, batches.moved
        self.deadlines = deadlines
        self.pinned: dict[int, list[Loose]] = {}
        for offset, size, call in batches.pinned:
            self.pinned.setdefault(offset, []).append((size, call))
        calls: dict[int, list[int]] = {}
        for size, call in batches.loose:
            calls.setdefault(size, []).append(call)
        self.sizes = tuple(sorted(calls))
        self.calls = {size: sorted(calls[size]) for size in self.sizes}
        self.limit = limit
        self.places: dict[tuple[int, int], int] = {}

    def choices(self, hole: Hole, used: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Ways to fill the first offsets of `hole`: how many, and the unknown batches of each size used so far."""
        deadline = self.deadlines.beyond(hole.start)
        room = hole.limit - hole.start
        if hole.start in self.free:
            yield 1, used
        placed = {size for size, call in self.pinned.get(hole.start, ()) if call <= deadline}
        placed |= {size for (size, at), call in self.moved.items() if at <= hole.start and call <= deadline}
        for size in placed:
            if size <= room:
                yield size, used
        for number, size in enumerate(self.sizes):
            # All calls before this deadline are before the later ones too, so only their number matters.
            if size <= room and used[number] < bisect_right(self.calls[size], deadline):
                yield size, (*used[:number], used[number] + 1, *used[number + 1 :])

    def run(self, holes: Sequence[Hole]) -> tuple[Filling, Hole | None]:
        for hole in holes:
            stuck = self._stuck(hole)
            if stuck is not None:
                return Filling.IMPOSSIBLE, stuck
        # What batches with an offset of their own may hold, and where records may be lost, is left to the search.
        apart = self.pinned or self.free or self.moved
        late = None if apart else self._too_late(holes)
        if late is not None:
            return Filling.IMPOSSIBLE, late
        sets, needs = ((), [()] * (len(holes) + 1)) if apart else self._needs(holes)
        failed: set[tuple[int, int, tuple[int, ...]]] = set()
        deepest = (0, holes[0].start)
        stack: list[tuple[int, int, tuple[int, ...]]] = [(0, holes[0].start, (0,) * len(self.sizes))]
        steps = 0
        while stack:
            number, at, used = stack.pop()
            if at >= holes[number].stop:
                number += 1
                if number == len(holes):
                    return Filling.FILLED, None
                at = holes[number].start
            if (number, at, used) in failed:
                continue
            failed.add((number, at, used))
            deepest = max(deepest, (number, at))
            steps += 1
            if steps > self.limit:
                return Filling.UNDECIDED, None
            hole = attrs.evolve(holes[number], start=at)
            if sets and self._too_few(sets, needs[number + 1], hole, used):
                continue
            stack.extend((number, at + size, after) for size, after in self.choices(hole, used))
        return Filling.IMPOSSIBLE, attrs.evolve(holes[deepest[0]], start=deepest[1])

    def _stuck(self, hole: Hole) -> Hole | None:
        """None if the hole can be filled when it has all batches to itself, but for how often each size is there.

        Else the hole from the offset on beyond which no filling gets.
        """
        if not self.pinned and not self.free and not self.moved and not self._sums_up(hole):
            return hole
        if hole.stop - hole.start > self.limit:
            return None
        nobody = (0,) * len(self.sizes)
        reachable, furthest = {hole.start}, hole.start
        for at in range(hole.start, hole.stop):
            if at not in reachable:
                continue
            reachable.discard(at)
            furthest = at
            reachable.update(at + size for size, _ in self.choices(attrs.evolve(hole, start=at), nobody))
        return None if reachable else attrs.evolve(hole, start=furthest)

    def _too_late(self, holes: Sequence[Hole]) -> Hole | None:
        """The first hole by whose deadline the batches that were called have fewer records than the holes up to it."""
        calls = sorted((call, size) for size in self.sizes for call in self.calls[size])
        records = list(accumulate((size for _, size in calls), initial=0))
        needed = 0
        for hole in holes:
            needed += hole.stop - hole.start
            called = bisect_right(calls, (self.deadlines.beyond(hole.stop - 1), NEVER))
            if needed > records[called]:
                return hole
        return None

    def _sums_up(self, hole: Hole) -> bool:
        """Whether some of the batches called by the last deadline are together as long as the hole: a set of bits."""
        last = self.deadlines.beyond(hole.stop - 1)
        least = hole.stop - hole.start
        most = min(hole.limit - hole.start, least + (self.sizes[-1] if self.sizes else 0))
        sums, every = 1, (1 << most + 1) - 1
        for size in self.sizes:
            left, many = bisect_right(self.calls[size], last), 1
            while left:
                many = min(many, left)
                sums |= sums << many * size & every
                left -= many
                many *= 2
        return bool(sums >> least)

    def _usable(self, least: int, most: int) -> int:
        """Which sizes of batches have a place in a hole of `least` to `most` offsets, as bits by their number."""
        most = min(most, least + self.sizes[-1])
        if (least, most) not in self.places:
            sums, every = 1, (1 << most + 1) - 1
            for size in self.sizes:
                step = size
                while step <= most:
                    sums |= sums << step & every
                    step *= 2
            # With a batch of this size, the others fill the rest.
            fits = (size <= most and (sums & (1 << most - size + 1) - 1) >> max(0, least - size) for size in self.sizes)
            self.places[least, most] = sum(1 << number for number, one in enumerate(fits) if one)
        return self.places[least, most]

    def _needs(self, holes: Sequence[Hole]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
        """The sets of sizes that holes can use; and from each hole on how many offsets can only use those of each."""
        usable = [self._usable(hole.stop - hole.start, hole.limit - hole.start) for hole in holes]
        sets = tuple(sorted(set(usable)))
        after = [(0,) * len(sets)]
        for hole, mine in zip(reversed(holes), reversed(usable), strict=True):
            sums = zip(sets, after[-1], strict=True)
            after.append(tuple(need + (0 if mine & ~one else hole.stop - hole.start) for one, need in sums))
        return sets, after[::-1]

    def _too_few(self, sets: Sequence[int], later: Sequence[int], hole: Hole, used: Sequence[int]) -> bool:
        """Whether some holes need more records than the batches of all sizes that they can use have."""
        mine = self._usable(hole.stop - hole.start, hole.limit - hole.start)
        left = [size * (len(self.calls[size]) - number) for size, number in zip(self.sizes, used, strict=True)]
        for one, need in zip(sets, later, strict=True):
            need += 0 if mine & ~one else hole.stop - hole.start
            if need > sum(records for number, records in enumerate(left) if one >> number & 1):
                return True
        return False
