"""The end of a temporary cluster: everything goes, and what the file system is slow at is waited for many at a time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections import defaultdict
from pathlib import Path

import pytest

from tidegauge.impl.cluster import temporary_directory
from tidegauge.impl.cluster.temporary_directory import FEW, remove_directory


def directory_of_many(root: Path, count: int) -> Path:
    for number in range(count):
        replica = root / f"broker-{number % 3}" / f"t-{number}"
        replica.mkdir(parents=True)
        (replica / "00000000000000000000.log").write_bytes(b"x")
    (root / "broker-0" / "meta.properties").write_bytes(b"x")
    return root


@pytest.mark.parametrize("count", [1, 2 * FEW])
def test_a_directory_goes_with_all_that_is_in_it(count: int, tmp_path: Path) -> None:
    remove_directory(directory_of_many(tmp_path / "root", count))
    assert not list(tmp_path.iterdir())


def test_several_directories_of_many_are_removed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = directory_of_many(tmp_path / "root", 2 * FEW)
    remove, begun, another = temporary_directory.remove_innermost, list[str](), threading.Event()

    def removed(directory: str) -> None:
        begun.append(directory)
        if len(begun) > 1:
            another.set()
        assert another.wait(60), "the first waits, so another thread has to begin"
        remove(directory)

    monkeypatch.setattr(temporary_directory, "remove_innermost", removed)
    remove_directory(root)
    assert not root.exists()


def test_directories_of_one_directory_are_removed_by_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = directory_of_many(tmp_path / "root", 3 * FEW)
    (root / "broker-0" / "t-0" / "partition.metadata").write_bytes(b"x")
    removed: list[str] = []
    threads = defaultdict[str, set[int]](set)
    remove, remove_tree = temporary_directory.remove_innermost, shutil.rmtree

    def noted(directory: str) -> None:
        removed.append(directory)
        threads[os.path.dirname(directory)].add(threading.get_ident())
        remove(directory)

    def remove_what_is_left(path: Path) -> None:
        assert sorted(path.glob("*/*")) == [root / "broker-0" / "meta.properties"]
        remove_tree(path)

    monkeypatch.setattr(temporary_directory, "remove_innermost", noted)
    monkeypatch.setattr(shutil, "rmtree", remove_what_is_left)
    remove_directory(root)
    assert len(removed) == len(set(removed)) == 3 * FEW
    assert [len(each) for each in threads.values()] == [1, 1, 1]
    assert not root.exists()


def test_a_directory_that_lies_elsewhere_keeps_what_is_in_it(tmp_path: Path) -> None:
    root, elsewhere = directory_of_many(tmp_path / "root", 2 * FEW), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_bytes(b"x")
    (root / "broker-0" / "t-0" / "link").symlink_to(elsewhere)
    (root / "broker-1" / "t-1" / "link").symlink_to(elsewhere / "file")
    remove_directory(root)
    assert [each.name for each in tmp_path.iterdir()] == ["elsewhere"]
    assert (elsewhere / "file").read_bytes() == b"x"


def test_a_directory_of_many_may_have_directories_that_are_not_the_last(tmp_path: Path) -> None:
    root = directory_of_many(tmp_path / "root", 2 * FEW)
    (root / "broker-0" / "t-0" / "in it").mkdir()
    (root / "broker-0" / "t-0" / "in it" / "file").write_bytes(b"x")
    remove_directory(root)
    assert not root.exists()


@pytest.mark.parametrize("count", [1, 2 * FEW])
def test_what_cannot_be_removed_is_an_error(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, unlink = directory_of_many(tmp_path / "root", count), os.unlink

    def removed(path: str, **where: int) -> None:
        if count < FEW or "/t-0/" in str(path):
            raise OSError(5, "Input/output error", str(path))
        unlink(path, **where)

    monkeypatch.setattr(os, "unlink", removed)
    with pytest.raises(OSError, match="Input/output error"):
        remove_directory(root)


@pytest.mark.parametrize("partitions", [1, 2 * FEW])
def test_a_cluster_that_nobody_stops_ends_with_the_program_and_leaves_no_files(partitions: int, tmp_path: Path) -> None:
    program = (
        "from tidegauge import running_cluster\n"
        "cluster = running_cluster().start()\n"
        f"cluster.create_topic('t', partitions={partitions})\n"
        "print('up')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert (ended.stdout, ended.stderr) == ("up\n", "")
    assert not list(tmp_path.iterdir())
