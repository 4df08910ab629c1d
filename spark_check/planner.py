"""Plan a job: every history is owned by exactly one unit of work.

Theory of operation
-------------------
A *piece* is a row group of a file, with the smallest and the largest history id in it (from its footer), moved so that
files have none in common (`origins`). Pieces in
order of their ids form *runs*: pieces whose id ranges share more than an endpoint belong to one run, since any of them
may hold rows of their histories. So two neighbouring runs have at most one history in common: the last of the first
run, which may continue in the pieces of the second.

A run owns the ids above the last id of the run before it, up to its own last id. It reads its own pieces, and *borrows*
those pieces of the next run that begin with its last id, for that history only. Ownership is by id: a unit drops the
rows that it reads and does not own, and another unit owns them.

Small neighbouring runs form one unit. A run that is too large to be read at once (unclustered: its ids are in no
order) is split by a hash of the history; that costs a shuffle of its operations, and a note says so. A run of a
single history cannot be split and is one unit.

Pure: pieces in, plan out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import attrs
import numpy as np

from tidegauge.linearizability.history import Flags, Ints
from tidegauge.spark_check.origins import NO_FILES, Origins

TARGET = 500_000
"""Operations that a unit should have: enough to outweigh the cost of a task, few enough for a worker's memory."""

LARGEST = 2_000_000
"""Operations that a unit may read at once before it is split by hash."""

HUGE = 10_000_000
"""A history of more operations is judged in blocks, by many tasks: one would need some four GiB for it."""


@attrs.frozen(order=True)
class Piece:
    """A row group: `low` and `high` are its smallest and largest history ids, None if it has none (all null)."""

    file: str
    row_group: int
    rows: int
    low: int | None
    high: int | None
    move: int = 0
    """What was added to its ids (`origins`)."""
    footer: bytes = b""
    """Which footer the file had (`ParquetTable.digest`), when it was found to be sound; empty for any."""
    unread: tuple[str, ...] = ()
    """Optional columns that have nothing in it."""


@attrs.frozen
class Unit:
    """What one task checks: the ids `first` to `last` (None: rows without an id), in its own and borrowed pieces.

    With `buckets` > 1 that many units share the same pieces, and each owns the ids whose hash is its `bucket`.
    """

    number: int
    first: int | None
    last: int | None
    pieces: tuple[Piece, ...]
    borrowed: tuple[Piece, ...] = ()
    bucket: int = 0
    buckets: int = 1
    origins: Origins = NO_FILES
    """The files of its histories."""
    in_blocks: bool = False
    """Whether it is one history that many tasks judge together."""

    @property
    def name(self) -> str:
        return f"unit-{self.number:06d}"

    def owns(self, ids: Ints) -> Flags:
        """Which of the history ids this unit owns."""
        if self.first is None or self.last is None:
            return np.zeros(len(ids), np.bool_)
        owned: Flags = (ids >= self.first) & (ids <= self.last)
        return owned if self.buckets == 1 else owned & (bucket_of(ids, self.buckets) == self.bucket)


@attrs.frozen
class Plan:
    """All units; `notes` describe what is unusual about the input."""

    units: tuple[Unit, ...]
    notes: tuple[str, ...] = ()

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Every piece of the input."""
        return tuple(piece for unit in self.units if unit.bucket == 0 for piece in unit.pieces)

    @property
    def rows(self) -> int:
        """Rows of the input."""
        return sum(piece.rows for piece in self.pieces)


@attrs.frozen
class _Run:
    """Pieces that share histories; the ids `first` to `last` are its own."""

    first: int
    last: int
    pieces: tuple[Piece, ...]

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in self.pieces)


def plan(
    pieces: Iterable[Piece],
    target: int = TARGET,
    largest: int = LARGEST,
    origins: Origins = NO_FILES,
    huge: int = HUGE,
) -> Plan:
    """Divide `pieces` into units of about `target` operations, none over `largest` except for a single history.

    One of more than `huge` operations is a unit by itself, for blocks.
    """
    ordered = sorted((piece for piece in pieces), key=_by_ids)
    blank = tuple(piece for piece in ordered if piece.low is None)
    known = ordered[len(blank) :]
    begins: dict[int, list[Piece]] = defaultdict(list)
    for piece in known:
        begins[_low(piece)].append(piece)
    units: list[Unit] = []
    notes: list[str] = []
    for together in _gather(_runs(known), target, largest, huge):
        first, last = together[0].first, together[-1].last
        own = tuple(piece for run in together for piece in run.pieces)
        borrowed = tuple(piece for piece in begins[last] if piece not in together[-1].pieces)
        rows = sum(piece.rows for piece in own)
        buckets = 1
        if rows > largest and first < last:
            buckets = -(-rows // target)
            notes.append(
                f"{origins.words(first)} to {origins.words(last)} are unclustered: {len(own)} row groups with {rows:,} "
                "operations overlap. "
                "They are shuffled by history, which is several times slower; write each history's rows together"
            )
        elif first == last and rows > huge:
            notes.append(f"{origins.words(last)} alone has about {rows:,} operations: it is for blocks, by many tasks")
        elif rows > largest:
            notes.append(f"{origins.words(last)} alone has about {rows:,} operations: it is one unit")
        files = origins.between(first, last)
        number = len(units)
        in_blocks = first == last and rows > huge
        units += [Unit(number + at, first, last, own, borrowed, at, buckets, files, in_blocks) for at in range(buckets)]
    if blank:
        units.append(Unit(len(units), None, None, blank))
    return Plan(tuple(units), tuple(notes))


def _by_ids(piece: Piece) -> tuple[bool, int, int, str, int]:
    return (piece.low is not None, piece.low or 0, piece.high or 0, piece.file, piece.row_group)


def _low(piece: Piece) -> int:
    assert piece.low is not None
    return piece.low


def _high(piece: Piece) -> int:
    assert piece.high is not None
    return piece.high


def _runs(ordered: Sequence[Piece]) -> Iterator[_Run]:
    """Pieces that overlap in more than an endpoint, together. `ordered` by low, then high."""
    start, first = 0, 0
    last: int | None = None
    for at, piece in enumerate(ordered):
        if last is None or _low(piece) > last or (_low(piece) == last < _high(piece)):
            if last is not None:
                yield _Run(first, last, tuple(ordered[start:at]))
            first = _low(piece) if last is None or _low(piece) > last else last + 1
            start, last = at, _high(piece)
        else:
            last = max(last, _high(piece))
    if last is not None:
        yield _Run(first, last, tuple(ordered[start:]))


def _gather(runs: Iterable[_Run], target: int, largest: int, huge: int) -> Iterator[list[_Run]]:
    """Neighbouring runs, as many as make up `target`; one over `largest`, or one history over `huge`, stays alone."""
    together: list[_Run] = []
    rows, is_full = 0, False
    for run in runs:
        alone = run.rows > largest or (run.first == run.last and run.rows > huge)
        if together and (rows + run.rows > target or alone or is_full):
            yield together
            together, rows = [], 0
        is_full = alone
        together.append(run)
        rows += run.rows
    if together:
        yield together


def bucket_of(ids: Ints, buckets: int) -> Ints:
    """The bucket of each history id: the same on every machine, and even for ids in any pattern."""
    with np.errstate(over="ignore"):
        mixed = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    found: Ints = (mixed % np.uint64(buckets)).astype(np.int64)
    return found
