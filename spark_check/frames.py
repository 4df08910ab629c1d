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
from tidegauge.spark_check.places import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Tables(NamedTuple):
    """A row for each history (`verdicts`), for each anomaly, and for each row set aside (`malformed`)."""

    verdicts: DataFrame
    anomalies: DataFrame
    malformed: DataFrame


def check_histories(
    spark: SparkSession,
    paths: Iterable[str | Path],
    *,
    out: str | Path | None = None,
    level: Level = Level.KAFKA,
    across_files: bool = False,
    table_version: int | None = None,
) -> Tables:
    """Check all histories in `paths` (files, folders, patterns, URIs) now, and read the tables back from `out`.

    Ids that two files share are two histories, unless histories go on `across_files`. A folder that is a table of Delta
    or Iceberg is read at its newest version, or at `table_version`. Without `out` the tables are in a
    temporary folder until the process ends. On a cluster, `paths` and `out` must be what all executors reach: URIs, or
    folders that they share. Raises CannotRun.
    """
    if out is None:
        kept = tempfile.mkdtemp(prefix="spark_check-")
        register(shutil.rmtree, kept, ignore_errors=True)
        out = Path(kept, "tables")
    open_job(paths, out, level=level, across_files=across_files, table_version=table_version).run(spark)
    return read_tables(spark, out)


def read_tables(spark: SparkSession, out: str | Path) -> Tables:
    """The tables that a job wrote to `out`. Spark reads them with its own file systems (S3: `hadoop-aws`)."""
    return Tables(*(spark.read.parquet((Place.of(out) / name).for_spark) for name in Tables._fields))
