"""An Iceberg table is what a snapshot says, not what is in its folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegauge.__main__ import run as tidegauge
from tidegauge.linearizability.arrow import SCHEMA, to_arrow
from tidegauge.model_tests.amounts import stride
from tidegauge.model_tests.spark_check.avro_files import PACKED, SYNC, avro_file, record
from tidegauge.model_tests.spark_check.layouts import (
    LENGTH,
    expected,
    expected_anomalies,
    histories,
    written_anomalies,
    written_verdicts,
)
from tidegauge.spark_check.__main__ import main
from tidegauge.spark_check.avro import NotAvroError, records
from tidegauge.spark_check.errors import BadInput
from tidegauge.spark_check.footers import find, find_files
from tidegauge.spark_check.iceberg import iceberg_files
from tidegauge.spark_check.places import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

METADATA = Path(__file__).parent / "iceberg_metadata"
"""What pyiceberg 0.12 wrote of four snapshots: two appends, a delete that rewrites a file, and an append."""
LISTED = record("manifest_file", manifest_path="string", manifest_length="long", content="int")
ENTRY = record(
    "manifest_entry",
    status="int",
    snapshot_id=["null", "long"],
    data_file=record(
        "r2",
        content="int",
        file_path="string",
        file_format="string",
        file_size_in_bytes="long",
        partition=record("r102"),
    ),
)
FIELDS = [{"id": number, "name": name, "required": False, "type": "long"} for number, name in enumerate(SCHEMA.names)]
ABOUT: dict[str, Any] = {
    "format-version": 2,
    "schemas": [{"type": "struct", "fields": FIELDS}],
    "partition-specs": [{"spec-id": 0, "fields": []}],
}
ADDED, DELETED = 1, 2


@attrs.define
class Lake:
    """A table in the making, which its metadata says is elsewhere."""

    table: Path
    location: str = "s3://elsewhere/t"
    snapshots: list[dict[str, Any]] = attrs.field(factory=list)

    def put(self, name: str, rows: pa.Table) -> dict[str, Any]:
        """Write a data file; returns what a manifest says of it."""
        (self.table / "data").mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, self.table / "data" / name, row_group_size=50)
        size = (self.table / "data" / name).stat().st_size
        path = f"{self.location}/data/{name}"
        return {"content": 0, "file_path": path, "file_format": "parquet", "file_size_in_bytes": size, "partition": {}}

    def snapshot(self, *manifests: Sequence[tuple[int, dict[str, Any]]]) -> None:
        """A snapshot with manifests of files and their status."""
        number, folder = len(self.snapshots), self.table / "metadata"
        folder.mkdir(parents=True, exist_ok=True)
        listed = []
        for at, manifest in enumerate(manifests):
            rows = [{"status": status, "snapshot_id": None, "data_file": file} for status, file in manifest]
            (folder / f"m{number}-{at}.avro").write_bytes(avro_file(ENTRY, rows, "deflate"))
            path = f"{self.location}/metadata/m{number}-{at}.avro"
            listed.append({"manifest_path": path, "manifest_length": 1, "content": 0})
        (folder / f"s{number}.avro").write_bytes(avro_file(LISTED, listed))
        self.snapshots.append({"snapshot-id": number, "manifest-list": f"{self.location}/metadata/s{number}.avro"})

    def write(self, **changes: Any) -> Path:
        """The metadata, which a hint says is current."""
        current = {"current-snapshot-id": len(self.snapshots) - 1, "snapshots": self.snapshots}
        about = {**ABOUT, "location": self.location, **current, **changes}
        path = self.table / "metadata" / "v3.metadata.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(about))
        (path.parent / "version-hint.text").write_text("3")
        return path


def made(folder: Path) -> Lake:
    """Twelve histories in two files that cut a history; and before that one that has other rows."""
    lake, rows, cut = Lake(folder), to_arrow(histories(12)), LENGTH * 3 + 7
    old = lake.put("old.parquet", to_arrow(histories(9, seed=3)))
    lake.snapshot([(ADDED, old)])
    new = [lake.put("b.parquet", rows.slice(0, cut)), lake.put("a.parquet", rows.slice(cut))]
    lake.snapshot([(DELETED, old), (ADDED, new[0])], [(0, new[1])])
    lake.write()
    return lake


def test_each_snapshot_has_the_files_that_another_reader_finds(tmp_path: Path) -> None:
    first, second, changed, third = (
        f"00000-0-{name}.parquet"
        for name in (
            "2566266c-2f14-4bcf-a07f-ef78482bc8ab",
            "537a6aab-9761-4ae2-93ee-57f142929159",
            "0095fb87-5004-4127-bac5-1842b70ffabe",
            "5f068920-9ec9-498a-85cd-21b54d31e9a6",
        )
    )
    (tmp_path / "metadata").symlink_to(METADATA)
    for snapshot, names in {
        1683378667523208667: [first],
        4875763229901294469: [first, second],
        3029323864119832169: [changed, second],
        4697482795725371322: [changed, second, third],
        None: [changed, second, third],
    }.items():
        found, files = iceberg_files(Place(str(tmp_path)), snapshot)
        assert found == snapshot or (snapshot is None and found == 4697482795725371322)
        assert [file.uri for file in files] == [f"{tmp_path}/data/{name}" for name in sorted(names)]
        assert {file.table for file in files} == {str(tmp_path)}


def test_both_commands_check_a_table_alike(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path / "t")
    operations = histories(12)
    assert main([str(tmp_path / "t"), "--out", str(tmp_path / "out")]) == 1
    assert f"the table {tmp_path}/t is read at version 1" in capsys.readouterr().out
    assert written_verdicts(tmp_path / "out") == expected(operations)
    assert written_anomalies(tmp_path / "out") == expected_anomalies(operations) != set()
    metadata = tmp_path / "t" / "metadata" / "v3.metadata.json"
    assert main([str(metadata), "--table-version", "0", "--out", str(tmp_path / "before")]) == 1
    assert written_verdicts(tmp_path / "before") == expected(histories(9, seed=3))
    capsys.readouterr()
    for path, number in ((tmp_path, 12), (tmp_path / "t", 12), (metadata, 12)):
        assert tidegauge(["check", str(path), "--json"]) == 1
        assert json.loads(capsys.readouterr().out)["histories"] == number


def test_a_table_without_a_snapshot_has_nothing(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    for current in (-1, None):
        lake.write(**{"current-snapshot-id": current})
        assert find([tmp_path]) == ((), (f"the table {tmp_path}/t is read at version None",))


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a format": ({"format-version": 4}, "format version 4 of Iceberg is not known here"),
    "two names": (
        {"schemas": [*ABOUT["schemas"], {"fields": [{"id": 0, "name": "run"}]}]},
        r"columns were renamed, or dropped and added again \(history, run\)",
    ),
    "two columns": (
        {"schemas": [*ABOUT["schemas"], {"fields": [{"id": 99, "name": "acks"}]}]},
        r"dropped and added again \(acks\)",
    ),
    "a default": (
        {"schemas": [{"fields": [*FIELDS[:-1], {**FIELDS[-1], "initial-default": 4}]}]},
        "column found has a value in files that lack it",
    ),
    "a partition": (
        {"partition-specs": [{"fields": [{"source-id": SCHEMA.names.index("acks"), "transform": "identity"}]}]},
        "it is partitioned by acks, which its files need not have",
    ),
    "no snapshot": ({"current-snapshot-id": 7}, "has no snapshot 7: it has 0, 1"),
    "no location": ({"location": None}, "cannot be read as an Iceberg table"),
    "snapshots": ({"snapshots": [{}]}, r"cannot be read as an Iceberg table \(KeyError"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_table_whose_files_do_not_say_it_all_is_refused(what: str, tmp_path: Path) -> None:
    changes, why = REFUSED[what]
    made(tmp_path / "t").write(**changes)
    with pytest.raises(BadInput, match=rf"{tmp_path}/t/metadata/v3\.metadata\.json.*{why}"):
        find_files([tmp_path / "t"])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"content": 1}, r"1 file such as .*/x\.parquet say which rows are deleted"),
        ({"file_format": "ORC"}, "no Parquet"),
    ],
)
def test_files_of_deleted_rows_and_files_of_another_format_are_refused(
    change: dict[str, Any], why: str, tmp_path: Path
) -> None:
    lake = made(tmp_path / "t")
    file = lake.put("x.parquet", to_arrow(histories(1)))
    lake.snapshot([(ADDED, {**file, **change})])
    lake.write()
    with pytest.raises(BadInput, match=why):
        find_files([tmp_path / "t"])
    lake.snapshot([(DELETED, {**file, **change})])
    lake.write()
    assert find_files([tmp_path / "t"]) == ()


def test_a_table_whose_current_metadata_nobody_names_is_refused(tmp_path: Path) -> None:
    metadata = made(tmp_path / "t").write()
    hint = metadata.with_name("version-hint.text")
    hint.write_text("9")
    with pytest.raises(BadInput, match=r"version-hint\.text says 9, and there is no such metadata"):
        find_files([tmp_path / "t"])
    hint.unlink()
    assert len(find_files([tmp_path / "t"])) == 2, "there is one"
    metadata.with_name("v4.metadata.json").write_bytes(metadata.read_bytes())
    with pytest.raises(BadInput, match=r"2 files of metadata, .* name that file, such as .*/v4\.metadata\.json"):
        find_files([tmp_path / "t"])
    assert len(find_files([metadata])) == 2


@pytest.mark.parametrize("path", ["data", "data/a.parquet", "data/*", "d*"])
def test_a_part_of_a_table_is_refused_with_the_name_of_the_table(path: str, tmp_path: Path) -> None:
    made(tmp_path / "t")
    with pytest.raises(BadInput, match=rf"is in the folder of the Iceberg table {tmp_path}/t, whose metadata"):
        find_files([f"{tmp_path}/t/{path}"])


KINDS = record(
    "all",
    flag="boolean",
    number="long",
    small="float",
    real="double",
    text="string",
    maybe=["null", "bytes"],
    hash={"type": "fixed", "name": "four", "size": 4},
    again="four",
    sort={"type": "enum", "name": "sort", "symbols": ["x", "y"]},
    items={"type": "array", "items": record("item", key="int")},
    named={"type": "map", "values": "long"},
    day={"type": "int", "logicalType": "date"},
)
ROW = {
    "flag": True, "number": -(1 << 63), "small": 0.5, "real": 1.5, "text": "é", "maybe": None, "hash": b"abcd",
    "again": b"efgh", "sort": "y", "items": [{"key": 1}, {"key": -70}], "named": {"a": 1, "b": 1 << 40}, "day": 7,
}  # fmt: skip
ROWS = [ROW, {**ROW, "flag": False, "maybe": b"\0", "items": [], "named": {}}, {**ROW, "number": (1 << 63) - 1}]


@pytest.mark.parametrize("codec", PACKED)
def test_avro_is_read_as_it_was_written(codec: str) -> None:
    assert list(records(avro_file(KINDS, ROWS, codec))) == ROWS
    assert list(records(avro_file(KINDS, [], codec))) == []


def is_told(content: bytes) -> bool:
    try:
        list(records(content))
    except NotAvroError:
        return True
    return False


@pytest.mark.parametrize("codec", PACKED)
def test_avro_that_is_damaged_is_told(codec: str) -> None:
    content, told = avro_file(KINDS, ROWS, codec), 0
    for place in range(0, len(content), stride(3)):
        for bit in range(8):
            told += is_told(content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :])
    assert told > len(content) // stride(3)
    lengths = [length for length in range(len(content)) if not is_told(content[:length])]
    assert len(lengths) == 2, "a file may end behind its head, and behind a block"
    assert is_told(avro_file("null", [None] * 3, in_block=3)), "a number of objects without bytes may be any"
    for wrong in ({"type": "record", "name": "r", "fields": [{"name": "x", "type": "r"}]}, ["null", "strange"], {}):
        assert is_told(avro_file(wrong, []) + b"\2\0" + SYNC)
