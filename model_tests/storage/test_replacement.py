"""Segments are replaced as one step: whenever a crash comes, the log holds the old ones or the new one."""

from __future__ import annotations

import random

import pytest

from tidegauge.impl.ports.simulated_disk import CrashOutcome, SimulatedDisk
from tidegauge.impl.records.payload import Record, build_batch, decode_batches
from tidegauge.impl.storage.appends import AppendedBatch
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.errors import FailedLogError
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.segment import Segment
from tidegauge.impl.storage.segment_names import CLEANED_SUFFIX
from tidegauge.model_tests.storage.compacted_batches import compacted_batch

DIRECTORY = "logs/tide-0"
CONFIG = LogConfig(segment_bytes=250, file_delete_delay_ms=10)
VALUES = {offset: b"%d" % offset * 20 for offset in range(10)}


class CountingDisk(SimulatedDisk):
    """Crashes instead of its nth change of names."""

    crash_at = 1 << 30
    changes = 0
    names = CrashOutcome.LOST

    def count(self) -> None:
        self.changes += 1
        if self.changes == self.crash_at:
            self.crash(tails=CrashOutcome.LOST, names=self.names)

    def rename(self, source: str, target: str) -> None:
        self.count()
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self.count()
        super().remove(path)

    def sync_directory(self, path: str) -> None:
        self.count()
        super().sync_directory(path)


def with_ten_records() -> tuple[CountingDisk, Log]:
    disk = CountingDisk(random.Random(0))
    log = Log.open(disk, DIRECTORY, CONFIG, 0)
    for value in VALUES.values():
        log.append_as_leader(build_batch([Record(0, 0, None, value)]), 0, 0)
    assert log.segment_base_offsets == (0, 2, 4, 6, 8)
    log.flush()
    return disk, log


def cleaned_segment(disk: SimulatedDisk) -> Segment:
    """What is left of the segments from 2 to 8: the records at 3 and 7."""
    segment = Segment(disk, DIRECTORY, 2, 0, 0, suffix=CLEANED_SUFFIX)
    for base, end, values in ((3, 4, {3: VALUES[3]}), (7, 8, {7: VALUES[7]})):
        batch = compacted_batch(base, end, 0, values)
        segment.append((batch,), (AppendedBatch(end - 1, len(batch), 0),))
    return segment


def offsets(log: Log) -> list[int]:
    found: list[int] = []
    position = log.log_start_offset
    while position < log.log_end_offset:
        found += [record.offset for record in decode_batches(log.read(position, 1))]
        position = found[-1] + 1
    return found


def replace_and_free(disk: SimulatedDisk, log: Log) -> None:
    log.replace_segments(log.closed_segments[1:], cleaned_segment(disk), now_ms=0)
    log.free_deleted(now_ms=10)


CLEANED = [0, 1, 3, 7, 8, 9]


def test_a_cleaned_segment_takes_the_place_of_three() -> None:
    disk, log = with_ten_records()
    log.replace_segments(log.closed_segments[1:], cleaned_segment(disk), now_ms=0)
    assert log.segment_base_offsets == (0, 2, 8)
    assert offsets(log) == CLEANED
    snapshots = [name for name in disk.list_directory(DIRECTORY) if name.endswith(".snapshot")]
    assert snapshots == [f"{base:020d}.snapshot" for base in (2, 8)], "they go with their segments"
    assert log.free_deleted(now_ms=10) == 3
    names = disk.list_directory(DIRECTORY)
    assert [name for name in names if name.endswith(".log")] == [f"{base:020d}.log" for base in (0, 2, 8)]
    assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]


@pytest.mark.parametrize("names", [CrashOutcome.LOST, CrashOutcome.KEPT])
def test_a_crash_at_any_point_of_a_replacement_shows_the_old_segments_or_the_new_one(names: CrashOutcome) -> None:
    disk, log = with_ten_records()
    before = disk.changes
    replace_and_free(disk, log)
    total = disk.changes - before
    seen = []
    for crash_at in range(1, total + 1):
        disk, log = with_ten_records()
        disk.names, disk.crash_at = names, disk.changes + crash_at
        with pytest.raises(OSError, match="the disk is off"):
            replace_and_free(disk, log)
        disk.power_on()
        recovered = Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=10)
        assert recovered.log_end_offset == 10
        assert offsets(recovered) in (list(range(10)), CLEANED)
        seen.append(offsets(recovered) == CLEANED)
        left = [name for name in disk.list_directory(DIRECTORY) if not name.endswith((".log", "index", ".snapshot"))]
        assert left == ["leader-epoch-checkpoint"]
        recovered.append_as_leader(build_batch([Record(0, 0, None, b"next")]), 0, 0)
        assert offsets(recovered)[-1] == 10
    assert seen == sorted(seen), "once it has happened it has happened"
    assert set(seen) == {False, True}


@pytest.mark.parametrize("names", [CrashOutcome.LOST, CrashOutcome.KEPT])
def test_a_crash_while_a_replacement_is_finished_after_a_crash_does_no_harm(names: CrashOutcome) -> None:
    for crash_at in range(1, 12):
        disk, log = with_ten_records()
        disk.names, disk.crash_at = CrashOutcome.KEPT, disk.changes + 3
        with pytest.raises(OSError, match="the disk is off"):
            log.replace_segments(log.closed_segments[1:], cleaned_segment(disk), now_ms=0)
        disk.power_on()
        disk.names, disk.crash_at = names, disk.changes + crash_at
        try:
            Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=10)
        except OSError:
            disk.power_on()
        disk.crash_at = 1 << 30
        assert offsets(Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=10)) in (list(range(10)), CLEANED)


def test_after_a_failed_replacement_the_log_can_only_be_read() -> None:
    disk, log = with_ten_records()
    cleaned = cleaned_segment(disk)
    disk.fail_next_sync(under=DIRECTORY)
    with pytest.raises(OSError, match="Input/output error"):
        log.replace_segments(log.closed_segments[1:], cleaned, now_ms=0)
    assert offsets(log) == list(range(10))
    with pytest.raises(FailedLogError):
        log.append_as_leader(build_batch([Record(0, 0, None, b"next")]), 0, 0)


def test_a_replacement_has_to_end_where_the_replaced_segments_end() -> None:
    disk, log = with_ten_records()
    with pytest.raises(AssertionError, match="8 != 6"):
        log.replace_segments(log.closed_segments[1:3], cleaned_segment(disk), now_ms=0)
    with pytest.raises(AssertionError, match="only successive segments"):
        log.replace_segments([log.closed_segments[1], log.closed_segments[3]], cleaned_segment(disk), now_ms=0)
