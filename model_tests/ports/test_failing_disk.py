"""A disk that is told to fail does so, at what it was told and nothing else, real or simulated."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegauge.impl.ports.disk import RealDisk
from tidegauge.impl.ports.failing_disk import SYNCS, WRITES, FailingDisk, Operation
from tidegauge.impl.ports.simulated_disk import SimulatedDisk


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FailingDisk:
    if request.param == "simulated":
        disk = FailingDisk(SimulatedDisk(random.Random(0)))
    else:
        monkeypatch.chdir(tmp_path)
        disk = FailingDisk(RealDisk())
    for directory in ("one", "two"):
        disk.make_directory(directory)
    return disk


def test_what_is_not_concerned_works_on(disk: FailingDisk) -> None:
    files = {name: disk.open(f"{name}/file", create=True) for name in ("one", "two")}
    disk.fail("one", operations=WRITES)
    with pytest.raises(OSError, match="Input/output error") as failed:
        files["one"].append(b"x")
    assert (failed.value.errno, failed.value.filename) == (errno.EIO, "one/file")
    assert (files["one"].size, files["one"].read(0, 9)) == (0, b"")
    files["two"].append(b"x")
    disk.make_directory("one-and-a-half")
    disk.heal()
    files["one"].append(b"y")
    assert files["one"].read(0, 9) == b"y"


def test_every_operation_can_fail(disk: FailingDisk) -> None:
    file = disk.open("one/file", create=True)
    attempts: dict[Operation, Callable[[], object]] = {
        Operation.OPEN: lambda: disk.open("one/file"),
        Operation.READ: lambda: file.read(0, 1),
        Operation.APPEND: lambda: file.append(b"x"),
        Operation.TRUNCATE: lambda: file.truncate(0),
        Operation.SYNC: file.sync,
        Operation.RENAME: lambda: disk.rename("one/file", "one/other"),
        Operation.REMOVE: lambda: disk.remove("one/file"),
        Operation.LIST: lambda: disk.list_directory("one"),
        Operation.MAKE_DIRECTORY: lambda: disk.make_directory("one/more"),
        Operation.SYNC_DIRECTORY: lambda: disk.sync_directory("one"),
    }
    assert set(attempts) == set(Operation)
    for operation, attempt in attempts.items():
        disk.fail("one", operations=[operation], error=errno.EROFS, times=1)
        with pytest.raises(OSError, match="Read-only file system"):
            attempt()
    assert not disk.armed
    assert list(disk.list_directory("one")) == ["file"]


def test_a_failure_counts_down(disk: FailingDisk) -> None:
    file = disk.open("one/file", create=True)
    disk.fail(operations=SYNCS, times=2)
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output"):
            file.sync()
    file.sync()


def test_a_full_directory_takes_what_fits_of_all_its_files(disk: FailingDisk) -> None:
    files = [disk.open(f"one/{name}", create=True) for name in "ab"]
    disk.fill("one", free_bytes=10)
    files[0].append(b"012345")
    with pytest.raises(OSError, match="No space left") as full:
        files[1].append(b"012", b"345")
    assert full.value.errno == errno.ENOSPC
    assert files[1].read(0, 9) == b"0123"
    disk.open("two/file", create=True).append(bytes(100))
    disk.fill("one", free_bytes=2)
    files[0].append(b"67")
    disk.heal("one")
    files[0].append(b"89")


def test_a_slow_directory_takes_its_time() -> None:
    waited: list[float] = []
    disk = FailingDisk(SimulatedDisk(random.Random(0)), wait=waited.append)
    for directory in ("one", "two"):
        disk.make_directory(directory)
    disk.slow(0.25, "one")
    disk.open("one/file", create=True).append(b"x")
    disk.open("two/file", create=True).append(b"x")
    assert waited == [0.25, 0.25]
    disk.slow(0, "one")
    disk.open("one/file")
    assert waited == [0.25, 0.25]
    with pytest.raises(ValueError, match="cannot wait"):
        FailingDisk(SimulatedDisk(random.Random(0))).slow(1)


def test_a_bit_rots_and_nothing_tells(disk: FailingDisk) -> None:
    file = disk.open("one/file", create=True)
    file.append(b"abc")
    disk.flip_bit("one/file", 1, bit=5)
    assert file.read(0, 9) == b"aBc"
