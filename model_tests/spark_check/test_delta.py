"""A Delta table is what its log says, not what is in its folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegauge.__main__ import run as tidegauge
from tidegauge.linearizability.arrow import to_arrow
from tidegauge.linearizability.history import Operations
from tidegauge.model_tests.spark_check.layouts import (
    LENGTH,
    expected,
    expected_anomalies,
    histories,
    replaced,
    written_anomalies,
    written_malformed,
    written_verdicts,
)
from tidegauge.model_tests.spark_check.object_store import Bucket
from tidegauge.model_tests.spark_check.object_store import bucket as bucket
from tidegauge.spark_check.__main__ import main
from tidegauge.spark_check.delta import delta_files
from tidegauge.spark_check.errors import BadInput, CannotRun
from tidegauge.spark_check.footers import find, find_files
from tidegauge.spark_check.job import open_job
from tidegauge.spark_check.output import JOB_TABLES
from tidegauge.spark_check.places import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Action = dict[str, Any]
PROTOCOL: Action = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
ABOUT: Action = {"metaData": {"id": "t", "partitionColumns": [], "configuration": {}}}
LOG = Path(__file__).parent / "delta_log"
"""Five versions that delta-rs 1.6 wrote: two appends, a delete, a checkpoint, an append, and a compaction."""


@attrs.define
class Lake:
    """A table in the making."""

    table: Place
    versions: int = 0

    def put(self, name: str, rows: pa.Table) -> Action:
        """Write a data file; returns the action that adds it."""
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink, row_group_size=50)
        file = self.table / name
        file.parent.make_folder()
        file.put(sink.getvalue())
        path = name.replace("%", "%25").replace(" ", "%20")
        return {"add": {"path": path, "size": len(sink.getvalue()), "modificationTime": 5, "dataChange": True}}

    def commit(self, *actions: Action) -> None:
        (self.table / "_delta_log").make_folder()
        lines = "\n".join(json.dumps(action) for action in actions)
        (self.table / "_delta_log" / f"{self.versions:020d}.json").put(lines.encode())
        self.versions += 1


def remove(added: Action) -> Action:
    return {"remove": {"path": added["add"]["path"], "dataChange": True}}


def made(folder: Path | str, operations: Operations) -> Lake:
    """The operations in two files that cut a history; and before that in one that has other rows, which was removed."""
    lake, rows = Lake(Place.of(folder)), to_arrow(operations)
    old = lake.put("old.parquet", to_arrow(histories(9, seed=3)))
    lake.commit(PROTOCOL, ABOUT, old)
    cut = LENGTH * 3 + 7
    new = [lake.put("b.parquet", rows.slice(0, cut)), lake.put("day=1/a %.parquet", rows.slice(cut))]
    lake.commit(*new, remove(old))
    return lake


def test_each_version_has_the_files_that_another_reader_finds(tmp_path: Path) -> None:
    first, second, changed, third, whole = (
        f"part-00000-{name}.parquet"
        for name in (
            "07c0c5b0-29ed-4048-92f7-be6409f8308d-c000.snappy",
            "0db0cc86-706f-48ac-b483-9d46ceadf0e2-c000.snappy",
            "fcbe5dbc-d654-4e03-aed9-0080173726f6-c000.zstd",
            "beb36033-2f78-45ea-8886-a5bce105395a-c000.snappy",
            "0af7bdaa-b01f-4e2f-85fe-11d212d9d336-c000.zstd",
        )
    )
    by_version = [[first], [first, second], [second, changed], [second, third, changed], [whole]]
    (tmp_path / "_delta_log").symlink_to(LOG)
    for version, names in enumerate(by_version):
        found, files = delta_files(Place.of(tmp_path), version)
        assert (found, [file.name for file in files]) == (version, names)
    assert delta_files(Place.of(tmp_path))[0] == 4
    assert {file.table for file in delta_files(Place.of(tmp_path))[1]} == {str(tmp_path)}


def test_a_job_checks_what_is_in_the_table_and_no_file_that_was_removed(spark: SparkSession, tmp_path: Path) -> None:
    operations = histories(12)
    made(tmp_path / "t", operations)
    summary = open_job([tmp_path / "t"], tmp_path / "out", target=60).run(spark)
    assert written_verdicts(tmp_path / "out") == expected(operations)
    assert written_anomalies(tmp_path / "out") == expected_anomalies(operations) != set()
    verdicts = pq.read_table(tmp_path / "out" / "verdicts", schema=JOB_TABLES["verdicts"])
    assert verdicts.column("file").unique().to_pylist() == [str(tmp_path / "t")]
    assert f"the table {tmp_path}/t is read at version 1" in summary.notes
    before = open_job([tmp_path / "t"], tmp_path / "before", table_version=0).run(spark)
    assert before.histories == 9
    assert written_verdicts(tmp_path / "before") == expected(histories(9, seed=3))


def test_a_job_goes_on_at_the_version_at_which_it_began(tmp_path: Path, spark: SparkSession) -> None:
    lake = made(tmp_path / "t", histories(6))
    job = open_job([tmp_path / "t"], tmp_path / "out")
    job.run(spark)
    lake.commit(lake.put("c.parquet", to_arrow(histories(2, first=50))))
    with pytest.raises(CannotRun, match="cannot be resumed: its files were different"):
        open_job([tmp_path / "t"], tmp_path / "out", resume=True)
    assert open_job([tmp_path / "t"], tmp_path / "out", resume=True, table_version=1).finished is not None


def test_tables_of_several_folders_and_files_beside_them_are_told_apart(tmp_path: Path) -> None:
    for name in ("x", "deep/y"):
        made(tmp_path / name, histories(6))
    Lake(Place.of(tmp_path)).put("alone.parquet", to_arrow(histories(1)))
    files, notes = find([tmp_path])
    assert [(file.name, file.table and Path(file.table).name) for file in files] == [
        ("alone.parquet", None),
        ("b.parquet", "y"),
        ("a %.parquet", "y"),
        ("b.parquet", "x"),
        ("a %.parquet", "x"),
    ]
    assert len(notes) == 2
    with pytest.raises(BadInput, match="a version of a table is for one table, and there are 2"):
        find([tmp_path], 1)
    with pytest.raises(BadInput, match="for one table, and there are 0"):
        find([tmp_path / "alone.parquet"], 1)


@pytest.mark.parametrize("path", ["b.parquet", "old.parquet", "*.parquet", "day=1", "day=1/*", "day=*/*.parquet"])
def test_a_part_of_a_table_is_refused_with_the_name_of_the_table(path: str, tmp_path: Path) -> None:
    made(tmp_path / "t", histories(6))
    with pytest.raises(BadInput, match=rf"is in the folder of the Delta table {tmp_path}/t, whose log says"):
        find_files([f"{tmp_path}/t/{path}"])


def test_a_table_on_an_object_store_is_found_by_its_uri(bucket: Bucket) -> None:
    uri = bucket.uri("lake/t")
    made(uri, histories(6))
    files, _ = find([uri])
    assert [file.uri.partition("?")[0].rpartition("lake/")[2] for file in files] == [
        "t/b.parquet",
        "t/day=1/a %.parquet",
    ]
    with files[0].open_parquet() as opened:
        assert sum(opened.sizes) == LENGTH * 3 + 7
    with pytest.raises(BadInput, match="is in the folder of the Delta table"):
        find_files([bucket.uri("lake/t/day=1")])


REFUSED: dict[str, tuple[list[Action], str]] = {
    "deletion vectors": (
        [{"add": {"path": "c.parquet", "size": 1, "deletionVector": {"storageType": "u"}}}],
        r"deletion vectors, of 1 file such as c\.parquet: .*REORG TABLE",
    ),
    "column mapping": (
        [{"metaData": {"id": "t", "configuration": {"delta.columnMapping.mode": "name"}}}],
        r"column mapping \(name\)",
    ),
    "a feature": (
        [{"protocol": {"minReaderVersion": 3, "readerFeatures": ["deletionVectors", "v2Checkpoint"]}}],
        "needs v2Checkpoint, which is not known here",
    ),
    "a newer reader": ([{"protocol": {"minReaderVersion": 4}}], "needs reader version 4"),
    "a partition column": (
        [{"metaData": {"id": "t", "partitionColumns": ["day", "acks"], "configuration": {}}}],
        "partitioned by acks, which its files do not have",
    ),
    "no path": ([{"add": {"size": 1}}], r"its _delta_log cannot be read \(KeyError"),
    "an empty path": ([{"add": {"path": "", "size": 1}}], r"its _delta_log cannot be read \(ValueError"),
    "a number for a path": ([{"add": {"path": 5, "size": 1}}], r"its _delta_log cannot be read \(ValueError"),
    "a text for a size": ([{"add": {"path": "a", "size": "1"}}], r"its _delta_log cannot be read \(ValueError"),
    "a text for a time": (
        [{"add": {"path": "a", "size": 1, "modificationTime": "1"}}],
        r"its _delta_log cannot be read \(ValueError",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_table_whose_files_do_not_say_it_all_is_refused(what: str, tmp_path: Path) -> None:
    actions, why = REFUSED[what]
    lake = made(tmp_path / "t", histories(6))
    lake.commit(*actions)
    with pytest.raises(BadInput, match=rf"{tmp_path}/t.*{why}"):
        find_files([tmp_path / "t"])
    assert len(find_files([tmp_path / "t"], 1)) == 2, "the version before that can be read"


def test_deleted_rows_that_were_written_anew_are_no_reason_to_refuse_a_table(tmp_path: Path) -> None:
    lake = made(tmp_path / "t", histories(6))
    vector = {"storageType": "u", "pathOrInlineDv": "x"}
    lake.commit({"remove": {"path": "b.parquet"}}, {"add": {"path": "b.parquet", "size": 1, "deletionVector": vector}})
    with pytest.raises(BadInput, match="deletion vectors"):
        find_files([tmp_path / "t"])
    anew = lake.put("c.parquet", to_arrow(histories(3)))
    lake.commit({"remove": {"path": "b.parquet", "deletionVector": vector}}, anew)
    assert [file.name for file in find_files([tmp_path / "t"])] == ["c.parquet", "a %.parquet"]


def test_a_log_that_lacks_a_version_or_is_damaged_is_refused(tmp_path: Path) -> None:
    made(tmp_path / "t", histories(6))
    newest = tmp_path / "t" / "_delta_log" / f"{1:020d}.json"
    newest.write_text(newest.read_text()[:-9])
    with pytest.raises(BadInput, match=r"/t: its _delta_log cannot be read \(JSONDecodeError"):
        find_files([tmp_path / "t"])
    newest.unlink()
    (tmp_path / "t" / "_delta_log" / f"{2:020d}.json").write_text("{}")
    with pytest.raises(BadInput, match="version 1 is not in its _delta_log"):
        find_files([tmp_path / "t"])
    with pytest.raises(BadInput, match="has no version 3: its newest one is 2"):
        find_files([tmp_path / "t"], 3)


def test_rows_without_an_index_are_refused(tmp_path: Path) -> None:
    lake = made(tmp_path / "t", histories(6))
    lake.commit(lake.put("c.parquet", to_arrow(histories(1, first=90)).drop_columns(["index"])))
    with pytest.raises(BadInput, match=r"c\.parquet: the rows of a table have no order, so it needs the"):
        open_job([tmp_path / "t"], tmp_path / "out")


def test_both_commands_check_a_table_alike(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A malformed row in one file spoils the history that goes on in the other one."""
    lake, rows = Lake(Place.of(tmp_path / "t")), to_arrow(histories(6, rate=0.9))
    parts = [replaced(rows.slice(0, 47), "kind", 45, 99), rows.slice(47)]
    lake.commit(PROTOCOL, ABOUT, *(lake.put(f"{number}.parquet", part) for number, part in enumerate(parts)))
    assert main([str(tmp_path / "t"), "--out", str(tmp_path / "out"), "--table-version", "0"]) == 2
    (aside,) = written_malformed(tmp_path / "out")
    capsys.readouterr()
    assert tidegauge(["check", str(tmp_path / "t"), "--table-version", "0", "--json"]) == 2
    (told,) = json.loads(capsys.readouterr().out)["files"]
    assert [(row["history"], row["row"], row["source"]) for row in told["malformed"]] == [(2, 45, aside["file"])]
    assert told["histories"] == 5
    assert {(row["history"], row["witness"]) for row in told["anomalies"]} == {
        (history, witness) for history, *_, witness in written_anomalies(tmp_path / "out")
    }
    assert tidegauge(["check", str(tmp_path), "--history", "4", "--json"]) == 1
    (alone,) = json.loads(capsys.readouterr().out)["files"]
    assert (alone["file"], alone["histories"]) == (str(tmp_path / "t"), 1)


def test_a_file_that_cannot_be_reached_is_told_and_no_footer_hides_a_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = made(tmp_path / "t", histories(6))
    assert tidegauge(["check", f"{tmp_path}/t", "--history", "4"]) == 1
    for path in (tmp_path / "t").rglob("*.parquet"):
        content = path.read_bytes()
        footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
        lies = content[footer:].replace((5).to_bytes(8, "little"), (3).to_bytes(8, "little"))
        path.write_bytes(content[:footer] + lies)
    assert tidegauge(["check", f"{tmp_path}/t", "--history", "4"]) == 2
    assert "its footer is wrong about its histories" in capsys.readouterr().err
    lake.commit({"add": {"path": "gopher://far/c.parquet", "size": 1}})
    assert tidegauge(["check", f"{tmp_path}/t"]) == 2
    told = capsys.readouterr().err
    assert "gopher://far/c.parquet cannot be reached" in told
    assert "bug" not in told


def test_tidegauge_check_refuses_a_part_of_a_table_and_versions_of_what_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path / "t", histories(6))
    Lake(Place.of(tmp_path)).put("alone.parquet", to_arrow(histories(1)))
    for words, said in (
        (["t/b.parquet"], f"t/b.parquet: it is in the folder of the table {tmp_path}/t"),
        (["t/day=1"], f"t/day=1: it is in the folder of the table {tmp_path}/t"),
        (["alone.parquet", "--table-version", "1"], "--table-version 1: name one table"),
        (["t", "--table-version", "7"], f"{tmp_path}/t has no version 7"),
    ):
        assert tidegauge(["check", f"{tmp_path}/{words[0]}", *words[1:]]) == 2
        assert said in capsys.readouterr().err
