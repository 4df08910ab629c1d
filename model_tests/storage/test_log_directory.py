"""A broker's log directory: whose it is, what its checkpoints save, and what a start finds."""

from __future__ import annotations

import errno
import random
from collections import Counter
from uuid import UUID

import pytest

from tidegauge.impl.ports.disk import Disk
from tidegauge.impl.ports.failing_disk import FailingDisk, Operation
from tidegauge.impl.ports.simulated_disk import CrashOutcome, SimulatedDisk
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.server.broker.registration import Registration
from tidegauge.impl.storage.checkpoints import LOG_START_OFFSET_CHECKPOINT
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.identity import ForeignLogDirectoryError
from tidegauge.impl.storage.log_directory import LogDirectory

CONFIG = LogConfig(segment_bytes=300)
TOPIC_ID = UUID(int=7)


def opened(disk: Disk, *, cluster_id: str = "tide", node_id: int = 1) -> LogDirectory:
    return LogDirectory.open(disk, "data", cluster_id=cluster_id, node_id=node_id, directory_id=UUID(int=1))


def fill(directory: LogDirectory, records: int, topic: str = "tide") -> None:
    log = directory.open_log(topic, 0, CONFIG, 0, TOPIC_ID)
    for number in range(records):
        log.append_as_leader(build_batch([Record(0, number, None, b"value")]), 0, 0)


def test_another_brokers_directory_is_refused() -> None:
    disk = SimulatedDisk(random.Random(0))
    opened(disk)
    with pytest.raises(ForeignLogDirectoryError, match=r"node\.id=1, this node has node\.id=2"):
        opened(disk, node_id=2)
    with pytest.raises(ForeignLogDirectoryError, match=r"cluster\.id=tide, this node has cluster\.id=gauge"):
        opened(disk, cluster_id="gauge")


def test_the_log_of_a_partition_that_was_just_made_is_opened_without_a_look_at_its_directory() -> None:
    disk, looks = FailingDisk(SimulatedDisk(random.Random(0))), []
    directory = opened(disk)
    directory.check_bytes = 1 << 30
    disk.watched_by(lambda operation, path: looks.append(path) if operation is Operation.LIST else None)
    directory.claim("tide", 0, TOPIC_ID)
    log = directory.open_log("tide", 0, CONFIG, 0, TOPIC_ID)
    assert (len([path for path in looks if "tide-0" in path]), log.log_end_offset) == (0, 0)


@pytest.mark.parametrize("check_bytes", [0, 1 << 30])
def test_a_small_log_that_was_closed_takes_one_listing_and_a_read_of_each_file_and_nothing_to_close(
    check_bytes: int,
) -> None:
    disk = FailingDisk(SimulatedDisk(random.Random(0)))
    directory = opened(disk)
    fill(directory, 1)
    directory.begin_checkpoint_high_watermarks({("tide", 0): 1})()
    directory.close()
    directory = opened(disk)
    directory.check_bytes = check_bytes
    done: Counter[tuple[Operation, str]] = Counter()
    disk.watched_by(lambda operation, path: done.update([(operation, path.rpartition("/")[2])]))
    log = directory.open_log("tide", 0, CONFIG, 0)
    files = f"{1:020d}.snapshot", f"{0:020d}.log", "leader-epoch-checkpoint"
    opened_and_read = [(operation, name) for operation in (Operation.OPEN, Operation.READ) for name in files]
    assert done == Counter([(Operation.LIST, "tide-0"), *opened_and_read])
    done.clear()
    log.close()
    assert not done


def test_a_log_whose_directory_is_said_to_be_missing_though_it_is_there_is_not_taken_for_a_new_one() -> None:
    disk = FailingDisk(SimulatedDisk(random.Random(0)))
    directory = opened(disk)
    fill(directory, 3)
    directory.abandon()  # no checkpoint knows of it
    directory = opened(disk)
    disk.fail("data/tide-0", operations={Operation.LIST}, error=errno.ENOENT)
    with pytest.raises(FileNotFoundError):
        directory.open_log("tide", 0, CONFIG, 0)
    disk.heal()
    assert directory.open_log("tide", 0, CONFIG, 0).log_end_offset == 3


def test_a_log_that_is_deleted_and_made_again_is_its_topics_again() -> None:
    disk = SimulatedDisk(random.Random(0))
    directory = opened(disk)
    for _ in range(2):
        fill(directory, 1)
        assert (directory.topic_id("tide", 0), directory.logs["tide", 0].log_end_offset) == (TOPIC_ID, 1)
        directory.delete_log("tide", 0)


@pytest.mark.parametrize("lost", ["", LOG_START_OFFSET_CHECKPOINT])
def test_a_stop_is_not_clean_where_logs_of_a_crash_or_of_lost_checkpoints_were_not_opened(lost: str) -> None:
    """A broker that waits for its controller is stopped: what its last process left is recovered by the next one."""
    disk = SimulatedDisk(random.Random(0))
    directory = opened(disk)
    fill(directory, 2)
    fill(directory, 2, "ebb")
    if lost:
        directory.close(broker_epoch=4)
        disk.remove(f"data/{lost}")
    else:
        disk.crash()
        disk.power_on()
    waiting = opened(disk)
    fill(waiting, 0)
    waiting.close(broker_epoch=5)
    again = opened(disk)
    assert (again.was_clean, again.stopped_cleanly_in) == (False, -1)
    fill(again, 0)
    fill(again, 0, "ebb")
    again.close(broker_epoch=6)
    assert opened(disk).stopped_cleanly_in == 6


def test_a_broker_that_stops_before_it_registers_stops_cleanly_in_no_epoch_however_often() -> None:
    """As with Kafka, its controller takes it for one that has crashed; its logs are as they were, and are not read."""
    disk = SimulatedDisk(random.Random(0))
    directory = opened(disk)
    fill(directory, 2)
    directory.close(broker_epoch=5)
    for _ in range(3):
        waiting = opened(disk)
        assert waiting.was_clean
        waiting.close(broker_epoch=Registration(1, "tide").broker_epoch)
    directory = opened(disk)
    log = directory.open_log("tide", 0, CONFIG, 0, TOPIC_ID)
    assert (directory.stopped_cleanly_in, log.recovery.scanned_segments, directory.suspects) == (-1, 0, {})


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE])
@pytest.mark.parametrize("fails", [Operation.OPEN, Operation.APPEND, Operation.SYNC])
def test_a_new_log_that_had_no_room_to_be_opened_has_lost_nothing_when_the_next_process_opens_it(
    fails: Operation, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SimulatedDisk(random.Random(0))
    room = FailingDisk(disk)
    directory = opened(room)
    fill(directory, 1, "old")
    room.fail("data/new-0", operations=[fails], error=number)
    with pytest.raises(OSError, match="new-0"):
        directory.open_log("new", 0, CONFIG, 0, TOPIC_ID)
    directory.close()
    caplog.clear()
    again = opened(disk)
    log = again.open_log("new", 0, CONFIG, 0, TOPIC_ID)
    assert (log.log_end_offset, dict(again.suspects), again.missing()) == (0, {}, {})
    assert caplog.messages == []


def test_after_a_clean_shutdown_nothing_is_scanned() -> None:
    disk = SimulatedDisk(random.Random(0))
    directory = opened(disk)
    fill(directory, 10)
    directory.close()
    disk.crash(tails=CrashOutcome.LOST, names=CrashOutcome.LOST)
    disk.power_on()
    directory = opened(disk)
    log = directory.open_log("tide", 0, CONFIG, 0, TOPIC_ID)
    assert (directory.was_clean, log.recovery.scanned_segments, log.log_end_offset) == (True, 0, 10)
    disk.crash(tails=CrashOutcome.LOST, names=CrashOutcome.LOST)
    disk.power_on()
    assert not opened(disk).was_clean


def test_after_a_crash_only_segments_beyond_the_recovery_point_are_scanned() -> None:
    disk = SimulatedDisk(random.Random(0))
    directory = opened(disk)
    fill(directory, 40)
    directory.logs["tide", 0].flush()
    directory.checkpoint()
    bases = directory.logs["tide", 0].segment_base_offsets
    disk.crash(tails=CrashOutcome.LOST, names=CrashOutcome.LOST)
    disk.power_on()
    log = opened(disk).open_log("tide", 0, CONFIG, 0, TOPIC_ID)
    assert (log.recovery.scanned_segments, log.log_end_offset) == (1, 40)
    assert len(bases) > 3


def test_a_cut_takes_the_checkpointed_recovery_point_down_first() -> None:
    for seed in range(60):
        disk = SimulatedDisk(random.Random(seed))
        directory = opened(disk)
        fill(directory, 20)
        directory.logs["tide", 0].flush()
        directory.checkpoint()
        directory.logs["tide", 0].truncate_to(5)
        for number in range(15):
            directory.logs["tide", 0].append_as_leader(build_batch([Record(0, number, None, b"other")]), 1, 0)
        disk.crash(names=CrashOutcome.KEPT)
        disk.power_on()
        log = opened(disk).open_log("tide", 0, CONFIG, 0, TOPIC_ID)
        assert log.recovery.lost_nothing
        assert 5 <= log.log_end_offset <= 20
        offset = 0
        while offset < log.log_end_offset:
            batch = log.read(offset, 1)
            assert (b"value" in batch, b"other" in batch) == (offset < 5, offset >= 5)
            offset += 1


def test_log_starts_and_high_watermarks_are_remembered() -> None:
    disk = SimulatedDisk(random.Random(0))
    directory = opened(disk)
    assert directory.high_watermarks() == {}
    fill(directory, 10)
    directory.logs["tide", 0].delete_records_before(4)
    directory.begin_checkpoint_high_watermarks({("tide", 0): 8})()
    directory.close()
    directory = opened(disk)
    assert directory.open_log("tide", 0, CONFIG, 0, TOPIC_ID).log_start_offset == 4
    assert directory.high_watermarks() == {("tide", 0): 8}


def test_a_topic_made_again_under_its_name_starts_empty() -> None:
    disk = SimulatedDisk(random.Random(0))
    directory = opened(disk)
    fill(directory, 3)
    directory.close()
    directory = opened(disk)
    assert directory.topic_id("tide", 0) == TOPIC_ID
    assert directory.open_log("tide", 0, CONFIG, 0, UUID(int=8)).log_end_offset == 0
    assert directory.topic_id("tide", 0) == UUID(int=8)


def test_partitions_are_found_by_their_directories_and_deleted_for_good() -> None:
    disk = SimulatedDisk(random.Random(0))
    directory = opened(disk)
    for topic in ("tide", "a-b-c"):
        fill(directory, 1, topic)
    disk.make_directory("data/tide-0-delete")
    directory.delete_log("tide", 0)
    assert directory.partitions() == [("a-b-c", 0)]
    disk.make_directory("data/gone-0-delete")
    assert opened(disk).partitions() == [("a-b-c", 0)]
    assert not disk.exists("data/gone-0-delete")


def test_a_crash_right_after_a_log_has_moved_in_brings_no_deleted_records_back() -> None:
    disk = SimulatedDisk(random.Random(0))
    source = opened(disk).open_log("tide", 0, LogConfig(), 0, TOPIC_ID)
    source.append_as_leader(build_batch([Record(0, 7, None, b"x")]), 0, 0)
    source.append_as_leader(build_batch([Record(0, 7, None, b"y")]), 0, 0)
    target = LogDirectory.open(disk, "other", cluster_id="c", node_id=1, directory_id=TOPIC_ID)
    future = target.moving.open_future(source, ("tide", 0), TOPIC_ID, UUID(int=5), 0)
    future.append_as_follower(source.read(0, 1_000))
    future.delete_records_before(1)

    target.prepare_future(("tide", 0), {("tide", 0): 2})
    target.moving.adopt(("tide", 0))
    disk.crash(tails=CrashOutcome.LOST, names=CrashOutcome.LOST)
    disk.power_on()
    again = LogDirectory.open(disk, "other", cluster_id="c", node_id=1, directory_id=TOPIC_ID)
    log = again.open_log("tide", 0, LogConfig(), 0, TOPIC_ID)
    assert (log.log_start_offset, log.log_end_offset) == (1, 2)
