"""The end of a temporary cluster: everything goes, and what the file system is slow at is waited for many at a time."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

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
    meet, remove = threading.Barrier(2), shutil.rmtree

    def removed(path: Path | str) -> None:
        if Path(path) != root:
            meet.wait(60)
        remove(path)

    monkeypatch.setattr(shutil, "rmtree", removed)
    remove_directory(root)
    assert not root.exists()


@pytest.mark.parametrize("count", [1, 2 * FEW])
def test_what_cannot_be_removed_is_an_error(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, remove = directory_of_many(tmp_path / "root", count), shutil.rmtree

    def removed(path: Path | str) -> None:
        if Path(path).name == "t-0" or count < FEW:
            raise OSError(5, "Input/output error", str(path))
        remove(path)

    monkeypatch.setattr(shutil, "rmtree", removed)
    with pytest.raises(OSError, match="Input/output error"):
        remove_directory(root)
