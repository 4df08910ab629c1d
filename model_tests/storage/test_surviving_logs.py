"""What is told of a disk after a crash is what the next process of the broker will find."""

from __future__ import annotations

import json
from random import Random

import pytest

from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.storage.checkpoints import HIGH_WATERMARK_CHECKPOINT, encode_offsets, write_atomically
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.log_directory import CLEAN_SHUTDOWN
from tidegauge.impl.storage.partition_directory import FUTURE_SUFFIX, LEFT_SUFFIX, name_with_suffix
from tidegauge.impl.storage.surviving_logs import Survivors, survivors, unsynced_bytes_below

FIRST = "d/t-0/00000000000000000000.log"
SECOND = "d/t-0/00000000000000000002.log"
MOVE = 0xABC


def two_segments() -> tuple[SimulatedDisk, Log]:
    """Offsets 0 and 1, then 2 in a segment of its own."""
    disk = SimulatedDisk(Random(0))
    log = Log.open(disk, "d/t-0", LogConfig(), 0)
    for offset in range(3):
        if offset == 2:
            log.roll(0)
        log.append_as_leader(build_batch([Record(0, 0, None, b"%d" % offset)]), 0, 0)
    return disk, log


def reopened(disk: SimulatedDisk) -> Log:
    return Log.open(disk, "d/t-0", LogConfig(), 0)


@pytest.mark.parametrize(("lost", "kept"), [(0, 3), (1, 1), (None, 0)], ids=["nothing", "a batch", "all of a segment"])
def test_what_follows_a_loss_is_lost_as_well(lost: int | None, kept: int) -> None:
    disk, log = two_segments()
    log.abandon()
    file = disk.open(FIRST)
    file.truncate(0 if lost is None else file.size - lost)
    file.close()
    assert survivors(disk, ["d"]) == Survivors({("t", 0): kept}, {}, {})
    assert reopened(disk).log_end_offset == kept


def test_a_file_that_is_named_like_a_segment_and_is_none_is_no_part_of_a_log() -> None:
    """Its name was taken for an offset, and nothing was told of the log."""
    disk, log = two_segments()
    disk.open("d/t-0/notes.log", create=True).append(b"of somebody")
    assert unsynced_bytes_below(disk, ["d"], {("t", 0): 2}).keys() == {FIRST, SECOND}
    log.abandon()
    assert survivors(disk, ["d"]) == Survivors({("t", 0): 3}, {}, {})


def test_a_high_watermark_is_told_where_its_log_is() -> None:
    """A checkpoint may remember a log that is in another directory now; the one beside the log counts."""
    disk, log = two_segments()
    log.abandon()
    disk.make_directory("e")
    for directory, offset in (("d", 2), ("e", 3)):
        write_atomically(disk, directory, HIGH_WATERMARK_CHECKPOINT, encode_offsets({("t", 0): offset, ("t", 1): 1}))
    assert survivors(disk, ["e", "d"]).high_watermarks == {("t", 0): 2}


def test_a_log_start_is_told_where_it_is_known() -> None:
    disk, log = two_segments()
    log.delete_records_before(2)
    log.retention(0)
    log.abandon()
    assert survivors(disk, ["d"]) == Survivors({("t", 0): 3}, {("t", 0): 2}, {})
    assert reopened(disk).log_start_offset == 2


@pytest.mark.parametrize(("left_by", "end"), [(MOVE, 2), (MOVE + 1, None)], ids=["this move", "another one"])
def test_a_future_log_is_the_replicas_once_the_replica_has_left_for_it(left_by: int, end: int | None) -> None:
    disk = SimulatedDisk(Random(0))
    disk.make_directory(f"d/{name_with_suffix('t', 0, left_by, LEFT_SUFFIX)}")
    log = Log.open(disk, f"e/{name_with_suffix('t', 0, MOVE, FUTURE_SUFFIX)}", LogConfig(), 0)
    for offset in range(2):
        log.append_as_leader(build_batch([Record(0, 0, None, b"%d" % offset)]), 0, 0)
    log.abandon()
    assert survivors(disk, ["d", "e", "offline"]).ends == ({} if end is None else {("t", 0): end})


@pytest.mark.parametrize(
    ("notes", "epoch"),
    [((7, 7), 7), ((7, 8), -1), ((7, None), -1), ((None, None), -1)],
    ids=["one epoch", "two", "one note", "no note"],
)
def test_a_clean_stop_counts_where_every_directory_notes_it(notes: tuple[int | None, ...], epoch: int) -> None:
    disk, log = two_segments()
    log.abandon()
    disk.make_directory("e")
    for directory, note in zip(("d", "e"), notes, strict=True):
        if note is not None:
            write_atomically(disk, directory, CLEAN_SHUTDOWN, json.dumps({"version": 0, "brokerEpoch": note}))
    assert survivors(disk, ["d", "e"]).noted == epoch


@pytest.mark.parametrize(("end", "kept"), [(0, (0, 0)), (1, (1, 0)), (2, (2, 0)), (3, (2, 1))])
def test_an_end_is_kept_by_the_unsynced_bytes_of_each_segment_that_lie_below_it(
    end: int, kept: tuple[int, int]
) -> None:
    disk, _ = two_segments()
    size = disk.size(SECOND)
    wanted = {FIRST: kept[0] * size, SECOND: kept[1] * size}
    assert unsynced_bytes_below(disk, ["d"], {("t", 0): end}) == wanted


def test_what_is_synced_is_kept_anyway() -> None:
    disk, log = two_segments()
    log.flush()
    log.append_as_leader(build_batch([Record(0, 0, None, b"3")]), 0, 0)
    assert unsynced_bytes_below(disk, ["d"], {("t", 0): 3}) == {FIRST: 0, SECOND: 0}
    with pytest.raises(ValueError, match="synced beyond offset 2"):
        unsynced_bytes_below(disk, ["d"], {("t", 0): 2})


def test_no_crash_leaves_a_part_of_a_batch_or_more_than_there_is() -> None:
    disk = SimulatedDisk(Random(0))
    log = Log.open(disk, "d/t-0", LogConfig(), 0)
    log.append_as_leader(build_batch([Record(number, 0, None, b"two in one") for number in range(2)]), 0, 0)
    for end, there in ((1, 0), (5, 2)):
        with pytest.raises(ValueError, match=f"cannot keep up to {end}: the batches there end at {there}"):
            unsynced_bytes_below(disk, ["d"], {("t", 0): end})
