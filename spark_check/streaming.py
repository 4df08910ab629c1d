"""Operations as a stream: a history is judged once it is closed, and its verdict is written exactly once.

    verdicts/   anomalies/   malformed/     as a job writes them, one file for each batch and bucket
    late/                                   rows of histories that had been judged when they came
    _state/BUCKET/                          rows of open histories, ids of judged ones; after each of two batches
    _batches/                               what each batch did; written last
    _stream.json                            the options; a stream that goes on must have the same

A history is closed by a row that says so, or when none of its rows has come for some time, by the rows' own clock.

Why `foreachBatch` and not `transformWithState`: that calls Python for each history and hands every row through a socket
to and from its state, tens of thousands of operations a second; the checker's passes over arrays want all histories at
once, millions a second. And Spark gives a batch that was interrupted the same number and the same rows again; since
state and tables are named by the number, what is done twice is put twice in the same place.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.linearizability.history import Flags, Ints
from tidegauge.linearizability.json_objects import each_name_once
from tidegauge.linearizability.log import Level
from tidegauge.spark_check.checking import FILE, check_parts
from tidegauge.spark_check.errors import BadInput, BadOutput
from tidegauge.spark_check.footers import KEY
from tidegauge.spark_check.judging import SOURCE, known_of, part_of
from tidegauge.spark_check.origins import told_apart
from tidegauge.spark_check.output import JOB_TABLES, TABLES, put_table, read_object
from tidegauge.spark_check.places import Place
from tidegauge.spark_check.reading import COLUMNS
from tidegauge.spark_check.shipping import ship

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

logger = logging.getLogger("tidegauge.spark_check")

BATCHES, STATE, OPTIONS, ENDED, CHECKPOINT = "_batches", "_state", "_stream.json", "_ended.json", "_checkpoint"
LATE = "late"
LATE_SCHEMA = pa.schema([("batch", pa.int64()), (KEY, pa.int64()), ("index", pa.int32()), ("content", pa.string())])
"""One row for each row that came late: the batch it came in, and its content as JSON."""

BUCKETS = 8
_BUCKET, _CAME, _CLOSED, _TIME, _AHEAD = "_bucket", "_came", "_closed", "_time", "_ahead"
_SKEW = 60
"""Seconds that a row's clock may be ahead of this machine's."""
_NEVER = np.iinfo(np.int64).min


@attrs.frozen
class Stream:
    """What driver and workers know of a stream. `watermark` times are microseconds."""

    out: Place
    level: Level
    buckets: int
    patience: int | None
    topics: tuple[str, ...] | None
    source: str | None = None
    """The column that says where each row is from."""

    def take(self, rows: DataFrame, number: int, *, everything: bool = False) -> None:
        """Process a batch; with `everything` all histories are closed. Raises BadOutput for another stream's batch."""
        if not everything and (self.out / ENDED).exists():
            raise BadOutput(f"the stream in {self.out} has ended: give another folder")
        records = _records(self.out / BATCHES)
        newest = records.get(max((one for one in records if one < number), default=-1))
        if any(one > number for one in records):
            raise BadOutput(
                f"batch {number} comes after later ones in {self.out}: the checkpoint is not this stream's. "
                "Give another folder, or the checkpoint that the stream began with"
            )
        before = read_object(newest) if newest is not None else {}
        mark = before.get("watermark")
        limit = None if mark is None or self.patience is None else mark - self.patience

        def take_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            came = list(batches)
            table = pa.Table.from_batches(came) if came else pa.table({_BUCKET: pa.array([], pa.int32())})
            for bucket in np.unique(table.column(_BUCKET).to_numpy()).tolist():
                mine = table.filter(pc.and_kleene(pc.equal(table.column(_BUCKET), bucket), table.column(_CAME)))
                did = self._advance(mine.drop_columns([_BUCKET, _CAME]), bucket, number, limit, everything)
                yield pa.record_batch({"did": [json.dumps(did)]})

        told = self._with_every_bucket(rows).repartition(self.buckets, _BUCKET).mapInArrow(take_partition, "did string")
        did: Counter[str] = Counter()
        marks = [mark] if mark is not None else []
        for row in told.collect():
            one = json.loads(row.did, object_pairs_hook=each_name_once)
            newest_row = one.pop("newest")
            marks += [] if newest_row is None else [newest_row]
            did.update(one)
        if did["late"]:
            logger.warning("batch %d: %d rows are late, see %s", number, did["late"], self.out / LATE)
        if did["ahead"]:
            logger.warning("batch %d: %d rows have time stamps ahead of this machine's clock", number, did["ahead"])
        record = {
            **{name: count for name, count in did.items() if count or name != "ahead"},
            "watermark": max(marks, default=None),
        }
        (self.out / BATCHES / f"{number:012d}.json").put(json.dumps(record).encode())

    def _with_every_bucket(self, rows: DataFrame) -> DataFrame:
        """The rows with their buckets, and for each bucket a row that did not come: each has to go on."""
        from pyspark.sql import functions

        none = functions.lit(False).alias(_CAME)
        every = rows.sparkSession.range(self.buckets).select(functions.col("id").cast("int").alias(_BUCKET), none)
        keys = [name for name in (SOURCE, KEY) if name in rows.columns]
        bucket = functions.pmod(functions.xxhash64(*keys), functions.lit(self.buckets)).cast("int")
        bucketed = rows.withColumns({_BUCKET: bucket, _CAME: functions.lit(True)})
        return bucketed.unionByName(every, allowMissingColumns=True)

    def _advance(self, rows: pa.Table, bucket: int, number: int, limit: int | None, everything: bool) -> dict[str, Any]:
        """Take the batch's rows of one bucket: judge what is closed, keep what is open."""
        place = self.out / STATE / f"{bucket:05d}"
        place.make_folder()
        judged, held = _state(place, number, has_source=self.source is not None)
        rows, ahead = _dated(rows, None if limit is None else limit + (self.patience or 0))
        newest = pc.max(rows.column(_TIME)).as_py() if _TIME in rows.column_names else None
        late, rows = _apart(rows, _among(rows, judged))
        rows = rows if held is None else pa.concat_tables([held, rows.cast(held.schema)])
        closed, rows = _apart(rows, np.ones(len(rows), np.bool_) if everything else _closed(rows, limit))
        name = f"batch-{number:012d}-{bucket:05d}.parquet"
        did = {"late": len(late), "open": len(rows), "newest": newest, "histories": 0} | (
            {"ahead": ahead} if ahead else {}
        )
        if len(late):
            put_table(self.out / LATE / name, _late(late, number))
        if len(closed):
            columns = [column for column in (*COLUMNS, SOURCE) if column in closed.column_names]
            part, origins = part_of(f"batch {number}", closed.select(columns), self.topics)
            checked = check_parts([part], self.level, origins)
            did |= {"histories": len(checked.verdicts), **checked.counts}
            for table, content in zip(TABLES, (checked.verdicts, checked.anomalies, checked.malformed), strict=True):
                if len(content):
                    put_table(self.out / table / name, content)
            judged = pa.concat_tables([judged, _whose(checked.verdicts)])
        put_table(place / f"{number:012d}-judged.parquet", judged)
        put_table(place / f"{number:012d}-open.parquet", rows)
        _forget(place, number)
        return did


def judge_stream(
    operations: DataFrame,
    out: str | Path,
    *,
    level: Level = Level.KAFKA,
    closed: str | None = None,
    time: str | None = None,
    patience: timedelta | None = None,
    buckets: int = BUCKETS,
    topics: Sequence[str] | None = None,
    source: str | None = None,
) -> DataStreamWriter:
    """Judge a stream of operations (`spark.readStream`), history by history; set its trigger and `start()` it.

    A history is closed by a row in which the boolean column `closed` is true, or, with `time`, a column of time stamps,
    when the newest row of all is `patience` newer than its own newest row. Rows in one batch count as coming together.
    A time stamp ahead of this machine's clock says only that the row is there: it closes no other history. With
    `source`, the name of a column that says where each row is from, an id that two sources have is two histories.
    What comes later is in `late/`; the verdict stands. `end_stream` judges what is open when there is no more to come.
    State and tables are in `out`, and so is the checkpoint. Raises BadInput and BadOutput.
    """
    from pyspark.sql import functions

    known = known_of(operations, source)
    if closed is None and (time is None or patience is None):
        raise BadInput("nothing says when a history is closed: give the column `closed`, or `time` and `patience`")
    flag = functions.lit(False) if closed is None else functions.coalesce(functions.col(closed), functions.lit(False))
    said = [flag.alias(_CLOSED)]
    if time is not None:
        # The clock of the batch: Spark gives a batch that comes again the same one.
        ahead = functions.col(time) > functions.current_timestamp() + functions.expr(f"INTERVAL {_SKEW} SECONDS")
        said += [
            functions.unix_micros(time).alias(_TIME),
            functions.coalesce(ahead, functions.lit(False)).alias(_AHEAD),
        ]
    micros = None if patience is None else patience // timedelta(microseconds=1)
    stream = Stream(Place.of(out), level, buckets, micros, None if topics is None else tuple(topics), source)
    _begin(stream)
    ship(operations.sparkSession)
    writer = operations.select(*known, *said).writeStream.foreachBatch(stream.take)
    return writer.option("checkpointLocation", (stream.out / CHECKPOINT).for_spark)


def end_stream(spark: SparkSession, out: str | Path) -> None:
    """Judge the histories that are open in `out`. The stream is not running, and cannot go on after that."""
    place = Place.of(out)
    options = read_object(place / OPTIONS)
    (place / ENDED).put(b"{}")  # first: no batch may come between
    records = _records(place / BATCHES)
    if not records:
        return
    names = None if options["topics"] is None else tuple(options["topics"])
    level, source = Level(options["level"]), options.get("source")
    stream = Stream(place, level, options["buckets"], options["patience"], names, source)
    kept = [name for name in (place / STATE / "00000").files() if name.name.endswith("-open.parquet")]
    with max(kept).open_parquet() as file:
        nothing = file.schema.empty_table()
    stream.take(spark.createDataFrame(nothing), max(records) + 1, everything=True)


def totals(out: str | Path) -> Counter[str]:
    """What the batches so far did: `histories` judged, by verdict too, rows that came `late`; `open` rows now."""
    batches = [file for _, file in sorted(_records(Place.of(out) / BATCHES).items())]
    did: Counter[str] = Counter()
    for file in batches:
        one = read_object(file)
        del one["watermark"]
        did["open"] = 0
        did.update(one)
    return did


def _begin(stream: Stream) -> None:
    """Make the folders and write the options. Raises BadOutput if the folder holds something else."""
    out = stream.out
    said = {**attrs.asdict(stream), "out": None, "level": stream.level.value}
    said = json.loads(json.dumps(said), object_pairs_hook=each_name_once)
    if (out / OPTIONS).exists():
        begun = read_object(out / OPTIONS)
        differs = [name for name in said if begun.get(name) != said[name]]
        if differs:
            raise BadOutput(f"the stream in {out} began with other options ({', '.join(differs)}): give another folder")
        return
    if not out.is_empty():
        raise BadOutput(f"{out} is not empty: give another folder")
    named = stream.source is not None
    tables = {**(JOB_TABLES if named else TABLES), LATE: LATE_SCHEMA.append(FILE) if named else LATE_SCHEMA}
    for name, schema in tables.items():
        (out / name).make_folder()
        put_table(out / name / "none.parquet", schema.empty_table())  # so that Spark finds the schema
    for name in (BATCHES, STATE):
        (out / name).make_folder()
    (out / OPTIONS).put(json.dumps(said).encode())


def _records(folder: Place) -> dict[int, Place]:
    """The records of batches by their numbers. A write that was killed may have left a file beside them."""
    return {int(file.stem): file for file in folder.files() if file.suffix == ".json" and file.stem.isdecimal()}


def _whose(verdicts: pa.Table) -> pa.Table:
    """The judged histories: their ids, and their sources if they have some."""
    names = [name for name in (KEY, FILE.name) if name in verdicts.column_names]
    return pa.table({{KEY: KEY, FILE.name: SOURCE}[name]: verdicts.column(name) for name in names})


def _state(place: Place, number: int, *, has_source: bool) -> tuple[pa.Table, pa.Table | None]:
    """Which histories are judged, and the rows of open ones, as they were before batch `number`."""
    kept = sorted(int(file.name[:12]) for file in place.files() if file.name.endswith("-open.parquet"))
    before = [one for one in kept if one < number]
    if not before:
        empty = {KEY: pa.array([], pa.int64()), **({SOURCE: pa.array([], pa.string())} if has_source else {})}
        return pa.table(empty), None
    with (place / f"{before[-1]:012d}-judged.parquet").open_parquet() as file:
        judged = file.read()
    with (place / f"{before[-1]:012d}-open.parquet").open_parquet() as file:
        return judged, file.read()


def _forget(place: Place, number: int) -> None:
    """Delete the states that no batch will ask for: `number` may come again, but no batch before it."""
    kept = sorted({int(file.name[:12]) for file in place.files() if file.suffix == ".parquet"})
    for old in [one for one in kept if one < number][:-1]:
        for what in ("open", "judged"):
            (place / f"{old:012d}-{what}.parquet").delete()


def _dated(rows: pa.Table, mark: int | None) -> tuple[pa.Table, int]:
    """The rows with times that a clock may have shown, and how many of them had another.

    A time ahead of the clock would close every history. It stands for the newest of the others, or for `mark`.
    """
    if _AHEAD not in rows.column_names:
        return rows, 0
    ahead, times = rows.column(_AHEAD), rows.column(_TIME)
    rows = rows.drop_columns([_AHEAD])
    newest = pc.max(times.filter(pc.invert(ahead))).as_py()
    known = [one for one in (newest, mark) if one is not None]
    stands_for = pa.scalar(max(known, default=None), times.type)
    at = rows.schema.get_field_index(_TIME)
    return rows.set_column(at, rows.schema.field(at), pc.if_else(ahead, stands_for, times)), pc.sum(ahead).as_py() or 0


def _apart(rows: pa.Table, chosen: Flags) -> tuple[pa.Table, pa.Table]:
    """Those rows that are chosen, and the others."""
    return rows.filter(pa.array(chosen)), rows.filter(pa.array(~chosen))


def _histories(*tables: pa.Table) -> list[Ints]:
    """A number for the history of each row of each table: the same one for the same id and source, and no other."""
    ids = _together(tables, KEY, pa.int64())
    if SOURCE in tables[0].column_names:
        numbers, _ = told_apart(ids, _together(tables, SOURCE, pa.string()))
    else:
        numbers = pc.fill_null(ids, 0).to_numpy()
    return np.split(numbers, np.cumsum([len(table) for table in tables])[:-1])


def _together(tables: Iterable[pa.Table], column: str, kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([chunk for table in tables for chunk in table.column(column).cast(kind).chunks], kind)


def _among(rows: pa.Table, judged: pa.Table) -> Flags:
    """The rows of histories that are judged."""
    mine, theirs = _histories(rows, judged)
    found: Flags = np.isin(mine, theirs) & pc.is_valid(rows.column(KEY)).to_numpy()
    return found


def _closed(rows: pa.Table, limit: int | None) -> Flags:
    """The rows of histories that are closed: by a row that says so, or all rows of which are from before `limit`.

    So are rows without a history: they wait for nothing.
    """
    column = rows.column(KEY)
    nameless: Flags = pc.is_null(column).to_numpy()
    (numbers,) = _histories(rows)
    ids, whose = np.unique(numbers, return_inverse=True)
    over = np.zeros(len(ids), np.bool_)
    over[whose[rows.column(_CLOSED).to_numpy() & ~nameless]] = True
    if limit is not None and _TIME in rows.column_names:
        newest = np.full(len(ids), _NEVER, np.int64)
        np.maximum.at(newest, whose, pc.fill_null(rows.column(_TIME), limit + 1).to_numpy())
        over |= newest <= limit
    closed: Flags = over[whose] | nameless
    return closed


def _late(rows: pa.Table, number: int) -> pa.Table:
    content = [json.dumps(row) for row in rows.to_pylist()]
    # An index that does not fit is in `content`.
    indices = (
        one if one is not None and -(1 << 31) <= one < 1 << 31 else None for one in rows.column("index").to_pylist()
    )
    ids = rows.column(KEY).to_pylist()
    columns = {"batch": [number] * len(rows), KEY: ids, "index": list(indices), "content": content}
    table = pa.table(columns, schema=LATE_SCHEMA)
    return table if SOURCE not in rows.column_names else table.append_column(FILE, rows.column(SOURCE))
