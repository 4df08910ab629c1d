"""Hold the verdicts on disk against the input, in tasks: the driver gets a tally (row_counts) from each, no column.

That no history has two verdicts is seen without a list of histories: the ids in a file of verdicts ascend, each is one
that its unit owns, and no two units own the same id. So each history has one count at most on each side, and tallies
decide whether the counts are the same. If they are not, the counts of one share are compared, which name a history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import attrs
import numpy as np
import pyarrow as pa

from tidegauge.spark_check.checking import FILE
from tidegauge.spark_check.converting import Failed
from tidegauge.spark_check.errors import BadInput, NotReconciled
from tidegauge.spark_check.footers import KEY
from tidegauge.spark_check.origins import Origins
from tidegauge.spark_check.places import Place
from tidegauge.spark_check.planner import Plan, Unit
from tidegauge.spark_check.row_counts import RowCounts, Tally, add, count_part, count_verdicts, reconcile
from tidegauge.spark_check.tasks import chunks, succeed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PART = 64 << 20
"""Bytes of input that a task counts, about."""
FILES = 16
"""Files of verdicts that a task counts, at least."""


@attrs.frozen
class InputPart:
    """Of a file, every `parts`-th row group from `part` on."""

    file: Place
    part: int
    parts: int
    move: int = 0
    """What is added to its ids (`origins`)."""


@attrs.frozen
class VerdictFile:
    """The verdicts of a unit, which is here without its pieces."""

    file: Place
    unit: Unit


def reconcile_job(
    spark: SparkSession,
    files: Sequence[tuple[Place, int]],
    verdicts: Sequence[VerdictFile],
    planned: Plan,
    nameless: int,
    origins: Origins,
) -> None:
    """Raise NotReconciled unless the tables on disk account for the input, and the input is what the footers said.

    `files` come with what is added to their ids; `nameless` is how many rows without a history id were set aside.
    """
    check_owners(planned.units)
    context = spark.sparkContext
    read = chunks([part for file, move in files for part in parts_of(file, move)])
    written = chunks(verdicts, FILES)
    found, said = Tally.none(), Tally.none()
    if read:
        counted = context.parallelize(read, len(read)).map(tally_input)
        for tally in succeed(counted, [{str(part.file) for part in chunk} for chunk in read]):
            found += tally
    if found.rows != planned.rows:
        raise NotReconciled(f"the footers say {planned.rows:,} rows and the files have {found.rows:,}: a file changed")
    if written:
        tallies: list[Tally | str] = succeed(context.parallelize(written, len(written)).map(tally_verdicts))
        for one in tallies:
            if isinstance(one, str):
                raise NotReconciled(one)
            said += one
    shares = found.differs(said)
    if not shares and found.nameless == nameless:
        return
    share = shares[0] if shares else 0
    counts = add(succeed(context.parallelize(read, len(read)).map(lambda chunk: count_share(_counts(chunk), share))))
    judged = [RowCounts(*_none())]
    if written:
        judged += succeed(context.parallelize(written, len(written)).map(lambda one: _verdicts_of(one, share)))
    ids, rows = (np.concatenate([getattr(one, name) for one in judged]) for name in ("ids", "counts"))
    reconcile(attrs.evolve(counts, nameless=found.nameless), ids, rows, nameless, origins)


def parts_of(file: Place, move: int = 0) -> list[InputPart]:
    """The parts of a file by its size; more of them than it has row groups are empty."""
    parts = max(1, (file.size or 0) // PART)
    return [InputPart(file, part, parts, move) for part in range(parts)]


def tally_input(chunk: Iterable[InputPart]) -> Tally | Failed:
    """The tally of some input."""
    total = Tally.none()
    try:
        for counts in _counts(chunk):
            total += Tally.of(counts)
    except BadInput as error:
        return Failed(str(error))
    return total


def tally_verdicts(chunk: Iterable[VerdictFile]) -> Tally | str:
    """The tally of some verdicts; or what is wrong with them."""
    total = Tally.none()
    for one in chunk:
        try:
            counts = read_verdicts(one)
        except NotReconciled as error:
            return str(error)
        total += Tally.of(counts)
    return total


def read_verdicts(one: VerdictFile) -> RowCounts:
    """The counts in a file of verdicts. Raises NotReconciled if it has a history twice, or another unit's."""
    try:
        with one.file.open_parquet() as file:
            table = file.read(columns=[KEY, "operations", FILE.name])
    except (OSError, pa.ArrowException) as error:
        raise NotReconciled(f"{one.file} cannot be read ({error}): run the job again into another folder") from error
    origins = one.unit.origins
    try:
        numbers = origins.numbers(table.column(KEY).to_numpy(), table.column(FILE.name).combine_chunks())
    except KeyError as error:
        raise NotReconciled(f"{one.file} has a verdict about a history of {error}, which is another unit's") from None
    counts = count_verdicts(numbers, table)
    strange = ~one.unit.owns(counts.ids)
    if strange.any():
        whose = origins.words(int(counts.ids[strange][0]))
        raise NotReconciled(f"{one.file} has a verdict about {whose}, which is another unit's")
    return counts


def check_owners(units: Iterable[Unit]) -> None:
    """Raise NotReconciled if two units own the same history."""
    owners = sorted((unit.first, unit.last, unit.buckets, unit.bucket) for unit in units if unit.first is not None)
    for before, after in pairwise(owners):
        same = before[:3] == after[:3] and before[3] != after[3]
        assert before[1] is not None
        assert after[0] is not None
        if after[0] <= before[1] and not same:
            raise NotReconciled(f"two units own history {after[0]}: this is a defect: please report it")


def count_share(parts: Iterable[RowCounts], share: int) -> RowCounts:
    """The counts of the histories of one share."""
    return add(part.of_share(share) for part in parts)


def _counts(chunk: Iterable[InputPart]) -> Iterator[RowCounts]:
    for one in chunk:
        yield from count_part(one.file, one.part, one.parts, one.move)


def _verdicts_of(chunk: Iterable[VerdictFile], share: int) -> RowCounts:
    return count_share((read_verdicts(one) for one in chunk), share)


def _none() -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.int64]], np.ndarray[tuple[int, ...], np.dtype[np.int64]]]:
    return np.zeros(0, np.int64), np.zeros(0, np.int64)
