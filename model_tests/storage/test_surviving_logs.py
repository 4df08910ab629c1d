"""What is told of a disk after a crash is what the next process of the broker will find."""

from __future__ import annotations

from random import Random

import pytest

from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.storage.checkpoints import HIGH_WATERMARK_CHECKPOINT, encode_offsets, write_atomically
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.surviving_logs import Survivors, survivors

FIRST = "d/t-0/00000000000000000000.log"


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
