"""What workers do with their units, without Spark: the verdicts are the checker's own, wherever the rows lie."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.arrow import ONLY_MEMBERS, ONLY_TRANSACTIONS, to_arrow
from tidegauge.linearizability.history import concatenate
from tidegauge.linearizability.log import Level
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.linearizability.group_cases import all_pairs
from tidegauge.model_tests.linearizability.small_transactions import draw
from tidegauge.model_tests.spark_check.layouts import (
    LENGTH,
    Change,
    expected,
    expected_anomalies,
    histories,
    replaced,
    settled,
    shuffled,
    write,
    written_anomalies,
    written_malformed,
    written_verdicts,
)
from tidegauge.spark_check.checking import NAMES
from tidegauge.spark_check.converting import Failed
from tidegauge.spark_check.errors import BadInput, BadOutput
from tidegauge.spark_check.footers import find_files, pieces_of
from tidegauge.spark_check.job import Work, plan_files
from tidegauge.spark_check.output import JOB_TABLES, UNITS, begin, commits, job_of
from tidegauge.spark_check.places import Place
from tidegauge.spark_check.planner import plan
from tidegauge.spark_check.reading import join_bucket, read_piece, read_unit, split_by_bucket
from tidegauge.spark_check.row_counts import count_rows


def test_transactions_are_checked_wherever_their_rows_lie(tmp_path: Path) -> None:
    drawn, _ = draw(5, 60)
    file = write(tmp_path / "transactions.parquet", to_arrow(drawn), 50)
    check_here([file], tmp_path / "out")
    assert written_verdicts(tmp_path / "out") == expected(drawn)
    assert written_anomalies(tmp_path / "out") == expected_anomalies(drawn)
    assert {verdict for _, verdict in expected(drawn).values()} == {"valid", "violated"}


def test_groups_are_checked_wherever_their_rows_lie(tmp_path: Path) -> None:
    rows = all_pairs()
    file = write(tmp_path / "groups.parquet", to_arrow(rows), 7)
    check_here([file], tmp_path / "out", target=20)
    assert written_verdicts(tmp_path / "out") == expected(rows)
    assert written_anomalies(tmp_path / "out") == expected_anomalies(rows)
    assert {verdict for _, verdict in expected(rows).values()} == {"valid", "violated"}


def test_a_column_for_few_histories_is_read_of_the_row_groups_that_say_something_in_it(tmp_path: Path) -> None:
    plain, (drawn, _) = histories(500), draw(5, 4)
    file = write(tmp_path / "both.parquet", to_arrow(concatenate([plain, drawn])), len(plain))
    first, *others = [set(read_piece(piece).table.column_names) for piece in pieces_of(find_files([file]))]
    assert first.isdisjoint((*ONLY_TRANSACTIONS, *ONLY_MEMBERS))
    assert {*ONLY_TRANSACTIONS} <= set.union(*others)


def check_here(
    paths: list[Path], out: str | Path, target: int = 200, largest: int = 1_000_000, *, across_files: bool = False
) -> None:
    """Plan and do all units in this process, buckets included."""
    work = Work(Place.of(out), Level.KAFKA, job_of({}))
    begin(work.out, {})
    pieces = list(pieces_of(find_files(paths)))
    for unit in plan_files(pieces, {}, target, largest, across_files=across_files)[0].units:
        if unit.buckets == 1:
            done = work.do(unit)
        else:
            whole = attrs.evolve(unit, bucket=0, buckets=1)
            split = [pair for part in read_unit(whole) for pair in split_by_bucket(part, unit.buckets, [unit.bucket])]
            done = work.join(unit, [stream for _, stream in split])
        if isinstance(done, Failed):
            raise BadInput(done.message)


@pytest.mark.parametrize("size", [1, 7, LENGTH, LENGTH + 1, 3 * LENGTH, 10_000])
def test_row_groups_that_cut_histories_change_no_verdict(size: int, tmp_path: Path) -> None:
    operations = histories(30 if size > 1 else 6)
    file = write(tmp_path / "cut.parquet", to_arrow(operations), size)
    check_here([file], tmp_path / "out")
    assert written_verdicts(tmp_path / "out") == expected(operations)
    assert written_anomalies(tmp_path / "out") == expected_anomalies(operations)


def test_files_that_cut_histories_change_no_verdict(tmp_path: Path) -> None:
    operations = histories(30)
    rows = to_arrow(operations)
    cuts = [0, 5, 130, 131, 399, 600]
    files = [
        write(tmp_path / f"{number}.parquet", rows.slice(start, stop - start), 64)
        for number, (start, stop) in enumerate(pairwise(cuts))
    ]
    check_here([*reversed(files)], tmp_path / "out", across_files=True)
    assert written_verdicts(tmp_path / "out") == expected(operations)
    assert written_anomalies(tmp_path / "out") == expected_anomalies(operations)


@pytest.mark.parametrize("largest", [100, 1_000_000])
def test_ids_that_files_share_are_histories_of_their_own(largest: int, tmp_path: Path) -> None:
    """Sorted and in no order, in small units and in one; each file's rows are as in a job of its own."""
    by_file = {f"{seed}.parquet": histories(30, seed=seed) for seed in (5, 6, 7)}
    for name, operations in by_file.items():
        rows = to_arrow(operations)
        write(tmp_path / name, rows if name == "5.parquet" else shuffled(rows, seed=1), 64)
    check_here([tmp_path], tmp_path / "out", target=90, largest=largest)
    verdicts = pq.read_table(tmp_path / "out" / "verdicts", schema=JOB_TABLES["verdicts"]).to_pylist()
    anomalies = pq.read_table(tmp_path / "out" / "anomalies", schema=JOB_TABLES["anomalies"]).to_pylist()
    assert len(verdicts) == 90
    for name, operations in by_file.items():
        mine = [row for row in verdicts if row["file"] == str(tmp_path / name)]
        found = {row["history"]: (row["operations"], NAMES[row["verdict"]]) for row in mine}
        assert found == expected(operations)
        named = {
            (row["history"], Name(row["anomaly"]), row["topic"], row["partition"], row["witness"])
            for row in anomalies
            if row["file"] == str(tmp_path / name)
        }
        assert named == expected_anomalies(operations) != set()


def test_a_malformed_row_spoils_the_history_of_its_file_alone(tmp_path: Path) -> None:
    rows = to_arrow(histories(3, rate=0.0))
    for name in ("a", "b", "c"):
        write(tmp_path / f"{name}.parquet", replaced(rows, "kind", LENGTH + 4, 99) if name == "b" else rows, 17)
    check_here([tmp_path], tmp_path / "out", target=1_000)
    verdicts = pq.read_table(tmp_path / "out" / "verdicts", schema=JOB_TABLES["verdicts"]).to_pylist()
    malformed = [(row["file"][-9:], row["history"]) for row in verdicts if NAMES[row["verdict"]] == "malformed"]
    assert malformed == [("b.parquet", 1)]
    (aside,) = written_malformed(tmp_path / "out")
    assert (aside["file"], aside["history"]) == (str(tmp_path / "b.parquet"), 1)
    assert json.loads(str(aside["content"]))["history"] == 1
    (done,) = commits(Place.of(tmp_path / "out")).values()
    assert done.histories == 9


def test_words_about_a_history_name_its_file_where_there_are_several(tmp_path: Path) -> None:
    operations = settled(histories(12))
    for name in ("a", "b"):
        write(tmp_path / f"{name}.parquet", to_arrow(operations), 100)
    check_here([tmp_path], tmp_path / "out", target=10_000)
    (done,) = commits(Place.of(tmp_path / "out")).values()
    assert {one.file for one in done.examples} <= {str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")}
    assert all(0 <= one.history < 12 for one in done.examples)
    assert f"of history 0 of {tmp_path / 'a.parquet'}: " in done.gaps[0]


def test_an_id_that_the_footer_does_not_know_of_is_an_error(tmp_path: Path) -> None:
    """Moved by as much as its file, it could be a history of the next file."""
    file = write(tmp_path / "a.parquet", to_arrow(histories(3)), 1_000)
    (piece,) = pieces_of([file])
    for wrong in (attrs.evolve(piece, high=1), attrs.evolve(piece, low=1), attrs.evolve(piece, low=None, high=None)):
        with pytest.raises(BadInput, match=r"a\.parquet, row group 0: its footer is wrong about its histories"):
            read_piece(wrong)


@settings(max_examples=amount(25, deep=100))
@given(st.lists(st.integers(1, 90), min_size=1, max_size=12))
def test_any_cutting_gives_the_same_verdicts(tmp_path_factory: pytest.TempPathFactory, sizes: list[int]) -> None:
    folder = tmp_path_factory.mktemp("cutting")
    operations = histories(12)
    file = write(folder / "cut.parquet", to_arrow(operations), [*sizes, max(0, 12 * LENGTH - sum(sizes))])
    check_here([file], folder / "out", target=50)
    assert written_verdicts(folder / "out") == expected(operations)


@pytest.mark.parametrize("largest", [100, 1_000_000])
@pytest.mark.parametrize("indexed", [True, False])
def test_rows_in_any_order_change_no_verdict(largest: int, indexed: bool, tmp_path: Path) -> None:
    """Unclustered input, split by hash (largest=100) or small enough to be sorted at once."""
    operations = histories(30)
    rows = to_arrow(operations)
    if indexed:
        rows = shuffled(rows, seed=1)
    else:
        # Without an index the order of a history's rows is theirs in the file: interleave whole histories' rows.
        turns = [history * LENGTH + turn for turn in range(LENGTH) for history in range(30)]
        rows = rows.take(pa.array(turns)).drop_columns(["index"])
    file = write(tmp_path / "mixed.parquet", rows, 17)
    check_here([file], tmp_path / "out", target=90, largest=largest)
    assert written_verdicts(tmp_path / "out") == expected(operations)
    assert written_anomalies(tmp_path / "out") == expected_anomalies(operations)


def test_footers_without_statistics_are_made_up_for(tmp_path: Path) -> None:
    operations = histories(30)
    pq.write_table(to_arrow(operations), tmp_path / "bare.parquet", row_group_size=33, write_statistics=False)
    check_here([tmp_path / "bare.parquet"], tmp_path / "out")
    assert written_verdicts(tmp_path / "out") == expected(operations)


def wide(rows: pa.Table, at: int) -> pa.Table:
    """The rows with indices of 64 bits, of which one has more than 32."""
    number = rows.schema.get_field_index("index")
    index = rows.column("index").cast(pa.int64())
    return replaced(rows.set_column(number, "index", index), "index", at, (1 << 32) + 5)


SPOILERS: dict[str, tuple[Change, str]] = {
    "kind": (lambda rows: replaced(rows, "kind", 25, 99), "kind is 99"),
    "null": (lambda rows: replaced(rows, "call", 25, None), "call is null"),
    "times": (lambda rows: replaced(rows, "return", 25, 0), "returned at 0, before its call"),
    "width": (lambda rows: wide(rows, 25), "index is 4294967301: it does not fit int32"),
    "index": (lambda rows: replaced(rows, "index", 25, 4), "index 4 does not follow"),
}


@pytest.mark.parametrize("spoiler", SPOILERS)
@pytest.mark.parametrize("size", [10, 26, 10_000])
def test_malformed_rows_are_kept_aside_with_the_reason(spoiler: str, size: int, tmp_path: Path) -> None:
    """Row 25 is in the second history: that one is not checked, all others are."""
    operations = histories(10)
    change, reason = SPOILERS[spoiler]
    file = write(tmp_path / "bad.parquet", change(to_arrow(operations)), size)
    check_here([file], tmp_path / "out", target=40)
    (row,) = written_malformed(tmp_path / "out")
    assert (row["file"], row["row_group"], row["row"], row["history"]) == (str(file), 25 // size, 25 % size, 1)
    assert reason in str(row["reason"])
    assert '"history": 1' in str(row["content"])
    assert written_verdicts(tmp_path / "out") == {**expected(operations), 1: (LENGTH, "malformed")}


@pytest.mark.parametrize("largest", [100, 10_000])
def test_rows_without_a_history_are_kept_aside_once(largest: int, tmp_path: Path) -> None:
    rows = to_arrow(histories(10))
    rows = shuffled(rows, seed=2) if largest == 100 else rows
    for at in (0, 25, 26):
        rows = replaced(rows, "history", at, None)
    file = write(tmp_path / "bad.parquet", rows, 26)
    check_here([file], tmp_path / "out", target=40, largest=largest)
    kept = written_malformed(tmp_path / "out")
    assert [(row["row_group"], row["row"], row["history"]) for row in kept] == [
        (0, 0, None),
        (0, 25, None),
        (1, 0, None),
    ]
    checked = written_verdicts(tmp_path / "out")
    assert sum(rows for rows, _ in checked.values()) + len(kept) == count_rows([str(file)]).rows == 10 * LENGTH


def test_topics_of_several_files_are_told_apart_by_name(tmp_path: Path) -> None:
    """Two files, each with a code 0 of its own; one history goes on in both."""
    operations = histories(2)
    first = attrs.evolve(operations, topics=("first",)).slice(0, LENGTH + 5)
    second = attrs.evolve(operations, topics=("second",)).slice(LENGTH + 5, 2 * LENGTH)
    one = write(tmp_path / "a.parquet", to_arrow(first), 8)
    two = write(tmp_path / "b.parquet", to_arrow(second), 8)
    check_here([one, two], tmp_path / "out", across_files=True)
    both = concatenate([first, second])
    assert written_verdicts(tmp_path / "out") == expected(both)
    assert written_anomalies(tmp_path / "out") == expected_anomalies(both) != set()


def test_a_damaged_page_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    file = write(tmp_path / "torn.parquet", to_arrow(histories(30)), 10_000)
    content = bytearray(file.read_bytes())
    content[200:2_000] = bytes(1_800)
    file.write_bytes(content)
    unit = plan(pieces_of([file])).units[0]
    out = Place.of(tmp_path / "out")
    begin(out, {})
    failed = Work(out, Level.KAFKA, job_of({})).do(unit)
    assert isinstance(failed, Failed)
    assert str(file) in failed.message
    assert not any((tmp_path / "out" / "verdicts").iterdir())


@pytest.mark.parametrize(
    ("column", "message"), [("history", "has no column `history`"), ("values", "no column values")]
)
def test_a_table_of_something_else_is_an_error_that_names_the_column(column: str, message: str, tmp_path: Path) -> None:
    file = write(tmp_path / "other.parquet", to_arrow(histories(3)).drop_columns([column]), 100)
    with pytest.raises(BadInput, match=message):
        check_here([file], tmp_path / "out")


@pytest.mark.parametrize("name", ["missing.parquet", "notes.txt", "empty_folder"])
def test_paths_that_hold_no_histories_are_named(name: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no histories here")
    (tmp_path / "empty_folder").mkdir()
    with pytest.raises(BadInput, match=name):
        find_files([tmp_path / name])


def test_a_file_without_a_footer_is_named(tmp_path: Path) -> None:
    (tmp_path / "half.parquet").write_bytes(b"PAR1 and then the writer was killed")
    with pytest.raises(BadInput, match=r"half\.parquet cannot be read as Parquet"):
        list(pieces_of(find_files([tmp_path])))


def test_hidden_files_are_not_data(tmp_path: Path) -> None:
    rows = to_arrow(histories(3))
    write(tmp_path / "shown.parquet", rows, 100)
    (tmp_path / "_work").mkdir()
    for hidden in ("_work/a.parquet", ".partial.parquet", "_b.parquet"):
        write(tmp_path / hidden, rows, 100)
    assert [file.name for file in find_files([tmp_path, tmp_path / "shown.parquet"])] == ["shown.parquet"]


def test_a_bucket_is_put_together_from_its_streams_in_order(tmp_path: Path) -> None:
    rows = shuffled(to_arrow(histories(20)), seed=3).drop_columns(["meta", *ONLY_TRANSACTIONS, *ONLY_MEMBERS])
    file = write(tmp_path / "mixed.parquet", rows, 100)
    (unit,) = plan(pieces_of([file]), target=10_000, largest=10_000).units
    streams = [pair for part in read_unit(unit) for pair in split_by_bucket(part, 3, range(3))]
    converted = attrs.evolve(next(iter(read_unit(unit))), source="made.jsonl")
    assert {part.source for _, one in split_by_bucket(converted, 1, [0]) for part in join_bucket([one])} == {
        "made.jsonl"
    }
    for bucket in range(3):
        parts = join_bucket([stream for number, stream in reversed(streams) if number == bucket])
        assert [part.row_group for part in parts] == sorted({part.row_group for part in parts})
        for part in parts:
            assert part.table.equals(rows.slice(part.row_group * 100, 100).take(pa.array(part.rows)))


@pytest.mark.parametrize(
    "text", ['{"unit": "unit-0", "unit": "unit-1"}', '{"unit": ', "[]"], ids=["twice", "torn", "list"]
)
def test_a_commit_that_is_damaged_is_refused_with_its_path(text: str, tmp_path: Path) -> None:
    (tmp_path / UNITS).mkdir()
    (tmp_path / UNITS / "unit-0.json").write_text(text)
    with pytest.raises(BadOutput, match=r"unit-0\.json is damaged .*: run the job again into another folder"):
        commits(Place.of(tmp_path))
