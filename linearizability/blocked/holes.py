"""Offsets that nobody is known to hold, and the batches that nobody has placed: may these fill those?

First the simple way of `log`, which tells most: then nothing is wrong. Else the search of `holes`, which tells all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import numpy as np

from tidegauge.linearizability.arrays import expand
from tidegauge.linearizability.blocked.offsets import ABOVE, HOLE, HOLES, OUTSIDE, RUN, RUNS
from tidegauge.linearizability.blocked.parcels import Columns, Parcel, kept, opened
from tidegauge.linearizability.blocked.values import OPEN, UNPLACED
from tidegauge.linearizability.blocked.whole import Whole
from tidegauge.linearizability.findings.holes import fill_with_single_records
from tidegauge.linearizability.history import NEVER, UNKNOWN, Ints
from tidegauge.linearizability.holes import Batches, Deadlines, Filling, Hole, fill


@attrs.frozen(eq=False)
class Holed:
    """A partition with holes: each run of them, and the batches that may be in the log."""

    place: int
    starts: Ints
    stops: Ints
    above: int
    """The first offset that is held beyond all claims on the length of the log; NEVER where none is."""
    offsets: Ints
    """Each hole, unless there are more than records for them."""
    by: Ints
    """By when the log was known to be longer than each of them."""
    loose: Columns
    log_start: int
    """The smallest offset that a response mentions: a batch that begins below it holds it."""
    soonest: int
    """The earliest return of a claim."""
    end: int

    @property
    def is_too_long(self) -> bool:
        """Whether there are more holes than records for them."""
        return bool((self.stops - self.starts).sum() > self.loose["count"].sum())

    @property
    def is_plain(self) -> bool:
        """Whether the k-th record that may be anywhere fills the k-th hole, after those that may be at one offset."""
        if self.is_too_long:
            return False
        pinned = self.loose["base"] != UNKNOWN
        there, anywhere = kept(self.loose, pinned), kept(self.loose, ~pinned)
        filled = np.zeros(len(self.offsets), np.bool_)
        records = expand(there["base"], there["count"])
        at = np.minimum(np.searchsorted(self.offsets, records), len(self.offsets) - 1)
        which = np.repeat(np.arange(len(there["row"])), there["count"])
        fits = (self.offsets[at] == records) & (there["call"][which] <= self.by[at])
        whole = np.bincount(which[fits], minlength=len(there["row"])) == there["count"]
        if not whole[there["count"] > 1].all() or (anywhere["count"] > 1).any():
            return False
        filled[at[fits]] = True
        # Two that fill a hole are one too many; one of several records then lacks a part of its place.
        if (np.bincount(at[fits], minlength=1) > 1).any() and (there["count"] > 1).any():
            return False
        left = self.by[~filled]
        calls = np.sort(anywhere["call"])
        return len(calls) >= len(left) and bool((calls[: len(left)] <= left).all())

    def fill(self, steps: int) -> tuple[Filling, Hole | None]:
        """Fill the holes; if that fails, the first that stays open. Gives up after `steps` steps."""
        limits = np.where(self.stops < self.end, self.stops, self.above)
        loose = kept(self.loose, np.argsort(self.loose["row"], kind="stable"))
        if self.is_too_long:
            longest = int(np.argmax(self.stops - self.starts))
            return Filling.IMPOSSIBLE, Hole(int(self.starts[longest]), int(self.stops[longest]), int(limits[longest]))
        lengths = np.concatenate(([self.log_start], self.offsets + 1))
        when = np.concatenate(([self.soonest], self.by))
        pinned = loose["base"] != UNKNOWN
        if not pinned.any() and (loose["count"] == 1).all():
            calls = np.sort(loose["call"])
            return fill_with_single_records(self.starts, self.stops, limits, calls, lengths, when)
        free: frozenset[int] = frozenset()
        if int(self.starts[0]) == self.log_start:
            # A batch may begin below the smallest offset that anybody mentions, and reach over it.
            free = frozenset(range(max(0, self.log_start - int(loose["count"].max()) + 1), self.log_start))
        there, anywhere = kept(loose, pinned), kept(loose, ~pinned)
        batches = Batches(
            loose=list(zip(anywhere["count"].tolist(), anywhere["call"].tolist(), strict=True)),
            pinned=list(zip(*(there[name].tolist() for name in ("base", "count", "call")), strict=True)),
            free=free,
        )
        holes = [Hole(*one) for one in zip(self.starts.tolist(), self.stops.tolist(), limits.tolist(), strict=True)]
        return fill(holes, batches, Deadlines(lengths.tolist(), when.tolist()), steps)


def holed(whole: Whole, parcels: Sequence[Parcel]) -> Iterator[Holed]:
    """The partitions that have holes."""
    holes, runs, open_batches = (
        opened(parcels, HOLES, HOLE),
        opened(parcels, RUNS, RUN),
        opened(parcels, UNPLACED, OPEN),
    )
    above = opened(parcels, ABOVE, OUTSIDE)
    for place in range(len(whole.places)):
        low, end = int(whole.low[place]), int(whole.reached[place])
        if low >= end:
            continue
        mine = kept(holes, holes["place"] == place)
        mine = kept(mine, np.argsort(mine["offset"], kind="stable"))
        gaps = _gaps(whole, place, np.sort(runs["run"][runs["place"] == place]))
        if not len(mine["offset"]) and not len(gaps):
            continue
        cuts = np.flatnonzero(np.diff(mine["offset"]) != 1) + 1
        starts = mine["offset"][np.concatenate(([0], cuts))] if len(mine["offset"]) else mine["offset"]
        stops = mine["offset"][np.append(cuts, len(mine["offset"])) - 1] + 1 if len(mine["offset"]) else starts
        starts, stops = _joined(np.append(starts, gaps[:, 0]), np.append(stops, gaps[:, 1]))
        loose = kept(open_batches, open_batches["place"] == place)
        if len(gaps) and (stops - starts).sum() <= loose["count"].sum():
            mine = _with_gaps(whole, place, mine, gaps)
        yield Holed(
            place=place,
            starts=starts,
            stops=stops,
            above=int(above["offset"][above["place"] == place].min(initial=NEVER)),
            offsets=mine["offset"],
            by=mine["by"],
            loose=loose,
            log_start=low,
            soonest=whole.after(place, -1 << 40),
            end=end,
        )


def _gaps(whole: Whole, place: int, judged: Ints) -> Ints:
    """The offsets of runs that nobody judged, since nobody says anything of them: first, and one after the last."""
    bits, low, end = whole.sizes.run, int(whole.low[place]), int(whole.reached[place])
    first = np.append(judged, (end - 1 >> bits) + 1)
    before = np.append((low >> bits) - 1, judged)
    missing = np.flatnonzero(first > before + 1)
    starts = np.maximum(before[missing] + 1 << bits, low)
    stops = np.minimum(first[missing] << bits, end)
    gaps: Ints = np.stack((starts, stops), axis=1)[starts < stops]
    return gaps


def _joined(starts: Ints, stops: Ints) -> tuple[Ints, Ints]:
    """Runs of holes in order, those that meet as one."""
    order = np.argsort(starts, kind="stable")
    starts, stops = starts[order], stops[order]
    apart = starts[1:] > stops[:-1]
    return starts[np.append(True, apart)], stops[np.append(apart, True)]


def _with_gaps(whole: Whole, place: int, holes: Columns, gaps: Ints) -> Columns:
    """The holes with those of the gaps, of which there are no more than records for them."""
    offsets = expand(gaps[:, 0], gaps[:, 1] - gaps[:, 0])
    by = np.array([whole.after(place, int(offset) >> whole.sizes.run) for offset in offsets.tolist()], np.int64)
    both = {"offset": np.append(holes["offset"], offsets), "by": np.append(holes["by"], by)}
    return kept(both, np.argsort(both["offset"], kind="stable"))
