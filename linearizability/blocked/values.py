"""A bucket of values: all who wrote and read each of them are here (rule 1), and what of them must not be lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import numpy as np

from tidegauge.linearizability.arrays import value_slots
from tidegauge.linearizability.blocked.emit import (
    FAILED,
    PLACELESS,
    READ,
    STRONG,
    SUSPECTS,
    WEAK,
    WRITTEN,
    Pair,
    summed,
)
from tidegauge.linearizability.blocked.parcels import Columns, Parcel, kept, mixed, opened, scattered
from tidegauge.linearizability.blocked.whole import Whole
from tidegauge.linearizability.history import NEVER, UNKNOWN, Flags, Ints

REUSED, COVERED, UNPLACED = "reused", "covered", "unplaced"
OPEN = ("place", "row", "count", "call", "base")
"""A batch that may be in the log, but that nobody has read: its size, its call, and the only offset where it may be, or
UNKNOWN for anywhere."""
COUNTED = ("place", "records", "unconfirmed", "lowest")
"""How many records of a partition must not be lost, how many of them are not confirmed, and the lowest of those."""
HEAD = ("place", "row", "count", "call", "base", "state")
SIGHTING = ("row", "number", "begins", "reader", "at")
"""A record of a batch of several, as a fetch first read it: where its batch begins then, its number in the fetch."""


@attrs.frozen(eq=False)
class _Bucket:
    """Records that were sent and read, in order of rows, and their slots: a slot is a value of a partition."""

    written: Columns
    read: Columns
    slot: Ints
    """Of each record sent."""
    seen: Ints
    """Of each record read; one that no record sent has for values that nobody sent."""
    size: int

    @classmethod
    def of(cls, whole: Whole, parcels: Sequence[Parcel]) -> _Bucket:
        strong = opened(parcels, "written", WRITTEN)
        others = opened(parcels, "placeless", PLACELESS)
        blank = {name: np.full(len(strong["row"]), UNKNOWN, np.int64) for name in ("count", "base", "call")}
        written = {name: np.concatenate(((strong | blank)[name], others[name])) for name in PLACELESS}
        if len(others["row"]) and len(strong["row"]):
            written = kept(written, np.lexsort((written["number"], written["row"])))
        read = opened(parcels, "read", READ)
        slot, seen, size = value_slots(
            written["place"], written["value"], read["place"], read["value"], len(whole.places)
        )
        return cls(written, read, slot, seen, size)


def meet_values(whole: Whole, bucket: int, parcels: Sequence[Parcel]) -> Iterator[Pair]:
    """Find values that are wrong, place batches of one record, and count what must not be lost."""
    if bucket == whole.sizes.summary:
        yield from ((bucket, parcel) for parcel in parcels)
        return
    here = _Bucket.of(whole, parcels)
    written, read, slot, seen = here.written, here.read, here.slot, here.seen
    numbers = np.arange(len(slot))
    owner = np.full(here.size + 1, -1, np.int64)
    owner[slot] = numbers
    again = np.zeros(here.size + 1, np.bool_)
    again[slot[owner[slot] != numbers]] = True
    reused = again[slot]
    columns = {"place": written["place"][reused], "row": written["row"][reused]}
    yield from summed(whole, bucket, REUSED, columns)
    yield from _count(whole, bucket, here, owner)
    first = np.full(here.size + 1, -1, np.int64)
    first[seen[::-1]] = np.arange(len(seen))[::-1]
    first[here.size] = -1
    record = owner[seen]
    unwritten = _unwritten(here, np.flatnonzero(record < 0))
    yield from summed(whole, bucket, SUSPECTS, {"row": read["row"][unwritten]})
    for rows in _inconsistent(here, owner, first):
        yield from summed(whole, bucket, SUSPECTS, {"row": rows})
    # Where each record is for all, by its response or by the first who read it.
    place = written["at"].copy()
    sighted = first[slot]
    loose = (written["state"] != STRONG) & (sighted >= 0)
    place[loose] = read["at"][sighted[loose]]
    there = np.flatnonzero(record >= 0)
    elsewhere = there[read["at"][there] != place[record[there]]]
    yield from _odd(whole, bucket, here, np.concatenate((unwritten, elsewhere)), record)
    yield from _alone(whole, bucket, here, np.flatnonzero(written["count"] == 1), sighted)
    yield from _of_batches(whole, bucket, here, np.flatnonzero(written["count"] > 1), sighted)


def _unwritten(here: _Bucket, nowhere: Ints) -> Ints:
    """Of the records that nobody sent the first reading of each value at each offset."""
    if not len(nowhere):
        return nowhere
    keys = np.stack([here.read[name][nowhere] for name in ("place", "value", "at")], axis=1)
    _, first = np.unique(keys, axis=0, return_index=True)
    return nowhere[np.sort(first)]


def _inconsistent(here: _Bucket, owner: Ints, first: Ints) -> Iterator[Ints]:
    """Who proves that a produce that failed was read, or that a value is at two offsets."""
    written, read, slot, seen = here.written, here.read, here.slot, here.seen
    failed = np.flatnonzero((written["state"] == FAILED) & (first[slot] >= 0))
    yield written["row"][failed]
    yield read["row"][first[slot[failed]]]
    responded = ((written["state"] == STRONG) | (written["state"] == WEAK)) & (written["at"] != UNKNOWN)
    said = np.full(here.size + 1, UNKNOWN, np.int64)
    said[seen[::-1]] = read["at"][::-1]
    said[slot[responded]] = written["at"][responded]
    differs = np.flatnonzero((owner[seen] >= 0) & (read["at"] != said[seen]))
    values, second = np.unique(seen[differs], return_index=True)
    yield read["row"][differs[second]]
    yield written["row"][owner[values]]
    yield read["row"][first[values]]


def _odd(whole: Whole, bucket: int, here: _Bucket, odd: Ints, record: Ints) -> Iterator[Pair]:
    """Send each reading elsewhere than where its batch is to its offset, the first of each kind."""
    if not len(odd):
        return
    read, written = here.read, here.written
    mine = record[odd]
    known = mine >= 0
    columns = {
        "place": read["place"][odd],
        "at": read["at"][odd],
        "writer": np.where(known, written["row"][mine] if len(written["row"]) else -1, -1),
        "what": np.where(known, written["number"][mine] if len(written["row"]) else 0, read["value"][odd]),
        "row": read["row"][odd],
        "number": read["number"][odd],
    }
    keys = np.stack([columns[name] for name in ("place", "at", "writer", "what")], axis=1)
    _, first = np.unique(keys, axis=0, return_index=True)
    yield from scattered("odd", bucket, kept(columns, first), mixed(columns["at"][first], whole.sizes.buckets),
                         whole.sizes.buckets)  # fmt: skip


def _alone(whole: Whole, bucket: int, here: _Bucket, single: Ints, sighted: Ints) -> Iterator[Pair]:
    """Place batches of one record, or tell that nobody has."""
    written, read = here.written, here.read
    placed = single[sighted[single] >= 0]
    if len(placed):
        reader = sighted[placed]
        held = {
            "place": written["place"][placed],
            "base": read["at"][reader],
            "count": np.ones(len(placed), np.int64),
            "number": np.zeros(len(placed), np.int64),
            "row": written["row"][placed],
            "call": written["call"][placed],
            "witness": read["row"][reader],
        }
        yield from scattered("held", bucket, held, mixed(held["base"], whole.sizes.buckets), whole.sizes.buckets)
    unplaced = single[(sighted[single] < 0) & (written["state"][single] != FAILED)]
    yield from summed(whole, bucket, UNPLACED, {name: written[name][unplaced] for name in OPEN})


def _of_batches(whole: Whole, bucket: int, here: _Bucket, records: Ints, sighted: Ints) -> Iterator[Pair]:
    """Send batches of several records, and who read them first, to meet by their row."""
    written, read = here.written, here.read
    buckets = whole.sizes.buckets
    heads = records[written["number"][records] == 0]
    head = {name: written[name][heads] for name in HEAD}
    yield from scattered("head", bucket, head, mixed(head["row"], buckets), buckets)
    seen = records[sighted[records] >= 0]
    reader = sighted[seen]
    sightings = {
        "row": written["row"][seen],
        "number": written["number"][seen],
        "begins": read["at"][reader] - written["number"][seen],
        "reader": read["row"][reader],
        "at": read["number"][reader],
    }
    yield from scattered("sighting", bucket, sightings, mixed(sightings["row"], buckets), buckets)


def _count(whole: Whole, bucket: int, here: _Bucket, owner: Ints) -> Iterator[Pair]:
    """How many records must not be lost, and how many of them are not confirmed, as in `coverage`."""
    written, read, slot, seen = here.written, here.read, here.slot, here.seen
    must = np.zeros(here.size + 1, np.bool_)
    must[slot] = written["state"] == STRONG
    must[seen] = True
    counted = np.flatnonzero(must[slot] & (owner[slot] == np.arange(len(slot))))
    confirmed = np.zeros(here.size + 1, np.bool_)
    confirmed[seen[read["late"] == 1]] = True
    low = np.full(here.size + 1, NEVER, np.int64)
    strong: Flags = written["state"] == STRONG
    np.minimum.at(low, slot[strong], written["at"][strong])
    np.minimum.at(low, seen, read["at"])
    left_open = counted[~confirmed[slot[counted]]]
    # A value that was sent twice is counted as the later record, and its lowest offset is that of any.
    lost = np.flatnonzero(~confirmed[slot] & (low[slot] != NEVER))
    there = np.unique(written["place"][np.concatenate((counted, lost))])
    lowest = np.full(len(there), NEVER, np.int64)
    np.minimum.at(lowest, np.searchsorted(there, written["place"][lost]), low[slot[lost]])
    of = [np.searchsorted(there, written["place"][rows]) for rows in (counted, left_open)]
    columns = {
        "place": there,
        "records": np.bincount(of[0], minlength=len(there)),
        "unconfirmed": np.bincount(of[1], minlength=len(there)),
        "lowest": lowest,
    }
    if len(there):
        yield whole.sizes.summary, Parcel.of(COVERED, bucket, columns)
