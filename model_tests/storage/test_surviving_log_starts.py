"""What a crash keeps of logs that do not start at 0."""

from __future__ import annotations

import random

import pytest

from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.surviving_logs import surviving_end_offsets, unsynced_bytes_below

KEY = ("t", 0)


def started_over(offset: int) -> tuple[SimulatedDisk, Log]:
    """A log whose records were all deleted, as that of a follower that was out of range."""
    disk = SimulatedDisk(random.Random(0))
    log = Log.open(disk, "d/t-0", LogConfig(), now_ms=0)
    log.truncate_fully_and_start_at(offset)
    return disk, log


def append(log: Log) -> None:
    log.append_as_leader(build_batch([Record(0, 0, None, b"x")]), leader_epoch=1, now_ms=0)


def test_an_empty_log_that_starts_later_keeps_up_to_its_start() -> None:
    disk, _ = started_over(5)
    assert set(unsynced_bytes_below(disk, ["d"], {KEY: 5}).values()) == {0}
    assert surviving_end_offsets(disk, ["d"]) == {KEY: 5}


def test_its_first_records_can_be_kept_or_lost() -> None:
    disk, log = started_over(5)
    append(log)
    (one,) = unsynced_bytes_below(disk, ["d"], {KEY: 6}).values()
    append(log)
    (two,) = unsynced_bytes_below(disk, ["d"], {KEY: 7}).values()
    assert 0 < one < two
    assert set(unsynced_bytes_below(disk, ["d"], {KEY: 5}).values()) == {0}


def test_what_is_below_its_start_or_beyond_its_end_cannot_be_kept() -> None:
    disk, _ = started_over(5)
    for offset in (3, 6):
        with pytest.raises(ValueError, match=f"cannot keep up to {offset}"):
            unsynced_bytes_below(disk, ["d"], {KEY: offset})
