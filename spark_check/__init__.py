"""The judge, on Spark: `judge(df)` for DataFrames and tables, `check_histories` for files."""

from tidegauge.spark_check.frames import Tables, check_histories, read_tables
from tidegauge.spark_check.judging import judge

__all__ = ["Tables", "check_histories", "judge", "read_tables"]
