"""Files by path and URI: the same names, patterns and atomic writes on every file system."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidegauge.linearizability.arrow import to_arrow
from tidegauge.linearizability.history import Operations
from tidegauge.linearizability.log import Level
from tidegauge.model_tests.spark_check.layouts import expected, histories, write
from tidegauge.model_tests.spark_check.object_store import Bucket
from tidegauge.model_tests.spark_check.object_store import bucket as bucket
from tidegauge.model_tests.spark_check.web_hdfs import hdfs as hdfs
from tidegauge.spark_check import places
from tidegauge.spark_check.checking import NAMES
from tidegauge.spark_check.errors import BadInput, CannotRun
from tidegauge.spark_check.footers import find_files, pieces_of
from tidegauge.spark_check.job import Work
from tidegauge.spark_check.output import begin, job_of, sweep
from tidegauge.spark_check.places import Place, Unreachable
from tidegauge.spark_check.planner import plan


@pytest.fixture
def like_hdfs() -> Iterator[str]:
    """Files in memory, with HDFS's rule that a rename does not replace."""
    fsspec = pytest.importorskip("fsspec")
    from fsspec.implementations.memory import MemoryFileSystem

    class LikeHdfs(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
        protocol = "likehdfs"
        store: dict[str, Any] = {}  # noqa: RUF012 - as fsspec has it
        pseudo_dirs = [""]  # noqa: RUF012

        def mv(self, path1: str, path2: str, **options: object) -> None:
            if self.exists(path2):
                raise FileExistsError(path2)
            super().mv(path1, path2, **options)

    fsspec.register_implementation("likehdfs", LikeHdfs, clobber=True)
    yield "likehdfs://node/in"
    LikeHdfs.store.clear()


@pytest.fixture(params=["path", "file", "fsspec", "memory", "like HDFS", "WebHDFS", "s3a"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder that does not exist yet, on each kind of file system."""
    kind = request.param
    if kind == "s3a":
        return f"s3a://{request.getfixturevalue('bucket').name}/{tmp_path.name}"
    if kind == "WebHDFS":
        return f"{request.getfixturevalue('hdfs').uri}/{tmp_path.name}/in"
    if kind == "like HDFS":
        return str(request.getfixturevalue("like_hdfs"))
    if kind in ("fsspec", "memory"):
        pytest.importorskip("fsspec")
    by_kind = {"path": f"{tmp_path}/in", "file": f"file://{tmp_path}/in", "fsspec": f"local://{tmp_path}/in"}
    return by_kind.get(kind, f"memory://{tmp_path.name}/in")


def fill(folder: str, *names: str, content: bytes = b"x") -> Place:
    root = Place.of(folder)
    for name in names:
        path, _, _ = name.rpartition("/")
        (root / path if path else root).make_folder()
        (root / name).put(content)
    return root


def test_what_is_put_is_there_as_a_whole_and_is_replaced_only_by_its_like(folder: str) -> None:
    root = fill(folder, "a.bin", content=b"0123456789")
    (root / "a.bin").put(b"0123456789")
    assert (root / "a.bin").read() == b"0123456789"
    assert (root / "a.bin").read(2, 5) == b"234"
    assert [(file.name, file.size) for file in root.files()] == [("a.bin", 10)]
    (root / "a.bin").delete()
    (root / "a.bin").delete()
    assert not (root / "a.bin").exists()


def test_whether_a_file_can_be_put_is_known_before_and_changes_nothing(folder: str) -> None:
    root = fill(folder, "a.bin")
    for name in ("a.bin", "b.bin"):
        assert (root / name).has_folder()
        (root / name).try_to_put()
    assert [(file.name, file.read()) for file in root.files(recursive=True)] == [("a.bin", b"x")]
    assert (root / "below" / "c.bin").has_folder() == folder.startswith("s3a:"), "an object store needs no folder"


def test_a_place_is_within_a_folder_by_whole_names_under_any_name_of_the_scheme() -> None:
    folder = Place.of("s3a://bucket/a?region=eu-west-1")
    for inside in ("s3://bucket/a", "s3n://bucket/a/b/c"):
        assert Place.of(inside).is_within(folder)
    for outside in ("s3://bucket/ab", "s3://bucket", "gs://bucket/a/b", "/bucket/a/b"):
        assert not Place.of(outside).is_within(folder)


def test_patterns_name_files_and_folders(folder: str) -> None:
    root = fill(folder, "day=1/a.parquet", "day=1/b.jsonl", "day=1/c.txt", "day=2/deep/a.parquet", "_t/a.parquet")
    fill(folder, "day=2/_tmp/a.parquet", "c.parquet")
    found = {
        "*": ["c.parquet", "day=1/a.parquet", "day=1/b.jsonl", "day=2/deep/a.parquet"],
        "day=[12]": ["day=1/a.parquet", "day=1/b.jsonl", "day=2/deep/a.parquet"],
        "day=?/*.parquet": ["day=1/a.parquet"],
        "**/a.parquet": ["day=1/a.parquet", "day=2/deep/a.parquet"],
        "_*/*": ["_t/a.parquet"],
        "*/deep": ["day=2/deep/a.parquet"],
        "": ["c.parquet", "day=1/a.parquet", "day=1/b.jsonl", "day=2/deep/a.parquet"],
    }
    for pattern, names in found.items():
        files = find_files([f"{folder}/{pattern}".rstrip("/")])
        assert [file.uri.removeprefix(root.uri).lstrip("/") for file in files] == names, pattern
        assert {file.size for file in files} == {1}
    for pattern in ("day=3*", "*/a.csv"):
        with pytest.raises(BadInput, match="matches nothing"):
            find_files([f"{folder}/{pattern}"])
    with pytest.raises(BadInput, match="matches no histories"):
        find_files([f"{folder}/day=1/*.txt"])


def test_histories_are_read_and_verdicts_written_there(folder: str, tmp_path: Path) -> None:
    operations = histories(12)
    _upload(operations, folder, tmp_path)
    work = Work(Place.of(folder) / "out", Level.KAFKA, job_of({}))
    begin(work.out, {})
    for unit in plan(pieces_of(find_files([f"{folder}/*.parquet"])), 100, 1_000).units:
        work.do(unit)
        work.do(unit)  # a second attempt, as Spark may start one
    (work.out / "verdicts" / "unit-000000-of-another-job.parquet").put(b"x")
    sweep(work.out, work.job)
    found = {}
    for file in (work.out / "verdicts").files():
        with file.open_parquet() as opened:
            for row in opened.read().to_pylist():
                assert row["history"] not in found
                found[row["history"]] = (row["operations"], NAMES[row["verdict"]])
    assert found == expected(operations)
    assert not [file for file in work.out.files(recursive=True) if file.name.endswith(".partial")]


def _upload(operations: Operations, folder: str, tmp_path: Path) -> None:
    for name, rows in (("a", operations.slice(0, 90)), ("b", operations.slice(90, len(operations)))):
        made = write(tmp_path / f"{name}.made", to_arrow(rows), 50)
        fill(folder, f"{name}.parquet", content=made.read_bytes())


def test_a_uri_makes_no_local_folder(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fill(f"s3a://{bucket.name}/fresh", "a")
    assert not list(tmp_path.iterdir())


def test_a_place_has_one_name() -> None:
    assert Place.of("file:///a/b/") == Place.of(Path("/a/b")) == Place.of("/a/c/../b")
    place = Place.of("s3a://bucket/a/?endpoint_override=localhost:1&scheme=http")
    below = place / "b.parquet"
    assert below.uri == "s3a://bucket/a/b.parquet?endpoint_override=localhost:1&scheme=http"
    assert (below.name, below.suffix, below.stem) == ("b.parquet", ".parquet", "b")
    assert below.for_spark == "s3a://bucket/a/b.parquet"
    assert pickle.loads(pickle.dumps(below)) == below
    assert Place.of("s3://bucket/part-?.parquet").is_pattern


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(files: Any, path: str, content: bytes) -> None:
        Path(path).write_bytes(content[:1])
        raise OSError("no space left")

    monkeypatch.setattr(places, "_write", half)
    with pytest.raises(OSError, match="no space left"):
        Place.of(tmp_path / "a").put(b"0123")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("uri", "said"),
    [("nosuch://a/b", "nosuch://a/b"), ("hdfs://nowhere.invalid:1/a", "hdfs://nowhere.invalid:1/a cannot be reached")],
)
def test_a_file_system_that_is_not_there_is_named(uri: str, said: str) -> None:
    with pytest.raises(Unreachable, match=said):
        Place.of(uri).exists()
    assert issubclass(Unreachable, CannotRun)
