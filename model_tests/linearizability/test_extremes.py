"""Numbers at the ends of 64 bits, and tables that are odd in their types: checked right, or refused in words."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegauge.linearizability import files, jsonl
from tidegauge.linearizability.arrow import HistoryError, from_arrow, to_arrow
from tidegauge.linearizability.check import check
from tidegauge.linearizability.history import History, Operation, Operations, Outcome
from tidegauge.linearizability.malformed import BEYOND, find, sieve
from tidegauge.model_tests.linearizability.rows import election, end, fetch, history, produce, settled

INT64 = np.iinfo(np.int64)


def table() -> pa.Table:
    return to_arrow(history([produce(0, 1, 0, 10), fetch(2, 3, 0, 10), end(4, 5, 1)]))


def replaced(name: str, column: pa.Array) -> pa.Table:
    return table().set_column(table().column_names.index(name), name, column)


@pytest.mark.parametrize("first", [INT64.min, -(1 << 62), 1 << 60, INT64.max - 40], ids=str)
def test_values_that_differ_in_their_last_bits_only_are_told_apart(first: int) -> None:
    def run(number: int, *, lost: bool) -> list[Operation]:
        rows = [produce(10 * i, 10 * i + 1, i, first + i) for i in range(40)]
        rows.append(fetch(1000, 1001, 0, *(first + i for i in range(40) if i or not lost), process=1))
        return [attrs.evolve(row, index=index, history=number) for index, row in enumerate(rows)]

    operations = Operations.of([*run(0, lost=False), *run(1, lost=True), *run(2, lost=False)])
    assert not find(operations)
    assert check(operations).verdicts.tolist() == [0, 1, 0]


def test_the_largest_offsets_are_checked_and_larger_ones_kept_aside() -> None:
    at = BEYOND - 2
    assert check(history([produce(0, 1, at, 10, 11), fetch(2, 3, at, 10, 11), end(4, 5, at + 1)])).valid
    assert not check(history([produce(0, 1, at, 10), produce(2, 3, at, 11)])).valid
    for row in (
        produce(0, 1, INT64.max, 10),
        end(0, 1, INT64.max),
        fetch(0, 1, 0, mark=INT64.max),
        fetch(0, 1, 0, 10, offsets=[INT64.max]),
        produce(0, 1, 0, 10, offsets=[INT64.min]),
    ):
        assert [bad.row for bad in find(history([row]))] == [0]


def test_a_topic_code_without_a_name_may_be_any_number() -> None:
    coded = replaced("topic", pa.array([2**31 - 1, 0, 0], pa.int32())).replace_schema_metadata({})
    operations = from_arrow(coded)
    assert [row.topic for row in operations] == ["topic-2147483647", "topic-0", "topic-0"]
    with pytest.raises(HistoryError, match="row 1: topic -4"):
        from_arrow(replaced("topic", pa.array([0, -4, 0], pa.int32())).replace_schema_metadata({}))


def test_values_beyond_64_bits_are_refused_with_their_column() -> None:
    wide = replaced("values", pa.array([[2**64 - 1], [1], []], pa.list_(pa.uint64())))
    with pytest.raises(HistoryError, match="memory: column values does not fit int64"):
        from_arrow(wide)


def test_a_column_that_is_there_twice_is_refused() -> None:
    double = table().append_column("call", table().column("call"))
    for read in (from_arrow, sieve):
        with pytest.raises(HistoryError, match="more than one column call"):
            read(double)


@pytest.mark.parametrize("declared", [election(0, None, 0), settled(0)], ids=["election", "settled"])
def test_a_declaration_that_failed_is_kept_aside(declared: Operation) -> None:
    assert not find(history([declared]))
    assert len(find(history([attrs.evolve(declared, outcome=Outcome.FAIL)]))) == 1


@pytest.mark.parametrize("name", ["topic", "meta"])
def test_half_a_surrogate_pair_is_refused_by_its_line(name: str) -> None:
    row = jsonl.format_row(produce(0, 1, 0, 10))
    assert len(jsonl.parse([row])) == 1
    with pytest.raises(HistoryError, match=f"line 2: {name} is .*surrogate"):
        jsonl.parse([row, json.dumps(json.loads(row) | {name: "x\ud800"})])


def test_a_line_nested_too_deep_is_refused_by_its_number() -> None:
    with pytest.raises(HistoryError, match=r"line 1: .*recursion"):
        jsonl.parse(["[" * 200_000])


def test_a_history_file_that_cannot_be_completed_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) for _ in range(2)]

    def full(writer: pq.ParquetWriter) -> None:
        if failures:
            raise failures.pop()

    monkeypatch.setattr(pq.ParquetWriter, "close", full)
    with pytest.raises(OSError, match="No space left"):
        files.write(tmp_path / "histories.parquet", history([end(0, 1, 0)]))
    assert not list(tmp_path.iterdir())


def test_what_is_no_operations_is_refused_in_words() -> None:
    recorded: Any = History()
    with pytest.raises(TypeError, match=r"check takes Operations, not History: give history.operations\(\)"):
        check(recorded)
