"""Where logs start survives what it should: crashes at any point, logs that start anew, and Kafka's checkpoint file."""

from __future__ import annotations

import errno
import random
from uuid import UUID

import attrs
import pytest

from tidegauge.impl.ports.failing_disk import FailingDisk, Operation
from tidegauge.impl.ports.simulated_disk import CrashOutcome, SimulatedDisk
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.storage.checkpoints import LEADER_EPOCH_CHECKPOINT
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.damage import DAMAGE_NOTE
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.log_directory import LogDirectory
from tidegauge.impl.storage.segment_names import LOG_SUFFIX, file_name
from tidegauge.model_tests.storage.compacted_batches import compacted_batch
from tidegauge.model_tests.storage.test_damage import CONFIG as LOG_CONFIG
from tidegauge.model_tests.storage.test_damage import DIRECTORY, FIELDS, flip
from tidegauge.model_tests.storage.test_damage import opened as opened_log
from tidegauge.model_tests.storage.test_damage import written as closed_log
from tidegauge.model_tests.storage.test_survey import batch

KEY = ("tide", 0)
CHECKPOINT = "logs/log-start-offset-checkpoint"
CONFIG = LogConfig(segment_bytes=160)
"""Two records a segment."""


def opened(disk: SimulatedDisk) -> tuple[LogDirectory, Log]:
    directory = LogDirectory.open(disk, "logs", cluster_id="c", node_id=0, directory_id=UUID(int=1))
    return directory, directory.open_log(*KEY, CONFIG, now_ms=0)


def append(log: Log, count: int) -> None:
    for _ in range(count):
        log.append_as_leader(build_batch([Record(0, 0, None, b"v" * 10)]), 0, 0)


def checkpointed(disk: SimulatedDisk) -> list[str]:
    return disk.files()[CHECKPOINT].decode().splitlines()


def test_the_checkpoint_says_where_a_log_starts_inside_a_segment() -> None:
    disk = SimulatedDisk(random.Random(0))
    directory, log = opened(disk)
    append(log, 5)
    directory.checkpoint()
    assert checkpointed(disk) == ["0", "0"]
    log.delete_records_before(3)
    directory.checkpoint_log_starts()
    assert checkpointed(disk) == ["0", "1", "tide 0 3"]
    log.delete_records_before(4)
    log.retention(now_ms=0)
    assert log.segment_base_offsets == (4,)
    directory.checkpoint()
    assert checkpointed(disk) == ["0", "0"], "the first segment's name says it"


@pytest.mark.parametrize("start", [0, 1, 2, 5])
def test_before_a_log_that_began_at_an_offset_nothing_is_missing(start: int) -> None:
    """Its first leader epoch is noted at the offset before."""
    disk = SimulatedDisk(random.Random(0))
    log = Log.open(disk, "logs/tide-0", CONFIG, 0)
    log.truncate_fully_and_start_at(start, epoch=0)
    append(log, 3)
    log.close()
    log = Log.open(disk, "logs/tide-0", CONFIG, 0, recovery_point=start + 3, clean_shutdown=True)
    assert (log.log_start_offset, log.log_end_offset, log.damage.gaps) == (start, start + 3, [])


def test_a_log_start_is_durable_once_it_is_written_and_not_before() -> None:
    _, log = opened(disk := SimulatedDisk(random.Random(0)))
    append(log, 5)
    assert log.log_start_is_durable
    log.delete_records_before(3)
    assert not log.log_start_is_durable
    disk.crash(tails=CrashOutcome.KEPT, names=CrashOutcome.KEPT)
    disk.power_on()
    directory, log = opened(disk)
    assert log.log_start_offset == 0
    log.delete_records_before(3)
    directory.checkpoint_log_starts()
    assert log.log_start_is_durable
    disk.crash(tails=CrashOutcome.LOST, names=CrashOutcome.LOST)
    disk.power_on()
    assert opened(disk)[1].log_start_offset == 3


@pytest.mark.parametrize("outcome", list(CrashOutcome))
def test_no_crash_brings_deleted_records_back_or_takes_others(outcome: CrashOutcome) -> None:
    for seed in range(60):
        rng = random.Random(seed)
        disk = SimulatedDisk(rng)
        directory, log = opened(disk)
        written = flushed = 0
        for _ in range(rng.randrange(2, 12)):
            append(log, rng.randrange(4))
            step = rng.randrange(5)
            if step == 0:
                flushed = log.flush()
            elif step == 1 and log.log_end_offset > log.log_start_offset:
                log.delete_records_before(rng.randrange(log.log_start_offset, log.log_end_offset + 1))
            elif step == 2:
                directory.checkpoint_log_starts()
                written = log.log_start_offset
            elif step == 3 and log.retention(now_ms=0):
                written = max(written, log.segment_base_offsets[0])
            elif step == 4:
                directory.checkpoint()
        start, end = log.log_start_offset, log.log_end_offset
        disk.crash(tails=outcome, names=outcome)
        disk.power_on()
        _, log = opened(disk)
        assert written <= log.log_start_offset <= start
        assert max(flushed, written) <= log.log_end_offset <= end
        if log.log_end_offset > log.log_start_offset:
            assert log.read(log.log_start_offset, 1)


def test_a_log_that_starts_anew_below_does_not_remember_where_the_old_one_started() -> None:
    disk = SimulatedDisk(random.Random(0))
    directory, log = opened(disk)
    append(log, 6)
    log.delete_records_before(5)
    directory.checkpoint_log_starts()
    log.truncate_fully_and_start_at(2)
    append(log, 6)
    log.flush()
    disk.crash(tails=CrashOutcome.KEPT, names=CrashOutcome.KEPT)
    disk.power_on()
    log = opened(disk)[1]
    assert (log.log_start_offset, log.log_end_offset) == (2, 8)


def test_a_log_without_records_knows_the_epoch_of_the_last_one_that_is_gone() -> None:
    disk = SimulatedDisk(random.Random(0))
    directory, log = opened(disk)
    for epoch in (0, 3):
        log.append_as_leader(build_batch([Record(0, 0, None, b"v")]), epoch, 0)
    log.delete_records_before(2)
    log.retention(now_ms=0)
    directory.checkpoint_log_starts()
    for _ in range(3):
        assert (log.log_start_offset, log.log_end_offset) == (2, 2)
        assert (log.latest_epoch, log.log_start_epoch) == (3, 3)
        assert (log.end_offset_for(3), log.end_offset_for(2)) == ((3, 2), (-1, 2))
        disk.crash()
        disk.power_on()
        log = opened(disk)[1]


def test_a_log_that_starts_anew_knows_the_epoch_that_it_was_told() -> None:
    disk = SimulatedDisk(random.Random(0))
    _, log = opened(disk)
    append(log, 2)
    log.truncate_fully_and_start_at(7, epoch=5)
    for _ in range(3):
        assert (log.log_start_offset, log.latest_epoch, log.log_start_epoch) == (7, 5, 5)
        disk.crash()
        disk.power_on()
        log = opened(disk)[1]


def test_a_log_that_is_cut_below_its_start_keeps_the_epoch_that_it_is_told() -> None:
    """Both logs have that record, as a diverging epoch says, though this one has deleted it."""
    disk = SimulatedDisk(random.Random(0))
    _, log = opened(disk)
    log.truncate_fully_and_start_at(7, epoch=5)
    append(log, 2)
    log.truncate_to(6, epoch=4)
    for _ in range(2):
        assert (log.log_start_offset, log.log_end_offset) == (6, 6)
        assert (log.latest_epoch, log.log_start_epoch) == (4, 4)
        disk.crash()
        disk.power_on()
        log = opened(disk)[1]


def retaining(operations: frozenset[Operation], error: int) -> tuple[FailingDisk, LogDirectory, Log]:
    """A log of which retention is to remove four records, and a disk that has no more of something."""
    disk = FailingDisk(SimulatedDisk(random.Random(0)))
    directory = LogDirectory.open(disk, "logs", cluster_id="c", node_id=0, directory_id=UUID(int=1))
    log = directory.open_log(*KEY, CONFIG, now_ms=0)
    append(log, 5)
    log.flush()
    directory.checkpoint()
    log.config = attrs.evolve(CONFIG, retention_bytes=1)
    disk.fail("logs", operations=operations, error=error)
    return disk, directory, log


def test_retention_frees_a_disk_that_has_no_room() -> None:
    _, _, log = retaining(frozenset({Operation.APPEND}), errno.ENOSPC)
    log.retention(now_ms=0)
    assert (log.log_start_offset, log.segment_base_offsets) == (4, (4,))


def test_a_log_start_is_not_noted_of_segments_that_could_not_be_removed(caplog: pytest.LogCaptureFixture) -> None:
    """It would be one that no leader epoch bears out, which the next process takes for damaged."""
    disk, directory, log = retaining(frozenset({Operation.SYNC_DIRECTORY}), errno.EMFILE)
    with pytest.raises(OSError, match="Too many open files"):
        log.retention(now_ms=0)
    assert log.has_failed
    directory.let_go(KEY)
    disk.heal()
    directory.checkpoint()
    medium = disk.disk
    assert isinstance(medium, SimulatedDisk)
    assert checkpointed(medium) == ["0", "0"]
    medium.crash(tails=CrashOutcome.LOST, names=CrashOutcome.LOST)
    medium.power_on()
    assert opened(medium)[1].log_start_offset in (0, 4)
    assert "log start rejected" not in caplog.text


@pytest.mark.parametrize(("first_epoch", "is_in_doubt"), [(3, False), (4, True)])
def test_the_leader_epochs_of_a_damaged_log_tell_its_start_if_they_begin_before_its_first_file(
    first_epoch: int, is_in_doubt: bool
) -> None:
    """Those that were made anew begin with the first batch that is left."""
    disk = closed_log()
    for name in (file_name(0, LOG_SUFFIX), LEADER_EPOCH_CHECKPOINT):
        disk.remove(f"{DIRECTORY}/{name}")
    disk.open(f"{DIRECTORY}/{LEADER_EPOCH_CHECKPOINT}", create=True).append(b"0\n2\n2 %d\n3 8\n" % first_epoch)
    disk.open(f"{DIRECTORY}/{DAMAGE_NOTE}", create=True).append(b"[2, 3): damaged\n")
    log = opened_log(disk)
    assert (log.log_start_offset, log.recovery.is_start_in_doubt) == (4, is_in_doubt)


@pytest.mark.parametrize(("content", "is_damaged"), [(b"!" * 80, False), (b"!" * 80, True), (batch(4), False)])
def test_a_first_file_below_the_log_start_that_holds_nothing_is_a_stray_unless_the_log_is_damaged(
    content: bytes, is_damaged: bool
) -> None:
    """The leader epochs of a damaged log may have been made anew."""
    disk = closed_log()
    for name in (file_name(0, LOG_SUFFIX), file_name(8, LOG_SUFFIX), LEADER_EPOCH_CHECKPOINT):
        disk.remove(f"{DIRECTORY}/{name}")
    disk.open(f"{DIRECTORY}/{LEADER_EPOCH_CHECKPOINT}", create=True).append(b"0\n1\n2 4\n")
    disk.open(f"{DIRECTORY}/{file_name(1, LOG_SUFFIX)}", create=True).append(content)
    if is_damaged:
        disk.open(f"{DIRECTORY}/{DAMAGE_NOTE}", create=True).append(b"[2, 3): damaged\n")
    log = Log.open(disk, DIRECTORY, LOG_CONFIG, 0, recovery_point=8, clean_shutdown=True)
    assert (log.log_start_offset, bool(log.recovery.strays)) == ((1, False) if is_damaged else (4, True))


@pytest.mark.parametrize(("written", "start"), [(5, 5), (6, 4)])
def test_a_log_start_farther_than_the_offset_behind_the_first_leader_epochs_is_not_believed(
    written: int, start: int
) -> None:
    """It would hide the records before it."""
    disk = closed_log()
    disk.remove(f"{DIRECTORY}/{file_name(0, LOG_SUFFIX)}")
    disk.remove(f"{DIRECTORY}/{LEADER_EPOCH_CHECKPOINT}")
    disk.open(f"{DIRECTORY}/{LEADER_EPOCH_CHECKPOINT}", create=True).append(b"0\n2\n2 4\n3 8\n")
    log = Log.open(disk, DIRECTORY, LOG_CONFIG, 0, recovery_point=12, log_start_offset=written, clean_shutdown=True)
    assert log.log_start_offset == start


@pytest.mark.parametrize(("written", "start", "end"), [(1, 1, 12), (2, 0, 0), (10**15, 0, 0)])
def test_a_log_start_that_leader_epochs_deny_bears_out_no_record(written: int, start: int, end: int) -> None:
    """After a crash nothing else says that the first batch was ever flushed: it is torn, and no damage."""
    disk = closed_log(clean=False)
    flip(disk, f"{DIRECTORY}/{file_name(0, LOG_SUFFIX)}", 0, FIELDS["value"])
    log = Log.open(disk, DIRECTORY, LOG_CONFIG, 0, log_start_offset=written)
    assert (log.log_start_offset, log.log_end_offset, log.damage.gaps) == (start, end, [])


def test_damage_in_the_first_file_that_is_left_tells_nothing_of_those_before_it() -> None:
    """They may be lost, or were deleted."""
    disk = closed_log()
    for name in (file_name(0, LOG_SUFFIX), LEADER_EPOCH_CHECKPOINT):
        disk.remove(f"{DIRECTORY}/{name}")
    flip(disk, f"{DIRECTORY}/{file_name(4, LOG_SUFFIX)}", 0, FIELDS["value"])
    log = opened_log(disk)
    assert [(gap.start, gap.end) for gap in log.damage.gaps] == [(4, 5)]
    assert log.recovery.is_start_in_doubt


def test_before_a_closed_log_that_began_with_its_first_leader_epoch_nothing_is_missing() -> None:
    """Though no log start is written down: the record before would have that epoch, or one before it."""
    disk = SimulatedDisk(random.Random(0))
    log = Log.open(disk, "logs/tide-0", CONFIG, 0)
    log.truncate_fully_and_start_at(4)
    append(log, 3)
    log.close()
    log = Log.open(disk, "logs/tide-0", CONFIG, 0, recovery_point=7, clean_shutdown=True, knows_log_start=True)
    assert (log.log_start_offset, log.recovery.is_start_in_doubt) == (4, False)


def test_a_log_start_that_is_not_believed_tells_nothing_of_what_was_before_the_first_file() -> None:
    disk = SimulatedDisk(random.Random(0))
    log = Log.open(disk, "logs/tide-0", CONFIG, 0)
    log.truncate_fully_and_start_at(1)
    append(log, 3)
    log.close()
    disk.remove(f"logs/tide-0/{LEADER_EPOCH_CHECKPOINT}")
    log = Log.open(disk, "logs/tide-0", CONFIG, 0, recovery_point=4, log_start_offset=10**15, clean_shutdown=True)
    assert (log.log_start_offset, log.recovery.is_start_in_doubt) == (1, True)


def test_what_is_told_as_missing_before_the_first_file_is_not_in_doubt_as_well() -> None:
    """The leader epochs that told it are contradicted by the batches."""
    disk = closed_log()
    for name in (file_name(0, LOG_SUFFIX), LEADER_EPOCH_CHECKPOINT):
        disk.remove(f"{DIRECTORY}/{name}")
    disk.open(f"{DIRECTORY}/{LEADER_EPOCH_CHECKPOINT}", create=True).append(b"0\n1\n9 0\n")
    log = Log.open(disk, DIRECTORY, LOG_CONFIG, 0, recovery_point=12, clean_shutdown=True, reads_all=True)
    assert [(gap.start, gap.end) for gap in log.damage.gaps] == [(0, 4)]
    assert (log.recovery.checkpointed_epochs, log.recovery.is_start_in_doubt) == (None, False)


def test_an_empty_file_before_a_log_that_starts_inside_a_batch_is_a_stray() -> None:
    disk = SimulatedDisk(random.Random(1))
    log = Log.open(disk, DIRECTORY, LOG_CONFIG, 0)
    log.truncate_fully_and_start_at(4, epoch=1)
    log.append_as_follower(compacted_batch(3, 6, 1, {4: b"x", 5: b"y"}))
    log.close()
    disk.open(f"{DIRECTORY}/{file_name(1, LOG_SUFFIX)}", create=True)
    disk.remove(f"{DIRECTORY}/{LEADER_EPOCH_CHECKPOINT}")
    disk.open(f"{DIRECTORY}/{LEADER_EPOCH_CHECKPOINT}", create=True).append(b"0\n1\n1 4\n")
    log = Log.open(disk, DIRECTORY, LOG_CONFIG, 0, recovery_point=6, clean_shutdown=True)
    assert (log.log_start_offset, log.log_end_offset, len(log.recovery.strays)) == (4, 6, 1)


def test_before_a_log_without_files_none_is_missing_though_its_leader_epochs_begin_behind_its_end() -> None:
    """It was damaged, and so they tell nothing; that all of it is lost is told."""
    disk = closed_log()
    for name in disk.list_directory(DIRECTORY):
        disk.remove(f"{DIRECTORY}/{name}")
    disk.open(f"{DIRECTORY}/{LEADER_EPOCH_CHECKPOINT}", create=True).append(b"0\n1\n2 7\n")
    disk.open(f"{DIRECTORY}/{DAMAGE_NOTE}", create=True).append(b"[2, 3): damaged\n")
    log = Log.open(disk, DIRECTORY, LOG_CONFIG, 0, high_watermark=5, clean_shutdown=True)
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    assert (log.recovery.is_start_in_doubt, log.recovery.ends_in_damage) == (False, True)
