"""The whole job on Spark: the same verdicts as the checker's, by way of every plan; nothing doubled, nothing lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from tidegauge.linearizability import compiled_code, jsonl
from tidegauge.linearizability.arrow import to_arrow
from tidegauge.linearizability.check import check
from tidegauge.linearizability.log import Level
from tidegauge.model_tests.spark_check.layouts import (
    LENGTH,
    expected,
    expected_anomalies,
    expected_coverage,
    histories,
    replaced,
    settled,
    shuffled,
    write,
    written_anomalies,
    written_coverage,
    written_malformed,
    written_verdicts,
)
from tidegauge.model_tests.spark_check.object_store import Bucket
from tidegauge.model_tests.spark_check.object_store import bucket as bucket
from tidegauge.spark_check import job as job_module
from tidegauge.spark_check import tasks
from tidegauge.spark_check.__main__ import main
from tidegauge.spark_check.checking import NAMES
from tidegauge.spark_check.errors import BadInput, BadOutput, CannotRun, NotReconciled
from tidegauge.spark_check.footers import find_files, pieces_of
from tidegauge.spark_check.frames import check_histories
from tidegauge.spark_check.job import Work, open_job, plan_files
from tidegauge.spark_check.output import ATTEMPTS, JOB_TABLES, MANIFEST, SUMMARY, UNITS, Commit, begin
from tidegauge.spark_check.page import render
from tidegauge.spark_check.places import PARTIAL, Place
from tidegauge.spark_check.planner import Unit
from tidegauge.spark_check.session import SETTINGS, local_session
from tidegauge.spark_check.summary import Summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.spark


def test_the_tables_in_spark_are_the_checkers_verdicts(spark: SparkSession, tmp_path: Path) -> None:
    operations = histories(100)
    write(tmp_path / "cut.parquet", to_arrow(operations), 333)
    tables = check_histories(spark, [tmp_path / "cut.parquet"])
    verdicts = {row.history: (row.operations, NAMES[row.verdict]) for row in tables.verdicts.collect()}
    assert verdicts == expected(operations)
    assert tables.verdicts.count() == 100
    named = {(row.history, row.anomaly, row.witness) for row in tables.anomalies.collect()}
    assert named == {(history, name.value, why) for history, name, _, _, why in expected_anomalies(operations)}
    assert tables.malformed.count() == 0


def test_unclustered_input_is_shuffled_and_a_note_says_so(spark: SparkSession, tmp_path: Path) -> None:
    operations = settled(histories(60))
    cut = int(operations.history_starts[20])
    clustered, mixed = to_arrow(operations.slice(0, cut)), to_arrow(operations.slice(cut, len(operations)))
    write(tmp_path / "clustered.parquet", clustered, 70)
    write(tmp_path / "mixed.parquet", shuffled(mixed, seed=4), 100)
    summary = open_job([tmp_path], tmp_path / "out", target=100, largest=300).run(spark)
    assert len(summary.notes) == 1
    mixed_file = tmp_path / "mixed.parquet"
    assert f"history 20 of {mixed_file} to history 59 of {mixed_file} are unclustered" in summary.notes[0]
    assert written_verdicts(tmp_path / "out") == expected(operations)
    assert written_anomalies(tmp_path / "out") == expected_anomalies(operations)
    covered = expected_coverage(operations)
    assert written_coverage(tmp_path / "out") == covered
    assert 0 < summary.covered.unconfirmed < summary.covered.records == sum(one[0] for one in covered.values())
    assert summary.covered == check(operations).coverage.totals
    assert len({note for _, _, _, note in covered.values()}) > 10
    first = f"The first: {summary.gaps[0]}; {summary.gaps[1]}; "
    assert any(line.startswith("not checked: whether ") and first in line for line in summary.lines())


def test_the_summary_counts_what_the_tables_hold(spark: SparkSession, tmp_path: Path) -> None:
    operations = histories(100)
    file = write(tmp_path / "cut.parquet", replaced(to_arrow(operations), "kind", 25, 99), 333)
    seen: list[tuple[int, int]] = []
    job = open_job([file], tmp_path / "out", target=300)
    summary = job.run(spark, lambda done, units: seen.append((done, units)))
    assert (summary.histories, summary.operations) == (100, 100 * LENGTH)
    words = [verdict for _, verdict in written_verdicts(tmp_path / "out").values()]
    assert summary.verdicts == {word: words.count(word) for word in sorted(set(words))}
    names = [name.value for _, name, _, _, _ in written_anomalies(tmp_path / "out")]
    assert summary.anomalies == {name: names.count(name) for name in sorted(set(names))}
    assert {one.anomaly for one in summary.examples} == set(names)
    assert list(summary.malformed.values()) == [1] == [len(written_malformed(tmp_path / "out"))]
    assert seen[-1] == (summary.units, summary.units)
    assert type(summary).from_json(json.loads((tmp_path / "out" / SUMMARY).read_text())) == summary


def test_each_worker_is_told_its_share_of_what_is_not_done(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "in.parquet", to_arrow(histories(40)), 100)
    told: list[tuple[int, int]] = []
    check_all = job_module._check_all

    def look(spark: SparkSession, units: Sequence[Unit], work: Work) -> Iterator[Commit]:
        told.append((sum(piece.rows for unit in units for piece in unit.pieces), work.share))
        return check_all(spark, units, work)

    monkeypatch.setattr(job_module, "_check_all", look)
    job = open_job([file], tmp_path / "out", target=100)
    job.run(spark)
    (tmp_path / "out" / SUMMARY).unlink()
    next((tmp_path / "out" / UNITS).iterdir()).unlink()
    job.run(spark)
    workers = spark.sparkContext.defaultParallelism
    assert told == [(40 * LENGTH, 40 * LENGTH // workers), (100, 100 // workers)]


def test_a_unit_is_screened_as_by_who_has_the_share_of_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled_code, "SCREENED", compiled_code.Screened())
    file = write(tmp_path / "in.parquet", to_arrow(histories(10)), 1_000)
    (unit,) = plan_files(list(pieces_of(find_files([file]))), {})[0].units
    work = Work(Place.of(tmp_path / "out"), Level.KAFKA, "job", share=5_000)
    begin(work.out, {})
    work.do(unit)
    assert compiled_code.SCREENED.operations == 5_000 + 10 * LENGTH


def test_workers_keep_the_memory_that_each_unit_takes(spark: SparkSession) -> None:
    names = {name.removeprefix("spark.executorEnv."): value for name, value in SETTINGS.items() if "ALLOC" in name}
    (seen,) = spark.sparkContext.parallelize([0], 1).map(lambda _: dict(os.environ)).collect()
    assert len(names) == 3
    assert names.items() <= seen.items()


def test_what_a_worker_has_loaded_is_left_out_of_collections_once(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[bool] = []
    monkeypatch.setattr("gc.freeze", lambda: frozen.append(True))
    tasks.spare_collections.cache_clear()
    for loaded in (False, False, True, True):
        tasks.spare_collections(loaded)
    assert len(frozen) == 2
    tasks.spare_collections.cache_clear()


def test_no_history_at_all_is_no_error(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(to_arrow(histories(1)).slice(0, 0), tmp_path / "none.parquet")
    tables = check_histories(spark, [tmp_path], out=tmp_path / "out")
    assert [table.count() for table in tables] == [0, 0, 0]


def test_a_damaged_file_fails_the_job_by_name_and_leaves_what_is_done(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", to_arrow(histories(20)), 100)
    torn = write(tmp_path / "b.parquet", to_arrow(histories(20, first=20)), 400)
    content = torn.read_bytes()
    torn.write_bytes(content[:200] + bytes(1_000) + content[1_200:])
    with pytest.raises(BadInput, match=r"b\.parquet, row group 0 cannot be read"):
        open_job([tmp_path], tmp_path / "out", target=100).run(spark)
    assert not (tmp_path / "out" / SUMMARY).exists()
    assert set(written_verdicts(tmp_path / "out")) == set(range(20))


@pytest.mark.parametrize("plan", ["clustered", "unclustered"])
def test_a_resumed_job_checks_only_what_is_not_done(spark: SparkSession, plan: str, tmp_path: Path) -> None:
    operations = histories(60)
    rows = to_arrow(operations) if plan == "clustered" else shuffled(to_arrow(operations), seed=6)
    file = write(tmp_path / "in.parquet", rows, 100)
    out = tmp_path / "out"
    open_job([file], out, target=200, largest=300).run(spark)
    (out / SUMMARY).unlink()
    (out / ATTEMPTS / f".0123456789ab-0.json.0123456789ab{PARTIAL}").write_text("killed while it was wri")
    commits = sorted((out / UNITS).iterdir())
    for commit in commits[::3]:
        commit.unlink()  # its tables are there, as after a kill between the tables and the commit
    kept = {file: file.stat().st_mtime_ns for file in commits if file.exists()}
    summary = open_job([file], out, resume=True, target=200, largest=300).run(spark)
    assert summary.resumed == len(kept) < len(commits)
    assert {file: file.stat().st_mtime_ns for file in kept} == kept
    assert written_verdicts(out) == expected(operations)


def test_footers_are_read_by_tasks_where_there_are_many_or_columns_are_needed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver reads the footers of the first files; a column of ids only tasks read."""
    operations = histories(12)
    rows = to_arrow(operations)
    pq.write_table(rows.slice(0, 70), tmp_path / "a.parquet", row_group_size=33, write_statistics=False)
    write(tmp_path / "b.parquet", rows.slice(70, 70), 33)
    write(tmp_path / "c.parquet", rows.slice(140), 33)
    monkeypatch.setattr(job_module, "READ_HERE", 2)
    job = open_job([tmp_path], tmp_path / "out", target=50, across_files=True)
    assert {Path(piece.file).name for piece in job.pieces} == {"b.parquet"}
    assert [file.name for file in job.unread] == ["a.parquet", "c.parquet"]
    job.run(spark)
    assert written_verdicts(tmp_path / "out") == expected(operations)


def test_ids_that_files_share_are_histories_of_their_own_unless_they_go_on_across_files(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two recordings begin with history 0. Lines of a large file are converted in parts, which are one file."""
    by_file = {"a.parquet": histories(20, seed=5), "b.jsonl": histories(20, seed=6)}
    write(tmp_path / "a.parquet", shuffled(to_arrow(by_file["a.parquet"]), seed=2), 100)
    jsonl.write(tmp_path / "b.jsonl", by_file["b.jsonl"])
    out = tmp_path / "out"
    summary = open_job([tmp_path], out, target=90, largest=150, split=8_000).run(spark)
    assert len(list((out / "_converted").iterdir())) > 2
    assert summary.histories == 40
    assert summary.notes[0].startswith(f"the ids of 2 files overlap, such as those of {tmp_path / 'a.parquet'} and ")
    verdicts = pq.read_table(out / "verdicts", schema=JOB_TABLES["verdicts"]).to_pylist()
    for name, operations in by_file.items():
        mine = [row for row in verdicts if row["file"] == str(tmp_path / name)]
        assert {row["history"]: (row["operations"], NAMES[row["verdict"]]) for row in mine} == expected(operations)
    assert any(f" of {tmp_path / 'b.jsonl'}, " in line for line in summary.lines())

    halves = histories(3)
    for name, half in (("c", halves.slice(0, LENGTH + 5)), ("d", halves.slice(LENGTH + 5, 3 * LENGTH))):
        write(tmp_path / f"{name}.parquet", to_arrow(half), 100)
    whole = tmp_path / "whole"
    command(capsys, tmp_path / "c.parquet", tmp_path / "d.parquet", "--out", whole, "--across-files")
    assert written_verdicts(whole) == expected(halves)
    files = [tmp_path / "c.parquet", tmp_path / "d.parquet"]
    with pytest.raises(BadOutput, match="its across files were different"):
        open_job(files, whole, resume=True)


def test_a_verdict_that_went_missing_fails_the_job(spark: SparkSession, tmp_path: Path) -> None:
    file = write(tmp_path / "in.parquet", to_arrow(histories(60)), 200)
    out = tmp_path / "out"
    open_job([file], out, target=200).run(spark)
    (out / SUMMARY).unlink()
    (table,) = (out / "verdicts").glob("unit-000001-*.parquet")
    pq.write_table(pq.read_table(table).slice(1), table)
    with pytest.raises(NotReconciled, match="1 history of the input has no verdict"):
        open_job([file], out, resume=True, target=200).run(spark)
    assert not (out / SUMMARY).exists()


def test_the_callers_session_is_used_when_there_is_one(spark: SparkSession) -> None:
    assert local_session().sparkContext is spark.sparkContext


def test_what_a_worker_could_not_do_is_said_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    """Nobody foresaw that a folder is where the worker has to put its table: Spark tries three times, then gives up."""
    file = write(tmp_path / "in.parquet", to_arrow(histories(3)), 200)
    job = open_job([file], tmp_path / "out")
    (tmp_path / "out" / "verdicts" / f"unit-000000-{job.work.job}.parquet" / "inside").mkdir(parents=True)
    with pytest.raises(
        CannotRun, match=r"^Spark failed: IsADirectoryError: .*--resume continues from there$"
    ) as raised:
        job.run(spark)
    assert "\n" not in str(raised.value)


def test_json_lines_are_converted_once_and_checked_with_the_rest(spark: SparkSession, tmp_path: Path) -> None:
    operations = histories(40)
    (tmp_path / "in" / "deep").mkdir(parents=True)
    write(tmp_path / "in" / "a.parquet", to_arrow(operations.slice(0, 10 * LENGTH)), 70)
    jsonl.write(tmp_path / "in" / "b.jsonl", operations.slice(10 * LENGTH, 30 * LENGTH))
    jsonl.write(tmp_path / "in" / "deep" / "b.jsonl", operations.slice(30 * LENGTH, 40 * LENGTH))
    out = tmp_path / "out"
    assert open_job([tmp_path / "in"], out).run(spark).files == 3
    assert written_verdicts(out) == expected(operations)
    assert written_anomalies(out) == expected_anomalies(operations)
    made = {file: file.stat().st_mtime_ns for file in (out / "_converted").iterdir()}
    (out / SUMMARY).unlink()
    open_job([tmp_path / "in"], out, resume=True).run(spark)
    assert {file: file.stat().st_mtime_ns for file in (out / "_converted").iterdir()} == made
    assert len(made) == 2


def test_an_object_store_holds_input_and_output(
    spark: SparkSession,
    bucket: Bucket,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    operations = histories(6)
    made = write(tmp_path / "made.parquet", to_arrow(operations.slice(0, 3 * LENGTH)), 100)
    Place.of(bucket.uri("in/day=1/a.parquet")).put(made.read_bytes())
    jsonl.write(tmp_path / "made.jsonl", operations.slice(3 * LENGTH, 6 * LENGTH))
    Place.of(bucket.uri("in/day=2/b.jsonl")).put((tmp_path / "made.jsonl").read_bytes())
    before = sorted(tmp_path.iterdir())
    out = Place.of(bucket.uri("out"))
    status, _, said = command(capsys, bucket.uri("in/day=*/*"), "--out", str(out))
    assert status == 1, said
    assert sorted(tmp_path.iterdir()) == before, "a URI is no name of a local folder"
    found = [row for file in (out / "verdicts").files() for row in _rows_of(file)]
    assert {row["history"]: (row["operations"], NAMES[row["verdict"]]) for row in found} == expected(operations)
    assert len(found) == 6


def _rows_of(file: Place) -> list[dict[str, Any]]:
    with file.open_parquet() as opened:
        rows: list[dict[str, Any]] = opened.read().to_pylist()
    return rows


def test_lines_that_are_no_operation_are_kept_aside_with_the_reason(spark: SparkSession, tmp_path: Path) -> None:
    operations, file, out = histories(3, rate=0.0), tmp_path / "odd.jsonl", tmp_path / "out"
    jsonl.write(file, operations)
    with file.open("a") as lines:
        lines.write('{"history": 2, "kind": "produce"}\nno JSON at all\n')
    summary = open_job([file], out).run(spark)
    assert summary.exit_status == 2
    aside = sorted(written_malformed(out), key=lambda row: str(row["reason"]))
    first = 3 * LENGTH + 1
    assert [row["history"] for row in aside] == [2, None]
    assert {row["file"] for row in aside} == {str(file)}, "the file that was given, and not what it was converted to"
    assert str(aside[0]["reason"]).startswith(f"odd.jsonl, line {first}: process is None")
    assert str(aside[1]["reason"]).startswith(f"odd.jsonl, line {first + 1}: ")
    assert "no JSON at all" in str(aside[1]["content"])
    assert {history: name for history, (_, name) in written_verdicts(out).items()} == {
        0: "valid",
        1: "valid",
        2: "malformed",
    }


def test_a_store_of_jepsens_is_judged_whole(spark: SparkSession, tmp_path: Path) -> None:
    """Each run is history 0 of its file."""
    out = tmp_path / "out"
    for run, completion in (("1", "info"), ("2", "fail")):
        (tmp_path / "queue" / run).mkdir(parents=True)
        (tmp_path / "queue" / run / "history.edn").write_text(
            "{:type :invoke, :f :send, :value [[:send 0 7]], :process 0, :time 1}\n"
            f"{{:type :{completion}, :f :send, :value [[:send 0 7]], :process 0, :time 2}}\n"
            "{:type :invoke, :f :poll, :value [[:poll]], :process 1, :time 3}\n"
            "{:type :ok, :f :poll, :value [[:poll {0 [[0 7]]}]], :process 1, :time 4}\n"
        )
    summary = open_job([tmp_path / "queue"], out).run(spark)
    assert (summary.files, summary.histories, summary.operations, summary.exit_status) == (2, 2, 4, 1)
    assert summary.anomalies == {"aborted-read": 1}
    said = {row["file"]: row["verdict"] for row in pq.read_table(out / "verdicts").to_pylist()}
    assert said == {f"{tmp_path}/queue/1/history.edn": 0, f"{tmp_path}/queue/2/history.edn": 1}
    assert {one.file for one in summary.examples} == {f"{tmp_path}/queue/2/history.edn"}


def test_text_that_is_no_text_fails_the_job_by_name(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "odd.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match=r"odd\.jsonl: not readable as UTF-8"):
        open_job([tmp_path / "odd.jsonl"], tmp_path / "out").run(spark)
    assert not (tmp_path / "out" / SUMMARY).exists()


# The command line


def command(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    status = main([str(word) for word in words])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_exit_status_0_when_all_hold(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "good.parquet", to_arrow(histories(30, rate=0.0)), 100)
    status, said, _ = command(capsys, file, "--out", tmp_path / "out")
    assert (status, said.splitlines()[0]) == (0, "30 histories, 600 operations, checked at level kafka")


def test_exit_status_1_when_some_are_violated_and_json_for_machines(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    operations = histories(30)
    file = write(tmp_path / "bad.parquet", to_arrow(operations), 100)
    page = tmp_path / "page.html"
    status, said, _ = command(capsys, file, "--out", tmp_path / "out", "--json", "--html", page)
    summary = json.loads(said)
    text = page.read_text(encoding="utf-8")
    assert all(f"tidegauge check {one['file']} --history {one['history']} " in text for one in summary["examples"])
    assert all(f"<td><code>{name}</code></td>" in text for name in summary["anomalies"])
    assert status == summary["exit_status"] == 1
    assert summary["verdicts"]["violated"] == sum(verdict == "violated" for _, verdict in expected(operations).values())

    def render_late(summary: Summary) -> str:
        page.write_text("what somebody has put there meanwhile")
        return render(summary)

    monkeypatch.setattr("tidegauge.spark_check.__main__.render", render_late)
    status, again, error = command(capsys, file, "--out", tmp_path / "out", "--json", "--html", page, "--resume")
    assert (status, json.loads(again)) == (2, summary), "what the job has found is told all the same"
    assert f"--html {page} is there, and is no page" in error
    assert page.read_text() == "what somebody has put there meanwhile"


def test_exit_status_2_when_rows_are_malformed(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two of a kind, in different units, are counted together."""
    rows = replaced(replaced(to_arrow(histories(30, rate=0.0)), "kind", 25, 99), "kind", 225, 98)
    summary = open_job([write(tmp_path / "odd.parquet", rows, 100)], tmp_path / "out", target=100).run(spark)
    assert [(reason[:10], count) for reason, count in summary.malformed.items()] == [("kind is 99", 2)]
    status, said, _ = command(capsys, tmp_path / "odd.parquet", "--out", tmp_path / "again")
    assert status == 2
    assert "malformed rows: 2, as: kind is 99" in said
    assert "  malformed             2" in said


def test_a_finished_job_is_not_done_again(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "good.parquet", to_arrow(histories(30)), 100)
    first = command(capsys, file, "--out", tmp_path / "out")
    again = command(capsys, file, "--out", tmp_path / "out", "--resume")
    assert again[:2] == first[:2]
    assert again[2] == "", "Spark is not started for it"


def test_exit_status_2_for_bad_input_and_output_before_spark_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegauge.spark_check.options.local_session", lambda *_: pytest.fail("Spark was started"))
    good = write(tmp_path / "good.parquet", to_arrow(histories(3)), 100)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("my only copy")
    cases: list[tuple[list[str | Path], str]] = [
        ([tmp_path / "absent", "--out", tmp_path / "out"], "absent does not exist"),
        ([good, "--out", tmp_path / "full"], "is not empty"),
        ([good, "--out", good], "is a file"),
        ([good, "--out", tmp_path / "full", "--resume"], "holds no job to resume"),
    ]
    for words, said in cases:
        status, out, err = command(capsys, *words)
        assert (status, out) == (2, "")
        assert err.startswith("error: ")
        assert said in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full", "good.parquet"]
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.txt"]


def test_no_operations_at_all_are_told_on_standard_error(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "none.parquet"
    pq.write_table(to_arrow(histories(1)).slice(0, 0), file)
    status, said, warned = command(capsys, file, "--out", tmp_path / "out")
    assert (status, said.splitlines()[0]) == (0, "0 histories, 0 operations, checked at level kafka")
    assert f"warning: {file}: no operations, so nothing is checked" in warned


def test_an_unknown_column_is_refused_before_spark_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = to_arrow(histories(1))
    names = ["high_watermrak" if name == "high_watermark" else name for name in table.column_names]
    pq.write_table(table.rename_columns(names), tmp_path / "odd.parquet")
    status, _, said = command(capsys, tmp_path / "odd.parquet", "--out", tmp_path / "out")
    assert status == 2
    assert "unknown column 'high_watermrak': did you mean 'high_watermark'?" in said


def test_a_heap_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for memory in ("x", "1k"):
        with pytest.raises(SystemExit) as raised:
            main(["histories", "--out", "out", f"--memory={memory}"])
        assert raised.value.code == 2
        said = capsys.readouterr().err
        assert f"argument --memory: memory is {memory!r}: give a whole number of m or g" in said
        assert "Java" not in said


def test_a_misspelt_option_is_named_before_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    for words, told in (
        (("histories", "--outt", "out"), "unknown option --outt: did you mean --out?"),
        (("--lvel=kafka",), "unknown option --lvel: did you mean --level?"),
        (("histories", "--out", "out", "-x"), "unknown option -x\n"),
        (("histories", "--json"), "the following arguments are required: --out"),
        (("--out", "out"), "the following arguments are required: HISTORIES"),
    ):
        with pytest.raises(SystemExit) as raised:
            main(words)
        assert raised.value.code == 2
        said = capsys.readouterr().err
        assert f"error: {told}" in said
        assert "[-h] --out DIR" in said


def test_a_number_of_workers_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for cores in ("0", "-1", "two", "65", "1000000000"):
        with pytest.raises(SystemExit) as raised:
            main(["histories", "--out", "out", f"--cores={cores}"])
        assert raised.value.code == 2
        assert f"{cores!r} is not a number of workers: use 1 to 64" in capsys.readouterr().err


def test_an_interrupted_job_says_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tidegauge.spark_check.options.local_session", interrupt)
    status, _, err = command(
        capsys, write(tmp_path / "a.parquet", to_arrow(histories(3)), 100), "--out", tmp_path / "o"
    )
    assert status == 2
    assert "--resume continues" in err


def test_a_job_is_resumed_only_with_the_same_input_and_level(spark: SparkSession, tmp_path: Path) -> None:
    file = write(tmp_path / "in.parquet", to_arrow(histories(3)), 100)
    open_job([file], tmp_path / "out").run(spark)
    other = write(tmp_path / "other.parquet", to_arrow(histories(4)), 100)
    with pytest.raises(BadOutput, match="its files were different"):
        open_job([other], tmp_path / "out", resume=True)


def test_two_jobs_that_found_one_folder_empty_do_not_both_write_to_it(spark: SparkSession, tmp_path: Path) -> None:
    file = write(tmp_path / "in.parquet", to_arrow(histories(3)), 100)
    other = write(tmp_path / "other.parquet", to_arrow(histories(4)), 100)
    first, again, second = (open_job([each], tmp_path / "out") for each in (file, file, other))
    begin(Place.of(tmp_path / "out"), first.manifest)
    (tmp_path / "out" / MANIFEST).unlink()  # the second job looks between the first one's note and its manifest
    with pytest.raises(BadOutput, match="another job has begun"):
        second.run(spark)
    assert len(list((tmp_path / "out" / ATTEMPTS).iterdir())) == 1
    assert first.run(spark) == again.run(spark)
    with pytest.raises(BadOutput, match="its files were different"):
        second.run(spark)
    assert written_verdicts(tmp_path / "out") == expected(histories(3))


def test_two_runs_of_one_job_put_the_same_in_the_same_places(spark: SparkSession, tmp_path: Path) -> None:
    """An executor that was given up for dead goes on after the job is complete."""
    file = write(tmp_path / "in.parquet", to_arrow(histories(30)), 100)
    job = open_job([file], tmp_path / "out", target=200)
    job.run(spark)
    tables = {place: place.read_bytes() for place in (tmp_path / "out").rglob("unit-*.parquet")}
    for unit in plan_files(job.pieces, {}, job.target)[0].units:
        job.work.do(unit)
    assert {place: place.read_bytes() for place in (tmp_path / "out").rglob("unit-*.parquet")} == tables


def test_tables_of_another_job_and_half_written_ones_are_gone_when_the_summary_is_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = write(tmp_path / "in.parquet", to_arrow(histories(3)), 100)
    job = open_job([file], tmp_path / "out")
    begin(job.work.out, job.manifest)
    (tmp_path / "out" / "verdicts" / ".unit-000000.parquet.1.partial").write_text("half")
    other = write(tmp_path / "out" / "verdicts" / "unit-000000-0123456789ab.parquet", to_arrow(histories(1)), 100)
    job.run(spark)
    assert not other.exists()
    assert not list((tmp_path / "out").rglob("*.partial"))


def test_a_job_that_was_killed_is_resumed_without_double_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Kill the driver once some units have their commit; go on in this process."""
    operations = histories(70)
    file = write(tmp_path / "in.parquet", to_arrow(operations), 20)
    out = tmp_path / "out"
    said = (
        "import sys; from spark_check.job import open_job; from spark_check.session import local_session; "
        "open_job(sys.argv[1:2], sys.argv[2], target=20).run(local_session())"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    victim = subprocess.Popen([sys.executable, "-c", said, str(file), str(out)], env=environment)
    deadline = time.monotonic() + 600
    while not len(list((out / UNITS).glob("*.json"))) > 3:
        assert victim.poll() is None, "the job ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    summary = open_job([file], out, target=20, resume=True).run(spark)
    assert 3 < summary.resumed < summary.units == 70
    assert written_verdicts(out) == expected(operations)
    assert written_anomalies(out) == expected_anomalies(operations)
