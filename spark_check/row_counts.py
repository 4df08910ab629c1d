"""An independent count of the input: which histories it has, and how many rows each of them has.

It reads only the column `history`, row group by row group, and depends on no plan, unit or ownership. `reconcile`
compares the verdicts with it and names each history that was checked twice, in part or not at all. The driver needs
16 bytes for each history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs
import numpy as np
import pyarrow as pa

from tidegauge.linearizability.history import Ints
from tidegauge.spark_check.errors import NotReconciled
from tidegauge.spark_check.footers import KEY
from tidegauge.spark_check.places import Place

_MERGE_AT = 4_000_000
"""The number of counts at which they are merged."""


@attrs.frozen(eq=False)
class RowCounts:
    """Row counts by history id, ids ascending; `nameless` rows have no history id."""

    ids: Ints
    counts: Ints
    nameless: int = 0

    @property
    def rows(self) -> int:
        return int(self.counts.sum()) + self.nameless


def count_rows(files: Iterable[str | Path | Place]) -> RowCounts:
    """Count the rows of every history in Parquet `files`."""
    return add(_row_groups(map(Place.of, files)))


def count_column(column: pa.ChunkedArray) -> RowCounts:
    """Count the rows of every history in a column of history ids."""
    present = column.drop_null().cast(pa.int64()).to_numpy()
    return _sum(present, np.ones(len(present), np.int64), column.null_count)


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


def _row_groups(files: Iterable[Place]) -> Iterator[RowCounts]:
    for file in files:
        with file.open_parquet() as opened:
            for group in range(opened.num_row_groups):
                yield count_column(opened.read_row_group(group, columns=[KEY]).column(0))


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


def reconcile(found: RowCounts, ids: Ints, counts: Ints, nameless: int) -> None:
    """Raise NotReconciled unless the verdict table covers exactly the input.

    `ids` and `counts` are columns of the verdict table: the histories, duplicates included, and how many rows of the
    input each verdict is about. `nameless` is how many rows without a history id were set aside.
    """
    order = np.argsort(ids, kind="stable")
    ids, counts = ids[order], counts[order]
    wrong: list[str] = []
    double = ids[1:][ids[1:] == ids[:-1]]
    if len(double):
        wrong.append(f"{len(double):,} histories have more than one verdict, history {double[0]} for one")
    missing = np.setdiff1d(found.ids, ids)
    if len(missing):
        wrong.append(f"{len(missing):,} histories of the input have no verdict, history {missing[0]} for one")
    extra = np.setdiff1d(ids, found.ids)
    if len(extra):
        wrong.append(f"{len(extra):,} verdicts are about histories that the input does not have, {extra[0]} for one")
    if not wrong and (counts != found.counts).any():
        at = int(np.flatnonzero(counts != found.counts)[0])
        wrong.append(
            f"history {ids[at]} has {found.counts[at]:,} rows in the input and {counts[at]:,} in its verdict "
            f"({int((counts != found.counts).sum()):,} histories differ)"
        )
    if nameless != found.nameless:
        wrong.append(f"{found.nameless:,} rows of the input have no history id, {nameless:,} were kept aside")
    if wrong:
        raise NotReconciled(
            f"the verdicts do not account for the input ({len(found.ids):,} histories, {found.rows:,} rows): "
            f"{'; '.join(wrong)}. Do not trust them. Way out: if a file changed while the job ran, run it again into "
            "another folder; if none did, this is a defect: please report it"
        )
