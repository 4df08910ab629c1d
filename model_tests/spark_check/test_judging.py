"""A DataFrame of operations in, a DataFrame of verdicts out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.linearizability.arrow import to_arrow
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
)
from tidegauge.spark_check import judge
from tidegauge.spark_check.checking import FILE, NAMES
from tidegauge.spark_check.errors import BadInput
from tidegauge.spark_check.judging import _DDL, JUDGED_SCHEMA, SOURCE, judge_block, whole_histories

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_a_dataframe_is_judged_as_the_checker_does(spark: SparkSession, tmp_path: Path) -> None:
    operations = settled(histories(40))
    named = attrs.evolve(operations, topics=tuple(f"t{number}" for number in range(len(operations.topics))))
    file = write(tmp_path / "mixed.parquet", shuffled(to_arrow(named), seed=8), 100)
    spark.read.parquet(str(file)).createOrReplaceTempView("operations")
    verdicts = judge(spark.table("operations"), topics=named.topics).cache()
    rows = verdicts.collect()
    assert {row.history: (row.operations, NAMES[row.verdict]) for row in rows} == expected(named)
    assert {row.history: (row.records, row.unconfirmed, row.open_ends, row.note) for row in rows} == expected_coverage(
        named
    )
    found = verdicts.selectExpr("history", "inline(found)").collect()
    whose = {(row.history, row.anomaly, row.topic, row.partition, row.witness) for row in found}
    assert whose == {(one, name.value, *rest) for one, name, *rest in expected_anomalies(named)} != set()
    assert len(rows) == 40


@pytest.mark.spark
def test_a_dataframe_without_an_order_or_of_something_else_is_refused_at_once(spark: SparkSession) -> None:
    schema = spark.createDataFrame(to_arrow(histories(1)).to_pandas()).schema
    frame = spark.createDataFrame([], schema)
    with pytest.raises(BadInput, match=r"no column index.*rows of a DataFrame have no order"):
        judge(frame.drop("index"))
    with pytest.raises(BadInput, match="unknown column 'high_watermrak': did you mean 'high_watermark'"):
        judge(frame.withColumnRenamed("high_watermark", "high_watermrak"))
    for source, why in (("nowhere", "is not there"), ("topic", "is one of a history")):
        with pytest.raises(BadInput, match=f"the column '{source}', which says where rows are from, {why}: name a col"):
            judge(frame, source=source)
    assert judge(frame.drop("isolation", "acks", "offsets")).columns == JUDGED_SCHEMA.names


def test_malformed_rows_and_rows_without_a_history_are_told() -> None:
    rows = replaced(replaced(to_arrow(histories(3)), "kind", 25, 99), "history", 3, None)
    said = {row["history"]: row for row in judge_block(rows, Level.KAFKA).to_pylist()}
    assert (said[1]["verdict"], said[1]["malformed"], said[1]["operations"]) == (NAMES.index("malformed"), 1, LENGTH)
    assert said[1]["reasons"][0].startswith("kind is 99")
    assert (said[None]["operations"], said[None]["reasons"]) == (1, ["history is null; every operation needs one"])
    assert said[0]["reasons"] == []
    assert set(said) == {None, 0, 1, 2}


def of_two(first: pa.Table, second: pa.Table) -> pa.Table:
    """The rows of two sources together."""
    parts = [("first", first), ("second", second)]
    return pa.concat_tables(
        rows.drop_columns(["meta"]).append_column(SOURCE, pa.array([name] * len(rows))) for name, rows in parts
    )


def test_an_id_that_two_sources_have_is_two_histories() -> None:
    first, second = histories(6, seed=5), histories(6, seed=6)
    assert expected(first) != expected(second)
    said = judge_block(of_two(to_arrow(first), to_arrow(second)), Level.KAFKA, first.topics).to_pylist()
    for name, operations in (("first", first), ("second", second)):
        mine = [row for row in said if row["file"] == name]
        assert {row["history"]: (row["operations"], NAMES[row["verdict"]]) for row in mine} == expected(operations)
        found = {(row["history"], one["anomaly"], one["witness"]) for row in mine for one in row["found"]}
        assert found == {(one, kind.value, why) for one, kind, _, _, why in expected_anomalies(operations)}


def test_malformed_rows_spoil_the_history_of_their_source_alone() -> None:
    rows = replaced(replaced(to_arrow(histories(2)), "kind", 25, 99), "history", 3, None)
    said = judge_block(of_two(rows, to_arrow(histories(2)).cast(rows.schema)), Level.KAFKA).to_pylist()
    malformed = {(row["history"], row["file"]) for row in said if row["verdict"] == NAMES.index("malformed")}
    assert malformed == {(1, "first"), (None, None)}
    assert len(said) == 5


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=12),
    st.integers(1, 7),
    st.integers(1, 30),
    st.integers(0, 12) | st.none(),
)
def test_a_block_cuts_no_history(lengths: list[int], size: int, target: int, alike: int | None) -> None:
    """With `alike`, so many neighbours have one id in two sources."""
    ids = [None] * lengths[0] + [history for history, length in enumerate(lengths[1:]) for _ in range(length)]
    table = pa.table({"history": pa.array(ids, pa.int64()), "row": range(len(ids))})
    if alike is not None:
        moved = [one if one is None or one > alike else one // 2 for one in ids]
        whose = [None if one is None else "ab"[one % 2] for one in ids]
        table = pa.table({"history": pa.array(moved, pa.int64()), "row": range(len(ids)), SOURCE: whose})

    def batches() -> Iterator[pa.RecordBatch]:
        yield from table.to_batches(max_chunksize=size)

    blocks = list(whole_histories(batches(), target))
    assert pa.concat_tables(blocks).equals(table)
    seen = [{ids[row] for row in block.column("row").to_pylist()} for block in blocks]
    assert sum(map(len, seen)) == len(set(ids))
    assert all(len(block) - target < max(lengths) + size for block in blocks)


@pytest.mark.spark
def test_spark_and_arrow_say_the_same_of_the_columns(spark: SparkSession) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import _parse_datatype_string

    for source, named in ((False, JUDGED_SCHEMA), (True, JUDGED_SCHEMA.append(FILE))):
        frame = spark.createDataFrame([], from_arrow_schema(to_arrow(histories(1)).schema).add("_from", "string"))
        assert judge(frame, source="_from" if source else None).columns == named.names
    assert from_arrow_schema(JUDGED_SCHEMA).simpleString() == _parse_datatype_string(_DDL).simpleString()
