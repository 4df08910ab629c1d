"""The rows on which the finders find what they would find in all rows of a history.

Those that break a rule are named by row; the finders look up others for them: who wrote the values of these rows, and
who read each last; which claim on the length of the log was the strongest before a row was called; what
is held at offsets that a fetch passed over. Fetches that come in so bring those who wrote their values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import attrs
import numpy as np

from tidegauge.linearizability.blocked.flow import Blocks
from tidegauge.linearizability.blocked.scan import claims
from tidegauge.linearizability.blocked.whole import Whole
from tidegauge.linearizability.findings.known import Known
from tidegauge.linearizability.history import NEVER, UNKNOWN, Ints, Kind, Operations, concatenate
from tidegauge.linearizability.rows import Rows


@attrs.frozen(eq=False)
class Taken:
    """Rows of a history, with their numbers in it; where each fetch began, and the earlier one that tells it."""

    operations: Operations
    numbers: Ints
    place: Ints
    position: Ints
    """UNKNOWN of what is no completed fetch, or where nobody knows."""
    teller: Ints

    @classmethod
    def together(cls, parts: Sequence[Taken]) -> Taken:
        """All of them, by partition and number."""
        columns = (np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS)
        numbers, place, position, teller = columns
        order = np.lexsort((numbers, place))
        operations = concatenate([part.operations for part in parts]).take(order)
        return cls(operations, numbers[order], place[order], position[order], teller[order])

    def of(self, rows: Ints) -> Taken:
        """Some of the rows."""
        columns = (getattr(self, name)[rows] for name in _COLUMNS)
        return Taken(self.operations.take(rows), *columns)


_COLUMNS = ("numbers", "place", "position", "teller")


@attrs.frozen(eq=False, slots=False)
class KnownInBlocks(Known):
    """What some rows of a history say, with the positions that they have in all of it."""

    taken: Taken

    @classmethod
    def of_taken(cls, taken: Taken, whole: Whole) -> KnownInBlocks:
        rows = Rows.of(taken.operations)
        return cls(attrs.evolve(rows, position=taken.position[rows.fetches]), whole.level, taken)

    @cached_property
    def _told(self) -> tuple[Ints, Ints]:
        order = np.argsort(self.taken.numbers, kind="stable")
        wanted = self.taken.teller[self.rows.fetches]
        at = np.minimum(np.searchsorted(self.taken.numbers, wanted, sorter=order), len(order) - 1)
        there = self.taken.numbers[order[at]] == wanted
        return self.rows.position, np.where(there, order[at], -1)


def take(blocks: Blocks, whole: Whole, rows: Ints) -> Taken:
    """The rows with these numbers, of which there are some."""
    rows = np.unique(rows)
    firsts = np.array(sorted(whole.firsts.values()), np.int64)
    number_of = {first: block for block, first in whole.firsts.items()}
    holding = firsts[np.unique(np.searchsorted(firsts, rows, side="right") - 1)]
    only = frozenset(number_of[first] for first in holding.tolist())
    return Taken.together(blocks.each(partial(_take, whole, rows), only).all())


def _take(whole: Whole, wanted: Ints, block: int, operations: Operations) -> Iterator[Taken]:
    part = whole.part(block, operations)
    start, stop = np.searchsorted(wanted, [part.first, part.first + len(operations)])
    mine = wanted[start:stop] - part.first
    position, teller = np.full(len(operations), UNKNOWN, np.int64), np.full(len(operations), -1, np.int64)
    position[part.rows.fetches], teller[part.rows.fetches] = part.rows.position, part.teller
    yield Taken(
        attrs.evolve(operations, meta=None).take(mine), wanted[start:stop], part.rows.group[mine], position[mine],
        teller[mine],
    )  # fmt: skip


# --- values -----------------------------------------------------------------------------------------------------------


@attrs.frozen(eq=False)
class _Who:
    """Who sent each of some values, and who read it last, with the call of that; −1 for nobody."""

    writer: Ints
    last: Ints
    called: Ints

    def then(self, later: _Who) -> _Who:
        """The same after the rows of later blocks."""
        newer = later.called > self.called
        return _Who(
            np.where(later.writer >= 0, later.writer, self.writer),
            np.where(newer, later.last, self.last),
            np.where(newer, later.called, self.called),
        )


def who_has(blocks: Blocks, whole: Whole, taken: Taken) -> _Who:
    """Who has the values of these rows, by rising partition and value."""
    ops = taken.operations
    place = np.repeat(taken.place, ops.counts)
    pairs = np.unique(np.stack((place, ops.values), axis=1), axis=0)
    found: list[tuple[int, _Who]] = blocks.each(partial(_who_has, whole, pairs[:, 0], pairs[:, 1])).all()
    nobody = np.full(len(pairs), -1, np.int64)
    who = _Who(nobody, nobody, nobody)
    for _, one in sorted(found, key=lambda pair: pair[0]):
        who = who.then(one)
    return who


def _who_has(whole: Whole, place: Ints, value: Ints, block: int, operations: Operations) -> Iterator[tuple[int, _Who]]:
    part = whole.part(block, operations)
    wrote, writer = part.rows.written
    read, reader = part.rows.read
    ops, group = part.rows.ops, part.rows.group
    writers, lasts, calls = (np.full(len(value), -1, np.int64) for _ in range(3))
    at, mine = _among(place, value, group[writer], ops.values[wrote])
    writers[at] = writer[mine] + part.first
    at, mine = _among(place, value, group[reader], ops.values[read])
    order = np.argsort(ops.call[reader[mine]], kind="stable")
    lasts[at[order]], calls[at[order]] = reader[mine[order]] + part.first, ops.call[reader[mine[order]]]
    if (writers >= 0).any() or (lasts >= 0).any():
        yield block, _Who(writers, lasts, calls)


def _among(place: Ints, value: Ints, places: Ints, values: Ints) -> tuple[Ints, Ints]:
    """Which of `values` are among the pairs of `place` and `value`, which rise: the number of the pair, and of each."""
    known = np.unique(value)
    near = np.minimum(np.searchsorted(known, values), max(len(known) - 1, 0))
    mine = np.flatnonzero(known[near] == values) if len(known) else np.zeros(0, np.int64)
    width = len(known) + 1
    keys = place * width + np.searchsorted(known, value)
    wanted = places[mine] * width + near[mine]
    at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    there = keys[at] == wanted if len(keys) else np.zeros(0, np.bool_)
    return at[there], mine[there]


# --- lengths ----------------------------------------------------------------------------------------------------------


@attrs.frozen(eq=False)
class _Strongest:
    """For each of some bounds the row with the greatest claim before it, that claim, and when it returned."""

    row: Ints
    least: Ints
    returned: Ints

    def then(self, later: _Strongest) -> _Strongest:
        better = (later.least > self.least) | ((later.least == self.least) & (later.returned < self.returned))
        return _Strongest(
            *(np.where(better, getattr(later, one), getattr(self, one)) for one in ("row", "least", "returned"))
        )


def strongest(blocks: Blocks, whole: Whole, place: Ints, call: Ints) -> Ints:
    """For each call in a partition the row that had returned before it with the greatest length, the first of these."""
    found = blocks.each(partial(_strongest, whole, place, call)).all()
    none = np.full(len(call), -1, np.int64)
    best = _Strongest(none, none, np.full(len(call), NEVER, np.int64))
    for _, one in sorted(found, key=lambda pair: pair[0]):
        best = best.then(one)
    return best.row


def _strongest(
    whole: Whole, place: Ints, call: Ints, block: int, operations: Operations
) -> Iterator[tuple[int, _Strongest]]:
    part = whole.part(block, operations)
    row, least = claims(part.rows)
    order = np.lexsort((row, part.rows.ops.returned[row]))
    row, least = row[order], least[order]
    rows, lengths = np.full(len(call), -1, np.int64), np.full(len(call), -1, np.int64)
    returns = np.full(len(call), NEVER, np.int64)
    for one in np.unique(place).tolist():
        bounds = np.flatnonzero(place == one)
        mine = row[part.rows.group[row] == one]
        length = least[part.rows.group[row] == one]
        if not len(mine):
            continue
        returned = part.rows.ops.returned[mine]
        greatest = np.maximum.accumulate(length)
        rises = np.append(True, length[1:] > greatest[:-1])
        best = np.maximum.accumulate(np.where(rises, np.arange(len(mine)), 0))
        at = np.searchsorted(returned, call[bounds], side="left") - 1
        bounds, at = bounds[at >= 0], best[at[at >= 0]]
        rows[bounds], lengths[bounds], returns[bounds] = mine[at] + part.first, length[at], returned[at]
    yield block, _Strongest(rows, lengths, returns)


def first_to_know(blocks: Blocks, whole: Whole, beyond: Sequence[tuple[int, int]]) -> Ints:
    """For each partition and offset the row that was the first to know that the log is longer."""
    found: list[tuple[int, list[Any]]] = blocks.each(partial(_first_to_know, whole, beyond)).all()
    return np.array([min(one[at] for _, one in found)[1] for at in range(len(beyond))], np.int64)


def _first_to_know(
    whole: Whole, beyond: Sequence[tuple[int, int]], block: int, operations: Operations
) -> Iterator[tuple[int, list[Any]]]:
    part = whole.part(block, operations)
    row, least = claims(part.rows)
    row, least = row[np.argsort(row)], least[np.argsort(row)]
    returned = part.rows.ops.returned[row]
    firsts = []
    for place, offset in beyond:
        longer = np.flatnonzero((part.rows.group[row] == place) & (least > offset))
        at = longer[np.argmin(returned[longer])] if len(longer) else -1
        firsts.append((int(returned[at]), int(row[at]) + part.first) if at >= 0 else (NEVER, -1))
    yield block, firsts


# --- all of it --------------------------------------------------------------------------------------------------------


def gathered(blocks: Blocks, whole: Whole, proving: Ints, beside: Iterable[Ints]) -> Taken:
    """The rows `proving`, those that are shown `beside` them, and all that the finders look up for them."""
    shown = [rows[rows >= 0] for rows in beside]
    first = take(blocks, whole, np.concatenate((proving, *shown)))
    who = who_has(blocks, whole, first)
    have = np.concatenate((who.writer, who.last, first.teller))
    more = np.setdiff1d(have[have >= 0], first.numbers)
    if not len(more):
        return first
    second = take(blocks, whole, more)
    fetches = np.flatnonzero(second.operations.kind == Kind.FETCH)
    parts = [first, second]
    if len(fetches):
        writers = who_has(blocks, whole, second.of(fetches)).writer
        left = np.setdiff1d(writers[writers >= 0], np.concatenate((first.numbers, second.numbers)))
        if len(left):
            parts.append(take(blocks, whole, left))
    return Taken.together(parts)
