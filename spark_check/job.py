"""The job: files in, tables of verdicts out. Spark distributes the units; each worker reads, checks and writes its own.

No operation passes through the JVM, except unclustered ones, which Spark shuffles as Arrow streams.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from tidegauge.linearizability.compiled_code import expect, is_loaded
from tidegauge.linearizability.log import Level
from tidegauge.spark_check.checking import check_parts, with_note
from tidegauge.spark_check.converting import SPLIT, Counted, Failed, Split, convert, converted, count, numbered, split
from tidegauge.spark_check.errors import BadInput
from tidegauge.spark_check.footers import PARQUET, find, first_pieces, pieces_of
from tidegauge.spark_check.huge import HugeHistory, judge_in_blocks
from tidegauge.spark_check.origins import Origins, extents_of, origins_of
from tidegauge.spark_check.output import (
    JOB_TABLES,
    SUMMARY,
    Commit,
    begin,
    commit,
    commits,
    committed,
    examine,
    job_of,
    put_table,
    read_object,
    sweep,
    table_file,
)
from tidegauge.spark_check.places import Place
from tidegauge.spark_check.planner import HUGE, LARGEST, TARGET, Piece, Plan, Unit, plan
from tidegauge.spark_check.reading import Part, join_bucket, read_unit, split_by_bucket
from tidegauge.spark_check.reconciling import VerdictFile, reconcile_job
from tidegauge.spark_check.shipping import ship
from tidegauge.spark_check.summary import Summary, summarize
from tidegauge.spark_check.tasks import chunks, spare_collections, succeed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Progress = Callable[[int, int], None]
"""Called with the number of units that are done and the number of all units."""

POLL = 0.5
"""Seconds between two looks at how many units are done."""
READ_HERE = 64
"""Files whose footers the driver reads itself."""
FOOTERS = 16
"""Files whose footers a task reads, at least."""


@attrs.frozen
class Work:
    """What a worker needs besides its unit. Spark sends it to the workers; it calls no Spark itself."""

    out: Place
    level: Level
    job: str
    why: str = ""
    """Why one task judges a history that is for blocks by its size."""
    share: int = 0
    """How many operations each worker has to check, about."""

    def task(self, unit: Unit) -> Commit | Failed:
        """`do` in a worker of Spark's, which is there for nothing else."""
        done = self.do(unit)
        spare_collections(is_loaded())
        return done

    def do(self, unit: Unit) -> Commit | Failed:
        """Read, check and write one unit."""
        return self._finish(unit, lambda: list(read_unit(unit)))

    def split(self, unit: Unit, wanted: Sequence[int]) -> Iterator[tuple[int, bytes | Failed]]:
        """Split the rows of one piece of unclustered input by bucket."""
        whole = attrs.evolve(unit, bucket=0, buckets=1)
        try:
            for part in read_unit(whole):
                yield from split_by_bucket(part, unit.buckets, wanted)
        except BadInput as error:
            yield from ((bucket, Failed(str(error))) for bucket in wanted)

    def join(self, unit: Unit, streams: Iterable[bytes | Failed]) -> Commit | Failed:
        """Check and write one bucket."""
        held: list[bytes] = []
        for stream in streams:
            if isinstance(stream, Failed):
                return stream
            held.append(stream)
        return self._finish(unit, lambda: join_bucket(held))

    def _finish(self, unit: Unit, read: Callable[[], list[Part]]) -> Commit | Failed:
        pa.set_cpu_count(1)  # Spark starts a worker for each core
        expect(self.share)
        began = time.perf_counter()
        try:
            parts = read()
            checked = with_note(check_parts(parts, self.level, unit.origins), self.why)
        except BadInput as error:
            return Failed(str(error))
        nameless = sum(part.table.column("history").null_count for part in parts)
        return commit(self.out, self.job, unit, checked, nameless, time.perf_counter() - began)


@attrs.frozen
class Job:
    """The input and output of a job. `open_job` makes it, and refuses bad input before any work is done."""

    files: tuple[Place, ...]
    pieces: tuple[Piece, ...]
    """Of those files whose footers the driver has read, to refuse bad input before Spark is started."""
    unread: tuple[Place, ...]
    """The other files of Parquet: tasks read their footers."""
    work: Work
    manifest: dict[str, Any]
    target: int
    largest: int
    split: int
    across_files: bool
    huge: int
    notes: tuple[str, ...] = ()
    """What is unusual about the files."""

    @property
    def finished(self) -> Summary | None:
        """The summary, if the job is complete."""
        place = self.work.out / SUMMARY
        return Summary.from_json(read_object(place)) if place.exists() else None

    def run(self, spark: SparkSession, progress: Progress | None = None) -> Summary:
        """Check the units that are not done. Raises BadInput, BadOutput, NotReconciled; CannotRun if Spark fails."""
        begin(self.work.out, self.manifest)
        if self.finished is not None:
            return self.finished
        ship(spark)
        return self._run(spark, progress)

    def _run(self, spark: SparkSession, progress: Progress | None) -> Summary:
        began = time.perf_counter()
        out = self.work.out
        files, planned, origins = self._plan(spark)
        done = commits(out)
        todo = [unit for unit in planned.units if unit.name not in done]
        with _watched(out, len(planned.units), progress):
            work = attrs.evolve(self.work, share=_rows(todo) // max(1, spark.sparkContext.defaultParallelism))
            done |= {one.unit: one for one in _check_all(spark, todo, work)}
        nameless = sum(done[unit.name].nameless for unit in planned.units)
        reconcile_job(spark, files, _verdict_files(self.work, planned), planned, nameless, origins)
        summary = summarize(
            [done[unit.name] for unit in planned.units],
            out=str(out),
            level=self.work.level.value,
            files=len(self.files),
            resumed=len(planned.units) - len(todo),
            notes=(*self.notes, *planned.notes),
            seconds=time.perf_counter() - began,
        )
        _complete(self.work, summary)
        return summary

    def _plan(self, spark: SparkSession) -> tuple[list[tuple[Place, int]], Plan, Origins]:
        """Convert the files that are not Parquet, then plan from the footers of all files.

        The files of Parquet come with what is added to their ids.
        """
        splits = self._convert(spark, [file for file in self.files if file.suffix != PARQUET])
        added = [converted(part, self.work.out) for part in splits]
        sources = {str(file): file.table for file in self.files if file.table is not None}
        sources |= {str(file): str(part.file) for file, part in zip(added, splits, strict=True)}
        files = [file for file in self.files if file.suffix == PARQUET] + added
        pieces = list(self.pieces)
        tasks = chunks([*self.unread, *added], FOOTERS)
        if tasks:
            reads = spark.sparkContext.parallelize(tasks, len(tasks)).map(read_footers)
            for found in succeed(reads, [map(str, files) for files in tasks]):
                pieces += found
        planned, origins = plan_files(
            pieces, sources, self.target, self.largest, across_files=self.across_files, huge=self.huge
        )
        moves = dict(zip(origins.files, origins.moves, strict=True))
        return [(file, moves.get(sources.get(str(file), str(file)), 0)) for file in files], planned, origins

    def _convert(self, spark: SparkSession, files: Sequence[Place]) -> list[Split]:
        """Convert JSON lines: count the lines of large files split by split, then convert each split."""
        out = self.work.out
        by_file = [split(file, self.split) for file in files]
        splits = [parts[0] for parts in by_file if len(parts) == 1]
        large = [part for parts in by_file if len(parts) > 1 for part in parts]
        if large:
            counts: list[Counted] = succeed(spark.sparkContext.parallelize(large, len(large)).map(count))
            splits += numbered(counts)
        if splits:
            succeed(spark.sparkContext.parallelize(splits, len(splits)).map(lambda part: convert(part, out)))
        return splits


def open_job(
    paths: Iterable[str | Path | Place],
    out: str | Path | Place,
    *,
    level: Level = Level.KAFKA,
    resume: bool = False,
    target: int = TARGET,
    largest: int = LARGEST,
    split: int = SPLIT,
    across_files: bool = False,
    huge: int = HUGE,
    table_version: int | None = None,
) -> Job:
    """Prepare the job of checking all histories in `paths`: files, folders, patterns, URIs. Writes nothing.

    Ids that two files share are two histories, unless histories go on `across_files`. A folder that is a table of Delta
    or Iceberg is read at its newest version, or at `table_version`, and its histories may go on in any of its files. A
    unit should hold about `target` operations, and at most `largest`. Files of JSON lines are split into parts of
    `split` bytes. A history of more than `huge` operations is judged in blocks, by many tasks. Raises BadInput and
    BadOutput.
    """
    out = Place.of(out)
    files, notes = find(paths, table_version)
    parquet = [file for file in files if file.suffix == PARQUET]
    pieces, unread = first_pieces(parquet[:READ_HERE])
    unread += parquet[READ_HERE:]
    inputs = [[str(file), file.size, file.modified] for file in files]
    manifest = {
        "files": inputs,
        "level": level.value,
        "unit sizes": [target, largest, split, huge],
        "columns": JOB_TABLES["verdicts"].names,
        "across files": across_files,
    }
    examine(out, manifest, resume)
    work = Work(out, level, job_of(manifest))
    return Job(files, tuple(pieces), tuple(unread), work, manifest, target, largest, split, across_files, huge, notes)


def plan_files(
    pieces: Sequence[Piece],
    sources: Mapping[str, str],
    target: int = TARGET,
    largest: int = LARGEST,
    *,
    across_files: bool = False,
    huge: int = HUGE,
) -> tuple[Plan, Origins]:
    """Number the histories of all files, then plan.

    `sources`: the file from which a converted file comes, or the table that a file is a part of.
    """
    extents = extents_of((sources.get(piece.file, piece.file), piece.low, piece.high) for piece in pieces)
    origins, notes = origins_of(extents, across_files=across_files)
    moves = dict(zip(origins.files, origins.moves, strict=True))
    moved = (_moved(piece, moves.get(sources.get(piece.file, piece.file), 0)) for piece in pieces)
    planned = plan(moved, target, largest, origins, huge)
    return attrs.evolve(planned, notes=(*notes, *planned.notes)), origins


def _moved(piece: Piece, move: int) -> Piece:
    if not move or piece.low is None or piece.high is None:
        return piece
    return attrs.evolve(piece, low=piece.low + move, high=piece.high + move, move=move)


def read_footers(files: Iterable[Place]) -> list[Piece] | Failed:
    """Every row group of some files."""
    try:
        return list(pieces_of(files))
    except BadInput as error:
        return Failed(str(error))


def _check_all(spark: SparkSession, units: Sequence[Unit], work: Work) -> Iterator[Commit]:
    huge = [unit for unit in units if unit.in_blocks]
    single = [unit for unit in units if unit.buckets == 1 and not unit.in_blocks]
    if single:
        yield from succeed(spark.sparkContext.parallelize(single, len(single)).map(work.task), _files_of(single))
    for shared in _by_pieces(unit for unit in units if unit.buckets > 1):
        yield from _check_buckets(spark, shared, work)
    for unit in huge:
        yield _check_in_blocks(spark, unit, work)


def _rows(units: Iterable[Unit]) -> int:
    """How many rows these units have, about."""
    return sum(sum(piece.rows for piece in unit.pieces) // unit.buckets for unit in units)


def _check_in_blocks(spark: SparkSession, unit: Unit, work: Work) -> Commit:
    """Judge one history by many tasks; or by one, where blocks cannot, and then its note says why."""
    began = time.perf_counter()
    found = judge_in_blocks(spark, unit, work.level)
    if isinstance(found, HugeHistory):
        return commit(work.out, work.job, unit, found.checked, found.nameless, time.perf_counter() - began)
    alone = attrs.evolve(work, why=str(found))
    return succeed(spark.sparkContext.parallelize([unit], 1).map(alone.do), _files_of([unit]))[0]


def _files_of(units: Iterable[Unit]) -> list[set[str]]:
    """The files that each of these units reads."""
    return [{piece.file for piece in unit.pieces + unit.borrowed} for unit in units]


def _by_pieces(units: Iterable[Unit]) -> Iterator[list[Unit]]:
    """Buckets of the same pieces, together."""
    found: dict[tuple[int | None, int | None], list[Unit]] = {}
    for unit in units:
        found.setdefault((unit.first, unit.last), []).append(unit)
    yield from found.values()


def _check_buckets(spark: SparkSession, units: Sequence[Unit], work: Work) -> list[Commit]:
    """Shuffle the operations by bucket, then check each bucket."""
    whole = units[0]
    by_bucket = {unit.bucket: attrs.evolve(unit, pieces=(), borrowed=()) for unit in units}
    wanted = tuple(sorted(by_bucket))
    own = [attrs.evolve(whole, bucket=0, pieces=(piece,), borrowed=()) for piece in whole.pieces]
    borrowed = [attrs.evolve(whole, bucket=0, pieces=(), borrowed=(piece,)) for piece in whole.borrowed]
    tasks = own + borrowed

    def check_bucket(bucket: int, pairs: Iterable[tuple[int, bytes | Failed]]) -> Iterator[Commit | Failed]:
        if bucket in by_bucket:
            yield work.join(by_bucket[bucket], (stream for _, stream in pairs))
            spare_collections(is_loaded())

    streams = spark.sparkContext.parallelize(tasks, len(tasks)).flatMap(lambda task: work.split(task, wanted))
    return succeed(streams.partitionBy(whole.buckets, int).mapPartitionsWithIndex(check_bucket), _files_of([whole]))


@contextmanager
def _watched(out: Place, units: int, progress: Progress | None) -> Iterator[None]:
    """Report progress every POLL seconds while the block runs: how many units have a commit."""
    if progress is None:
        yield
        return
    over = Event()

    def watch() -> None:
        while not over.wait(POLL):
            progress(committed(out), units)

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        progress(committed(out), units)


def _verdict_files(work: Work, planned: Plan) -> list[VerdictFile]:
    """The files of verdicts that are there; a unit of malformed rows alone has none."""
    folder = work.out / "verdicts"
    there = {file.name for file in folder.files()}
    bare = (attrs.evolve(unit, pieces=(), borrowed=()) for unit in planned.units)
    named = ((table_file(unit, work.job), unit) for unit in bare)
    return [VerdictFile(folder / name, unit) for name, unit in named if name in there]


def _complete(work: Work, summary: Summary) -> None:
    """Give each table at least one file, so that Spark finds its schema; then put the summary, last of all."""
    sweep(work.out, work.job)
    for name, schema in JOB_TABLES.items():
        if not any(file.suffix == PARQUET for file in (work.out / name).files()):
            put_table(work.out / name / f"none-{work.job}{PARQUET}", schema.empty_table())
    (work.out / SUMMARY).put(json.dumps(summary.to_json(), indent=1).encode())
