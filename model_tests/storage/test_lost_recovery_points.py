"""A log whose recovery point is lost after a clean stop, and that is damaged besides: its end is kept, or told."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable, Mapping

import pytest

from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.records.batches import checked_headers
from tidegauge.impl.storage import checkpoints
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.log_directory import CLEAN_SHUTDOWN
from tidegauge.impl.storage.segment_names import LOG_SUFFIX, SNAPSHOT_SUFFIX, file_name
from tidegauge.impl.storage.survey import MAX_RELATIVE_OFFSET
from tidegauge.model_tests.storage.test_damage import (
    ACTIVE,
    BATCHES_A_SEGMENT,
    CONFIG,
    DIRECTORY,
    END,
    FIELDS,
    batch,
    flip,
    opened,
    readable,
    without,
    written,
)
from tidegauge.model_tests.storage.test_log_directory import fill
from tidegauge.model_tests.storage.test_log_directory import opened as opened_directory

TAILS: Mapping[str, Callable[[SimulatedDisk], None]] = {
    "torn": lambda disk: disk.open(ACTIVE).truncate(2 * len(batch(0)) + 70),
    "zeroed": lambda disk: disk.zero(ACTIVE, 2 * len(batch(0)), 4 * len(batch(0))),
    "short": lambda disk: disk.open(ACTIVE).truncate(2 * len(batch(0))),
    "missing": lambda disk: disk.remove(ACTIVE),
    "a rotten last batch": lambda disk: flip(disk, ACTIVE, 3, FIELDS["value"]),
}
KEPT = {"missing": 8, "a rotten last batch": 11}


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("point", [0, 5, 9, 10**15])
def test_after_a_clean_stop_the_high_watermark_tells_of_an_end_that_is_lost(point: int, tail: str) -> None:
    disk = written()
    TAILS[tail](disk)
    log = opened(disk, recovery_point=point, high_watermark=END)
    kept = KEPT.get(tail, 10)
    assert (log.log_end_offset, readable(log)) == (END, list(range(kept)))
    assert [(gap.start, gap.end) for gap in log.damage.gaps] == [(kept, END)]
    log.append_as_leader(batch(END), 3, 0)
    assert readable(log) == [*range(kept), END]


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("point", [0, 5, 9, 10**15])
def test_after_a_clean_stop_a_snapshot_tells_of_an_end_that_is_lost_though_the_high_watermark_is_too(
    point: int, tail: str
) -> None:
    disk = written()
    TAILS[tail](disk)
    log = opened(disk, recovery_point=point, high_watermark=0)
    kept = KEPT.get(tail, 10)
    assert (log.log_end_offset, readable(log)) == (END, list(range(kept)))
    assert [(gap.start, gap.end) for gap in log.damage.gaps] == [(kept, END)]


@pytest.mark.parametrize(
    ("point", "tail", "end"), [(8, "a rotten last batch", 11), (9, "a rotten last batch", 11), (9, "torn", 10)]
)
def test_what_is_cut_after_a_clean_stop_is_told_as_a_loss_where_no_snapshot_tells_of_it(
    point: int, tail: str, end: int, caplog: pytest.LogCaptureFixture
) -> None:
    disk = written()
    TAILS[tail](disk)
    disk.remove(f"{DIRECTORY}/{file_name(END, SNAPSHOT_SUFFIX)}")
    log = opened(disk, recovery_point=point, high_watermark=0)
    assert (log.log_end_offset, readable(log)) == (end, list(range(end)))
    assert [line for line in caplog.messages if line.startswith("log end in doubt")]
    assert (log.recovery.may_end_early, log.recovery.lost_nothing) == (True, False)


def test_a_log_that_ends_whole_at_a_recovery_point_and_before_a_snapshot_is_in_doubt(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its last segment may be missing, or an earlier log has left the snapshot."""
    disk = written()
    disk.remove(ACTIVE)
    log = opened(disk, recovery_point=8, high_watermark=0)
    assert (log.log_end_offset, readable(log)) == (8, list(range(8)))
    assert [line for line in caplog.messages if line.startswith("log end in doubt")]
    assert not log.recovery.lost_nothing


@pytest.mark.parametrize("point", [0, 3])
def test_nothing_that_was_deleted_is_served_where_recovery_point_and_leader_epochs_are_lost_and_the_end_is_damaged(
    point: int,
) -> None:
    """The log reached its log start at least."""
    disk = written()
    for name in disk.list_directory(DIRECTORY):
        if name.endswith(SNAPSHOT_SUFFIX) or name == checkpoints.LEADER_EPOCH_CHECKPOINT:
            disk.remove(f"{DIRECTORY}/{name}")
    flip(disk, ACTIVE, 3, FIELDS["value"])
    log = Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=point, log_start_offset=END, clean_shutdown=True)
    assert (log.log_start_offset, log.log_end_offset, readable(log)) == (END, END, [])


@pytest.mark.parametrize("position", [*range(12), *range(16, 61, 4), FIELDS["value"]])
def test_the_last_batch_is_read_where_no_recovery_point_says_that_it_is_the_end(position: int) -> None:
    """A byte of its base offset had the log go on at 2^55; one under its checksum was met by the first read."""
    disk = written()
    flip(disk, ACTIVE, 3, position)
    log = opened(disk, recovery_point=0)
    assert (log.log_end_offset, readable(log)) == (END, list(range(END - 1)))
    assert [(gap.start, gap.end) for gap in log.damage.gaps] == [(END - 1, END)]
    assert not log.recovery.lost_nothing


def test_a_snapshot_beyond_what_a_segment_reaches_tells_of_nothing() -> None:
    disk = written()
    disk.open(f"{DIRECTORY}/{file_name(10**15, SNAPSHOT_SUFFIX)}", create=True).append(b"?")
    log = opened(disk, recovery_point=0, high_watermark=0)
    assert (log.log_end_offset, readable(log)) == (END, without())


@pytest.mark.parametrize("tail", ["torn", "zeroed"])
def test_nothing_is_appended_to_a_damaged_end_of_which_nothing_tells_how_far_it_reached(
    tail: str, caplog: pytest.LogCaptureFixture
) -> None:
    """High watermark and snapshot are lost too: the log ends where it can be read, in a new file, and says so."""
    disk = written()
    TAILS[tail](disk)
    disk.remove(f"{DIRECTORY}/{file_name(END, SNAPSHOT_SUFFIX)}")
    before = disk.files()[ACTIVE]
    log = opened(disk, recovery_point=0, high_watermark=0)
    end = log.log_end_offset
    assert end == KEPT.get(tail, 10)
    assert [line for line in caplog.messages if line.startswith("log ends in damage")]
    assert (log.recovery.may_end_early, log.recovery.lost_nothing) == (True, False)
    log.append_as_leader(batch(end), 3, 0)
    assert disk.files()[ACTIVE] == before
    found = [header.base_offset for header in checked_headers(log.read(8, 1 << 20))]
    assert found == list(range(8, end)), "a read ends before the damage, and the next one begins behind it"
    assert readable(log) == list(range(end + 1))
    log.close()
    again = opened(disk, recovery_point=end + 1)
    assert readable(again) == list(range(end + 1))


def test_a_file_that_is_damaged_as_a_whole_is_set_aside_where_nothing_tells_what_it_held(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The file in which the log goes on has its name."""
    disk, path = written(), f"{DIRECTORY}/{file_name(0, LOG_SUFFIX)}"
    disk.zero(path, 0, BATCHES_A_SEGMENT * len(batch(0)))
    before = disk.files()[path]
    for name in disk.list_directory(DIRECTORY):
        if name.endswith((SNAPSHOT_SUFFIX, LOG_SUFFIX)) and f"{DIRECTORY}/{name}" != path:
            disk.remove(f"{DIRECTORY}/{name}")
    log = opened(disk, recovery_point=0, high_watermark=0)
    assert (log.segment_base_offsets, log.log_end_offset) == ((0,), 0)
    assert [line for line in caplog.messages if line.startswith("stray segment set aside")]
    assert (log.recovery.may_end_early, log.recovery.lost_nothing) == (True, False)
    assert disk.files()[f"{path}.stray"] == before
    log.append_as_leader(batch(0), 3, 0)
    assert len(disk.files()[path]) == len(batch(0))
    assert readable(log) == [0]


@pytest.mark.parametrize("high_watermark", [10**15, END + (1 << 31)])
def test_a_high_watermark_beyond_what_a_segment_reaches_tells_of_nothing(high_watermark: int) -> None:
    log = opened(written(), recovery_point=0, high_watermark=high_watermark)
    assert (log.log_end_offset, readable(log)) == (END, without())


def without_segments(*kept: int) -> SimulatedDisk:
    """Closed in order, and of its files only these segments are left, and the leader epochs, which begin at 4."""
    disk = written()
    for name in disk.list_directory(DIRECTORY):
        if name.endswith((SNAPSHOT_SUFFIX, LOG_SUFFIX)) and name not in [file_name(base, LOG_SUFFIX) for base in kept]:
            disk.remove(f"{DIRECTORY}/{name}")
    if not kept:
        path = f"{DIRECTORY}/{checkpoints.LEADER_EPOCH_CHECKPOINT}"
        disk.remove(path)
        disk.open(path, create=True).append(b"0\n2\n2 4\n3 8\n")
    return disk


@pytest.mark.parametrize(("high_watermark", "end"), [(END, END), (10**15, 0)])
def test_a_log_without_segments_ends_at_its_high_watermark_if_one_segment_reaches_so_far(
    high_watermark: int, end: int
) -> None:
    """What is gone begins where the leader epochs begin."""
    log = opened(without_segments(), recovery_point=0, high_watermark=high_watermark)
    assert log.log_end_offset == end
    assert [(gap.start, gap.end) for gap in log.damage.gaps] == ([(4, end)] if end else [])


def test_a_segment_behind_the_end_that_a_clean_stop_has_noted_leaves_the_end_in_doubt(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It has batches, and nothing says that they were flushed: it is set aside."""
    log = opened(without_segments(0, 8), recovery_point=4, high_watermark=0)
    assert (log.log_end_offset, readable(log)) == (4, [0, 1, 2, 3])
    assert log.recovery.strays == (f"{file_name(8, LOG_SUFFIX)}.stray",)
    assert [line for line in caplog.messages if line.startswith("log end in doubt") and " log_end=4 " in line]
    assert (log.recovery.may_end_early, log.recovery.lost_nothing) == (True, False)


def test_at_the_end_that_a_snapshot_tells_no_batch_is_missing_that_could_bear_out_a_leader_epoch() -> None:
    """The last batch alone has another epoch than is noted of it: that is no reason to refuse it."""
    disk = written(last_epoch=4)
    flip(disk, ACTIVE, 3, 15)
    log = opened(disk, recovery_point=0, high_watermark=0)
    assert (log.damage.gaps, readable(log)) == ([], without())
    assert log.epochs.entries[-1] == (5, END - 1)


def test_after_a_crash_a_high_watermark_beyond_the_end_is_no_damage() -> None:
    disk = written(clean=False)
    disk.open(ACTIVE).truncate(2 * len(batch(0)))
    log = opened(disk, clean=False, recovery_point=0)
    assert (log.log_end_offset, log.damage.gaps) == (10, [])


def test_a_leader_epoch_whose_records_a_crash_has_taken_is_no_reason_to_doubt_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = written(clean=False)
    path = f"{DIRECTORY}/leader-epoch-checkpoint"
    disk.remove(path)
    disk.open(path, create=True).append(b"0\n4\n1 0\n2 4\n3 8\n4 14\n")
    log = opened(disk, clean=False, recovery_point=2 * BATCHES_A_SEGMENT)
    assert [tuple(entry) for entry in log.epochs.entries] == [(1, 0), (2, 4), (3, 8)]
    assert log.recovery.scanned_segments == 1
    assert "rejected" not in caplog.text


@pytest.mark.parametrize("damage", ["missing", "garbage", "none"])
def test_a_directory_that_has_lost_its_recovery_points_was_not_stopped_cleanly(
    damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It may lack what others count on; what else a clean stop says still holds."""
    disk = SimulatedDisk(random.Random(0))
    directory = opened_directory(disk)
    fill(directory, 10)
    directory.close(broker_epoch=5)
    path = f"data/{checkpoints.RECOVERY_POINT_CHECKPOINT}"
    if damage != "none":
        disk.remove(path)
    if damage == "garbage":
        disk.open(path, create=True).append(b"\xff" * 30)
    with caplog.at_level(logging.WARNING):
        directory = opened_directory(disk)
    assert directory.was_clean
    assert directory.stopped_cleanly_in == (5 if damage == "none" else -1)
    assert (f"checkpoint missing: file={path}" in caplog.text) == (damage == "missing")
    assert (f"checkpoint rejected: file={path}" in caplog.text) == (damage == "garbage")


@pytest.mark.parametrize("text", ["", "{", json.dumps({"version": 0, "brokerEpoch": "x"}), "\0" * 30])
def test_a_damaged_note_of_a_clean_stop_says_no_epoch(text: str) -> None:
    disk = SimulatedDisk(random.Random(0))
    directory = opened_directory(disk)
    fill(directory, 10)
    directory.close(broker_epoch=5)
    disk.remove(f"data/{CLEAN_SHUTDOWN}")
    disk.open(f"data/{CLEAN_SHUTDOWN}", create=True).append(text.encode())
    assert opened_directory(disk).stopped_cleanly_in == -1


@pytest.mark.parametrize("files", [1, 3], ids=["one file", "three files"])
def test_a_snapshot_that_is_named_after_an_offset_far_away_tells_no_end(files: int) -> None:
    """The log went on there where it had one file, which ended in damage."""
    disk = written()
    for number in range(files, 3):
        for suffix in (LOG_SUFFIX, SNAPSHOT_SUFFIX):
            disk.remove(f"{DIRECTORY}/{file_name(BATCHES_A_SEGMENT * number, suffix)}")
    if files == 1:
        disk.remove(f"{DIRECTORY}/{file_name(END, SNAPSHOT_SUFFIX)}")
    last = f"{DIRECTORY}/{file_name(BATCHES_A_SEGMENT * (files - 1), LOG_SUFFIX)}"
    flip(disk, last, 3, FIELDS["value"])
    disk.open(f"{DIRECTORY}/{file_name(1 << 40, SNAPSHOT_SUFFIX)}", create=True).append(b"of no producers")
    end = BATCHES_A_SEGMENT * files
    log = opened(disk, recovery_point=0, high_watermark=end)
    assert (log.log_end_offset, readable(log)) == (end, list(range(end - 1)))


def test_no_batch_begins_where_a_closed_log_ended() -> None:
    """What lies before the last batch is damaged, and so is where that one begins: the log would be longer."""
    disk = written()
    flip(disk, ACTIVE, 2, FIELDS["value"])
    for bit in range(3):
        flip(disk, ACTIVE, 3, FIELDS["base offset"], bit)  # from 11 to 12
    log = opened(disk)
    assert (log.log_end_offset, readable(log)) == (END, without(10, 11))


@pytest.mark.parametrize(("empty", "is_rejected"), [(END, False), (END + 1, True)])
def test_an_empty_file_bears_out_the_recovery_point_that_it_is_named_after(
    empty: int, is_rejected: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Against a snapshot of a later offset."""
    disk = written()
    disk.open(f"{DIRECTORY}/{file_name(END + 3, SNAPSHOT_SUFFIX)}", create=True).append(b"of no producers")
    disk.open(f"{DIRECTORY}/{file_name(empty, LOG_SUFFIX)}", create=True)
    assert readable(opened(disk)) == without()
    assert ("recovery point rejected" in caplog.text) == is_rejected


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_file_behind_the_end_that_holds_nothing_has_the_end_in_doubt_only_where_no_file_holds_anything(
    is_damaged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    disk = without_segments(0, 8)
    disk.open(ACTIVE).truncate(50)
    for number in range(BATCHES_A_SEGMENT if is_damaged else 0):
        flip(disk, f"{DIRECTORY}/{file_name(0, LOG_SUFFIX)}", number, FIELDS["value"])
    log = opened(disk, recovery_point=4, high_watermark=4)
    assert (log.log_end_offset, len(readable(log))) == (4, 0 if is_damaged else 4)
    assert log.recovery.strays == (f"{file_name(8, LOG_SUFFIX)}.stray",)
    assert ("log end in doubt" in caplog.text) == log.recovery.may_end_early == is_damaged


@pytest.mark.parametrize(("high_watermark", "is_told"), [(END - 1, False), (END, False), (END + 1, True)])
def test_a_log_that_ends_below_its_high_watermark_after_a_crash_is_told_of(
    high_watermark: int, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    log = opened(written(clean=False), clean=False, recovery_point=8, high_watermark=high_watermark)
    assert (log.log_end_offset, readable(log)) == (END, without())
    assert any(f"log_end={END} high_watermark={high_watermark}" in one for one in caplog.messages) == is_told


def test_an_empty_log_does_not_go_on_for_a_log_start_that_no_file_reaches() -> None:
    disk = SimulatedDisk(random.Random(1))
    Log.open(disk, DIRECTORY, CONFIG, 0).close()
    log = Log.open(disk, DIRECTORY, CONFIG, 0, log_start_offset=10**15, clean_shutdown=True)
    assert (log.log_end_offset, log.damage.gaps) == (0, [])


@pytest.mark.parametrize(("clean", "scanned"), [(True, 1), (False, 3)])
def test_without_a_recovery_point_closed_files_are_read_only_after_a_crash(clean: bool, scanned: int) -> None:
    log = opened(written(clean=clean), clean=clean, recovery_point=0)
    assert (readable(log), log.recovery.scanned_segments) == (without(), scanned)


def test_after_a_crash_a_batch_may_begin_where_the_log_once_ended() -> None:
    """It was appended and flushed after the recovery point was written; what lies before that is damaged."""
    disk = written(clean=False)
    flip(disk, ACTIVE, 2, FIELDS["value"])
    log = opened(disk, clean=False, recovery_point=11)
    assert (log.log_end_offset, readable(log)) == (END, without(10))


@pytest.mark.parametrize("damaged", [False, True])
def test_where_the_last_file_is_damaged_a_snapshot_is_believed_rather_than_a_recovery_point(
    damaged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A whole one that ends at the recovery point bears it out."""
    disk = written()
    disk.open(f"{DIRECTORY}/{file_name(END + 3, SNAPSHOT_SUFFIX)}", create=True).append(b"of no producers")
    if damaged:
        flip(disk, ACTIVE, 1, FIELDS["value"])
    log = opened(disk)
    assert ("recovery point rejected" in caplog.text) == damaged
    assert log.log_end_offset == (END + 3 if damaged else END)
    assert readable(log) == (without(9) if damaged else without())


@pytest.mark.parametrize(("high_watermark", "end"), [(MAX_RELATIVE_OFFSET, MAX_RELATIVE_OFFSET), (1 << 31, 0)])
def test_a_log_without_files_ends_no_farther_away_than_a_file_reaches(high_watermark: int, end: int) -> None:
    disk = written()
    for name in disk.list_directory(DIRECTORY):
        if name.endswith((LOG_SUFFIX, SNAPSHOT_SUFFIX)):
            disk.remove(f"{DIRECTORY}/{name}")
    assert opened(disk, recovery_point=0, high_watermark=high_watermark).log_end_offset == end


def test_no_file_bears_out_a_recovery_point_where_all_files_are_lost() -> None:
    """A snapshot of a later offset is believed."""
    log = opened(without_logs(written()), recovery_point=8, high_watermark=0)
    assert log.log_end_offset == END


def without_logs(disk: SimulatedDisk) -> SimulatedDisk:
    for number in range(3):
        disk.remove(f"{DIRECTORY}/{file_name(BATCHES_A_SEGMENT * number, LOG_SUFFIX)}")
    return disk


def test_a_log_start_behind_the_recovery_point_is_believed_though_the_last_file_ends_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Records were deleted up to there, so that they were flushed; no leader epochs deny it."""
    disk = written()
    disk.remove(f"{DIRECTORY}/{checkpoints.LEADER_EPOCH_CHECKPOINT}")
    log = Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=END, log_start_offset=END + 1, clean_shutdown=True)
    assert "recovery point rejected" in caplog.text
    assert (log.log_start_offset, log.log_end_offset) == (END + 1, END + 1)


def test_a_batch_that_begins_where_a_log_was_closed_before_is_served_though_its_recovery_point_is_lost() -> None:
    """The log was opened again, and went on there; the snapshot of its last end is lost, and the batch before it."""
    disk = written()
    disk.open(ACTIVE).truncate(3 * len(batch(0)))
    disk.remove(f"{DIRECTORY}/{file_name(END, SNAPSHOT_SUFFIX)}")
    disk.open(f"{DIRECTORY}/{file_name(10, SNAPSHOT_SUFFIX)}", create=True).append(b"of no producers")
    flip(disk, ACTIVE, 1, FIELDS["value"])
    log = opened(disk, recovery_point=0, high_watermark=11)
    assert readable(log) == [*range(9), 10]


def test_a_log_start_that_no_log_has_does_not_deny_a_recovery_point(caplog: pytest.LogCaptureFixture) -> None:
    disk = written()
    disk.remove(f"{DIRECTORY}/{checkpoints.LEADER_EPOCH_CHECKPOINT}")
    log = Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=END, log_start_offset=1 << 40, clean_shutdown=True)
    assert "recovery point rejected" not in caplog.text
    assert (log.log_start_offset, log.log_end_offset, readable(log)) == (0, END, without())


def test_a_log_start_at_the_recovery_point_does_not_deny_it(caplog: pytest.LogCaptureFixture) -> None:
    """Nor does a snapshot that an earlier log has left: the last file is whole, and ends there."""
    disk = written()
    disk.remove(f"{DIRECTORY}/{checkpoints.LEADER_EPOCH_CHECKPOINT}")
    disk.open(f"{DIRECTORY}/{file_name(END + 3, SNAPSHOT_SUFFIX)}", create=True).append(b"of no producers")
    log = Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=END, log_start_offset=END, clean_shutdown=True)
    assert ("recovery point rejected" in caplog.text, log.log_end_offset) == (False, END)


def test_an_empty_file_does_not_bear_out_a_recovery_point_behind_what_the_file_before_it_holds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = written()
    disk.open(ACTIVE).truncate(2 * len(batch(0)))
    disk.open(f"{DIRECTORY}/{file_name(END, LOG_SUFFIX)}", create=True)
    disk.open(f"{DIRECTORY}/{file_name(END + 3, SNAPSHOT_SUFFIX)}", create=True).append(b"of no producers")
    assert readable(opened(disk)) == without(10, 11)
    assert "recovery point rejected" in caplog.text
