"""A bucket of runs of offsets: how long the log was by when (rule 2), and what holds each offset (rules 1 and 3).

By when the log was as long as a length is a minimum over all claims of that length or more. Of the later runs it comes
as one number (`Whole.after`), so that each run is judged by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import numpy as np

from tidegauge.linearizability.arrays import runs, spread
from tidegauge.linearizability.blocked.emit import BOUND, CLAIM, HELD, ODD, SUSPECTS, Pair, summed
from tidegauge.linearizability.blocked.parcels import Columns, Parcel, kept, opened
from tidegauge.linearizability.blocked.whole import Whole, key_of, parts_of
from tidegauge.linearizability.history import NEVER, Ints

BEYOND, HOLES, RUNS, ABOVE, HOLDERS = "beyond", "holes", "runs", "above", "holders"
HOLE = ("place", "offset", "by")
"""An offset that nobody is known to hold, and by when the log was known to be longer than it."""
RUN = ("place", "run", "by")
"""A run of offsets that was judged, and by when the log was known to reach its first one, or beyond."""
OUTSIDE = ("place", "offset")
"""The lowest offset that is held beyond all claims on the length of the log."""
HOLDER = ("passed", "offset", "row", "witness")
"""For a fetch that passed over offsets, by its number, the first of them that is held, and who holds it."""


@attrs.frozen(eq=False)
class Passes:
    """Offsets that fetches passed over: of each the partition, the first one, and the one after the last."""

    place: Ints
    start: Ints
    stop: Ints


@attrs.frozen(eq=False)
class _Run:
    """One run of offsets of a partition."""

    place: int
    number: int
    held: Columns
    odd: Columns
    bounds: Columns
    claims: Columns


def meet_offsets(whole: Whole, bucket: int, parcels: Sequence[Parcel]) -> Iterator[Pair]:
    """Find what breaks a rule about lengths or offsets, and the holes."""
    if bucket == whole.sizes.summary:
        yield from ((bucket, parcel) for parcel in parcels)
        return
    for run in _runs(whole, parcels):
        low, high = _extent(whole, run)
        by = _reached(whole, run, low, high)
        yield from _beyond(whole, bucket, run, by, low)
        yield from _hold(whole, bucket, run, by, low)


def holders(whole: Whole, passes: Passes, bucket: int, parcels: Sequence[Parcel]) -> Iterator[Pair]:
    """For each of the passes the first offset of a run that somebody holds, and who does."""
    if bucket == whole.sizes.summary:
        return
    size = 1 << whole.sizes.run
    for run in _runs(whole, parcels):
        start = run.number << whole.sizes.run
        over = np.flatnonzero((passes.place == run.place) & (passes.start < start + size) & (passes.stop > start))
        for number in over.tolist():
            found = _first_holders(run, int(passes.start[number]), int(passes.stop[number]))
            if found is None:
                continue
            offset, row, witness = found
            same = np.full(len(row), number, np.int64)
            columns = {"passed": same, "offset": same * 0 + offset, "row": row, "witness": witness}
            yield whole.sizes.summary, Parcel.of(HOLDERS, bucket, columns)


def _first_holders(run: _Run, start: int, stop: int) -> tuple[int, Ints, Ints] | None:
    held, odd = run.held, run.odd
    begin = np.maximum(held["base"], start)
    over = np.flatnonzero((begin < stop) & (held["base"] + held["count"] > begin))
    others = np.flatnonzero((odd["at"] >= start) & (odd["at"] < stop))
    if not len(over) and not len(others):
        return None
    offset = int(min(begin[over].min(initial=NEVER), odd["at"][others].min(initial=NEVER)))
    over, others = over[begin[over] == offset], others[odd["at"][others] == offset]
    row = np.concatenate((held["row"][over], odd["row"][others]))
    return offset, row, np.concatenate((held["witness"][over], odd["writer"][others]))


def _runs(whole: Whole, parcels: Sequence[Parcel]) -> Iterator[_Run]:
    """The runs of offsets of a bucket, one after the other."""
    bits = whole.sizes.run
    kinds = (("held", HELD, "base"), ("odd", ODD, "at"), ("bound", BOUND, "most"), ("claim", CLAIM, "least"))
    columns, keys = [], []
    for kind, names, offset in kinds:
        found = opened(parcels, kind, names)
        key = key_of(found["place"], found[offset] >> bits)
        order = np.argsort(key, kind="stable")
        columns.append(kept(found, order))
        keys.append(key[order])
    for key in np.unique(np.concatenate(keys)).tolist():
        place, number = parts_of(np.array([key], np.int64))
        here = []
        for found, sorted_keys in zip(columns, keys, strict=True):
            start, stop = np.searchsorted(sorted_keys, [key, key + 1])
            here.append({name: column[start:stop] for name, column in found.items()})
        yield _Run(int(place[0]), int(number[0]), *here)


def _extent(whole: Whole, run: _Run) -> tuple[int, int]:
    """The offsets of a run of which something is said, or that the log is known to have."""
    first, size = run.number << whole.sizes.run, 1 << whole.sizes.run
    low = max(first, min(int(whole.low[run.place]), int(run.held["base"].min(initial=NEVER))))
    high = min(first + size, int(whole.reached[run.place]))
    for column in (run.odd["at"], run.bounds["most"], run.claims["least"], run.held["base"]):
        if len(column):
            low, high = min(low, int(column.min())), max(high, int(column.max()) + 1)
    high = max(high, int((run.held["base"] + run.held["count"]).max(initial=low)))
    return low, max(low, high)


def _reached(whole: Whole, run: _Run, low: int, high: int) -> Ints:
    """By when the log was known to have each length from `low` to `high`; at the end, longer than all of the run."""
    by = np.full(high - low + 1, NEVER, np.int64)
    by[-1] = whole.after(run.place, run.number)
    np.minimum.at(by, run.claims["least"] - low, run.claims["by"])
    return np.minimum.accumulate(by[::-1])[::-1]


def _beyond(whole: Whole, bucket: int, run: _Run, by: Ints, low: int) -> Iterator[Pair]:
    """The rows that were called after the log had outgrown their bound."""
    held = run.held
    says = held["call"] >= 0
    most = np.concatenate((held["base"][says], run.bounds["most"]))
    call = np.concatenate((held["call"][says], run.bounds["call"]))
    row = np.concatenate((held["row"][says], run.bounds["row"]))
    witness = np.concatenate((held["witness"][says], np.full(len(run.bounds["row"]), -1, np.int64)))
    late = by[most - low + 1] < call
    same = np.full(int(late.sum()), run.place, np.int64)
    columns = {"place": same, "most": most[late], "call": call[late], "row": row[late]}
    yield from summed(whole, bucket, BEYOND, columns)
    yield from _suspect(whole, bucket, witness[late])


def _suspect(whole: Whole, bucket: int, rows: Ints) -> Iterator[Pair]:
    yield from summed(whole, bucket, SUSPECTS, {"row": np.unique(rows[rows >= 0])})


def _hold(whole: Whole, bucket: int, run: _Run, by: Ints, low: int) -> Iterator[Pair]:
    """Offsets that two say to hold different values, and offsets that nobody holds."""
    held, odd = run.held, run.odd
    numbers = np.arange(len(held["base"]))
    slots = runs(held["base"] - low, held["count"])
    which = spread(numbers, held["count"])
    holder = np.full(len(by), -1, np.int64)
    holder[slots] = which
    contested = np.zeros(len(by), np.bool_)
    contested[slots[holder[slots] != which]] = True
    contested |= _contested_by_readers(run, holder, low)
    if contested.any():
        mine = np.unique(which[contested[slots]])
        yield from _suspect(whole, bucket, np.concatenate((held["row"][mine], held["witness"][mine])))
        theirs = contested[odd["at"] - low]
        yield from _suspect(whole, bucket, np.concatenate((odd["row"][theirs], odd["writer"][theirs])))
    holder[odd["at"] - low] = 0
    first = run.number << whole.sizes.run
    begin = max(first, min(int(whole.low[run.place]), low + len(by)))
    end = min(first + (1 << whole.sizes.run), int(whole.reached[run.place]))
    hole = np.flatnonzero(holder[max(begin - low, 0) : max(end - low, 0)] < 0) + max(begin, low)
    same = np.full(len(hole), run.place, np.int64)
    yield from summed(whole, bucket, HOLES, {"place": same, "offset": hole, "by": by[hole - low + 1]})
    judged = {"place": np.array([run.place]), "run": np.array([run.number]), "by": by[:1]}
    yield whole.sizes.summary, Parcel.of(RUNS, bucket, judged)
    above = np.flatnonzero(holder >= 0) + low
    above = above[above >= int(whole.reached[run.place])]
    if len(above):
        yield whole.sizes.summary, Parcel.of(ABOVE, bucket, {"place": np.array([run.place]), "offset": above[:1]})


def _contested_by_readers(run: _Run, holder: Ints, low: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Offsets where somebody has read what is not there for others."""
    held, odd = run.held, run.odd
    contested = np.zeros(len(holder), np.bool_)
    if not len(odd["at"]):
        return contested
    slot = odd["at"] - low
    there = np.flatnonzero(holder[slot] >= 0)
    by = holder[slot[there]]
    number = held["number"][by] + odd["at"][there] - held["base"][by]
    same = (held["row"][by] == odd["writer"][there]) & (number == odd["what"][there])
    contested[slot[there[~same]]] = True
    # Those that nobody else holds may disagree among themselves.
    order = np.lexsort((odd["what"], odd["writer"], slot))
    a, b = order[:-1], order[1:]
    differ = (odd["writer"][a] != odd["writer"][b]) | (odd["what"][a] != odd["what"][b])
    contested[slot[b[(slot[a] == slot[b]) & differ]]] = True
    return contested
