"""The same check for programs that use Spark: DataFrames of verdicts, anomalies and malformed rows."""

from __future__ import annotations

import shutil
import tempfile
from atexit import register
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tidegauge.linearizability.log import Level
from tidegauge.spark_check.job import open_job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Tables(NamedTuple):
    """A row for each history (`verdicts`), for each anomaly, and for each row set aside (`malformed`)."""

    verdicts: DataFrame
    anomalies: DataFrame
    malformed: DataFrame


def check_histories(
    spark: SparkSession, paths: Iterable[str | Path], *, out: str | Path | None = None, level: Level = Level.KAFKA
) -> Tables:
    """Check all histories in `paths` (files and folders) now, and read the tables back from `out`.

    Without `out` they are in a temporary folder until the process ends. On a cluster, `paths` and `out` must be folders
    that all executors share. Raises CannotRun.
    """
    if out is None:
        kept = tempfile.mkdtemp(prefix="spark_check-")
        register(shutil.rmtree, kept, ignore_errors=True)
        out = Path(kept, "tables")
    open_job(paths, out, level=level).run(spark)
    return read_tables(spark, out)


def read_tables(spark: SparkSession, out: str | Path) -> Tables:
    """The tables that a job wrote to `out`."""
    return Tables(*(spark.read.parquet(str(Path(out).resolve() / name)) for name in Tables._fields))
