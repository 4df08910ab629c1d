"""The page of a job: counts, examples, and how each example is pulled out."""

from __future__ import annotations

import pytest

from tidegauge.linearizability.coverage import Totals
from tidegauge.spark_check.output import Example
from tidegauge.spark_check.page import pulled_out, render
from tidegauge.spark_check.summary import Summary

HOSTILE = "<script>alert(1)</script>"


def example(file: str | None, topic: str = "t") -> Example:
    return Example(7, file, "lost-write", topic, 0, (1, 2), 1, "it is gone")


def summary(*examples: Example, malformed: dict[str, int] | None = None) -> Summary:
    return Summary(
        out="/verdicts",
        level="kafka",
        files=2,
        histories=1_000,
        operations=50_000,
        verdicts={"valid": 990, "violated": 10},
        anomalies={"lost-write": 10} if examples else {},
        malformed=malformed or {},
        examples=examples,
        covered=Totals(),
        gaps=(),
        units=3,
        resumed=0,
        notes=("ids overlap",),
        seconds=1.5,
        kernel_seconds=1.0,
    )


def test_counts_examples_and_notes_are_there() -> None:
    text = render(summary(example("/runs/a.parquet")))
    for said in (
        "lost-write",
        "50,000",
        "it is gone",
        "note: ids overlap",
        "history 7 of /runs/a.parquet, t-0",
        "violated",
    ):
        assert said in text
    assert "Malformed rows" not in text
    assert "None was found" in render(summary())
    assert "kind is 99" in render(summary(malformed={"kind is 99": 3}))


def test_nothing_becomes_markup() -> None:
    text = render(summary(example(f"/runs/{HOSTILE}.parquet", HOSTILE), malformed={HOSTILE: 1}))
    assert "<script" not in text


@pytest.mark.parametrize(
    ("file", "commands"),
    [
        ("/my runs/a.jsonl", ["tidegauge check '/my runs/a.jsonl' --history 7 --html history-7.html"]),
        (None, ["tidegauge check FILE --history 7 --html history-7.html"]),
        ("s3://runs/a.jsonl", ["tidegauge check a.jsonl --history 7 --html history-7.html"]),
        (
            "s3a://runs/a.parquet",
            [
                'spark.read.parquet("s3a://runs/a.parquet").where("history = 7").coalesce(1)'
                '.sortWithinPartitions("index").write.parquet("history-7")',
                "tidegauge check history-7 --history 7 --html history-7.html",
            ],
        ),
    ],
)
def test_a_history_is_pulled_out_from_where_it_is(file: str | None, commands: list[str]) -> None:
    assert list(pulled_out(example(file))) == commands
