"""No flipped bit makes retention remove records that are not old."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.storage import ages
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.errors import CorruptLogError
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.segment import Segment
from tidegauge.model_tests.amounts import stride

DIRECTORY = "logs/tide-0"
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
START_MS = 20_000 * DAY_MS
BATCHES_A_SEGMENT, SEGMENTS = 3, 3
END = BATCHES_A_SEGMENT * SEGMENTS
TIMESTAMPS = range(27, 43)
"""Where the base timestamp and the largest one are in the header of a batch."""
FIRST, SECOND = (f"{DIRECTORY}/{BATCHES_A_SEGMENT * number:020d}" for number in range(2))


def batch(offset: int) -> bytes:
    """One record an hour; a segment's last record is its newest."""
    return build_batch([Record(0, START_MS + offset * HOUR_MS, None, b"%03d" % offset)])


CONFIG = LogConfig(
    segment_bytes=BATCHES_A_SEGMENT * len(batch(0)), index_interval_bytes=len(batch(0)), retention_ms=DAY_MS
)


def written() -> SimulatedDisk:
    disk = SimulatedDisk(random.Random(1))
    log = Log.open(disk, DIRECTORY, CONFIG, START_MS)
    for offset in range(END):
        log.append_as_leader(batch(offset), 0, START_MS + offset * HOUR_MS)
    log.close()
    return disk


def left_after(disk: SimulatedDisk, now_ms: int) -> int | None:
    """Where the log starts after retention; None when it has met damage and removed nothing."""
    log = Log.open(disk, DIRECTORY, CONFIG, now_ms, recovery_point=END, clean_shutdown=True)
    try:
        log.retention(now_ms)
    except CorruptLogError:
        assert log.log_start_offset == 0
        return None
    return log.log_start_offset


def flips() -> Iterator[tuple[str, int, int]]:
    """(file, byte, bit): all of a time index, and the timestamps of all batches of a segment."""
    entries = written().size(f"{SECOND}.timeindex")
    yield from ((f"{SECOND}.timeindex", byte, bit) for byte in range(entries) for bit in range(8))
    for number in range(BATCHES_A_SEGMENT):
        yield from ((f"{SECOND}.log", number * len(batch(0)) + byte, bit) for byte in TIMESTAMPS for bit in range(8))


def test_no_flipped_bit_makes_retention_remove_what_is_young() -> None:
    young = START_MS + DAY_MS + 5 * HOUR_MS  # the first segment has expired, the second one has not
    old = START_MS + DAY_MS + 6 * HOUR_MS + 1  # both have
    assert (left_after(written(), young), left_after(written(), old)) == (3, 6)
    found = set()
    for path, byte, bit in list(flips())[:: stride(3)]:
        for now_ms, right in ((young, {3, None}), (old, {3, 6, None})):
            disk = written()
            disk.flip_bit(path, byte, bit)
            left = left_after(disk, now_ms)
            assert left in right, f"{path}, bit {bit} of byte {byte}: the log starts at {left}"
            found.add(left)
    assert found == {3, 6, None}, "the batch of the largest timestamp is looked at, and an index may keep a segment"


def test_a_time_index_that_no_batch_bears_out_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    rebuilt: list[str] = []
    make_anew = Segment.rebuild_indexes

    def note(self: Segment, reason: str) -> None:
        rebuilt.append(reason)
        make_anew(self, reason)

    monkeypatch.setattr(Segment, "rebuild_indexes", note)
    disk = written()
    last = disk.size(f"{FIRST}.timeindex") - 12
    disk.flip_bit(f"{FIRST}.timeindex", last, 3)
    assert left_after(disk, START_MS) == 0
    assert rebuilt == []
    disk = written()
    disk.flip_bit(f"{FIRST}.timeindex", last + 4, 2)
    assert left_after(disk, START_MS + DAY_MS + 5 * HOUR_MS) == 3
    assert rebuilt == ["its largest timestamp is of no batch"]


def test_without_the_look_at_the_batch_records_would_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ages, "_is_borne_out", lambda segment: True)
    with pytest.raises(AssertionError, match="the log starts at"):
        test_no_flipped_bit_makes_retention_remove_what_is_young()
