"""A broker's log directories: who may use them, where new logs go, what a failure takes along, how logs go away."""

from __future__ import annotations

import subprocess
import sys
from itertools import count
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from tidegauge.impl.ports.disk import RealDisk
from tidegauge.impl.ports.failing_disk import FailingDisk, Operation
from tidegauge.impl.ports.simulated_disk import CrashOutcome, SimulatedDisk
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.log_directories import LogDirectories, LogDirectoryLockedError, NoLogDirectoryError
from tidegauge.impl.storage.log_directory import LogDirectory

TOPIC_ID = UUID(int=7)
UUIDS = map(UUID, (f"{n:032x}" for n in count(100))).__next__
CONFIG = LogConfig(segment_bytes=300)


def new_disk() -> FailingDisk:
    return FailingDisk(SimulatedDisk(Random(0)))


def opened(disk: FailingDisk, *paths: str) -> LogDirectories:
    return LogDirectories.open(disk, paths or ("one", "two"), cluster_id="tide", node_id=1, new_id=UUIDS)


def fill(log: Log, records: int = 5) -> Log:
    for number in range(records):
        log.append_as_leader(build_batch([Record(0, number, None, b"value")]), 0, 0)
    return log


def reopened(disk: FailingDisk, *paths: str) -> LogDirectories:
    inner = disk.disk
    assert isinstance(inner, SimulatedDisk)
    inner.crash(tails=CrashOutcome.KEPT, names=CrashOutcome.KEPT)
    inner.power_on()
    return opened(disk, *paths)


def test_each_directory_has_its_own_identity_that_it_keeps() -> None:
    disk = new_disk()
    one, two = (directory.id for directory in opened(disk).online)
    swapped = [directory.id for directory in reopened(disk, "two", "three", "one").online]
    assert (swapped[0], swapped[2]) == (two, one)
    assert len({one, two, *swapped}) == 3


def test_new_logs_go_to_the_directory_with_the_fewest_whatever_their_size() -> None:
    disk = new_disk()
    directories = opened(disk)
    for partition in range(5):
        fill(directories.open_log("t", partition, CONFIG, 0, TOPIC_ID), 20 * (partition == 0))
    assert [sorted(directory.logs) for directory in directories.online] == [
        [("t", 0), ("t", 2), ("t", 4)],
        [("t", 1), ("t", 3)],
    ]
    directories.delete_log("t", 0)
    directories.delete_log("t", 2)
    directories.open_log("t", 5, CONFIG, 0, TOPIC_ID)
    assert ("t", 5) in directories.online[0].logs
    directories.open_log("t", 6, CONFIG, 0, TOPIC_ID, into="two")
    assert ("t", 6) in directories.online[1].logs


def test_high_watermarks_lie_with_the_logs_they_belong_to() -> None:
    disk = new_disk()
    directories = opened(disk)
    for partition in range(2):
        fill(directories.open_log("t", partition, CONFIG, 0, TOPIC_ID))
    writes = directories.begin_checkpoint_high_watermarks({("t", 0): 3, ("t", 1): 4})
    directories.finish_checkpoint(write() for write in writes)
    assert [directory.high_watermarks() for directory in directories.online] == [{("t", 0): 3}, {("t", 1): 4}]
    assert reopened(disk).high_watermarks() == {("t", 0): 3, ("t", 1): 4}


@pytest.mark.parametrize("operation", [Operation.SYNC, Operation.APPEND, Operation.RENAME, Operation.SYNC_DIRECTORY])
def test_a_directory_that_fails_at_any_operation_is_offline_and_the_other_goes_on(operation: Operation) -> None:
    disk = new_disk()
    directories = opened(disk)
    failed: list[LogDirectory] = []
    directories.on_failure = lambda directory, error: failed.append(directory)
    for partition in range(2):
        fill(directories.open_log("t", partition, CONFIG, 0, TOPIC_ID))
    disk.fail("one", operations=[operation])
    directories.checkpoint()
    assert [directory.path for directory in failed] == ["one"]
    assert list(directories.offline) == ["one"]
    assert directories.offline_ids == [failed[0].id]
    assert (directories.where("t", 0), directories.where("t", 1)) == (None, directories.online[0])
    directories.checkpoint()
    directories.close()
    assert len(failed) == 1
    disk.heal()
    again = reopened(disk)
    assert again.partitions() == [("t", 0), ("t", 1)]
    assert [directory.was_clean for directory in again.online] == [False, True]


def test_a_directory_that_cannot_be_read_at_a_start_is_offline() -> None:
    disk = new_disk()
    opened(disk).open_log("t", 0, CONFIG, 0, TOPIC_ID)
    disk.fail("one")
    directories = reopened(disk)
    assert (list(directories.offline), directories.partitions()) == (["one"], [])
    disk.fail("two")
    with pytest.raises(NoLogDirectoryError, match=r"one: .*Input/output error.*; two: "):
        reopened(disk)


def test_a_directory_that_is_in_use_is_refused_and_free_again_afterwards() -> None:
    disk = new_disk()
    directories = opened(disk)
    with pytest.raises(LogDirectoryLockedError, match=r"one is used by another broker \(its \.lock is locked\)"):
        opened(disk)
    directories.close()
    opened(disk).abandon()
    opened(disk)


def test_a_second_process_is_kept_out(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom uuid import UUID\nfrom tidegauge.impl.ports.disk import RealDisk\n"
        "from tidegauge.impl.storage.log_directories import LogDirectories\n"
        "LogDirectories.open(RealDisk(), sys.argv[1:], cluster_id='c', node_id=1, new_id=lambda: UUID(int=1))\n"
    )
    command = [sys.executable, "-c", program, f"{tmp_path}/data"]
    first = LogDirectories.open(RealDisk(), [f"{tmp_path}/data"], cluster_id="c", node_id=1, new_id=UUIDS)
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "is used by another broker" in refused.stderr
    first.abandon()
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_a_deleted_log_is_renamed_at_once_and_removed_later() -> None:
    disk = new_disk()
    directories = opened(disk, "one")
    fill(directories.open_log("t", 0, CONFIG, 0, TOPIC_ID))
    directories.delete_log("t", 0, now_ms=1_000, delay_ms=500)
    (doomed,) = [name for name in disk.list_directory("one") if name.endswith("-delete")]
    assert doomed == f"t-0.{TOPIC_ID.hex}-delete"
    assert directories.open_log("t", 0, CONFIG, 0, TOPIC_ID).log_end_offset == 0
    directories.delete_log("t", 0, now_ms=1_100, delay_ms=500)
    directories.free_deleted(1_499)
    assert len([name for name in disk.list_directory("one") if name.endswith("-delete")]) == 2
    directories.free_deleted(1_500)
    assert doomed not in disk.list_directory("one")
    directories.free_deleted(1_600)
    assert not [name for name in disk.list_directory("one") if "t-0" in name]


@pytest.mark.parametrize("names", CrashOutcome)
def test_a_log_that_was_deleted_before_a_crash_is_gone_after_it(names: CrashOutcome) -> None:
    disk = new_disk()
    directories = opened(disk, "one")
    fill(directories.open_log("t", 0, CONFIG, 0, TOPIC_ID))
    fill(directories.open_log("t", 1, CONFIG, 0, TOPIC_ID)).flush()
    directories.delete_log("t", 0, now_ms=0, delay_ms=500)
    inner = disk.disk
    assert isinstance(inner, SimulatedDisk)
    inner.crash(names=names)
    inner.power_on()
    again = opened(disk, "one")
    assert again.partitions() == [("t", 1)]
    assert not [name for name in disk.list_directory("one") if name.endswith("-delete")]
    assert again.open_log("t", 1, CONFIG, 0, TOPIC_ID).log_end_offset == 5


def test_what_was_compacted_is_remembered_and_a_cut_makes_it_dirty_again() -> None:
    disk = new_disk()
    directory = opened(disk, "one").online[0]
    log = fill(directory.open_log("t", 0, CONFIG, 0, TOPIC_ID), 10)
    log.flush()
    directory.checkpoint_cleaned("t", 0, 8)
    assert disk.open("one/cleaner-offset-checkpoint").read(0, 100) == b"0\n1\nt 0 8\n"
    log.truncate_to(6)
    assert directory.cleaned_offset("t", 0) == 6
    directory = reopened(disk, "one").online[0]
    assert directory.cleaned_offset("t", 0) == 6
    directory.open_log("t", 0, CONFIG, 0, TOPIC_ID)
    directory.delete_log("t", 0)
    assert directory.cleaned_offset("t", 0) is None
