"""An error of the disk is bounded to what it concerns: the moment, one name, or the disk."""

from __future__ import annotations

import errno
import logging
from random import Random
from uuid import UUID

import pytest

from tidegauge.impl.ports.disk_errors import NAMES, PASSING, Extent, extent_of, told
from tidegauge.impl.ports.failing_disk import FailingDisk, Operation
from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.log_directories import LogDirectories

DEVICE = (errno.EIO, errno.EROFS, errno.ENXIO, errno.ENODEV)


def opened(disk: FailingDisk) -> LogDirectories:
    return LogDirectories.open(disk, ["one"], cluster_id="c", node_id=1, new_id=lambda: UUID(int=1))


@pytest.mark.parametrize(
    ("number", "extent"),
    [
        *((number, Extent.PASSING) for number in (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)),
        *((number, Extent.NAME) for number in (errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.ENOTDIR)),
        *((number, Extent.DISK) for number in DEVICE),
        (None, Extent.DISK),
    ],
)
def test_errors_are_told_apart_by_their_number(number: int | None, extent: Extent) -> None:
    assert extent_of(OSError(number, "x") if number else OSError("x")) is extent
    assert not PASSING & NAMES


def test_a_line_names_the_number_the_words_and_the_file() -> None:
    assert told(OSError(errno.ENOSPC, "No space left on device", "a/b")) == "ENOSPC (No space left on device): a/b"
    assert told(OSError("words alone")) == "words alone"


def host(directories: LogDirectories) -> None:
    """As a broker does with a partition that is new."""
    if (sync := directories.claim("t", 0, UUID(int=7))) is not None:
        sync.run()
    directories.open_log("t", 0, LogConfig(), 0, UUID(int=7))


def checkpoint_high_watermarks(directories: LogDirectories, offset: int) -> None:
    writes = directories.begin_checkpoint_high_watermarks({("t", 0): offset})
    directories.finish_checkpoint(write() for write in writes)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE, errno.ENAMETOOLONG, errno.EACCES, *DEVICE])
@pytest.mark.parametrize("operation", [Operation.MAKE_DIRECTORY, Operation.OPEN, Operation.APPEND, Operation.SYNC])
def test_only_a_failing_device_takes_the_directory_of_a_new_partition_offline(
    number: int, operation: Operation, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FailingDisk(SimulatedDisk(Random(0)))
    directories = opened(disk)
    disk.fail("one/t-0", operations=[operation], error=number)
    caplog.set_level(logging.WARNING)
    with pytest.raises(OSError) as failed:  # noqa: PT011 - its number is looked at
        host(directories)
    assert failed.value.errno == number
    if operation is Operation.SYNC:  # it was the caller's to run
        directories.bounded(("t", 0), directories.online[0], failed.value)
    assert bool(directories.offline) == (number in DEVICE)
    assert errno.errorcode[number] in caplog.text, "the line names the error"
    disk.heal()
    if number not in DEVICE:
        directories.open_log("t", 0, LogConfig(), 0, UUID(int=7))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE, errno.EIO])
def test_a_checkpoint_without_room_is_written_the_next_time(number: int, caplog: pytest.LogCaptureFixture) -> None:
    disk = FailingDisk(SimulatedDisk(Random(0)))
    directories = opened(disk)
    directories.open_log("t", 0, LogConfig(), 0, UUID(int=7))
    disk.fail("one", error=number, times=1)
    checkpoint_high_watermarks(directories, 5)
    assert bool(directories.offline) == (number == errno.EIO)
    assert caplog.text.count("log directory offline" if number == errno.EIO else "no room") == 1
    if number != errno.EIO:
        checkpoint_high_watermarks(directories, 6)
        assert directories.high_watermarks() == {("t", 0): 6}


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOTEMPTY, errno.EIO])
def test_what_cannot_be_removed_is_left_and_everything_else_goes(number: int, caplog: pytest.LogCaptureFixture) -> None:
    disk = FailingDisk(SimulatedDisk(Random(0)))
    directories = opened(disk)
    for partition in range(3):
        directories.open_log("t", partition, LogConfig(), 0, UUID(int=7))
    directories.delete_logs([("t", 0), ("t", 1)], 0, 500)
    stuck = f"one/t-0.{7:032x}-delete"
    disk.fail(stuck, operations=[Operation.REMOVE], error=number)
    directories.free_deleted(500)
    assert bool(directories.offline) == (number == errno.EIO)
    if number == errno.EIO:
        return
    assert [name for name in disk.list_directory("one") if name.startswith("t-")] == [stuck.removeprefix("one/"), "t-2"]
    assert f"directory cannot be removed: directory={stuck} why=" in caplog.text
    directories.close()
    again = opened(disk)
    assert again.partitions() == [("t", 2)], "a name that is stuck keeps no broker from starting"
    disk.heal()
    again.close()
    opened(disk)
    assert [name for name in disk.list_directory("one") if name.startswith("t-")] == ["t-2"]


def test_a_deleted_partition_whose_directory_keeps_its_name_keeps_no_other_from_going(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = FailingDisk(SimulatedDisk(Random(0)))
    directories = opened(disk)
    for partition in range(2):
        directories.open_log("t", partition, LogConfig(), 0, UUID(int=7))
    disk.fail("one/t-0", operations=[Operation.RENAME], error=errno.EACCES)
    directories.delete_logs([("t", 0), ("t", 1)])
    assert not directories.offline
    assert [name for name in disk.list_directory("one") if name.startswith("t-")] == ["t-0"]
    assert "directory cannot be removed: directory=one/t-0 why=" in caplog.text
    disk.heal()
    assert directories.open_log("t", 0, LogConfig(), 0, UUID(int=8)).log_end_offset == 0, "one of a later topic"


def test_a_log_that_was_let_go_of_is_recovered_though_the_start_was_clean() -> None:
    disk = FailingDisk(SimulatedDisk(Random(0)))
    directories = opened(disk)
    log = directories.open_log("t", 0, LogConfig(), 0, UUID(int=7))
    log.append_as_leader(build_batch([Record(0, 0, None, b"x")]), 0, 0)
    directories.close()
    directories = opened(disk)
    directory = directories.online[0]
    assert directories.open_log("t", 0, LogConfig(), 0, UUID(int=7)).recovery.scanned_segments == 0
    directory.let_go(("t", 0))
    assert directories.open_log("t", 0, LogConfig(), 0, UUID(int=7)).recovery.scanned_segments == 1


@pytest.mark.parametrize("is_opened_again", [False, True])
def test_a_process_that_ends_without_a_log_that_it_let_go_of_has_not_stopped_cleanly(*, is_opened_again: bool) -> None:
    disk = FailingDisk(SimulatedDisk(Random(0)))
    directories = opened(disk)
    host(directories)
    (directory,) = directories.online
    directory.let_go(("t", 0))
    if is_opened_again:
        host(directories)
    directories.close(broker_epoch=5)
    again = opened(disk)
    assert (again.was_clean, again.stopped_cleanly_in) == ((True, 5) if is_opened_again else (False, -1))
