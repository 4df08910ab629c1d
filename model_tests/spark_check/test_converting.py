"""JSON lines in splits: the same rows as from the whole file, wherever a split begins."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegauge.linearizability import edn, files, jsonl
from tidegauge.linearizability.arrow import to_arrow
from tidegauge.model_tests.spark_check.layouts import histories
from tidegauge.spark_check import converting
from tidegauge.spark_check.converting import (
    Counted,
    Failed,
    Split,
    convert,
    converted,
    count,
    lines_of,
    numbered,
    split,
)
from tidegauge.spark_check.footers import find_files, pieces_of
from tidegauge.spark_check.places import Place
from tidegauge.spark_check.reading import read_piece


def convert_all(file: Path, out: Path, size: int) -> tuple[list[Split], pa.Table]:
    """The splits, and what they hold together."""
    counts = [count(part) for part in split(Place.of(file), size)]
    parts = list(numbered([one for one in counts if isinstance(one, Counted)]))
    for part in parts:
        failed = convert(part, Place.of(out))
        assert failed is None, failed
    tables = [pq.read_table(converted(part, Place.of(out)).uri) for part in parts]
    return parts, pa.concat_tables(tables, promote_options="permissive")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"one",
        b"one\n",
        b"one\n\n\ntwo",
        b"1\r\n22\r\n\r\n333\r\n",
        b"a long line\nb\nc\nanother one",
    ],
)
def test_every_line_is_in_one_split_under_its_number_wherever_a_split_begins(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(converting, "_AHEAD", 3)  # so that the end of a line is looked for more than once
    (tmp_path / "in.jsonl").write_bytes(content)
    for size in range(1, len(content) + 2):
        counts = [count(part) for part in split(Place.of(tmp_path / "in.jsonl"), size)]
        read = map(lines_of, numbered([one for one in counts if isinstance(one, Counted)]))
        found = [line for lines, first in read for line in enumerate(lines.splitlines(keepends=True), first)]
        assert found == list(enumerate(content.splitlines(keepends=True), 1)), f"splits of {size}"


@pytest.mark.parametrize("size", [50, 213, 214, 700])
def test_splits_have_the_rows_of_the_whole(tmp_path: Path, size: int) -> None:
    folder, operations = tmp_path, histories(1)
    jsonl.write(folder / "in.jsonl", operations.slice(0, 8))
    _, table = convert_all(folder / "in.jsonl", folder / "out", size)
    assert table.equals(to_arrow(operations.slice(0, 8)).cast(table.schema))


@pytest.mark.parametrize("size", [100, 1_000, 100_000])
def test_a_malformed_line_has_its_number_in_the_file(size: int, tmp_path: Path) -> None:
    lines = [jsonl.format_row(row) for row in histories(1)]
    lines[7:7] = ["", "no JSON at all ü"]
    (tmp_path / "odd.jsonl").write_text("\r\n".join(lines), encoding="utf-8")
    _, table = convert_all(tmp_path / "odd.jsonl", tmp_path / "out", size)
    said = [reason for reason in table.column("_malformed").to_pylist() if reason]
    assert len(said) == 1
    assert said[0].startswith("odd.jsonl, line 9: ")
    assert len(table) == len(lines) - 1


def test_rows_without_an_index_follow_each_other_across_splits(tmp_path: Path) -> None:
    rows = [json.loads(jsonl.format_row(row)) for row in histories(2)]
    for row in rows:
        del row["index"]
    turns = [rows[at] for pair in zip(range(20), range(20, 40), strict=True) for at in pair]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in turns))
    parts, table = convert_all(tmp_path / "in.jsonl", tmp_path / "out", 1_000)
    assert len(parts) > 5
    for history in (0, 1):
        mine = [row for row in table.to_pylist() if row["history"] == history]
        indices = [row["index"] for row in mine]
        assert indices == sorted(set(indices))
        assert [row["call"] for row in mine] == [row["call"] for row in turns if row["history"] == history]


RUN = """
{:type :invoke, :f :send, :value [[:send 0 7]], :process 0, :time 3}
{:type :ok, :f :send, :value [[:send 0 [%d 7]]], :process 0, :time 4}
"""


def test_the_store_of_jepsen_has_a_history_in_each_run(tmp_path: Path) -> None:
    """Other files of EDN are none, and a link to a run is the run."""
    store = tmp_path / "store"
    for number, run in enumerate(("1", "2")):
        (store / "queue" / run).mkdir(parents=True)
        (store / "queue" / run / "history.edn").write_text(RUN % number)
        (store / "queue" / run / "results.edn").write_text("{:valid? true}")
    (store / "latest").symlink_to(store / "queue" / "2")
    found = find_files([store])
    assert [Path(file.uri).parent.name for file in found] == ["1", "2"]
    out = Place.of(tmp_path / "out")
    for file in found:
        (piece,) = split(file, 10)
        assert convert(piece, out) is None
        assert list(files.read(converted(piece, out).uri)) == list(edn.read(file.uri))
        (part,) = (read_piece(piece) for piece in pieces_of([converted(piece, out)]))
        assert part.source == str(file)
    (store / "queue" / "1" / "history.edn").write_bytes(b"\xff")
    failed = convert(split(found[0], 10)[0], Place.of(tmp_path / "again"))
    assert failed is not None
    assert "history.edn: not readable as UTF-8" in failed.message


def test_a_file_with_an_event_is_one_split(tmp_path: Path) -> None:
    """An invocation and its completion may be far apart."""
    begin = {"type": "invoke", "f": "produce", "process": 0, "time": 1, "topic": "t", "values": [7]}
    lines = [json.dumps(begin), *[""] * 500, json.dumps({**begin, "type": "ok", "time": 2, "offset": 0})]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    parts, table = convert_all(tmp_path / "in.jsonl", tmp_path / "out", 100)
    assert len(parts) == 1
    assert table.column("return").to_pylist() == [2]
    said = convert(Split(Place.of(tmp_path / "in.jsonl"), 0, 0, 100), Place.of(tmp_path / "other"))
    assert isinstance(said, Failed)
    assert "in.jsonl, line 1: an event" in said.message
