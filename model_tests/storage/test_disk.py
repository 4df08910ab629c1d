"""Both disks behave alike, the real one keeps few files open, and the simulated one fails as asked."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tidegauge.impl.ports import disk as disks
from tidegauge.impl.ports.descriptors import SPARE
from tidegauge.impl.ports.disk import Disk, File, RealDisk
from tidegauge.impl.ports.simulated_disk import CrashOutcome, SimulatedDisk
from tidegauge.impl.storage import checkpoints


@pytest.fixture(params=["real", "simulated"])
def disk_and_root(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, str]:
    if request.param == "real":
        return RealDisk(max_open_files=2), f"{tmp_path}/data"
    return SimulatedDisk(random.Random(0)), "data"


def test_files_grow_at_the_end_and_are_cut(disk_and_root: tuple[Disk, str]) -> None:
    disk, root = disk_and_root
    disk.make_directory(f"{root}/a/b")
    disk.make_directory(f"{root}/a/b")
    file = disk.open(f"{root}/a/b/file", create=True)
    file.append(b"tide")
    file.append(b"-", bytearray(b"gauge"), memoryview(b"xyz")[:1])
    assert (file.size, file.read(2, 5), file.read(8, 100), file.read(50, 1)) == (11, b"de-ga", b"gex", b"")
    file.truncate(6)
    file.append(b"!")
    file.sync()
    file.close()
    again = disk.open(f"{root}/a/b/file")
    assert (again.size, again.read(0, 100), disk.size(f"{root}/a/b/file")) == (7, b"tide-g!", 7)


def test_a_file_is_read_whole_unless_it_is_larger_than_asked_for(disk_and_root: tuple[Disk, str]) -> None:
    disk, root = disk_and_root
    disk.make_directory(root)
    disk.open(f"{root}/file", create=True).append(b"tide")
    disk.open(f"{root}/empty", create=True).close()
    assert [disk.read_whole(f"{root}/file", most) for most in (3, 4)] == [None, b"tide"]
    assert (disk.read_whole(f"{root}/file"), disk.read_whole(f"{root}/empty", 0)) == (b"tide", b"")
    with pytest.raises(FileNotFoundError):
        disk.read_whole(f"{root}/missing")
    with pytest.raises(OSError, match="directory"):
        disk.read_whole(root)


def test_a_write_of_very_many_parts_is_whole(disk_and_root: tuple[Disk, str]) -> None:
    disk, root = disk_and_root
    disk.make_directory(root)
    file = disk.open(f"{root}/file", create=True)
    file.append(*[b"%04d" % n for n in range(2000)])
    assert file.read(0, 8000) == b"".join(b"%04d" % n for n in range(2000))


def test_names_are_made_changed_and_removed(disk_and_root: tuple[Disk, str]) -> None:
    disk, root = disk_and_root
    disk.make_directory(root)
    for name in ("c", "a", "b"):
        disk.open(f"{root}/{name}", create=True).append(name.encode())
    disk.rename(f"{root}/a", f"{root}/b")
    disk.remove(f"{root}/c")
    disk.sync_directory(root)
    assert list(disk.list_directory(root)) == ["b"]
    assert disk.open(f"{root}/b").read(0, 10) == b"a"
    assert (disk.exists(f"{root}/b"), disk.exists(f"{root}/a")) == (True, False)
    disk.make_directory(f"{root}/d")
    disk.rename(f"{root}/d", f"{root}/e")
    disk.remove_directory(f"{root}/e")
    assert list(disk.list_directory(root)) == ["b"]


def test_what_is_missing_is_named(disk_and_root: tuple[Disk, str]) -> None:
    disk, root = disk_and_root
    disk.make_directory(root)
    missing = f"{root}/missing"
    for attempt in (disk.open, disk.size, disk.remove, disk.list_directory, disk.remove_directory, disk.sync_directory):
        with pytest.raises(FileNotFoundError, match="missing"):
            attempt(missing)
    with pytest.raises(FileNotFoundError, match="missing"):
        disk.rename(missing, f"{root}/found")
    disk.open(f"{root}/file", create=True)
    with pytest.raises(OSError, match="not empty"):
        disk.remove_directory(root)


def test_the_real_disk_keeps_no_more_files_open_than_allowed(tmp_path: Path) -> None:
    disk = RealDisk(max_open_files=3)
    files = [disk.open(f"{tmp_path}/{n}", create=True) for n in range(10)]
    for round_number in range(3):
        for n, file in enumerate(files):
            file.append(b"%d%d " % (n, round_number))
            assert disk.open_files <= 3
    while disk.descriptors.late:
        time.sleep(0.001)
    if os.path.isdir("/proc/self/fd"):
        assert len(open_below(tmp_path)) == 3
    for n, file in enumerate(files):
        assert file.read(0, 100) == b"%d0 %d1 %d2 " % (n, n, n)
        file.sync()
        file.close()
    assert disk.open_files == 0
    with pytest.raises(ValueError, match="0 is closed"):
        files[0].read(0, 1)


def open_below(folder: Path) -> list[str]:
    """The files below a folder that this process has open, by its descriptors."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # what others close meanwhile
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return [path for path in found if path.startswith(f"{folder}/")]


def test_a_file_that_is_renamed_while_it_is_open_stays_the_same_file(tmp_path: Path) -> None:
    disk = RealDisk(max_open_files=2)
    old, new = (disk.open(f"{tmp_path}/{name}", create=True) for name in ("log", "log.cleaned"))
    old.append(b"old")
    new.append(b"new")
    disk.rename(f"{tmp_path}/log", f"{tmp_path}/log.deleted")
    disk.rename(f"{tmp_path}/log.cleaned", f"{tmp_path}/log")
    for n in range(3):  # they are the least recently used: their descriptors are closed
        disk.open(f"{tmp_path}/{n}", create=True)
    assert (old.read(0, 9), new.read(0, 9)) == (b"old", b"new")
    disk.rename(f"{tmp_path}/log.deleted", f"{tmp_path}/log")
    for n in range(3):
        disk.open(f"{tmp_path}/{n}")
    assert old.read(0, 9) == b"old"
    with pytest.raises(FileNotFoundError):
        new.read(0, 9)


def test_a_failure_that_the_system_tells_once_is_told_to_every_sync_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []

    def fail_once(descriptor: int) -> None:
        if os.fstat(descriptor).st_ino != (tmp_path / "a").stat().st_ino:
            return  # a file of an earlier test, synced late in a thread
        told.append(descriptor)
        if len(told) == 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    file = RealDisk().open(f"{tmp_path}/a", create=True)
    file.append(b"x")
    monkeypatch.setattr(disks, "_sync_data", fail_once)
    slow, quick = file.begin_sync(), file.begin_sync()
    for sync in (quick, slow):
        with pytest.raises(OSError, match="Input/output"):
            sync.run()
    with pytest.raises(OSError, match="Input/output"):
        file.begin_sync()
    assert (len(told), file.synced_changes) == (2, 0)
    file.close()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_what_is_open_is_synced_though_no_descriptor_is_left_for_the_sync(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> int:
        raise OSError(number, os.strerror(number))

    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    file = RealDisk().open(f"{tmp_path}/a", create=True)
    file.append(b"x")
    monkeypatch.setattr(os, "dup", refuse)
    file.begin_sync().run()
    assert file.synced_changes == file.changes == 1
    file.begin_sync().drop()
    file.append(b"y")
    monkeypatch.setattr(disks, "_sync_data", fail)
    sync = file.begin_sync()  # an error of the device is told when the sync is done, as ever
    with pytest.raises(OSError, match="Input/output"):
        sync.run()
    assert file.synced_changes == 1


def device_syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The inodes that the system is told to write back from now on, by one call for each."""
    told: list[int] = []
    for owner, name in ((disks, "_sync_data"), (os, "fsync")):
        monkeypatch.setattr(owner, name, lambda descriptor: told.append(os.fstat(descriptor).st_ino))
    return told


@pytest.mark.parametrize("is_lasting", [True, False])
def test_the_files_of_a_temporary_disk_are_left_to_the_system(
    is_lasting: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = device_syncs(monkeypatch)
    disk = RealDisk(max_open_files=16, is_lasting=is_lasting)
    disk.make_directory(f"{tmp_path}/data")
    for opened in (disk.open, disk.open_apart):
        with contextlib.closing(opened(f"{tmp_path}/data/{opened.__name__}", create=True)) as file:
            file.append(b"x")
            file.sync()
            file.append(b"y")
            sync = file.begin_sync()
            sync.run()
            assert file.synced_changes == file.changes == 2, "what a sync says does not change"
    disk.sync_directory(f"{tmp_path}/data")
    assert len(told) == (6 if is_lasting else 0)


def test_what_a_temporary_disk_closes_for_want_of_descriptors_is_written_back_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = device_syncs(monkeypatch)
    disk = RealDisk(max_open_files=1, is_lasting=False)
    first = disk.open(f"{tmp_path}/a", create=True)
    first.append(b"x")
    disk.open(f"{tmp_path}/b", create=True).close()
    assert (first.read(0, 1), disk.descriptors.late, told) == (b"x", 0, [])


def crashed(disk: SimulatedDisk, tails: CrashOutcome = CrashOutcome.SEEDED) -> SimulatedDisk:
    disk.crash(tails=tails)
    disk.power_on()
    return disk


@pytest.mark.parametrize(("outcome", "size"), [(CrashOutcome.LOST, 4), (CrashOutcome.KEPT, 10)])
def test_a_crash_takes_unsynced_bytes_only(outcome: CrashOutcome, size: int) -> None:
    disk = SimulatedDisk(random.Random(0))
    file = disk.open("file", create=True)
    file.append(b"0123")
    file.sync()
    disk.sync_directory("")
    file.append(b"456789")
    assert disk.unsynced("file") == 6
    assert crashed(disk, tails=outcome).files() == {"file": b"0123456789"[:size]}
    assert disk.used == size


def test_a_seeded_crash_tears_anywhere_and_the_same_for_the_same_seed() -> None:
    def survivor(seed: int) -> int:
        disk = SimulatedDisk(random.Random(seed))
        file = disk.open("file", create=True)
        disk.sync_directory("")
        file.append(bytes(10))
        return len(crashed(disk).files()["file"])

    sizes = [survivor(seed) for seed in range(200)]
    assert sizes == [survivor(seed) for seed in range(200)]
    assert set(sizes) == set(range(11))


def test_an_unsynced_cut_may_be_undone() -> None:
    found = set()
    for seed in range(50):
        disk = SimulatedDisk(random.Random(seed))
        file = disk.open("file", create=True)
        file.append(b"0123")
        file.sync()
        disk.sync_directory("")
        file.truncate(2)
        file.append(b"AB")
        found.add(crashed(disk).files()["file"])
    assert found == {b"0123", b"01", b"01A", b"01AB"}


def test_unsynced_names_may_be_undone_in_order() -> None:
    found = set()
    for seed in range(100):
        disk = SimulatedDisk(random.Random(seed))
        disk.open("old", create=True).sync()
        disk.sync_directory("")
        disk.open("new", create=True)
        disk.rename("old", "older")
        disk.remove("new")
        found.add(tuple(sorted(crashed(disk).files())))
    assert found == {("old",), ("new", "old"), ("new", "older"), ("older",)}


def test_a_dead_brokers_files_stay_dead() -> None:
    disk = SimulatedDisk(random.Random(0))
    file = disk.open("file", create=True)
    disk.sync_directory("")
    disk.crash()
    with pytest.raises(OSError, match=r"power_on\(\)"):
        disk.open("file")
    disk.power_on()
    assert disk.open("file").size == 0
    for operation in (lambda: file.append(b"x"), lambda: file.read(0, 1), lambda: file.truncate(0), file.sync):
        with pytest.raises(OSError, match="last crash"):
            operation()


def test_a_failed_sync_is_not_made_good_by_a_later_one() -> None:
    disk = SimulatedDisk(random.Random(0))
    file = disk.open("logs-0", create=True)
    disk.sync_directory("")
    file.append(b"lost")
    disk.fail_next_sync(under="logs")
    disk.fail_next_sync()
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    file.sync()
    assert crashed(disk, tails=CrashOutcome.LOST).files() == {"logs-0": b""}


def test_a_lost_sync_says_nothing() -> None:
    disk = SimulatedDisk(random.Random(0))
    disk.make_directory("logs")
    files = [disk.open(f"{where}/file", create=True) for where in ("logs", "")]
    for directory in ("", "logs"):
        disk.sync_directory(directory)
    disk.lose_next_sync(under="/logs")
    for file in reversed(files):
        assert disk.loses_next_sync
        file.append(b"data")
        file.sync()
    assert not disk.loses_next_sync
    assert crashed(disk, tails=CrashOutcome.LOST).files() == {"file": b"data", "logs/file": b""}


def test_a_full_disk_takes_what_fits_and_gives_room_back() -> None:
    disk = SimulatedDisk(random.Random(0), capacity=10)
    file = disk.open("file", create=True)
    with pytest.raises(OSError, match="No space left") as caught:
        file.append(b"01234567", b"89AB")
    assert caught.value.errno == errno.ENOSPC
    assert (file.size, disk.used) == (10, 10)
    file.truncate(3)
    file.append(b"1234567")
    disk.remove("file")
    assert disk.used == 0


def test_a_bit_rots_where_asked_or_anywhere() -> None:
    disk = SimulatedDisk(random.Random(0))
    disk.open("file", create=True).append(bytes(8))
    assert disk.flip_bit("file", 3, bit=5) == 3
    assert disk.files()["file"] == bytes([0, 0, 0, 32, 0, 0, 0, 0])
    assert {disk.flip_bit("file") for _ in range(100)} == set(range(8))


@pytest.mark.parametrize(
    ("call", "operation"),
    [
        ("pwrite", lambda file: file.append(b"more")),
        ("pwritev", lambda file: file.append(b"mo", b"re")),
        ("pread", lambda file: file.read(0, 4)),
        ("ftruncate", lambda file: file.truncate(1)),
        ("fsync", lambda file: file.sync()),
        ("fsync", lambda file: file.begin_sync().run()),
        ("dup", lambda file: file.begin_sync()),
    ],
)
def test_an_error_of_the_system_says_which_file_it_is_about(
    call: str, operation: Callable[[File], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = RealDisk().open(str(tmp_path / "data"), create=True)
    file.append(b"data")

    def full(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(*((disks, "_sync_data") if call == "fsync" else (os, call)), full)
        with pytest.raises(OSError, match="No space left") as caught:
            operation(file)
    assert caught.value.filename == str(tmp_path / "data")


# --- a process without descriptors -----------------------------------------------------------------------------------


WRITERS = 4


@pytest.fixture
def no_descriptors() -> Iterator[Callable[[], None]]:
    """Takes all descriptors that are left, until the test is over."""
    taken: list[int] = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 40, hard))

    def take() -> None:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))

    yield take
    for descriptor in taken:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_without_descriptors_files_are_opened_in_the_place_of_others(
    tmp_path: Path, no_descriptors: Callable[[], None]
) -> None:
    disk = RealDisk()
    files = [disk.open(f"{tmp_path}/{number}", create=True) for number in range(3)]
    no_descriptors()
    for number in range(3, 20):
        files.append(disk.open(f"{tmp_path}/{number}", create=True))
    for round_ in range(2):
        for number, file in enumerate(files):
            file.append(b"%d " % (number + round_))
    for number, file in enumerate(files):
        file.sync()
        assert file.read(0, 100) == b"%d %d " % (number, number + 1)
        file.close()
    assert disk.open_files == 0


def test_without_descriptors_what_is_written_for_a_moment_is_written_in_any_thread(
    tmp_path: Path, no_descriptors: Callable[[], None]
) -> None:
    disk = RealDisk()
    log = disk.open(f"{tmp_path}/log", create=True)
    no_descriptors()

    def write(name: str) -> None:
        for number in range(20):
            checkpoints.write_atomically(disk, str(tmp_path), name, f"{number}")

    with ThreadPoolExecutor(WRITERS) as threads:
        for written in [threads.submit(write, f"note-{number}") for number in range(WRITERS)]:
            written.result()
    names = disk.list_directory(str(tmp_path))
    assert names == ["log", *(f"note-{number}" for number in range(WRITERS))]
    assert [disk.read_whole(f"{tmp_path}/{name}") for name in names[1:]] == [b"19"] * WRITERS
    log.append(b"goes on")
    assert log.read(0, 10) == b"goes on"
    log.close()


def test_spare_descriptors_are_let_go_of_with_the_last_file(tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    disk = RealDisk()
    files = [disk.open(f"{tmp_path}/{number}", create=True) for number in range(3)]
    assert len(set(os.listdir("/proc/self/fd")) - before) == 3 + SPARE
    for file in files:
        file.close()
    assert set(os.listdir("/proc/self/fd")) == before
