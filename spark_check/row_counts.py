"""An independent count of the input: which histories it has, and how many rows each of them has.

It reads only the column `history`, row group by row group, and depends on no plan, unit or ownership. Two forms of it:

`RowCounts` has a number for each history, and `reconcile` names each history that was checked twice, in part or not at
all. It takes 16 bytes a history.

`Tally` is of constant size. Histories fall into SHARES by a hash, and for each share it has the number of rows and the
sum of `count · mix(history)`, modulo 2^64. Where no history has two counts, two tallies are equal if and only if the
counts are (but for one case in 2^64): so tallies of any parts of the input, added up, are compared with tallies of the
verdicts, and RowCounts only of a share in which they differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.linearizability.history import Ints
from tidegauge.linearizability.plurals import say
from tidegauge.spark_check.errors import NotReconciled
from tidegauge.spark_check.footers import KEY, open_table
from tidegauge.spark_check.origins import NO_FILES, Origins, numbered
from tidegauge.spark_check.places import Place

_MERGE_AT = 4_000_000
"""The number of counts at which they are merged."""

SHARES = 4_096
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
"""The multipliers of splitmix64."""


@attrs.frozen(eq=False)
class RowCounts:
    """Row counts by history id, ids ascending; `nameless` rows have no history id."""

    ids: Ints
    counts: Ints
    nameless: int = 0

    @property
    def rows(self) -> int:
        return int(self.counts.sum()) + self.nameless

    def of_share(self, share: int) -> RowCounts:
        """The counts of the histories in one share."""
        mine = share_of(self.ids) == share
        return RowCounts(self.ids[mine], self.counts[mine])


@attrs.frozen(eq=False)
class Tally:
    """Rows and a checksum of each share of the histories; `nameless` rows have no history id."""

    rows_of: Ints
    sums: np.ndarray[tuple[int, ...], np.dtype[np.uint64]]
    nameless: int = 0

    @classmethod
    def of(cls, counts: RowCounts) -> Tally:
        """The tally of counts, in which a history may be more than once."""
        share, mixed = share_of(counts.ids), mix(counts.ids)
        rows = np.zeros(SHARES, np.int64)
        sums = np.zeros(SHARES, np.uint64)
        with np.errstate(over="ignore"):
            np.add.at(rows, share, counts.counts)
            np.add.at(sums, share, mixed * counts.counts.astype(np.uint64))
        return cls(rows, sums, counts.nameless)

    @classmethod
    def none(cls) -> Tally:
        """The tally of nothing."""
        return cls(np.zeros(SHARES, np.int64), np.zeros(SHARES, np.uint64))

    def __add__(self, other: Tally) -> Tally:
        with np.errstate(over="ignore"):
            return Tally(self.rows_of + other.rows_of, self.sums + other.sums, self.nameless + other.nameless)

    @property
    def rows(self) -> int:
        """All rows."""
        return int(self.rows_of.sum()) + self.nameless

    def differs(self, other: Tally) -> list[int]:
        """The shares in which the other tally says something else."""
        return [int(one) for one in np.flatnonzero((self.rows_of != other.rows_of) | (self.sums != other.sums))]


def mix(ids: Ints) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    """A number for each id in which each of its bits has its part (splitmix64, Steele, Lea and Flood 2014)."""
    with np.errstate(over="ignore"):
        mixed = ids.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX[0]
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX[1]
        return mixed ^ (mixed >> np.uint64(31))


def share_of(ids: Ints) -> Ints:
    """The share of each history."""
    shares: Ints = (mix(ids) >> np.uint64(52)).astype(np.int64)
    return shares


def count_rows(files: Iterable[str | Path | Place]) -> RowCounts:
    """Count the rows of every history in Parquet `files`."""
    return add(counts for file in map(Place.of, files) for counts in count_part(file))


def count_part(file: Place, part: int = 0, parts: int = 1, move: int = 0) -> Iterator[RowCounts]:
    """The counts of row groups of a file: of all, or of every `parts`-th from `part` on. `move` is added to its ids.

    Raises BadInput if the file cannot be read.
    """
    with open_table(file) as opened:
        for group in range(part, opened.groups, parts):
            yield count_column(numbered(opened.read([group], [KEY]).column(0), move))


def count_column(column: pa.ChunkedArray) -> RowCounts:
    """Count the rows of every history in a column of history ids."""
    present = column.drop_null().cast(pa.int64()).to_numpy()
    return _sum(present, np.ones(len(present), np.int64), column.null_count)


def count_verdicts(ids: Ints, table: pa.Table) -> RowCounts:
    """How many rows of the input the verdicts of a table are about. Raises NotReconciled unless `ids` ascend."""
    if (ids[1:] <= ids[:-1]).any():
        at = int(np.flatnonzero(ids[1:] <= ids[:-1])[0])
        raise NotReconciled(f"{_TROUBLE}: history {ids[at + 1]} has more than one verdict, or its table is unsorted")
    counts: Ints = pc.cast(table.column("operations"), pa.int64()).to_numpy()
    return RowCounts(ids, counts)


_TROUBLE = "the verdicts do not account for the input"


def add(parts: Iterable[RowCounts]) -> RowCounts:
    """Add up counts."""
    waiting: list[RowCounts] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += len(part.ids)
        if size > _MERGE_AT:
            waiting = [_merge(waiting)]
            # Merging again is of no use until as many new counts have come.
            size = -len(waiting[0].ids)
    return _merge(waiting)


def _merge(parts: list[RowCounts]) -> RowCounts:
    none = np.zeros(0, np.int64)
    ids = np.concatenate([none, *(part.ids for part in parts)])
    counts = np.concatenate([none, *(part.counts for part in parts)])
    return _sum(ids, counts, sum(part.nameless for part in parts))


def _sum(ids: Ints, counts: Ints, nameless: int) -> RowCounts:
    if len(ids) and (ids[1:] < ids[:-1]).any():
        order = np.argsort(ids, kind="stable")
        ids, counts = ids[order], counts[order]
    first = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1]))[: len(ids)])
    return RowCounts(ids[first], np.add.reduceat(counts, first) if len(first) else counts[:0], nameless)


def reconcile(found: RowCounts, ids: Ints, counts: Ints, nameless: int, origins: Origins = NO_FILES) -> None:
    """Raise NotReconciled unless the verdict table covers exactly the input.

    `ids` and `counts` are columns of the verdict table: the histories, duplicates included, and how many rows of the
    input each verdict is about. `nameless` is how many rows without a history id were set aside. `origins` names
    histories.
    """
    words = origins.words
    order = np.argsort(ids, kind="stable")
    ids, counts = ids[order], counts[order]
    wrong: list[str] = []
    double = ids[1:][ids[1:] == ids[:-1]]
    if len(double):
        wrong.append(
            f"{say(len(double), 'history has', 'histories have')} more than one verdict, "
            f"{words(int(double[0]))} for one"
        )
    missing = np.setdiff1d(found.ids, ids)
    if len(missing):
        wrong.append(
            f"{say(len(missing), 'history of the input has', 'histories of the input have')} no verdict, "
            f"{words(int(missing[0]))} for one"
        )
    extra = np.setdiff1d(ids, found.ids)
    if len(extra):
        first = words(int(extra[0]))
        wrong.append(
            f"{say(len(extra), 'verdict is about a history', 'verdicts are about histories')} that the input does not "
            f"have, {first} for one"
        )
    if not wrong and (counts != found.counts).any():
        at = int(np.flatnonzero(counts != found.counts)[0])
        wrong.append(
            f"{words(int(ids[at]))} has {found.counts[at]:,} rows in the input and {counts[at]:,} in its verdict "
            f"({say(int((counts != found.counts).sum()), 'history differs', 'histories differ')})"
        )
    if nameless != found.nameless:
        wrong.append(
            f"{say(found.nameless, 'row of the input has', 'rows of the input have')} no history id, "
            f"{nameless:,} were kept aside"
        )
    if wrong:
        raise NotReconciled(
            f"{_TROUBLE} ({say(len(found.ids), 'history', 'histories')}, {say(found.rows, 'row')}): "
            f"{'; '.join(wrong)}. Do not trust them. Way out: if a file changed while the job ran, run it again into "
            "another folder; if none did, this is a defect: please report it"
        )
