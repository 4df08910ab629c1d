"""A job whose input and output are on an HDFS, over WebHDFS, and what becomes of it when it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidegauge.linearizability import jsonl
from tidegauge.linearizability.arrow import to_arrow
from tidegauge.model_tests.spark_check.layouts import expected, histories, write
from tidegauge.model_tests.spark_check.web_hdfs import WebHdfs
from tidegauge.model_tests.spark_check.web_hdfs import hdfs as hdfs
from tidegauge.spark_check.__main__ import main
from tidegauge.spark_check.checking import NAMES
from tidegauge.spark_check.errors import CannotRun
from tidegauge.spark_check.job import open_job
from tidegauge.spark_check.places import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 600


def upload(hdfs: WebHdfs, path: str, made: Path) -> None:
    hdfs.write(path, made.read_bytes())


def verdicts_in(folder: Place) -> dict[int, tuple[int, str]]:
    """The verdict table; a history with two rows is an error."""
    rows: list[dict[str, Any]] = []
    for file in folder.files():
        with file.open_parquet() as opened:
            rows += opened.read().to_pylist()
    found = {row["history"]: (row["operations"], NAMES[row["verdict"]]) for row in rows}
    assert len(found) == len(rows)
    return found


def test_input_and_output_may_be_on_an_hdfs(
    spark: SparkSession, hdfs: WebHdfs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    operations = histories(9)
    upload(hdfs, "/runs/day=1/a.parquet", write(tmp_path / "a", to_arrow(operations.slice(0, 100)), 30))
    jsonl.write(tmp_path / "b.jsonl", operations.slice(100, len(operations)))
    upload(hdfs, "/runs/day=2/b.jsonl", tmp_path / "b.jsonl")
    before = sorted(tmp_path.iterdir())
    assert main([f"{hdfs.uri}/runs/day=*/*", "--out", f"{hdfs.uri}/verdicts/today"]) == 1, capsys.readouterr().err
    assert verdicts_in(Place.of(f"{hdfs.uri}/verdicts/today/verdicts")) == expected(operations)
    assert sorted(tmp_path.iterdir()) == before
    assert not [path for path in hdfs.files if path.endswith(".partial")]


def test_a_job_on_an_hdfs_that_was_killed_is_resumed_without_double_rows(
    spark: SparkSession, hdfs: WebHdfs, tmp_path: Path
) -> None:
    """Kill the driver once some units have their commit; go on in this process."""
    operations = histories(16)
    upload(hdfs, "/in.parquet", write(tmp_path / "in", to_arrow(operations), 20))
    said = (
        "import sys; from spark_check.job import open_job; from spark_check.session import local_session; "
        "open_job(sys.argv[1:2], sys.argv[2], target=20).run(local_session())"
    )
    paths = f"{hdfs.uri}/in.parquet", f"{hdfs.uri}/out"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    victim = subprocess.Popen([sys.executable, "-c", said, *paths], env=environment)
    deadline = time.monotonic() + DEADLINE
    while not sum(path.startswith("/out/_units/") for path in list(hdfs.files)) > 3:
        assert victim.poll() is None, "the job ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    summary = open_job(paths[:1], paths[1], target=20, resume=True).run(spark)
    assert 3 < summary.resumed < summary.units == 16
    assert verdicts_in(Place.of(f"{paths[1]}/verdicts")) == expected(operations)
    assert not [path for path in hdfs.files if path.endswith(".partial")]


def test_an_input_that_changed_is_no_part_of_a_job_that_is_resumed(
    spark: SparkSession, hdfs: WebHdfs, tmp_path: Path
) -> None:
    """Of the same size: its time tells."""
    upload(hdfs, "/in.parquet", write(tmp_path / "in", to_arrow(histories(3)), 20))
    paths = [f"{hdfs.uri}/in.parquet"]
    open_job(paths, f"{hdfs.uri}/out").run(spark)
    assert open_job(paths, f"{hdfs.uri}/out", resume=True).finished is not None
    hdfs.times["/in.parquet"] += 1
    with pytest.raises(CannotRun, match="cannot be resumed: its files were different"):
        open_job(paths, f"{hdfs.uri}/out", resume=True)


def test_a_rename_that_hdfs_did_not_do_is_an_error(hdfs: WebHdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says `false`, which is no error: a table would not be there, and its commit would."""
    place = Place.of(f"{hdfs.uri}/a/b.bin")
    place.parent.make_folder()
    monkeypatch.setattr(WebHdfs, "rename", lambda *_: False)
    with pytest.raises(OSError, match=r"/a/b\.bin was written, and is not there"):
        place.put(b"x")
    assert [path for path, content in hdfs.files.items() if content is not None] == []
