"""Operations as a stream: verdicts as the checker's, once each, whatever comes when; what comes late is told."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegauge.linearizability.arrow import to_arrow
from tidegauge.linearizability.check import check
from tidegauge.linearizability.history import Operations
from tidegauge.linearizability.log import Level
from tidegauge.model_tests.spark_check.layouts import (
    LENGTH,
    expected,
    expected_anomalies,
    histories,
    replaced,
    written_anomalies,
    written_malformed,
    written_verdicts,
)
from tidegauge.spark_check.checking import NAMES
from tidegauge.spark_check.errors import BadInput, BadOutput
from tidegauge.spark_check.judging import SOURCE
from tidegauge.spark_check.places import PARTIAL, Place
from tidegauge.spark_check.streaming import Stream, _begin, end_stream, judge_stream, totals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def with_ends(operations: Operations) -> pa.Table:
    """The rows, each history's last one marked."""
    rows = to_arrow(operations).drop_columns(["meta"])
    last = np.zeros(len(rows), np.bool_)
    last[operations.history_starts[1:] - 1] = True
    return rows.append_column("_last", pa.array(last))


def in_turns(rows: pa.Table, parts: int) -> list[pa.Table]:
    """Parts of the rows in which all histories go on."""
    turn = np.array(rows.column("index").to_pylist()) * parts // LENGTH
    return [rows.filter(pa.array(turn == part)) for part in range(parts)]


def stream_of(spark: SparkSession, folder: Path, parts: Sequence[pa.Table]) -> DataFrame:
    """A stream that brings a part in each batch."""
    folder.mkdir(exist_ok=True)
    for number, part in enumerate(parts):
        file = folder / f"{number:03d}.parquet"
        pq.write_table(part, file)
        os.utime(file, (1_700_000_000 + number,) * 2)  # Spark takes the oldest first, and two may have one millisecond
    schema = spark.read.parquet(str(folder / "000.parquet")).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def run(operations: DataFrame, out: Path, **options: Any) -> None:
    judge_stream(operations, out, buckets=2, topics=histories(8).topics, **options).trigger(
        availableNow=True
    ).start().awaitTermination()


@pytest.mark.spark
def test_each_history_is_judged_once_although_a_batch_is_interrupted_and_late_rows_are_told(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    operations, out = histories(8), tmp_path / "out"
    early, late = operations.slice(0, 6 * LENGTH), operations.slice(6 * LENGTH, 8 * LENGTH)
    first, second = in_turns(with_ends(early), 2)
    again = pa.concat_tables([with_ends(late).slice(0, LENGTH + 5), second.slice(3, 2)])
    rest = with_ends(late).slice(LENGTH + 5, LENGTH - 6)  # the last row, which would close it, never comes
    rows = stream_of(spark, tmp_path / "in", [first, second, again, rest])
    put = Place.put

    def fail_at_the_end_of_the_second(place: Place, content: bytes) -> None:
        if place.uri.endswith("_batches/000000000001.json"):
            (Path(place.uri).parent / f".{place.name}.0123456789ab{PARTIAL}").write_bytes(content[:5])
            raise OSError("the driver is killed here")
        put(place, content)

    with monkeypatch.context() as patch:
        patch.setattr(Place, "put", fail_at_the_end_of_the_second)
        with pytest.raises(Exception, match="the driver is killed here"):
            run(rows, out, closed="_last")
    assert set(written_verdicts(out)) == set(range(6)), "the tables of the batch were there"
    with caplog.at_level(logging.WARNING, "tidegauge"):
        run(rows, out, closed="_last")
    judged = check(operations)
    assert written_verdicts(out) == {one: said for one, said in expected(operations).items() if one < 7}
    assert "batch 2: 2 rows are late" in caplog.text
    came_late = pq.read_table(out / "late").to_pylist()
    assert [(row["batch"], row["history"]) for row in came_late] == [(2, 0), (2, 0)]
    assert {row["index"] for row in came_late} == set(second.slice(3, 2).column("index").to_pylist())
    assert dict(totals(out)) == {
        "histories": 7,
        "late": 2,
        "open": LENGTH - 1,
        **{name: number for name, number in _counted(judged.verdicts[:7]).items() if number},
    }
    end_stream(spark, out)
    cut = operations.slice(0, 8 * LENGTH - 1)
    assert written_verdicts(out) == expected(cut)
    assert written_anomalies(out) == expected_anomalies(cut)
    with pytest.raises(Exception, match="has ended"):
        run(stream_of(spark, tmp_path / "in", [first, second, again, rest, first]), out, closed="_last")
    with pytest.raises(BadOutput, match="began with other options"):
        run(rows, out, closed="_last", level=Level.STRICT)


def _counted(verdicts: Any) -> dict[str, int]:
    return dict(zip(("valid", "violated", "unknown"), np.bincount(verdicts, minlength=3).tolist(), strict=True))


def batch(stream: Stream, number: int, bucket: int, rows: pa.Table, limit: int | None = None) -> dict[str, Any]:
    return stream._advance(rows, bucket, number, limit, everything=False)


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    begun = Stream(Place.of(tmp_path / "out"), Level.KAFKA, 1, 5_000_000, None)
    _begin(begun)
    return begun


def test_a_history_is_closed_when_nothing_of_it_has_come_for_long_enough(stream: Stream, tmp_path: Path) -> None:
    """By the rows' clock: a minute is not over until some row says so."""
    rows = with_ends(histories(2))
    rows = rows.rename_columns([*rows.column_names[:-1], "_closed"])
    rows = rows.set_column(rows.schema.get_field_index("_closed"), "_closed", pa.array([False] * len(rows)))
    timed = rows.append_column("_time", pa.array([1_000_000] * LENGTH + [3_000_000] * LENGTH))
    assert batch(stream, 0, 0, timed)["newest"] == 3_000_000
    nothing = timed.slice(0, 0)
    assert batch(stream, 1, 0, nothing, limit=999_999)["histories"] == 0
    assert batch(stream, 2, 0, nothing, limit=1_000_000)["histories"] == 1
    assert batch(stream, 3, 0, timed.slice(3, 1), limit=2_999_999) == {
        "late": 1, "open": LENGTH, "newest": 1_000_000, "histories": 0,
    }  # fmt: skip
    assert set(written_verdicts(tmp_path / "out")) == {0}
    assert batch(stream, 4, 0, nothing, limit=3_000_000)["histories"] == 1
    assert batch(stream, 5, 0, timed.slice(3, 1), limit=3_000_000)["late"] == 1


def with_times(rows: pa.Table, times: Sequence[int], ahead: Sequence[bool]) -> pa.Table:
    open_rows = rows.drop_columns(["_last"]).append_column("_closed", pa.array([False] * len(rows)))
    return open_rows.append_column("_time", pa.array(times)).append_column("_ahead", pa.array(ahead))


def test_a_time_stamp_ahead_of_the_clock_closes_nothing(stream: Stream, tmp_path: Path) -> None:
    rows = with_ends(histories(2))
    future, late = 1 << 60, [1_000_000] * LENGTH
    first = with_times(rows, [*late, *[2_000_000] * (LENGTH - 1), future], [False] * (2 * LENGTH - 1) + [True])
    assert batch(stream, 0, 0, first) == {"late": 0, "open": 40, "newest": 2_000_000, "histories": 0, "ahead": 1}
    alone = with_times(rows.slice(0, 1), [future], [True])
    assert batch(stream, 1, 0, alone.slice(0, 0), limit=1_500_000)["histories"] == 1
    again = batch(stream, 2, 0, with_times(rows.slice(LENGTH, 1), [future], [True]), limit=1_600_000)
    assert (again["open"], again["newest"]) == (LENGTH + 1, 1_600_000 + 5_000_000), "it counts as of the newest so far"
    assert batch(stream, 3, 0, alone.slice(0, 0), limit=6_600_000)["histories"] == 1, "and closes with time"


def of_source(rows: pa.Table, name: str) -> pa.Table:
    rows = rows.rename_columns([*rows.column_names[:-1], "_closed"])
    return rows.append_column(SOURCE, pa.array([name] * len(rows)))


def test_an_id_that_two_sources_have_is_two_histories(tmp_path: Path) -> None:
    by_source = {"a": histories(6, seed=5), "b": histories(6, seed=6)}
    stream = Stream(Place.of(tmp_path / "out"), Level.KAFKA, 1, None, None, source="_from")
    _begin(stream)
    first, second = (of_source(with_ends(operations), name) for name, operations in by_source.items())
    spoiled = replaced(first, "kind", LENGTH, 99).cast(first.schema)
    assert batch(stream, 0, 0, pa.concat_tables([spoiled, second.slice(0, LENGTH - 1)]))["histories"] == 6
    assert batch(stream, 1, 0, second.slice(LENGTH - 1))["histories"] == 6
    assert batch(stream, 2, 0, pa.concat_tables([first.slice(3, 1), second.slice(4, 1)]))["late"] == 2
    assert [row["file"] for row in pq.read_table(tmp_path / "out" / "late").to_pylist()] == ["a", "b"]
    verdicts = pq.read_table(tmp_path / "out" / "verdicts").to_pylist()
    for name, operations in by_source.items():
        mine = {row["history"]: (row["operations"], NAMES[row["verdict"]]) for row in verdicts if row["file"] == name}
        assert mine == expected(operations) | ({1: (LENGTH, "malformed")} if name == "a" else {})
    (aside,) = written_malformed(tmp_path / "out")
    assert (aside["file"], aside["history"], json.loads(str(aside["content"]))["history"]) == ("a", 1, 1)
    anomalies = pq.read_table(tmp_path / "out" / "anomalies").to_pylist()
    assert (
        {(row["history"], row["file"]) for row in anomalies}
        == {(row["history"], row["file"]) for row in verdicts if row["anomalies"]}
        != set()
    )


def test_a_late_row_whose_index_does_not_fit_is_kept_as_it_came(stream: Stream, tmp_path: Path) -> None:
    rows = with_ends(histories(1))
    rows = rows.rename_columns([*rows.column_names[:-1], "_closed"])
    wide = rows.set_column(rows.schema.get_field_index("index"), "index", rows.column("index").cast(pa.int64()))
    assert batch(stream, 0, 0, wide)["histories"] == 1
    number = wide.schema.get_field_index("index")
    strange = wide.slice(0, 1).set_column(number, "index", pa.array([1 << 40]))
    assert batch(stream, 1, 0, strange)["late"] == 1
    (row,) = pq.read_table(tmp_path / "out" / "late").to_pylist()
    assert row["index"] is None
    assert f'"index": {1 << 40}' in row["content"]


def test_a_batch_that_comes_again_puts_the_same_and_old_states_are_forgotten(stream: Stream, tmp_path: Path) -> None:
    rows = with_ends(histories(6))
    rows = rows.rename_columns([*rows.column_names[:-1], "_closed"])
    parts = in_turns(rows, 4)
    for number, part in enumerate(parts):
        did = batch(stream, number, 0, part)
        files = {place: place.read_bytes() for place in (tmp_path / "out").rglob("*.parquet")}
        assert batch(stream, number, 0, part) == did
        assert {place: place.read_bytes() for place in (tmp_path / "out").rglob("*.parquet")} == files
    assert written_verdicts(tmp_path / "out") == expected(histories(6))
    assert len(list((tmp_path / "out" / "_state" / "00000").iterdir())) == 4


def test_rows_without_a_history_or_a_kind_are_kept_aside_at_once(stream: Stream, tmp_path: Path) -> None:
    rows = with_ends(histories(1))
    rows = rows.rename_columns([*rows.column_names[:-1], "_closed"]).slice(0, 3)
    blank = [[None, 0, 0], [0, None, 0]]
    for name, cells in zip(("history", "kind"), blank, strict=True):
        number = rows.schema.get_field_index(name)
        rows = rows.set_column(number, pa.field(name, rows.schema.field(name).type), pa.array(cells, rows[name].type))
    assert batch(stream, 0, 0, rows)["open"] == 2
    (aside,) = written_malformed(tmp_path / "out")
    assert aside["reason"] == "history is null; every operation needs one"


@pytest.mark.spark
def test_what_cannot_be_a_stream_of_histories_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    schema = spark.createDataFrame(with_ends(histories(1))).schema
    rows = spark.createDataFrame([], schema)
    with pytest.raises(BadInput, match="nothing says when a history is closed"):
        judge_stream(rows, tmp_path / "out", time="_at")
    with pytest.raises(BadInput, match="no column index"):
        judge_stream(rows.drop("index"), tmp_path / "out", closed="_last")
    (tmp_path / "thesis.txt").write_text("my only copy")
    with pytest.raises(BadOutput, match="is not empty"):
        judge_stream(rows, tmp_path, closed="_last")


def test_a_checkpoint_of_another_stream_is_refused(stream: Stream) -> None:
    (stream.out / "_batches" / "000000000007.json").put(b'{"watermark": null}')
    with pytest.raises(BadOutput, match="batch 3 comes after later ones"):
        stream.take(None, 3)  # type: ignore[arg-type]  # no row is looked at
