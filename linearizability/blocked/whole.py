"""What the looks at all blocks say together, and what of it is carried into each of them."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from tidegauge.linearizability.blocked.positions import Ended, told
from tidegauge.linearizability.blocked.scan import Place, Scanned, by_place
from tidegauge.linearizability.history import NEVER, UNKNOWN, Ints, Operations
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.rows import Rows


@attrs.frozen(eq=False)
class Sizes:
    """How the work is shared out."""

    run: int = 19
    """Bits of the offsets in a run: 2^19 of them are judged at a time."""
    buckets: int = 16
    """How many tasks values, batches and offsets are spread over."""
    evidence: int = 2_000_000
    """How many rows may break rules, holes be open, and so on, before all of them are left to one task."""

    @property
    def summary(self) -> int:
        """The number of the bucket of what is for the end."""
        return self.buckets

    @property
    def share(self) -> int:
        """How much of the evidence one task may send."""
        return max(1, self.evidence // 4)


@attrs.frozen(eq=False)
class Whole:
    """The history as a whole. Arrays without a word on their length have an item for each of `places`."""

    level: Level
    sizes: Sizes
    rows: int
    places: tuple[Place, ...]
    firsts: dict[int, int]
    """The number of the first row of each block."""
    begins: Ints
    written: Ints
    low: Ints
    reached: Ints
    since: Ints
    """From when on reads are trusted to see the end of the log; NEVER where nobody says so."""
    settled_rows: Ints
    """The first row that says so, −1 where none does."""
    run_keys: Ints
    """Runs of offsets into which the log is known to reach, as keys, rising (`key_of`)."""
    run_times: Ints
    """By when it was known to reach into each, or into a later one of its partition."""
    polls: bool
    has_records: bool
    has_fetches: bool
    ended: dict[int, Ended] = attrs.Factory(dict)
    """For each block where the clients had ended before it, if some go on from there."""

    @classmethod
    def of(cls, looks: Sequence[Scanned], level: Level, sizes: Sizes) -> Whole:
        """The history whose blocks were looked at, in their order."""
        places = tuple(sorted({place for look in looks for place in look.places}))
        number = {place: at for at, place in enumerate(places)}
        count = len(places)
        firsts, rows = {}, 0
        begins, low = np.full(count, NEVER, np.int64), np.full(count, NEVER, np.int64)
        written, reached = np.zeros(count, np.int64), np.full(count, UNKNOWN, np.int64)
        since, settled_rows = np.full(count, UNKNOWN, np.int64), np.full(count, -1, np.int64)
        keys, times = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for look in looks:
            firsts[look.block] = rows
            mine = np.array([number[place] for place in look.places], np.int64)
            begins[mine] = np.minimum(begins[mine], look.begins + rows)
            written[mine] += look.written
            low[mine], reached[mine] = np.minimum(low[mine], look.low), np.maximum(reached[mine], look.reached)
            later = look.since > since[mine]
            since[mine[later]], settled_rows[mine[later]] = look.since[later], look.settled_row[later] + rows
            place, run, when = look.lengths
            keys.append(key_of(mine[place], run))
            times.append(when)
            rows += look.rows
        since[since == UNKNOWN] = NEVER
        run_keys, run_times = _by_when(np.concatenate(keys), np.concatenate(times))
        return cls(
            level=level,
            sizes=sizes,
            rows=rows,
            places=places,
            firsts=firsts,
            begins=begins,
            written=written,
            low=low,
            reached=reached,
            since=since,
            settled_rows=settled_rows,
            run_keys=run_keys,
            run_times=run_times,
            polls=any(look.polls for look in looks),
            has_records=any(look.has_records for look in looks),
            has_fetches=any(look.has_fetches for look in looks),
        )

    def first(self, block: int) -> int:
        """The number in the history of the block's first row."""
        return self.firsts[block]

    def part(self, block: int, operations: Operations) -> Part:
        """The rows of a block as parts of the whole."""
        here, rows = by_place(Rows.of(operations))
        if here != self.places:
            number = {place: at for at, place in enumerate(self.places)}
            rows = attrs.evolve(rows, group=np.array([number[one] for one in here], np.int64)[rows.group])
        first = self.first(block)
        position, teller = told(rows, first, self.ended.get(block, Ended.nobody()))
        return Part(block, first, attrs.evolve(rows, groups=len(self.places), position=position), teller)

    def after(self, place: int, run: int) -> int:
        """By when the log was known to reach beyond a run of offsets."""
        at = int(np.searchsorted(self.run_keys, key_of(place, run), side="right"))
        if at == len(self.run_keys) or self.run_keys[at] >> _RUN_BITS != place:
            return NEVER
        return int(self.run_times[at])


@attrs.frozen(eq=False)
class Part:
    """The rows of a block, with the numbers of partitions and the positions that they have in the whole."""

    block: int
    first: int
    """The number in the history of its first row."""
    rows: Rows
    teller: Ints
    """Of each completed fetch the earlier one that tells where it began, by its number in the history; −1: none."""


_RUN_BITS = 44
"""A partition has less than 2^43 runs of offsets, some below 0, where a batch may be said to begin."""


def key_of(place: Ints | int, run: Ints | int) -> Ints:
    """One number for a partition and a run of its offsets, in order of both."""
    key: Ints = (np.asarray(place, np.int64) << _RUN_BITS) + (np.asarray(run, np.int64) + (1 << _RUN_BITS - 1))
    return key


def parts_of(keys: Ints) -> tuple[Ints, Ints]:
    """The partition and the run of each key."""
    place = keys >> _RUN_BITS
    return place, keys - (place << _RUN_BITS) - (1 << _RUN_BITS - 1)


def _by_when(keys: Ints, times: Ints) -> tuple[Ints, Ints]:
    """The keys, each once, rising, and for each the least time of it and the later ones of its partition."""
    found, which = np.unique(keys, return_inverse=True)
    least = np.full(len(found), NEVER, np.int64)
    np.minimum.at(least, which, times)
    places = found >> _RUN_BITS
    for start, stop in zip(*_bounds(places), strict=True):
        least[start:stop] = np.minimum.accumulate(least[start:stop][::-1])[::-1]
    return found, least


def _bounds(places: Ints) -> tuple[list[int], list[int]]:
    changes = np.flatnonzero(places[1:] != places[:-1]) + 1
    ends = [0] * bool(len(places)) + changes.tolist() + [len(places)] * bool(len(places))
    return ends[:-1], ends[1:]
