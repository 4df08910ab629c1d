"""Kafka's cleaner leaves segments that end before the next one begins: where a cleaner was that is no damage."""

from __future__ import annotations

import pytest

from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.records.payload import decode_batches
from tidegauge.impl.storage.errors import DamagedLogError
from tidegauge.impl.storage.left_out import LeftOut
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.segment_names import LOG_SUFFIX, SNAPSHOT_SUFFIX, file_name
from tidegauge.impl.storage.survey import MAX_RELATIVE_OFFSET
from tidegauge.model_tests.storage.test_damage import (
    ACTIVE,
    CLOSED,
    CONFIG,
    DIRECTORY,
    END,
    FIELDS,
    batch,
    flip,
    readable,
    without,
    written,
)


def cleaned(kept: int) -> SimulatedDisk:
    """The cleaner has left so many of the four records of the middle segment, and no file if it has left none."""
    disk = written()
    if kept:
        disk.open(CLOSED).truncate(kept * len(batch(0)))
    else:
        disk.remove(CLOSED)
        disk.remove(f"{DIRECTORY}/{file_name(4, SNAPSHOT_SUFFIX)}")
    return disk


def opened(
    disk: SimulatedDisk, point: int = END, *, cleaner: bool = True, clean: bool = True, all_: bool = True, mark: int = 0
) -> Log:
    """`cleaner`: whether one was at the log; `all_`: all of it is read."""
    return Log.open(
        disk,
        DIRECTORY,
        CONFIG,
        0,
        recovery_point=point,
        clean_shutdown=clean,
        reads_all=all_,
        cleaned_offset=mark if cleaner else None,
    )


def found(log: Log) -> list[int]:
    """The records that a reader finds who goes on behind each."""
    return found_below(log, log.log_end_offset)


def found_below(log: Log, end: int) -> list[int]:
    """The same up to an offset."""
    offset, offsets = log.log_start_offset, list[int]()
    while offset < end:
        (record,) = decode_batches(log.read(offset, 1))
        offsets.append(record.offset)
        offset = record.offset + 1
    return offsets


@pytest.mark.parametrize("all_", [False, True], ids=["as it was closed", "all is read"])
@pytest.mark.parametrize("clean", [False, True], ids=["after a crash", "after a clean stop"])
@pytest.mark.parametrize("kept", [0, 1, 3])
def test_readers_pass_over_what_a_cleaner_has_left_out(kept: int, clean: bool, all_: bool) -> None:
    log = opened(cleaned(kept), clean=clean, all_=all_)
    assert found(log) == without(*range(4 + kept, 8))
    assert (log.log_end_offset, log.damage.gaps, log.recovery.lost_nothing) == (END, [], True)
    assert log.append_as_leader(batch(END), 3, 0).last_offset == END
    assert found(log) == [*without(*range(4 + kept, 8)), END]


@pytest.mark.parametrize("all_", [False, True], ids=["as it was closed", "all is read"])
@pytest.mark.parametrize("kept", [0, 1, 3])
def test_where_no_cleaner_was_the_same_is_a_loss(kept: int, all_: bool) -> None:
    log = opened(cleaned(kept), cleaner=False, all_=all_)
    assert [(gap.start, gap.end) for gap in log.damage.gaps] == [(4 + kept, 8)]
    assert readable(log) == without(*range(4 + kept, 8))


@pytest.mark.parametrize("all_", [False, True], ids=["as it was closed", "all is read"])
def test_a_log_goes_on_in_the_empty_segment_behind_what_a_cleaner_has_left_out(all_: bool) -> None:
    """The log was rolled, and no record came after that: its end is where that segment begins."""
    disk = cleaned(2)
    disk.open(ACTIVE).truncate(0)
    disk.remove(f"{DIRECTORY}/{file_name(END, SNAPSHOT_SUFFIX)}")
    log = opened(disk, 8, all_=all_)
    assert (log.log_end_offset, log.damage.gaps, log.recovery.strays) == (8, [], ())
    assert found_below(log, 6) == [0, 1, 2, 3, 4, 5]
    assert log.append_as_leader(batch(8), 3, 0).last_offset == 8
    assert found(log) == [0, 1, 2, 3, 4, 5, 8]


def test_where_a_cleaner_was_bears_out_an_empty_file_though_the_recovery_point_is_lost() -> None:
    """After a clean stop, with nothing else that tells of the end: no offset is given again."""
    disk = cleaned(2)
    disk.open(ACTIVE).truncate(0)
    for name in disk.list_directory(DIRECTORY):
        if name.endswith(SNAPSHOT_SUFFIX):
            disk.remove(f"{DIRECTORY}/{name}")
    log = opened(disk, 0, mark=8)
    assert (log.log_end_offset, log.damage.gaps, log.recovery.strays) == (8, [], ())


@pytest.mark.parametrize("all_", [False, True], ids=["as it was closed", "all is read"])
def test_a_file_that_is_missing_with_its_snapshot_left_has_the_gap_in_doubt(all_: bool) -> None:
    """A cleaner removes both. Readers go on behind the gap; where others have the records the log is cut there."""
    disk = written()
    disk.remove(CLOSED)
    log = opened(disk, all_=all_)
    assert (log.damage.gaps, [(gap.start, gap.end) for gap in log.damage.doubted]) == ([], [(4, 8)])
    assert (found(log), log.recovery.doubt) == (without(*range(4, 8)), "a segment of it may be missing")


def test_a_segment_that_ends_early_is_not_read_for_it() -> None:
    assert opened(cleaned(2), all_=False).recovery.scanned_segments == 0
    assert opened(cleaned(2), all_=False, cleaner=False).recovery.scanned_segments > 0


@pytest.mark.parametrize(("number", "gap"), [(0, (4, 5)), (1, (5, 8))])
def test_what_is_damaged_is_a_gap_though_a_cleaner_was_there(number: int, gap: tuple[int, int]) -> None:
    """Behind damage the last batch of a file is believed only if it ends where the next file begins."""
    disk = cleaned(3)
    flip(disk, CLOSED, number, FIELDS["value"])
    log = opened(disk)
    assert [(one.start, one.end) for one in log.damage.gaps] == [gap]


def test_after_a_crash_nothing_follows_a_segment_that_ends_before_what_was_flushed() -> None:
    """No cleaner touches what was not flushed: what lies behind is not the log's."""
    log = opened(cleaned(2), 4, clean=False)
    assert (log.log_end_offset, found(log)) == (6, [0, 1, 2, 3, 4, 5])
    assert log.recovery.strays == (f"{ACTIVE.rpartition('/')[2]}.stray",)


def test_a_batch_may_leap_over_a_recovery_point_that_nothing_bears_out() -> None:
    """Where no cleaner was, a batch that leaves out the offset at which the log is said to have ended has changed."""
    disk = written()
    content = disk.files()[ACTIVE]
    size = len(batch(0))
    file = disk.open(ACTIVE)
    file.truncate(size)
    file.append(content[3 * size :])
    file.close()
    log = opened(disk, 10**15)
    assert log.recovery.is_point_rejected
    assert found(log) == without(9, 10)


def test_who_reads_what_a_cleaner_has_left_out_before_damage_is_told_of_it() -> None:
    """The reader has all that is left before, and waited for ever: nothing was there up to the damage."""
    disk = cleaned(2)
    flip(disk, ACTIVE, 0, FIELDS["value"])
    log = opened(disk)
    assert [(gap.start, gap.end) for gap in log.damage.gaps] == [(8, 9)]
    assert log.read(6, 1, 8) == b""
    for offset in (6, 7):
        with pytest.raises(DamagedLogError) as told:
            log.read(offset, 1)
        assert (told.value.start, told.value.end) == (8, 9)


@pytest.mark.parametrize(("point", "made_up"), [(END, END + 3), (END, END + (1 << 40)), (0, END + (1 << 40))])
@pytest.mark.parametrize("content", [b"", b"nothing" * 30], ids=["empty", "garbage"])
def test_no_file_that_the_disk_has_made_up_has_a_log_go_on_there(content: bytes, point: int, made_up: int) -> None:
    """Where a cleaner was a file may end before the next one begins: not beyond what was flushed, nor that far away."""
    disk = cleaned(2)
    disk.open(f"{DIRECTORY}/{file_name(made_up, LOG_SUFFIX)}", create=True).append(content)
    log = opened(disk, point, all_=False)
    assert (log.log_end_offset, found(log)) == (END, without(6, 7))


@pytest.mark.parametrize("known", [4, 5])
def test_a_file_that_holds_nothing_any_more_bears_out_the_gap_before_it_if_a_recovery_point_goes_so_far(
    known: int,
) -> None:
    left_out = LeftOut(True, 9, known, (0, 5), (), (0, 0), lambda base: False)
    assert left_out.reaches(0, 5) == (known == 5)


@pytest.mark.parametrize("holds", [False, True])
def test_a_batch_in_the_file_behind_it_bears_out_the_gap_before_that_where_nothing_else_does(holds: bool) -> None:
    left_out = LeftOut(True, 9, 4, (0, 5), (), (0, 0), lambda base: holds and base == 5)
    assert left_out.reaches(0, 5) == holds


@pytest.mark.parametrize(("further", "is_reached"), [(1, True), (2, False)])
def test_no_file_goes_farther_than_its_index_can_say_though_a_cleaner_was_there(further: int, is_reached: bool) -> None:
    """The last offset before the next file is one that a batch of this one may have had."""
    limit, flushed = MAX_RELATIVE_OFFSET + further, 1 << 40
    left_out = LeftOut(True, flushed, flushed, (0, limit), (), (0, 0), lambda base: True)
    assert left_out.reaches(0, limit) == is_reached


@pytest.mark.parametrize("told", [0, 4, 5, 7, 1 << 40])
@pytest.mark.parametrize("by_snapshot", [False, True])
def test_a_name_or_a_checkpoint_that_goes_so_far_bears_out_the_gap_before_an_empty_file(
    told: int, by_snapshot: bool
) -> None:
    snapshots, checkpoints = ((told,), (0, 0)) if by_snapshot else ((), (0, told))
    assert LeftOut(True, 9, 4, (0, 5), snapshots, checkpoints, lambda base: False).reaches(0, 5) == (told in (5, 7))
