"""A log that is flushed while it goes on: what a flush that is under way promises, and what makes it void."""

from __future__ import annotations

import random

import pytest

from tidegauge.impl.ports.failing_disk import SYNCS, FailingDisk
from tidegauge.impl.ports.simulated_disk import CrashOutcome, SimulatedDisk
from tidegauge.impl.records.payload import ProducerIdentity, Record, build_batch
from tidegauge.impl.storage import checkpoints
from tidegauge.impl.storage.checkpoints import Checkpoint, read_offsets
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.errors import FailedLogError
from tidegauge.impl.storage.flushing import PendingFlush
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.log_directory import LogDirectory
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.storage.test_log_directory import TOPIC_ID, opened

DIRECTORY = "logs/tide-0"
ROLLING = LogConfig(segment_bytes=300)


def append(log: Log, count: int = 1, epoch: int = 0) -> None:
    for _ in range(count):
        log.append_as_leader(build_batch([Record(0, 7, None, b"x" * 40)]), epoch, 0)


def new_log(config: LogConfig = ROLLING) -> tuple[SimulatedDisk, Log]:
    disk = SimulatedDisk(random.Random(0))
    return disk, Log.open(disk, DIRECTORY, config, 0)


def after_crash(disk: SimulatedDisk, log: Log, log_start: int = 0) -> Log:
    """The log that is found when everything is lost that may be; `log_start` is what was written down of its start."""
    disk.crash(tails=CrashOutcome.LOST, names=CrashOutcome.LOST)
    disk.power_on()
    point = log.flushed_end_offset
    return Log.open(disk, DIRECTORY, log.config, 0, recovery_point=point, log_start_offset=log_start)


def test_what_is_appended_while_a_flush_is_under_way_waits_for_the_next() -> None:
    disk, log = new_log(LogConfig())
    append(log, 3)
    flush = log.begin_flush()
    append(log, 2)
    assert (log.flushed_end_offset, log.is_being_flushed) == (0, True)
    flush.work()
    assert log.flushed_end_offset == 0
    assert log.finish_flush(flush)
    assert (log.flushed_end_offset, log.is_dirty, log.is_being_flushed) == (3, True, False)
    log.flush()
    assert after_crash(disk, log).log_end_offset == 5


def test_closed_segments_are_flushed_without_the_active_one() -> None:
    disk, log = new_log()
    append(log, 8)
    base = log.segment_base_offsets[-1]
    flush = log.begin_flush(closed_only=True)
    flush.work()
    log.finish_flush(flush)
    assert 0 < log.flushed_end_offset == base < log.log_end_offset
    found = after_crash(disk, log)
    assert (found.log_end_offset, found.recovery.lost_nothing) == (base, True)


def test_a_cut_makes_a_flush_void_that_began_before() -> None:
    disk, log = new_log(LogConfig())
    append(log, 4)
    flush = log.begin_flush()
    log.truncate_to(2)
    append(log, 5, epoch=1)
    flush.work()
    assert not log.finish_flush(flush)
    assert log.flushed_end_offset == 2
    assert after_crash(disk, log).log_end_offset == 2


def test_an_older_flush_does_not_bring_old_leader_epochs_back() -> None:
    disk, log = new_log(LogConfig())
    append(log, epoch=3)
    old = log.begin_flush()
    append(log, epoch=4)
    log.flush()
    old.work()
    assert not log.finish_flush(old)
    text = checkpoints.read_text(disk, DIRECTORY, checkpoints.LEADER_EPOCH_CHECKPOINT)
    assert text is not None
    assert checkpoints.decode_leader_epochs(text) == [(3, 0), (4, 1)]


def test_a_flush_that_is_overtaken_does_not_bring_old_leader_epochs_back() -> None:
    disk, log = new_log()
    append(log, 4, epoch=3)
    slow = log.begin_flush()
    append(log, 8, epoch=4)
    quick = log.begin_flush(closed_only=True)
    quick.work()
    assert log.finish_flush(quick)
    found = after_crash(disk, log)
    assert (slow.is_void, log.is_being_flushed) == (False, True)
    assert [found.epochs.epoch_for_offset(offset) for offset in (3, 4)] == [3, 4]


def test_a_snapshot_that_is_written_while_a_flush_is_under_way_is_synced_by_the_next() -> None:
    disk, log = new_log(LogConfig())
    log.append_as_leader(build_batch([Record(0, 7, None, b"x")], producer=ProducerIdentity(9, 0, 0)), 0, 0)
    flush = log.begin_flush()
    log.roll(0)
    flush.work()
    log.finish_flush(flush)
    path = f"{DIRECTORY}/{1:020d}.snapshot"
    assert disk.unsynced(path) > 0
    append(log)
    log.flush()
    assert disk.unsynced(path) == 0


def test_a_flush_of_a_log_that_has_been_replaced_says_nothing_of_its_successor() -> None:
    disk, log = new_log()
    append(log, 8)
    flush = log.begin_flush()
    flush.work()
    log.abandon()
    successor = Log.open(disk, "logs/tide-1", ROLLING, 0)
    append(successor, 8)
    assert not successor.finish_flush(flush)
    assert (flush.is_void, successor.flushed_end_offset) == (True, 0)
    successor.flush()
    disk.crash(tails=CrashOutcome.LOST, names=CrashOutcome.LOST)
    disk.power_on()
    assert Log.open(disk, "logs/tide-1", ROLLING, 0, recovery_point=8).log_end_offset == 8


def test_an_immediate_flush_does_what_was_to_be_done_later() -> None:
    disk, log = new_log()
    append(log, 8)
    log.begin_flush()
    log.flush()
    assert log.flushed_end_offset == 8
    for base in log.segment_base_offsets[:-1]:
        for suffix in (".log", ".timeindex"):
            assert disk.unsynced(f"{DIRECTORY}/{base:020d}{suffix}") == 0
    assert after_crash(disk, log).log_end_offset == 8


def test_a_flush_that_overtakes_another_does_its_work_first() -> None:
    disk, log = new_log()
    append(log, 8)
    slow = log.begin_flush()
    quick = log.begin_flush(closed_only=True)
    quick.work()
    assert log.finish_flush(quick)
    assert all(disk.unsynced(path) == 0 for path in disk.files() if path.endswith("index"))
    assert log.finish_flush(slow)
    assert log.flushed_end_offset == 8


def test_a_flush_that_overtakes_one_that_fails_fails_too() -> None:
    disk, log = new_log()
    append(log, 8)
    log.begin_flush()
    append(log, 4)
    quick = log.begin_flush()
    quick.work()
    disk.fail_next_sync(under=DIRECTORY)
    with pytest.raises(OSError, match="Input/output"):
        log.finish_flush(quick)
    assert log.flushed_end_offset == 0


def test_a_flush_that_fails_is_the_end_of_the_log_and_moves_nothing() -> None:
    disk, log = new_log()
    append(log, 8)
    flush = log.begin_flush()
    disk.fail_next_sync(under=DIRECTORY)
    flush.work()
    with pytest.raises(OSError, match="Input/output"):
        log.finish_flush(flush)
    assert log.flushed_end_offset == 0
    with pytest.raises(FailedLogError, match="mend the disk"):
        append(log)


def test_a_log_that_is_let_go_of_has_no_more_work() -> None:
    disk, log = new_log(LogConfig())
    append(log)
    flush = log.begin_flush()
    before = disk.syncs
    log.abandon()
    flush.work()
    assert (disk.syncs, flush.is_void) == (before, True)


@pytest.mark.parametrize("seed", range(amount(15, deep=60)))
def test_whatever_comes_between_a_crash_takes_nothing_below_the_recovery_point(seed: int) -> None:
    rng = random.Random(seed)
    disk, starts = SimulatedDisk(random.Random(0)), [0]
    log = Log.open(disk, DIRECTORY, ROLLING, 0, note_start=starts.append)
    pending: list[PendingFlush] = []
    for _ in range(40):
        match rng.choice(("append", "append", "append", "begin", "work", "finish", "cut", "flush", "retain", "anew")):
            case "append":
                append(log, rng.randint(1, 3), log.latest_epoch + 1 if rng.random() < 0.2 else max(0, log.latest_epoch))
            case "begin":
                pending.append(log.begin_flush(closed_only=rng.random() < 0.5))
            case "work" if pending:
                rng.choice(pending).work()
            case "finish" if pending:
                flush = pending.pop(rng.randrange(len(pending)))
                flush.work()
                log.finish_flush(flush)
            case "cut":
                log.truncate_to(rng.randint(log.log_start_offset, log.log_end_offset))
            case "flush":
                log.flush()
            case "retain" if rng.random() < 0.3:
                log.delete_records_before(rng.randint(log.log_start_offset, log.log_end_offset))
            case "anew" if rng.random() < 0.2:
                log.truncate_fully_and_start_at(log.log_end_offset + 2)
    end, epochs, point = log.log_end_offset, log.epochs.entries, log.flushed_end_offset
    found = after_crash(disk, log, starts[-1])
    assert point <= found.log_end_offset <= end
    assert found.recovery.lost_nothing
    for epoch, start in epochs:
        if start < found.log_end_offset and start >= found.log_start_offset:
            assert found.epochs.epoch_for_offset(start) == epoch


# --- what is forced to disk -----------------------------------------------------------------------------------------


def test_a_new_partition_forces_its_topics_id_to_disk_and_nothing_else_before_it_is_flushed() -> None:
    disk = SimulatedDisk(random.Random(0))
    directory = opened(disk)
    before = disk.syncs
    log = directory.open_log("tide", 0, LogConfig(), 0, TOPIC_ID)
    append(log, 5)
    assert disk.syncs - before == 1
    log.flush()
    directory.checkpoint()
    disk.crash(tails=CrashOutcome.LOST, names=CrashOutcome.LOST)
    disk.power_on()
    again = opened(disk)
    assert again.open_log("tide", 0, LogConfig(), 0, TOPIC_ID).log_end_offset == 5
    assert again.topic_id("tide", 0) == TOPIC_ID


@pytest.mark.parametrize("names", list(CrashOutcome))
def test_a_crash_before_the_first_flush_leaves_no_records_of_an_unknown_topic(names: CrashOutcome) -> None:
    for seed in range(30):
        disk = SimulatedDisk(random.Random(seed))
        append(opened(disk).open_log("tide", 0, LogConfig(), 0, TOPIC_ID), 3)
        disk.crash(names=names)
        disk.power_on()
        directory = opened(disk)
        if directory.topic_id("tide", 0) is None:
            assert directory.open_log("tide", 0, LogConfig(), 0).log_end_offset == 0


def test_many_partitions_are_deleted_with_as_many_syncs_as_one() -> None:
    def syncs(count: int) -> int:
        disk = CountingDisk(SimulatedDisk(random.Random(0)))
        directory = LogDirectory.open(disk, "data", cluster_id="c", node_id=1, directory_id=TOPIC_ID)
        for index in range(count):
            directory.open_log("tide", index, LogConfig(), 0, TOPIC_ID)
        disk.count = 0
        directory.delete_logs([("tide", index) for index in range(count)])
        assert directory.partitions() == []
        return disk.count

    assert syncs(20) == syncs(1)


class CountingDisk(FailingDisk):
    """Counts what waits for the disk."""

    count = 0

    def __init__(self, disk: SimulatedDisk) -> None:
        super().__init__(disk)
        self.watched_by(lambda operation, path: self._count(operation in SYNCS))

    def _count(self, is_sync: bool) -> None:
        self.count += is_sync


def test_an_older_checkpoint_that_comes_late_is_not_written() -> None:
    disk = SimulatedDisk(random.Random(0))
    disk.make_directory("data")
    checkpoint = Checkpoint(disk, "data", "offsets")
    older = checkpoint.begin_write({("t", 0): 9})
    checkpoint.write({("t", 0): 4})
    older()
    assert read_offsets(disk, "data", "offsets") == {("t", 0): 4}


def test_remembered_offsets_of_a_directory_that_is_gone_do_not_count_for_the_next() -> None:
    disk = SimulatedDisk(random.Random(0))
    directory = opened(disk)
    log = directory.open_log("tide", 0, LogConfig(), 0, TOPIC_ID)
    append(log, 5)
    log.delete_records_before(3)
    directory.checkpoint_log_starts()
    directory.checkpoint()
    for name in disk.list_directory("data/tide-0"):
        disk.remove(f"data/tide-0/{name}")
    disk.remove_directory("data/tide-0")
    directory = opened(disk)
    log = directory.open_log("tide", 0, LogConfig(), 0, TOPIC_ID)
    append(log, 5)
    log.flush()
    disk.crash(tails=CrashOutcome.LOST, names=CrashOutcome.LOST)
    disk.power_on()
    assert opened(disk).open_log("tide", 0, LogConfig(), 0, TOPIC_ID).log_start_offset == 0
