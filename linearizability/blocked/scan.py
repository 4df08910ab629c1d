"""The first look at a block: what is carried from block to block, and why a history may not be for blocks."""

from __future__ import annotations

import attrs
import numpy as np

from tidegauge.linearizability.arrays import lift, lower
from tidegauge.linearizability.blocked.parcels import least_of
from tidegauge.linearizability.groups.parts import with_groups
from tidegauge.linearizability.history import NEVER, UNKNOWN, Ints, Kind, Operations, Outcome
from tidegauge.linearizability.rows import Rows
from tidegauge.linearizability.transactions.table import with_transactions

Place = tuple[str, int]
"""A partition: its topic and number."""


@attrs.frozen(eq=False)
class Scanned:
    """What a block says of itself. Arrays without a word on their length have an item for each of `places`."""

    block: int
    rows: int
    first: int
    """The index of its first row."""
    last: int
    not_for_blocks: tuple[str, ...]
    """What the history has, in words, that blocks do not judge."""
    places: tuple[Place, ...]
    begins: Ints
    """The first row."""
    written: Ints
    """How many records were sent."""
    low: Ints
    """The smallest offset that a response mentions; NEVER where none does."""
    reached: Ints
    """The greatest length that is claimed; UNKNOWN where none is."""
    since: Ints
    """The call of the last declaration that the partition has settled; UNKNOWN where there is none."""
    settled_row: Ints
    """The first row that says so; −1 where none does."""
    lengths: tuple[Ints, Ints, Ints]
    """By when the log was known to reach into each run of offsets: the number in `places`, the run, and the time."""
    polls: bool
    """Whether a fetch asks for no offset."""
    has_records: bool
    has_fetches: bool


def scan(block: int, operations: Operations, run: int) -> Scanned:
    """Look at a block, whose rows are well formed and of one history. `run` is the bits of offsets in a run."""
    rows = Rows.of(operations)
    ops = rows.ops
    places, rows = by_place(rows)
    count = len(places)
    lows, reached = np.full(count, NEVER, np.int64), np.full(count, UNKNOWN, np.int64)
    row, length = claims(rows)
    lift(reached, rows.group[row], length)
    for mention, offset in mentions(rows):
        lower(lows, rows.group[mention], offset)
    into, when = least_of(rows.group[row] + (length >> run) * count, ops.returned[row])
    begins = np.full(count, len(ops), np.int64)
    begins[rows.group[::-1]] = np.arange(len(ops))[::-1]
    since, settled_row = _settled(rows, count)
    completed = ops.outcome == Outcome.OK
    fetches = ops.kind == Kind.FETCH
    return Scanned(
        block=block,
        rows=len(ops),
        first=int(ops.index[0]),
        last=int(ops.index[-1]),
        not_for_blocks=tuple(_not_for_blocks(rows)),
        places=places,
        begins=begins,
        written=np.bincount(rows.group[rows.produces], rows.counts[rows.produces], count).astype(np.int64),
        low=lows,
        reached=reached,
        since=since,
        settled_row=settled_row,
        lengths=(into % count, into // count, when),
        polls=bool((fetches & completed & (ops.offset == UNKNOWN)).any()),
        has_records=bool((ops.kind <= Kind.LIST_OFFSETS).any()),
        has_fetches=bool(fetches.any()),
    )


def by_place(rows: Rows) -> tuple[tuple[Place, ...], Rows]:
    """The partitions of a block in the order of their names, and the rows with their numbers in that order."""
    ops = rows.ops
    if rows.groups == 1:
        return ((ops.topics[ops.topic[0]], int(ops.partition[0])),), rows
    there, first = np.unique(rows.group, return_index=True)
    named = [(ops.topics[ops.topic[row]], int(ops.partition[row])) for row in first.tolist()]
    places = sorted(named)
    number = np.zeros(int(there[-1]) + 1, np.int64)
    rank = {place: at for at, place in enumerate(places)}
    number[there] = [rank[place] for place in named]
    return tuple(places), attrs.evolve(rows, group=number[rows.group], groups=len(places))


def claims(rows: Rows) -> tuple[Ints, Ints]:
    """The rows that say how long the log was at least, and how long."""
    ops, fetches, strong, lists = rows.ops, rows.fetches, rows.strong, rows.lists
    least = np.maximum(fetch_ends(rows), ops.high_watermark[fetches])
    says = least != UNKNOWN
    row = np.concatenate((strong, fetches[says], lists))
    return row, np.concatenate((ops.offset[strong] + rows.counts[strong], least[says], ops.offset[lists]))


def fetch_ends(rows: Rows) -> Ints:
    """After which offset each fetch ended; UNKNOWN for one that read nothing."""
    ops, fetches = rows.ops, rows.fetches
    counts = rows.counts[fetches]
    if ops.offsets is None:
        return np.where(counts > 0, ops.offset[fetches] + counts, UNKNOWN)
    end = np.full(len(fetches), UNKNOWN, np.int64)
    filled = np.flatnonzero(counts)
    end[filled] = ops.offsets[ops.starts[fetches[filled] + 1] - 1] + 1
    return end


def fetch_begins(rows: Rows) -> Ints:
    """The offset of the first record of each fetch; UNKNOWN for one that read nothing."""
    ops, fetches = rows.ops, rows.fetches
    filled = np.flatnonzero(rows.counts[fetches])
    begin = np.full(len(fetches), UNKNOWN, np.int64)
    begin[filled] = ops.offset[fetches[filled]] if ops.offsets is None else ops.offsets[ops.starts[fetches[filled]]]
    return begin


def mentions(rows: Rows) -> list[tuple[Ints, Ints]]:
    """The offsets that responses and requests mention: rows, and an offset of each."""
    ops = rows.ops
    found = [(rows.strong, ops.offset[rows.strong]), (rows.lists, ops.offset[rows.lists])]
    for offset in (ops.offset[rows.fetches], ops.high_watermark[rows.fetches], fetch_begins(rows)):
        there = offset != UNKNOWN
        found.append((rows.fetches[there], offset[there]))
    return found


def _settled(rows: Rows, count: int) -> tuple[Ints, Ints]:
    ops = rows.ops
    declared = np.flatnonzero(ops.kind == Kind.SETTLED)
    since, row = np.full(count, UNKNOWN, np.int64), np.full(count, -1, np.int64)
    lift(since, rows.group[declared], ops.call[declared])
    last = declared[ops.call[declared] == since[rows.group[declared]]][::-1]
    row[rows.group[last]] = last
    return since, row


def _not_for_blocks(rows: Rows) -> list[str]:
    """What the rows have that blocks do not judge."""
    ops = rows.ops
    found = []
    if (ops.kind == Kind.ELECTION).any():
        found.append("unclean elections")
    if with_groups(ops).any():
        found.append("groups")
    elif with_transactions(ops).any():
        found.append("transactions")
    elif (ops.kind > Kind.SETTLED).any():
        found.append("parts of transactions or groups")
    if (ops.index[1:] <= ops.index[:-1]).any():
        found.append("rows that are not in order of index")
    if ops.offsets is not None:
        responded = np.concatenate((rows.strong, rows.weak))
        records, _ = rows.records(responded)
        if (ops.offsets[records] == UNKNOWN).any():
            found.append("responses that give an offset to a part of a batch only")
    return found
