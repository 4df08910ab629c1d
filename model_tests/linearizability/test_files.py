"""Histories survive files, and bad files say what is wrong with them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from tidegauge.linearizability import files, jsonl, malformed
from tidegauge.linearizability.arrow import ONLY_MEMBERS, ONLY_TRANSACTIONS, SCHEMA, HistoryError, from_arrow, to_arrow
from tidegauge.linearizability.check import check
from tidegauge.linearizability.generator import generate
from tidegauge.linearizability.history import (
    UNKNOWN,
    History,
    Isolation,
    Kind,
    Operation,
    Operations,
    Outcome,
    blocks,
    concatenate,
)
from tidegauge.linearizability.parquet import open_parquet
from tidegauge.linearizability.transactional import Transactional
from tidegauge.model_tests.linearizability.rows import (
    election,
    end,
    failed,
    fetch,
    history,
    produce,
    settled,
    unknown,
)

ROWS = [
    produce(0, 1, 0, 7, 8, 9),
    produce(1, 2, 3, 10, acks=1),
    unknown(2, 11, 12),
    failed(2, 3, 13),
    fetch(4, 5, 0, 7, 9, offsets=[0, 2], mark=4),
    fetch(5, 6, 4, mark=4),
    fetch(6, 7, -1, 10, offsets=[3]),
    end(7, 8, 4),
    election(8, None, 4),
    settled(9),
]


def mixed() -> Operations:
    """Two histories with every kind of row, two topics."""
    second = [attrs.evolve(row, topic="u", partition=2, meta='{"why": 1}') for row in ROWS]
    return concatenate([history(ROWS, 3), history(second, 5)])


def test_rows_survive_parquet(tmp_path: Path) -> None:
    operations = mixed()
    files.write(tmp_path / "h.parquet", operations)
    assert list(files.read(tmp_path / "h.parquet")) == list(operations)
    assert not list(tmp_path.glob("*.partial"))


def test_rows_survive_json_lines(tmp_path: Path) -> None:
    operations = mixed()
    jsonl.write(tmp_path / "h.jsonl", operations)
    assert list(jsonl.read(tmp_path / "h.jsonl")) == list(operations)
    assert not list(tmp_path.glob("*.partial"))


def test_rows_survive_arrow_in_chunks() -> None:
    operations = mixed()
    table = to_arrow(operations)
    chunked = pa.concat_tables([table.slice(0, 7), table.slice(7, 6), table.slice(13)])
    assert list(from_arrow(chunked, topics=operations.topics)) == list(operations)


def test_slices_and_picks_are_the_same_rows() -> None:
    operations = mixed()
    rows = list(operations)
    assert list(operations.slice(3, 15)) == rows[3:15]
    picked = np.array([1, 4, 5, 12])
    assert list(operations.take(picked)) == [rows[row] for row in picked]
    assert [(start, stop) for start, stop in blocks(operations, 5)] == [(0, 10), (10, 20)]


def test_row_groups_end_where_a_history_ends(tmp_path: Path) -> None:
    (operations, _), *_ = generate(40, 25, seed=1)
    with files.HistoryWriter(tmp_path / "h.parquet", row_group=120) as writer:
        for start, stop in blocks(operations, 200):
            writer.write(operations.slice(start, stop))
    footer = pq.ParquetFile(tmp_path / "h.parquet")
    bounds = []
    for number in range(footer.num_row_groups):
        statistics = footer.metadata.row_group(number).column(0).statistics
        bounds.append((statistics.min, statistics.max))
    assert len(bounds) > 4
    assert all(before[1] < after[0] for before, after in pairwise(bounds))
    assert list(files.read(tmp_path / "h.parquet")) == list(operations)


def test_the_row_groups_of_a_history_are_found_by_their_rows(tmp_path: Path) -> None:
    blank = pa.schema([field.with_nullable(True) for field in SCHEMA])
    (operations, _), *_ = generate(histories=6, operations=9, seed=1)
    whole = to_arrow(operations)
    others = [name for name in whole.column_names if name != "values"]
    table = whole.select(["values", *others])  # a column of lists has no column of its own name in the footer
    pq.write_table(table, tmp_path / "many.parquet", row_group_size=9)
    assert [files.row_groups_of(tmp_path / "many.parquet", history) for history in (0, 3, 9)] == [[0], [3], []]
    nameless = pa.Table.from_pylist([*table.to_pylist()[:9], {"history": None}, *table.to_pylist()[9:17]], schema=blank)
    pq.write_table(nameless, tmp_path / "nameless.parquet", row_group_size=9)
    assert files.row_groups_of(tmp_path / "nameless.parquet", 0) == [0, 1]


def test_histories_that_span_row_groups_are_read_whole(tmp_path: Path) -> None:
    (operations, _), *_ = generate(10, 50, seed=1)
    schema = SCHEMA.with_metadata(to_arrow(operations).schema.metadata)
    pq.write_table(to_arrow(operations).cast(schema), tmp_path / "h.parquet", row_group_size=70)
    parts = list(files.read_in_parts(tmp_path / "h.parquet", 60))
    assert len(parts) > 3
    seen = [set(part.history.tolist()) for part in parts]
    assert sum(map(len, seen)) == 10
    assert list(concatenate(parts)) == list(operations)


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with files.HistoryWriter(tmp_path / "h.parquet") as writer:
            writer.write(mixed())
            raise RuntimeError("cut off")

    with pytest.raises(RuntimeError, match="cut off"):
        fail()
    assert not list(tmp_path.iterdir())


def test_topics_may_be_strings_and_columns_with_defaults_may_be_absent() -> None:
    table = to_arrow(history(ROWS[:4]))
    named = table.set_column(table.column_names.index("topic"), "topic", pa.array(["t"] * 4))
    lean = named.drop_columns(["index", "isolation", "offsets", "high_watermark", "meta"])
    assert list(from_arrow(lean)) == list(history(ROWS[:4]))
    coded = named.set_column(0, "history", pa.array([0] * 4)).cast(named.schema)
    assert from_arrow(coded).topics == ("t",)


def changed(column: str, row: int, value: Any) -> pa.Table:
    table = to_arrow(history(ROWS, 3))
    items = table.column(column).to_pylist()
    items[row] = value
    at = table.column_names.index(column)
    field = pa.field(column, table.schema.field(column).type)
    return table.set_column(at, field, pa.array(items, field.type))


def renamed(**names: str) -> pa.Table:
    table = to_arrow(history(ROWS))
    return table.rename_columns([names.get(name, name) for name in table.column_names])


FAULTY_TABLES: dict[str, tuple[Callable[[], pa.Table], str]] = {
    "an unknown column": (
        lambda: renamed(high_watermark="high_watermrak"),
        "f: unknown column 'high_watermrak': did you mean 'high_watermark'? a name that begins with _ or meta is left",
    ),
    "a column like no other": (
        lambda: renamed(acks="xyz"),
        "f: unknown column 'xyz': there are history, index, process",
    ),
    "a missing column": (
        lambda: to_arrow(history(ROWS)).drop_columns(["call"]),
        "f: no column call; the columns are listed in docs/history.md",
    ),
    "a wrong type": (
        lambda: to_arrow(history(ROWS)).drop_columns(["call"]).append_column("call", pa.array(["x"] * len(ROWS))),
        "f: column call has type string; write it as int64",
    ),
    "a wrong list type": (
        lambda: to_arrow(history(ROWS)).drop_columns(["values"]).append_column("values", pa.array([1] * len(ROWS))),
        "f: column values has type int64; write it as list<int64>",
    ),
    "a null": (lambda: changed("kind", 4, None), "f, row 4: kind is null; every operation needs one"),
    "a null in a list": (lambda: changed("values", 0, [7, None, 9]), "f: column values has a null inside a list"),
    "offsets that do not fit": (lambda: changed("offsets", 4, [0]), "f, row 4: 2 values and 1 offsets"),
    "a topic without a name": (lambda: changed("topic", 2, 4), "f, row 2: topic 4 has no name"),
}


@pytest.mark.parametrize("what", FAULTY_TABLES)
def test_a_faulty_table_is_refused_with_the_place_and_the_way_out(what: str) -> None:
    table, message = FAULTY_TABLES[what]
    with pytest.raises(HistoryError) as refused:
        from_arrow(table(), "f", ("t",))
    assert str(refused.value).startswith(message)


FAULTY_ROWS: dict[str, tuple[str, int, Any, str]] = {
    "an unknown kind": ("kind", 3, 99, "kind is 99: use 0 (produce), 1 (fetch)"),
    "an unknown outcome": ("outcome", 3, 3, "outcome is 3: use 0 (ok), 1 (fail), 2 (info)"),
    "an unknown isolation": ("isolation", 4, 2, "isolation is 2: use 0 (read_uncommitted)"),
    "an offset that no response has": ("acks", 0, 0, "acks is 0 and offset is 0: no response tells"),
    "an unknown acks": ("acks", 3, 2, "acks is 2: use -1 (all), 0 or 1"),
    "a negative partition": ("partition", 3, -1, "partition is -1: number partitions from 0"),
    "a negative call": ("call", 0, -5, "called at -5: count nanoseconds"),
    "a return before the call": ("return", 4, 3, "returned at 3, before its call at 4"),
    "an ok that never returned": ("return", 0, None, "it is ok but has no return"),
    "a high watermark of what is no fetch": ("high_watermark", 7, 3, "high_watermark is 3: only a fetch that is ok"),
    "an offset of a produce that is not ok": ("outcome", 0, 2, "a produce that is not ok has an offset or offsets"),
    "a negative offset": ("offset", 7, -3, "offset is -3: use null"),
    "a negative high watermark": ("high_watermark", 4, -3, "high_watermark is -3: use null"),
    "a produce without values": ("values", 0, [], "a produce without values"),
    "values on a list_offsets": ("values", 7, [1], "1 values on an operation that has none"),
    "an acknowledged produce without an offset": ("offset", 1, None, "an acknowledged produce without its offset"),
    "a list_offsets without an offset": (
        "offset",
        7,
        None,
        "no offset: a list_offsets needs the offset that it returned",
    ),
    "an election without an offset": ("offset", 8, None, "no offset: a list_offsets needs the offset that it returned"),
    "a repeated index": ("index", 5, 4, "index 4 does not follow the row before it"),
    "a history in two places": ("history", 5, 4, "its history began earlier in the table"),
}


@pytest.mark.parametrize("what", FAULTY_ROWS)
def test_a_malformed_row_is_set_apart_with_the_reason(what: str) -> None:
    column, row, value, reason = FAULTY_ROWS[what]
    bad = malformed.find(from_arrow(changed(column, row, value), "f", ("t",)), "f")
    assert any(one.reason.startswith(reason) for one in bad), bad
    if column != "history":
        assert bad[0].row == row
        assert str(bad[0]).startswith(f"f, row {row} (history 3): ")


def test_well_formed_rows_have_no_fault() -> None:
    assert malformed.find(mixed()) == []


def test_a_fetch_needs_the_offset_of_every_value() -> None:
    rows = history([fetch(0, 1, -1, 7)])
    assert "values without offsets" in malformed.find(rows)[0].reason


@pytest.mark.parametrize("outcome", [Outcome.FAIL, Outcome.INFO])
def test_offsets_of_a_produce_that_nobody_acknowledged_are_malformed(outcome: Outcome) -> None:
    told = attrs.evolve(produce(0, 1, UNKNOWN, 7, offsets=[5]), outcome=outcome)
    assert "a produce that is not ok has an offset or offsets" in malformed.find(history([told]))[0].reason
    unacknowledged = produce(0, 1, UNKNOWN, 7, acks=0, offsets=[5])
    assert "acks is 0" in malformed.find(history([unacknowledged]))[0].reason


def test_check_refuses_rows_out_of_order_and_kinds_that_are_none() -> None:
    whole = mixed()
    for wrong, reason in (
        (whole.take(np.arange(len(whole))[::-1]), "does not follow the row before it"),
        (whole.take(np.array([0, len(whole) - 1, 1])), "its history began earlier"),
        (attrs.evolve(whole, kind=np.where(np.arange(len(whole)) == 4, 99, whole.kind).astype(np.int8)), "kind is 99"),
        (attrs.evolve(whole, outcome=np.full(len(whole), -1, np.int8)), "outcome is -1"),
    ):
        with pytest.raises(HistoryError, match=reason):
            check(wrong)
    backwards = concatenate(
        [whole.take(np.flatnonzero(whole.history == 5)), whole.take(np.flatnonzero(whole.history == 3))]
    )
    assert len(check(backwards).histories) == 2


def test_a_flipped_bit_of_a_file_changes_no_row_in_silence(tmp_path: Path) -> None:
    ((made, _),) = generate(20, 30, 7, 0.2)
    whole = attrs.evolve(made, process=made.process + 1)
    files.write(tmp_path / "whole.parquet", whole)
    sound, flipped = (tmp_path / "whole.parquet").read_bytes(), tmp_path / "flipped.parquet"
    rows = to_arrow(files.read(tmp_path / "whole.parquet"))
    refused = 0
    for place in range(4, len(sound) - 4, 31):
        flipped.write_bytes(sound[:place] + bytes([sound[place] ^ 1 << place % 8]) + sound[place + 1 :])
        try:
            assert to_arrow(files.read(flipped)).equals(rows), f"byte {place}"
        except HistoryError:
            refused += 1
    assert refused > 200


FLIP = """
import sys
from pathlib import Path
from tidegauge.linearizability import files
from tidegauge.linearizability.arrow import HistoryError

whole, flipped = Path(sys.argv[1]), Path(sys.argv[2])
sound = whole.read_bytes()
footer, refused = len(sound) - 8 - int.from_bytes(sound[-8:-4], "little"), 0
for name in ("history", "meta", "transaction", "group", "found"):
    first, last = sound.index(name.encode(), footer), sound.rindex(name.encode())
    for begin, end in ((first - 12, first), (last - 20, last)):
        for place in range(begin, end):
            flipped.write_bytes(sound[:place] + bytes([sound[place] ^ 8]) + sound[place + 1 :])
            for read in (files.read_sound, lambda path: files.row_groups_of(path, 1)):
                try:
                    read(flipped)
                except HistoryError as error:
                    refused += "schema" in str(error)
print(refused)
"""
"""In a process of its own: what it is about would end it."""


def test_a_footer_that_gives_a_column_another_type_is_refused_and_ends_no_process(tmp_path: Path) -> None:
    files.write(tmp_path / "whole.parquet", history(ROWS, 1))
    command = [sys.executable, "-c", FLIP, str(tmp_path / "whole.parquet"), str(tmp_path / "flipped.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10


def test_a_history_with_a_malformed_row_is_left_out_as_a_whole() -> None:
    broken = attrs.evolve(mixed(), kind=mixed().kind.copy())
    broken.kind[4] = 99
    sound, bad = malformed.split(broken)
    assert set(sound.history.tolist()) == {5}
    assert [(one.row, one.history) for one in bad] == [(4, 3)]


def test_malformed_rows_of_a_file_are_counted_by_their_row_in_the_file(tmp_path: Path) -> None:
    good, other = to_arrow(history(ROWS, 1)), to_arrow(history(ROWS, 9))
    table = pa.concat_tables(
        [good, changed("kind", 4, None), changed("return", 4, 3), other], promote_options="default"
    )
    ids = [number for number in (1, 3, 5, 9) for _ in ROWS]
    table = table.set_column(0, "history", pa.array(ids))
    pq.write_table(table.replace_schema_metadata(good.schema.metadata), tmp_path / "h.parquet", row_group_size=20)
    sound, bad = files.read_sound(tmp_path / "h.parquet")
    assert set(sound.history.tolist()) == {1, 9}
    assert [(one.row, one.history) for one in bad] == [(14, 3), (24, 5)]
    sound, bad = files.read_sound(tmp_path / "h.parquet", [1])
    assert set(sound.history.tolist()) == {9}
    assert [(one.row, one.history) for one in bad] == [(24, 5)]


def test_files_that_are_no_history_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="there is no such file; check the path"):
        files.read(tmp_path / "absent.parquet")
    (tmp_path / "text.parquet").write_text("hello")
    with pytest.raises(HistoryError, match="not a readable Parquet file"):
        files.read(tmp_path / "text.parquet")
    files.write(tmp_path / "whole.parquet", mixed())
    whole = (tmp_path / "whole.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(HistoryError, match="not a readable Parquet file"):
        files.read(tmp_path / "cut.parquet")
    with pytest.raises(HistoryError, match="there is no such file"):
        jsonl.read(tmp_path / "absent.jsonl")


EVENTS = """
{"type": "invoke", "f": "produce", "process": 0, "time": 1, "topic": "t", "values": [7]}
{"type": "invoke", "f": "fetch", "process": 1, "time": 2, "topic": "t", "offset": 0}
{"type": "ok", "process": 0, "time": 3, "offset": 0}
{"type": "ok", "process": 1, "time": 4, "values": [7], "high_watermark": 1}
{"type": "invoke", "f": "produce", "process": 0, "time": 5, "topic": "t", "values": [8], "acks": 1}
{"type": "invoke", "f": "produce", "process": 2, "time": 6, "topic": "t", "values": [9]}
{"type": "fail", "process": 2, "time": 7}
"""


def test_events_are_paired_by_process() -> None:
    rows = list(jsonl.parse(EVENTS.splitlines()))
    assert rows == list(
        history(
            [
                produce(1, 3, 0, 7),
                fetch(2, 4, 0, 7, mark=1),
                attrs.evolve(unknown(5, 8), acks=1),
                attrs.evolve(failed(6, 7, 9), process=2),
            ]
        )
    )


BAD_LINES = {
    '{"high_watermrak": 3, "kind": "fetch"}': "line 1: unknown field 'high_watermrak': did you mean 'high_watermark'?",
    '{"type": "ok", "process": 0, "time": 1, "ofset": 0}': (
        "line 1: unknown field of an event 'ofset': did you mean 'offset'?"
    ),
    '{"type": "ok", "process": 0, "time": 1, "value": 0}': "line 1: unknown field of an event 'value'",
    '{"kind": "fetch", "error": "x"}': "line 1: unknown field 'error': there are history, index,",
    '{"kind": "fetch", "values": [1], "values": []}': "line 1: more than one field values; write each once",
    "{": "line 1: column 2 is not JSON: Expecting property name",
    "[1]": "line 1: it is not a JSON object",
    '{"type": "ok", "process": 0, "time": 1}': "line 1: process 0 completes nothing",
    '{"type": "done", "process": 0, "time": 1}': "line 1: type is 'done': use invoke, ok, fail, info",
    '{"kind": "produce", "outcome": "ok", "process": 0, "topic": "t"}': "line 1: call is None: give an integer",
    '{"kind": "write", "outcome": "ok", "process": 0, "topic": "t"}': "line 1: kind is 'write': use produce, fetch",
    '{"process": 4294967296, "call": 1}': "line 1: process is 4294967296: it must fit 32 bits",
    '{"kind": "produce", "outcome": "ok", "process": 0, "topic": "t", "call": 5, "return": 4}': (
        "line 1: operation 0 returned at 4 before its call at 5"
    ),
}


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_bad_line_is_refused_with_its_number(line: str) -> None:
    with pytest.raises(HistoryError) as refused:
        jsonl.parse([line], "f")
    assert str(refused.value).startswith(f"f, {BAD_LINES[line]}")


def test_what_is_not_the_checkers_is_left_aside(tmp_path: Path) -> None:
    aside = {"_host": "a", "meta": {"x": 1}, "metadata": [1]}
    row = {"kind": "list_offsets", "outcome": "ok", "process": 0, "topic": "t", "call": 1, "return": 2, "offset": 0}
    (read,) = jsonl.parse([json.dumps(row | aside)])
    assert (read.offset, read.meta) == (0, '{"x": 1}')
    asked = {"type": "invoke", "f": "list_offsets", "process": 0, "topic": "t", "time": 1, "index": 7}
    told = {"type": "info", "process": 0, "time": 2, "index": 8, "error": "timeout"}
    assert len(list(jsonl.parse([json.dumps(asked | aside), json.dumps(told | aside)]))) == 1
    table = to_arrow(history(ROWS)).append_column("_host", pa.array(["a"] * len(ROWS)))
    pq.write_table(table, tmp_path / "h.parquet")
    assert len(files.read(tmp_path / "h.parquet")) == len(from_arrow(table)) == len(ROWS)


@pytest.mark.parametrize("read", [files.read, files.read_sound])
def test_an_unknown_column_of_a_file_is_refused(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    pq.write_table(renamed(high_watermark="high_watermrak"), tmp_path / "h.parquet")
    with pytest.raises(HistoryError, match=r"h\.parquet: unknown column 'high_watermrak'"):
        read(tmp_path / "h.parquet")


def test_a_history_is_built_call_by_call() -> None:
    built = History(4)
    first = built.invoke(process=0, kind=Kind.PRODUCE, call=1, topic="t", values=[7, 8])
    second = built.invoke(process=1, kind=Kind.FETCH, call=2, topic="t", position=0, isolation=Isolation.READ_COMMITTED)
    built.ok(first, returned=3, offset=0)
    built.ok(second, returned=4, values=[7, 8], high_watermark=2)
    lost = built.invoke(process=0, kind=Kind.PRODUCE, call=5, topic="t", values=[9])
    built.info(lost)
    refused = built.invoke(process=0, kind=Kind.PRODUCE, call=6, topic="t", values=[10])
    built.fail(refused, returned=7)
    built.election(offset=1, call=8, returned=9, topic="t")
    built.settled(call=10, topic="t")
    expected = [
        produce(1, 3, 0, 7, 8),
        attrs.evolve(fetch(2, 4, 0, 7, 8, mark=2), isolation=Isolation.READ_COMMITTED),
        unknown(5, 9),
        failed(6, 7, 10),
        election(8, 9, 1),
        settled(10),
    ]
    assert list(built.operations()) == list(history(expected, 4))
    with pytest.raises(ValueError, match="operation 0 is not open"):
        built.ok(first, returned=11, offset=0)


def test_an_operation_checks_itself() -> None:
    with pytest.raises(ValueError, match="has 1 values and 2 offsets"):
        fetch(0, 1, 0, 7, offsets=[0, 1])
    with pytest.raises(ValueError, match="returned at 0 before its call at 1"):
        end(1, 0, 0)
    assert isinstance(ROWS[0], Operation)


def nothing_in(path: Path) -> set[str]:
    with open_parquet(pafs.LocalFileSystem(), str(path)) as file:
        return files.columns_of_nulls(file, [0])


def test_columns_of_numbers_that_have_nothing_are_not_read_and_text_always_is(tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    ((rows, _),) = generate(200, 100, 1)
    said = Transactional.blank(len(rows))
    some = said.stable.copy()
    some[-1] = 3
    nothing = {*ONLY_TRANSACTIONS, *ONLY_MEMBERS}
    for operations, expected in (
        (rows, nothing),
        (attrs.evolve(rows, transactional=attrs.evolve(said, stable=some)), nothing - {"last_stable_offset"}),
        (attrs.evolve(rows, meta=(*(None,) * (len(rows) - 1), "x")), nothing),
    ):
        files.write(path, operations)
        assert nothing_in(path) == expected
        assert set(files._load(path, None)[0].column_names) == set(SCHEMA.names) - expected
        assert list(files.read(path)) == list(operations)


def test_a_footer_that_says_nothing_of_nulls_leaves_no_column_unread(tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    ((rows, _),) = generate(200, 100, 1)
    pq.write_table(to_arrow(rows), path, write_statistics=False)
    assert nothing_in(path) == set()
    # A few rows are as small as their statistics: these alone are not believed.
    files.write(path, rows.slice(0, 50))
    assert nothing_in(path) == set()
