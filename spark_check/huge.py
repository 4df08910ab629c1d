"""One history that many tasks judge: blocks of its rows as Spark spreads them (linearizability.blocked)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.linearizability.arrow import from_arrow
from tidegauge.linearizability.blocked.flow import Flow, Meeting, Task
from tidegauge.linearizability.blocked.judging import NotForBlocks, judge_scanned
from tidegauge.linearizability.blocked.scan import Scanned, scan
from tidegauge.linearizability.blocked.whole import Sizes
from tidegauge.linearizability.check import check
from tidegauge.linearizability.findings.looking import HOLE_STEPS
from tidegauge.linearizability.history import Operations
from tidegauge.linearizability.log import Level
from tidegauge.spark_check.checking import MOST_GAPS, Aside, Checked, checked_of, sound_rows
from tidegauge.spark_check.converting import Failed
from tidegauge.spark_check.errors import BadInput
from tidegauge.spark_check.footers import KEY
from tidegauge.spark_check.planner import Piece, Unit
from tidegauge.spark_check.reading import Part, read_in_blocks
from tidegauge.spark_check.row_counts import RowCounts
from tidegauge.spark_check.tasks import succeed

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

RECORDS = 1_000_000
"""Rows for which there is a bucket of values, of batches and of offsets."""
FEWEST, MOST = 2, 1_000
"""Buckets."""
INSIDE = 20
"""Bits for the number of a block in its row group."""


@attrs.frozen(eq=False)
class HugeHistory:
    """The tables of a history that was judged in blocks."""

    checked: Checked
    nameless: int


@attrs.frozen(eq=False)
class Spread:
    """What tasks of Spark have sent on."""

    pairs: RDD[Any]
    files: tuple[str, ...] = ()
    """The files that they read."""

    def beside(self, other: Flow) -> Spread:
        assert isinstance(other, Spread), "one session spreads both"
        return Spread(self.pairs.union(other.pairs), self.files)

    def meet(self, buckets: int, task: Meeting) -> Spread:
        def together(bucket: int, pairs: Iterable[tuple[int, Any]]) -> Iterable[Any]:
            parcels = [parcel for _, parcel in pairs]
            return task(bucket, parcels) if parcels else ()

        return Spread(self.pairs.partitionBy(buckets, int).mapPartitionsWithIndex(together), self.files)

    def all(self) -> list[Any]:
        return succeed(self.pairs, [self.files])


@attrs.frozen(eq=False)
class RowGroups:
    """The row groups of one history, in the order of its rows: each is read in blocks."""

    spark: SparkSession
    unit: Unit

    def each(self, task: Task, only: frozenset[int] | None = None) -> Spread:
        return self.parts(partial(_with_operations, task), only)

    def parts(self, task: Callable[[int, Part], Iterable[Any]], only: frozenset[int] | None = None) -> Spread:
        """What `task` sends of the rows of each block as they are in the file."""
        pieces = sorted(self.unit.pieces + self.unit.borrowed, key=lambda piece: (piece.file, piece.row_group))
        numbered = list(enumerate(pieces))
        if only is not None:
            groups = {block >> INSIDE for block in only}
            numbered = [one for one in numbered if one[0] in groups]
        unit = attrs.evolve(self.unit, pieces=(), borrowed=())
        spread = self.spark.sparkContext.parallelize(numbered, max(1, len(numbered)))
        return Spread(spread.flatMap(partial(_in_blocks, unit, task, only)), tuple({piece.file for piece in pieces}))


def _in_blocks(
    unit: Unit, task: Callable[[int, Part], Iterable[Any]], only: frozenset[int] | None, numbered: tuple[int, Piece]
) -> Iterator[Any]:
    pa.set_cpu_count(1)  # Spark starts a worker for each core
    group, piece = numbered
    try:
        for inside, part in enumerate(read_in_blocks(unit, piece)):
            block = (group << INSIDE) + inside
            if only is None or block in only:
                yield from task(block, part)
    except BadInput as error:
        yield Failed(str(error))


def _with_operations(task: Task, block: int, part: Part) -> Iterable[Any]:
    table = part.table
    if table.column(KEY).null_count:
        table = table.filter(pc.is_valid(table.column(KEY)))
    return task(block, from_arrow(table, part.file, part.topics)) if len(table) else ()


@attrs.frozen(eq=False)
class _Look:
    """What the first look at a block finds."""

    scanned: Scanned | None
    rows: int
    nameless: int
    aside: Sequence[Aside]
    is_spoiled: bool
    has_index: bool


def judge_in_blocks(
    spark: SparkSession, unit: Unit, level: Level, sizes: Sizes | None = None
) -> HugeHistory | NotForBlocks:
    """Judge the history of `unit`, or say why blocks cannot. Raises BadInput, and CannotRun if Spark fails."""
    assert unit.first is not None, "it is one history"
    blocks = RowGroups(spark, unit)
    rows = sum(piece.rows for piece in unit.pieces)
    sizes = sizes or Sizes(buckets=min(MOST, max(FEWEST, rows // RECORDS)))
    looks: list[_Look] = blocks.parts(partial(_look, unit, sizes.run)).all()
    looks = sorted(looks, key=lambda look: -1 if look.scanned is None else look.scanned.block)
    nameless = sum(look.nameless for look in looks)
    counts = RowCounts(np.array([unit.first], np.int64), np.array([sum(look.rows for look in looks)], np.int64))
    aside = [row for look in looks for row in look.aside]
    if any(look.is_spoiled for look in looks):
        nothing = check(Operations.of(()), level, named=MOST_GAPS)
        return HugeHistory(checked_of(nothing, counts, {unit.first}, aside, unit.origins), nameless)
    if not all(look.has_index for look in looks):
        return NotForBlocks(("rows without an index",))
    scanned = [look.scanned for look in looks if look.scanned is not None]
    verdicts = judge_scanned(blocks, unit.first, scanned, level, sizes, HOLE_STEPS, MOST_GAPS)
    if isinstance(verdicts, NotForBlocks):
        return verdicts
    return HugeHistory(checked_of(verdicts, counts, set(), aside, unit.origins), nameless)


def _look(unit: Unit, run: int, block: int, part: Part) -> Iterator[_Look]:
    operations, aside, spoiled = sound_rows([part], unit.origins)
    ids = part.table.column(KEY)
    yield _Look(
        scanned=None if spoiled or not len(operations) else scan(block, operations, run),
        rows=len(ids) - ids.null_count,
        nameless=ids.null_count,
        aside=aside,
        is_spoiled=bool(spoiled),
        has_index="index" in part.table.column_names,
    )
