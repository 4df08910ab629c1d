"""No bit of a footer that is flipped ends the driver or a worker, or changes what a job says; and files are named."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from tidegauge.linearizability import files
from tidegauge.linearizability.arrow import to_arrow
from tidegauge.linearizability.generator import generate
from tidegauge.linearizability.log import Level
from tidegauge.model_tests.amounts import stride
from tidegauge.model_tests.linearizability import flips
from tidegauge.model_tests.linearizability.test_damaged_parquet import types_of
from tidegauge.model_tests.spark_check.layouts import histories, write
from tidegauge.spark_check.converting import Failed
from tidegauge.spark_check.errors import BadInput, CannotRun
from tidegauge.spark_check.footers import find_files, first_pieces, pieces_of
from tidegauge.spark_check.job import Work, open_job, plan_files
from tidegauge.spark_check.output import TABLES, begin, job_of
from tidegauge.spark_check.places import Place
from tidegauge.spark_check.planner import Piece, Unit
from tidegauge.spark_check.reconciling import InputPart, tally_input
from tidegauge.spark_check.tasks import succeed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Six histories in two row groups."""
    ((operations, _),) = generate(6, 12, 7, 0.3)
    files.write(tmp_path / "small.parquet", operations, row_group=40)
    return tmp_path / "small.parquet"


def planned(path: Path) -> list[Piece]:
    """What the driver plans by."""
    pieces, unread = first_pieces(find_files([path]))
    return pieces + list(pieces_of(unread))


def written(path: Path, pieces: list[Piece]) -> object:
    """What workers write about these pieces of a file, and the independent count of it. Raises CannotRun."""
    out = path.parent / "out"
    shutil.rmtree(out, ignore_errors=True)
    work = Work(Place.of(out), Level.KAFKA, job_of({}))
    begin(work.out, {})
    units = plan_files(pieces, {}, 40)[0].units
    counted = tally_input([InputPart(Place.of(path), 0, 1)])
    for done in (*map(work.do, units), counted):
        if isinstance(done, Failed):
            raise BadInput(done.message)
    assert not isinstance(counted, Failed)
    tables = {
        name: [pq.read_table(file).to_pylist() for file in sorted((out / name).glob("unit-*"))] for name in TABLES
    }
    return tables, counted.rows


def bits(path: Path, few: int) -> list[flips.Bit]:
    found = types_of(path)[:: stride(few)] + flips.bits_of(flips.footer_of(path), stride(10 * few))
    return list(dict.fromkeys(found))


def test_each_bit_of_a_footer_is_told_by_the_driver_or_plans_the_same(small: Path) -> None:
    def read() -> object:
        return [(piece.row_group, piece.rows) for piece in planned(small)]

    found = flips.outcomes(small, bits(small, 11), read, (CannotRun,))
    assert not flips.bad(found)
    assert sum(kind == flips.TOLD for kind, _ in found.values()) > len(found) // 2


@pytest.mark.parametrize("when", ["before it is planned", "after it was planned"])
def test_each_bit_of_a_footer_is_told_by_a_worker_or_gives_the_same_tables(when: str, small: Path) -> None:
    before = planned(small)
    find: Callable[[], list[Piece]] = (lambda: planned(small)) if when.startswith("before") else lambda: before
    found = flips.outcomes(small, bits(small, 37), lambda: written(small, find()), (CannotRun,))
    assert not flips.bad(found)
    told = sum(kind == flips.TOLD for kind, _ in found.values())
    assert told == len(found) if when.startswith("after") else told > len(found) // 2


def test_a_worker_that_ends_without_a_word_is_told_with_the_files_of_its_task(spark: SparkSession) -> None:
    """Such as one that reads what pyarrow does not survive."""

    def end(number: int) -> int:
        if number == 2:
            os.abort()
        return number

    tasks = spark.sparkContext.parallelize(range(4), 4).map(end)
    about = [["a.parquet"], ["b.parquet"], ["c.parquet", "d.parquet"], ["e.parquet"]]
    with pytest.raises(CannotRun, match=r"Spark failed: .* It was about c\.parquet, d\.parquet\. What is done is kept"):
        succeed(tasks, about)
    with pytest.raises(CannotRun, match=r"It was about f-0, f-1, f-2 and 2 more\. What"):
        succeed(tasks, [[f"f-{number}" for number in range(5)]])


def test_units_of_a_job_name_the_files_that_end_a_worker(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(work: Work, unit: Unit) -> None:
        if any("b.parquet" in piece.file for piece in unit.pieces):
            os.abort()

    for name in ("a", "b"):
        write(tmp_path / f"{name}.parquet", to_arrow(histories(3)), 100)
    monkeypatch.setattr(Work, "task", end)
    job = open_job([tmp_path], tmp_path / "out", target=60)
    with pytest.raises(CannotRun, match=rf"It was about {tmp_path}/b\.parquet\. What is done is kept"):
        job.run(spark)
