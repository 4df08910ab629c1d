"""What a block sends: each record to the bucket of its value, each claim on lengths to the bucket of its offset.

To the summary goes what the rows of a block show by themselves: fetches that skip, step back, begin elsewhere than they
should or read beyond their high watermark, and responses with gaps.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tidegauge.linearizability.blocked.parcels import Columns, Parcel, kept, mixed, scattered
from tidegauge.linearizability.blocked.scan import claims, fetch_begins, fetch_ends
from tidegauge.linearizability.blocked.whole import Part, Whole, key_of
from tidegauge.linearizability.history import NEVER, UNKNOWN, Ints
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.rows import Rows

Pair = tuple[int, Parcel]

STRONG, WEAK, LOOSE, FAILED = range(4)
"""What is known of a produce: it must not be lost, may be lost, may be anywhere, did not happen."""
WRITTEN = ("place", "value", "row", "number", "at", "state")
"""Of a record that was sent: its partition, value and row, its number in the batch, and its offset if that was told."""
PLACELESS = (*WRITTEN, "count", "base", "call")
"""Of a record that was sent: its partition, value and row, its number in the batch, and the offset if it was told."""
READ = ("place", "value", "row", "number", "at", "late")
"""Of a record that was read: partition, value, row, its number there, offset, and whether that was late enough."""
HELD = ("place", "base", "count", "number", "row", "call", "witness")
"""Of records at neighbouring offsets: the first offset, how many, the number of the first in its batch, the batch's
row, its call if it says how long the log was (else −1), and a fetch without which nobody knows of them (or −1)."""
ODD = ("place", "at", "writer", "what", "row", "number")
"""Of a record that was read where its batch is not: its offset, produce (or −1), number in the batch (or value), the
fetch, and its number there."""
BOUND = ("place", "most", "call", "row")
"""A row that says that the log was at most so long."""
CLAIM = ("place", "least", "by")
"""The log was at least so long by that time."""
PASSED = ("place", "start", "stop")
"""Offsets that a fetch passed over."""
SHOWN = ("place", "end")

SUSPECTS, PASSES, LATE, NOWHERE = "suspects", "passes", "late", "nowhere"
TOO_MANY = "too many"
"""Begins the kind of a parcel that stands for another, which would have had too many rows."""


def emit_records(whole: Whole, part: Part) -> Iterator[Pair]:
    """The records of a block by value, and what its rows show by themselves."""
    rows, ops = part.rows, part.rows.ops
    buckets = whole.sizes.buckets
    wrote, writer = rows.written
    state = np.full(len(ops), LOOSE, np.int64)
    state[rows.strong], state[rows.weak], state[rows.failed] = STRONG, WEAK, FAILED
    at = _offsets(rows, wrote, writer)
    written: Columns = {
        "place": rows.group[writer],
        "value": ops.values[wrote],
        "row": writer + part.first,
        "number": wrote - ops.starts[writer],
        "at": at,
        "state": state[writer],
    }
    strong = written["state"] == STRONG
    yield from scattered("written", part.block, *_to(kept(written, strong), buckets), buckets)
    others = writer[~strong]
    placeless = kept(written, ~strong) | {
        "count": rows.counts[others],
        "base": np.where(written["state"][~strong] == WEAK, ops.offset[others], UNKNOWN),
        "call": ops.call[others],
    }
    yield from scattered("placeless", part.block, *_to(placeless, buckets), buckets)
    read, reader = rows.read
    seen: Columns = {
        "place": rows.group[reader],
        "value": ops.values[read],
        "row": reader + part.first,
        "number": read - ops.starts[reader],
        "at": _offsets(rows, read, reader),
        "late": (ops.call[reader] >= whole.since[rows.group[reader]]).astype(np.int64),
    }
    yield from scattered("read", part.block, *_to(seen, buckets), buckets)
    for kind, columns in _by_themselves(whole, part):
        yield from summed(whole, part.block, kind, columns)


def _to(columns: Columns, buckets: int) -> tuple[Columns, Ints]:
    """The columns, and the bucket of each value: neighbouring values are in one."""
    return columns, mixed((columns["value"] >> 10) + (columns["place"] << 40), buckets)


def _offsets(rows: Rows, records: Ints, row: Ints) -> Ints:
    """The offsets of some records, UNKNOWN where nobody was told."""
    ops = rows.ops
    if ops.offsets is not None:
        return ops.offsets[records]
    base = ops.offset[row]
    return np.where(base == UNKNOWN, UNKNOWN, base + (records - ops.starts[row]))


def summed(whole: Whole, sender: int, kind: str, columns: Columns) -> Iterator[Pair]:
    """Columns for the summary, if there are any rows; or that there are too many."""
    length = len(next(iter(columns.values())))
    if length > whole.sizes.share:
        kind, columns = f"{TOO_MANY} {kind}", {"rows": np.array([length], np.int64)}
    if length:
        yield whole.sizes.summary, Parcel.of(kind, sender, columns)


def _by_themselves(whole: Whole, part: Part) -> Iterator[tuple[str, Columns]]:
    rows, ops = part.rows, part.rows.ops
    fetches, lists = rows.fetches, rows.lists
    begin, end, expected = fetch_begins(rows), fetch_ends(rows), rows.position
    mark = ops.high_watermark[fetches]
    wrong = (end != UNKNOWN) & (mark != UNKNOWN) & (end > mark)
    asked = (begin != UNKNOWN) & (expected != UNKNOWN)
    wrong |= asked & (begin != expected)
    told = np.flatnonzero(asked & (begin != expected) & (part.teller >= 0))
    yield SUSPECTS, {"row": part.teller[told]}
    above = np.flatnonzero(asked & (begin > expected))
    yield PASSES, {"place": rows.group[fetches[above]], "start": expected[above], "stop": begin[above]}
    if ops.offsets is not None:
        yield from _gaps(part)
    yield SUSPECTS, {"row": fetches[wrong] + part.first}
    nowhere = int((expected == UNKNOWN).sum())
    yield NOWHERE, {"rows": np.array([nowhere] * bool(nowhere), np.int64)}
    shown = np.concatenate((np.maximum(end, mark), ops.offset[lists]))
    reads = np.concatenate((fetches, lists))
    late = (ops.call[reads] >= whole.since[rows.group[reads]]) & (shown != UNKNOWN)
    ends = np.full(len(whole.places), UNKNOWN, np.int64)
    np.maximum.at(ends, rows.group[reads[late]], shown[late])
    there = np.flatnonzero(ends != UNKNOWN)
    yield LATE, {"place": there, "end": ends[there]}


def _gaps(part: Part) -> Iterator[tuple[str, Columns]]:
    """Rows whose records are not at neighbouring offsets, and responses with another offset than their first record."""
    rows, ops = part.rows, part.rows.ops
    assert ops.offsets is not None
    torn = np.zeros(len(ops), np.bool_)
    torn[torn_responses(rows)] = True
    read, reader = rows.read
    step = np.where(reader[1:] == reader[:-1], np.diff(ops.offsets[read]), 1)
    torn[reader[1:][step != 1]] = True
    yield SUSPECTS, {"row": np.flatnonzero(torn) + part.first}
    gap = np.flatnonzero(step > 1)
    start, stop = ops.offsets[read[gap]] + 1, ops.offsets[read[gap + 1]]
    yield PASSES, {"place": rows.group[reader[gap]], "start": start, "stop": stop}


def torn_responses(rows: Rows) -> Ints:
    """The acknowledged produces whose offsets are not those from the one of the response on."""
    ops = rows.ops
    if ops.offsets is None:
        return np.zeros(0, np.int64)
    responded = np.concatenate((rows.strong, rows.weak))
    wrote, writer = rows.records(responded)
    wrong = writer[ops.offsets[wrote] != ops.offset[writer] + (wrote - ops.starts[writer])]
    return np.unique(wrong)


def emit_lengths(whole: Whole, part: Part) -> Iterator[Pair]:
    """What the rows of a block say of the length of the log, and where responses put records, by offset."""
    rows, ops = part.rows, part.rows.ops
    row, least = claims(rows)
    claimed: Columns = {"place": rows.group[row], "least": least, "by": ops.returned[row]}
    yield from by_offset(whole, part.block, "claim", _strongest(claimed), "least")
    torn = torn_responses(rows)
    strong = rows.strong if not len(torn) else np.setdiff1d(rows.strong, torn, assume_unique=True)
    held: Columns = {
        "place": rows.group[strong],
        "base": ops.offset[strong],
        "count": rows.counts[strong],
        "number": np.zeros(len(strong), np.int64),
        "row": strong + part.first,
        "call": ops.call[strong],
        "witness": np.full(len(strong), -1, np.int64),
    }
    yield from by_runs(whole, part.block, "held", held)
    torn = torn[np.isin(torn, rows.strong)]
    wrote, writer = rows.records(torn)
    if len(torn):
        yield from by_offset(whole, part.block, "held", _one_by_one(part, wrote, writer), "base")
    bounds: Columns = {"place": rows.group[torn], "most": ops.offset[torn], "call": ops.call[torn], "row": torn}
    reads, most = _short_reads(whole, part)
    shorter = {"place": rows.group[reads], "most": most, "call": ops.call[reads], "row": reads}
    both = {name: np.concatenate((bounds[name], shorter[name])) for name in BOUND}
    both["row"] += part.first
    yield from by_offset(whole, part.block, "bound", both, "most")


def _strongest(claimed: Columns) -> Columns:
    """The claims of a block without those that a longer one of no later time covers: readers repeat each other."""
    place, least, by = (claimed[name] for name in CLAIM)
    if not len(least) or place[0] != place[-1] or (place != place[0]).any():
        return claimed
    low, high = int(least.min()), int(least.max())
    if high - low > 8 * len(least):
        return claimed
    soonest = np.full(high - low + 1, NEVER, np.int64)
    np.minimum.at(soonest, least - low, by)
    later: Ints = np.minimum.accumulate(soonest[::-1])[::-1]
    stays = np.flatnonzero((soonest < np.append(later[1:], NEVER)) & (soonest != NEVER))
    return {"place": np.full(len(stays), place[0]), "least": stays + low, "by": soonest[stays]}


def _one_by_one(part: Part, wrote: Ints, writer: Ints) -> Columns:
    ops = part.rows.ops
    assert ops.offsets is not None
    single = np.ones(len(wrote), np.int64)
    return {
        "place": part.rows.group[writer],
        "base": ops.offsets[wrote],
        "count": single,
        "number": wrote - ops.starts[writer],
        "row": writer + part.first,
        "call": -single,
        "witness": -single,
    }


def _short_reads(whole: Whole, part: Part) -> tuple[Ints, Ints]:
    """The reads that say how long the log was at most, and how long."""
    rows, ops = part.rows, part.rows.ops
    reads = np.concatenate((rows.fetches, rows.lists))
    mark, counts = ops.high_watermark[rows.fetches], rows.counts[rows.fetches]
    short = np.where(mark >= 0, mark, np.where(counts > 0, UNKNOWN, rows.position))
    most = np.concatenate((short, ops.offset[rows.lists]))
    counted = most != UNKNOWN
    if whole.level is Level.KAFKA:
        counted &= (ops.call[reads] >= whole.since[rows.group[reads]]) & (whole.since[rows.group[reads]] != NEVER)
    return reads[counted], most[counted]


def by_offset(whole: Whole, sender: int, kind: str, columns: Columns, name: str) -> Iterator[Pair]:
    """Columns by the run of the offset that is called `name`."""
    keys = key_of(columns["place"], columns[name] >> whole.sizes.run)
    yield from scattered(kind, sender, columns, mixed(keys, whole.sizes.buckets), whole.sizes.buckets)


def by_runs(whole: Whole, sender: int, kind: str, held: Columns) -> Iterator[Pair]:
    """Records at neighbouring offsets, cut where a run of offsets ends. The first piece tells how long the log was."""
    run = whole.sizes.run
    while len(held["base"]):
        end = held["base"] + held["count"]
        cut = np.minimum(end, (held["base"] >> run) + 1 << run)
        fits = cut - held["base"]
        yield from by_offset(whole, sender, kind, held | {"count": fits}, "base")
        more = np.flatnonzero(cut < end)
        held = kept(held, more)
        step = fits[more]
        held |= {
            "base": held["base"] + step,
            "count": held["count"] - step,
            "number": held["number"] + step,
            "call": np.full(len(more), -1, np.int64),
        }
