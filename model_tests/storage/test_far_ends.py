"""What tells of a lost end, and how near it has to be: offsets beyond 2^31, and logs without snapshots of producers."""

from __future__ import annotations

import random

import pytest

from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.storage.checkpoints import LEADER_EPOCH_CHECKPOINT
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.neighbours import last_batch
from tidegauge.impl.storage.segment import Segment
from tidegauge.impl.storage.segment_names import LOG_SUFFIX, SNAPSHOT_SUFFIX, file_name
from tidegauge.impl.storage.survey import MAX_RELATIVE_OFFSET, reaches
from tidegauge.impl.storage.surviving_logs import survivors
from tidegauge.model_tests.storage.test_damage import (
    ACTIVE,
    CLOSED,
    CONFIG,
    DIRECTORY,
    FIELDS,
    batch,
    flip,
    opened,
    readable,
    written,
)

FAR = MAX_RELATIVE_OFFSET + 10


def far_away() -> SimulatedDisk:
    """A closed log of two files of four records, with offsets that are large."""
    disk = SimulatedDisk(random.Random(1))
    log = Log.open(disk, DIRECTORY, CONFIG, 0)
    log.truncate_fully_and_start_at(FAR, epoch=1)
    for number in range(8):
        log.append_as_leader(batch(number), 1, 0)
    log.close()
    return disk


def without_snapshots(disk: SimulatedDisk) -> SimulatedDisk:
    for name in disk.list_directory(DIRECTORY):
        if name.endswith(SNAPSHOT_SUFFIX):
            disk.remove(f"{DIRECTORY}/{name}")
    return disk


def test_the_high_watermark_tells_of_the_lost_end_of_a_log_whose_offsets_are_large() -> None:
    """A file reaches so far from where it begins, and not from 0."""
    disk = far_away()
    disk.remove(f"{DIRECTORY}/{file_name(FAR + 4, LOG_SUFFIX)}")
    log = Log.open(
        without_snapshots(disk),
        DIRECTORY,
        CONFIG,
        0,
        log_start_offset=FAR,
        high_watermark=FAR + 8,
        clean_shutdown=True,
    )
    assert (log.log_start_offset, log.log_end_offset) == (FAR, FAR + 8)
    assert [(gap.start, gap.end) for gap in log.damage.gaps] == [(FAR + 4, FAR + 8)]


def test_no_offset_is_given_again_below_the_log_start_of_a_log_whose_offsets_are_large() -> None:
    """All else that told of its end is lost: recovery point, high watermark, leader epochs and the last file."""
    disk = without_snapshots(far_away())
    disk.remove(f"{DIRECTORY}/{file_name(FAR + 4, LOG_SUFFIX)}")
    disk.remove(f"{DIRECTORY}/{LEADER_EPOCH_CHECKPOINT}")
    log = Log.open(disk, DIRECTORY, CONFIG, 0, log_start_offset=FAR + 7, clean_shutdown=True)
    assert (log.log_start_offset, log.log_end_offset) == (FAR + 7, FAR + 7)


@pytest.mark.parametrize(("point", "is_whole"), [(0, True), (8, False)])
def test_a_closed_log_that_is_whole_is_in_doubt_only_if_it_is_said_to_have_ended_before(
    point: int, is_whole: bool
) -> None:
    """All else that told of its end is lost, so that there may have been more."""
    log = opened(without_snapshots(written()), recovery_point=point, high_watermark=0)
    assert (log.log_end_offset, log.recovery.lost_nothing) == (12, is_whole)


@pytest.mark.parametrize(
    ("clean", "knows_epochs", "is_told"),
    [(True, True, True), (True, False, True), (False, True, True), (False, False, False)],
)
def test_a_log_without_files_had_some_if_it_was_closed_or_leader_epochs_were_written_down(
    clean: bool, knows_epochs: bool, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    disk = without_snapshots(written(clean=clean))
    for base in (0, 4, 8):
        disk.remove(f"{DIRECTORY}/{file_name(base, LOG_SUFFIX)}")
    if not knows_epochs:
        disk.remove(f"{DIRECTORY}/{LEADER_EPOCH_CHECKPOINT}")
    log = opened(disk, clean=clean, recovery_point=0, high_watermark=0)
    told = [line for line in caplog.messages if line.startswith("log end in doubt")]
    assert (len(told), log.recovery.ends_in_damage) == (is_told, is_told)
    assert all(("the log was closed, and it has no file left" in line) == clean for line in told)


@pytest.mark.parametrize(
    ("high_watermark", "end"),
    [(MAX_RELATIVE_OFFSET, MAX_RELATIVE_OFFSET), (MAX_RELATIVE_OFFSET + 1, 0), (MAX_RELATIVE_OFFSET + 2, 0)],
)
def test_a_log_without_files_ended_no_farther_away_than_one_reaches(high_watermark: int, end: int) -> None:
    disk = without_snapshots(written())
    for base in (0, 4, 8):
        disk.remove(f"{DIRECTORY}/{file_name(base, LOG_SUFFIX)}")
    log = opened(disk, recovery_point=0, high_watermark=high_watermark)
    assert (log.log_end_offset, log.recovery.lost_nothing) == (end, False)


@pytest.mark.parametrize(("further", "is_reached"), [(-1, True), (0, True), (1, False)])
def test_a_segment_reaches_as_far_as_its_indexes_can_tell(further: int, is_reached: bool) -> None:
    assert reaches(FAR, FAR + MAX_RELATIVE_OFFSET + further) is is_reached


def test_a_log_without_files_is_in_doubt_once_though_it_is_read_again(caplog: pytest.LogCaptureFixture) -> None:
    """The recovery point of its clean stop is farther away than anything that is left."""
    disk = without_snapshots(written())
    for base in (0, 4, 8):
        disk.remove(f"{DIRECTORY}/{file_name(base, LOG_SUFFIX)}")
    log = opened(disk, recovery_point=10**15, high_watermark=0)
    assert log.recovery.is_point_rejected
    assert len([line for line in caplog.messages if line.startswith("log end in doubt")]) == 1


def test_what_is_cut_at_the_recovery_point_of_a_clean_stop_puts_the_end_in_doubt(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A point that is too low looks so too."""
    disk = without_snapshots(written())
    disk.open(ACTIVE).truncate(2 * len(batch(0)) + 70)
    log = opened(disk, recovery_point=10, high_watermark=0)
    assert (log.log_end_offset, readable(log)) == (10, list(range(10)))
    assert [line for line in caplog.messages if line.startswith("log end in doubt")]
    assert log.recovery.ends_in_damage


def test_a_file_with_batches_that_does_not_follow_puts_the_end_in_doubt(caplog: pytest.LogCaptureFixture) -> None:
    """The log was closed, and what it held between is lost; the recovery point is too low."""
    disk = without_snapshots(written())
    disk.remove(CLOSED)
    log = opened(disk, recovery_point=4, high_watermark=0)
    assert (log.log_end_offset, readable(log)) == (4, list(range(4)))
    assert [line for line in caplog.messages if line.startswith("log end in doubt")]
    assert log.recovery.ends_in_damage


def test_a_log_without_files_that_nobody_has_opened_starts_at_0() -> None:
    disk = SimulatedDisk(random.Random(1))
    disk.make_directory(DIRECTORY)
    assert survivors(disk, ["logs"]).starts.get(("tide", 0), 0) == 0


def test_the_last_batch_of_a_file_that_was_not_read_is_found_behind_what_leads_nowhere() -> None:
    disk = written()
    flip(disk, CLOSED, 1, FIELDS["length"], bit=5)
    segments = [Segment(disk, DIRECTORY, base, CONFIG.index_interval_bytes, 0) for base in (0, 4)]
    assert [segment.load_closed(segment.base_offset + 4) for segment in segments] == [4, 8]
    last = last_batch(segments)
    assert last is not None
    assert last.base_offset == 7


@pytest.mark.parametrize(("start", "told"), [(MAX_RELATIVE_OFFSET, MAX_RELATIVE_OFFSET), (MAX_RELATIVE_OFFSET + 1, 0)])
def test_a_log_start_tells_how_far_a_log_without_files_went_if_one_reaches_so_far(
    start: int, told: int, caplog: pytest.LogCaptureFixture
) -> None:
    disk = without_snapshots(written())
    for name in (*(file_name(base, LOG_SUFFIX) for base in (0, 4, 8)), LEADER_EPOCH_CHECKPOINT):
        disk.remove(f"{DIRECTORY}/{name}")
    log = Log.open(disk, DIRECTORY, CONFIG, 0, log_start_offset=start, clean_shutdown=True)
    assert (log.log_start_offset, log.log_end_offset) == (start, start)
    assert [f" log_end={told} " in line for line in caplog.messages if line.startswith("log end in doubt")] == [True]


def test_an_end_in_doubt_is_told_though_something_else_of_the_log_is_damaged(caplog: pytest.LogCaptureFixture) -> None:
    """Its recovery point is too low, and nothing else says where it ended."""
    disk = without_snapshots(written())
    flip(disk, CLOSED, 1, FIELDS["value"])
    log = Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=8, clean_shutdown=True, reads_all=True)
    assert ([(gap.start, gap.end) for gap in log.damage.gaps], log.log_end_offset) == ([(5, 6)], 12)
    assert [line for line in caplog.messages if line.startswith("log end in doubt")]
