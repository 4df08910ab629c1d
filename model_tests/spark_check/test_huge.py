"""One history that many tasks judge, beside others: the verdicts of the checker alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import numpy as np
import pyarrow.parquet as pq
import pytest

from tidegauge.linearizability import files
from tidegauge.linearizability.arrow import to_arrow
from tidegauge.linearizability.check import check
from tidegauge.linearizability.generator import generate
from tidegauge.linearizability.history import Kind, Operation, Operations, Outcome, concatenate
from tidegauge.model_tests.spark_check.layouts import (
    expected,
    expected_anomalies,
    histories,
    replaced,
    write,
    written_anomalies,
    written_malformed,
    written_verdicts,
)
from tidegauge.spark_check.checking import NAMES
from tidegauge.spark_check.job import open_job
from tidegauge.spark_check.planner import Piece, plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def long_history(number: int, rate: float, election: bool = False) -> Operations:
    ((rows, _),) = generate(1, 600, 8, rate, clients=4, first_history=number)
    if not election:
        return rows
    lost = Operation(
        index=int(rows.index[-1]) + 1, process=-1, kind=Kind.ELECTION, outcome=Outcome.OK, topic=rows.topics[0],
        partition=0, call=int(rows.call.max()), offset=10**6, history=number,
    )  # fmt: skip
    return concatenate([rows, Operations.of([lost])])


@pytest.mark.spark
def test_long_histories_are_judged_in_blocks_with_the_verdicts_of_the_checker(
    spark: SparkSession, tmp_path: Path
) -> None:
    small = histories(10)
    long, elected, broken = long_history(20, 1.0), long_history(30, 0.0, election=True), long_history(40, 0.0)
    write(tmp_path / "a.parquet", to_arrow(small), 100)
    write(tmp_path / "b.parquet", to_arrow(long), 300)
    write(tmp_path / "c.parquet", to_arrow(elected), 400)
    write(tmp_path / "d.parquet", replaced(to_arrow(broken), "process", 450, None), 300)
    summary = open_job([tmp_path], tmp_path / "out", huge=500).run(spark)
    sound = concatenate([small, long, elected])
    assert written_verdicts(tmp_path / "out") == expected(sound) | {40: (600, "malformed")}
    assert written_anomalies(tmp_path / "out") == expected_anomalies(sound)
    assert [row["row"] for row in written_malformed(tmp_path / "out")] == [150]
    assert sum("for blocks" in note for note in summary.notes) == 3
    rows = {row["history"]: row for row in pq.read_table(tmp_path / "out" / "verdicts").to_pylist()}
    whole = {row["history"]: row for row in check(long, named=3).table().to_pylist()}[20]
    assert {name: rows[20][name] for name in whole} == whole
    assert NAMES[rows[20]["verdict"]] == "violated"
    assert rows[30]["note"].endswith("; one task judges it, since it has unclean elections")


def test_a_history_of_more_operations_than_one_task_should_judge_is_a_unit_for_blocks() -> None:
    pieces = [Piece("a", 0, 50, 0, 9), *(Piece("a", 1 + at, 50, 10, 10) for at in range(3)), Piece("a", 4, 50, 11, 19)]
    planned = plan(pieces, 1_000, 1_000, huge=149)
    assert [(unit.first, unit.last, unit.in_blocks) for unit in planned.units] == [
        (0, 9, False),
        (10, 10, True),
        (11, 19, False),
    ]
    assert planned.notes == ("history 10 alone has about 150 operations: it is for blocks, by many tasks",)
    assert [unit.in_blocks for unit in plan(pieces, 1_000, 1_000, huge=150).units] == [False]


def test_a_large_history_is_written_in_row_groups_of_its_own(tmp_path: Path) -> None:
    small, long = histories(3), long_history(20, 0.0)
    together = concatenate([small, long, attrs.evolve(small, history=small.history + 50)])
    files.write(tmp_path / "h.parquet", together, 200)
    with pq.ParquetFile(tmp_path / "h.parquet") as file:
        ids = [np.unique(file.read_row_group(group, ["history"])[0]).tolist() for group in range(file.num_row_groups)]
    assert ids == [[0, 1, 2], [20], [20], [20], [50, 51, 52]]
    assert check(files.read(tmp_path / "h.parquet")).table() == check(together).table()
