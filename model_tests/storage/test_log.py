"""A log's rules one by one: rolling, retention, what is refused, and what a failing disk does to it."""

from __future__ import annotations

import errno
import random
from typing import Any

import pytest

from tidegauge.impl.ports.simulated_disk import CrashOutcome, SimulatedDisk
from tidegauge.impl.records.batches import CorruptRecordError, InvalidRecordError, checked_headers
from tidegauge.impl.records.origin import Origin
from tidegauge.impl.records.payload import Record, build_batch, decode_batches
from tidegauge.impl.storage.config import NEVER, LogConfig
from tidegauge.impl.storage.errors import (
    BatchListTooLargeError,
    BatchTooLargeError,
    CorruptLogError,
    FailedLogError,
    OffsetOutOfRangeError,
)
from tidegauge.impl.storage.leader_epoch_cache import EpochEndOffset
from tidegauge.impl.storage.log import Log

DIRECTORY = "logs/tide-0"
DAY_MS = 24 * 60 * 60 * 1000


def batch(size: int = 10, *, timestamp: int = 1000, offset: int = 0, epoch: int = 0, control: bool = False) -> bytes:
    """One record with a value of so many bytes: 70 bytes more in all, for sizes of 1 to 55."""
    return build_batch([Record(offset, timestamp, None, b"v" * size)], leader_epoch=epoch, control=control)


def new_disk(capacity: int | None = None) -> SimulatedDisk:
    return SimulatedDisk(random.Random(0), capacity)


def opened(disk: SimulatedDisk, **settings: Any) -> Log:
    settings = {"message_timestamp_after_max_ms": NEVER, **settings}
    return Log.open(disk, DIRECTORY, LogConfig(**settings), now_ms=0)


def test_a_segment_is_rolled_before_it_grows_beyond_segment_bytes() -> None:
    size = len(batch())
    log = opened(new_disk(), segment_bytes=3 * size)
    for _ in range(7):
        log.append_as_leader(batch(), 0, 0)
    assert log.segment_base_offsets == (0, 3, 6)


def test_a_followers_large_append_is_spread_over_segments() -> None:
    size = len(batch())
    log = opened(new_disk(), segment_bytes=3 * size)
    info = log.append_as_follower(b"".join(batch(offset=n) for n in range(8)))
    assert (info.base_offset, info.last_offset, info.size) == (0, 7, 8 * size)
    assert log.segment_base_offsets == (0, 3, 6)


def test_a_segment_is_rolled_segment_ms_after_its_first_record() -> None:
    log = opened(new_disk(), segment_ms=DAY_MS)
    for timestamp in (1000, 1000 + DAY_MS, 1001 + DAY_MS):
        log.append_as_leader(batch(timestamp=timestamp), 0, 0)
    assert log.segment_base_offsets == (0, 2)


def test_a_segment_without_timestamps_is_rolled_by_the_clock() -> None:
    log = opened(new_disk(), segment_ms=DAY_MS)
    for now_ms in (0, DAY_MS, DAY_MS + 1):
        log.append_as_leader(batch(timestamp=-1), 0, now_ms)
    assert log.segment_base_offsets == (0, 2)


def test_a_segment_is_rolled_when_its_index_is_full() -> None:
    log = opened(new_disk(), segment_index_bytes=64, index_interval_bytes=0)
    for _ in range(11):
        log.append_as_leader(batch(), 0, 0)
    assert log.segment_base_offsets == (0, 9), "eight entries of 8 bytes"
    log = opened(new_disk(), segment_index_bytes=64, index_interval_bytes=0)
    for timestamp in range(11):
        log.append_as_leader(batch(timestamp=timestamp), 0, 0)
    assert log.segment_base_offsets == (0, 5, 10), "five entries of 12 bytes, the last one for when it is closed"


def test_retention_by_time_removes_whole_old_segments_and_the_active_one_once_it_has_expired() -> None:
    log = opened(new_disk(), segment_bytes=len(batch()), retention_ms=DAY_MS)
    for day in range(4):
        log.append_as_leader(batch(timestamp=day * DAY_MS), 0, 0)
    assert log.retention(now_ms=2 * DAY_MS + 1) == 2
    assert (log.log_start_offset, log.segment_base_offsets) == (2, (2, 3))
    assert log.retention(now_ms=4 * DAY_MS) == 1
    assert log.retention(now_ms=4 * DAY_MS + 1, high_watermark=3) == 0
    assert log.retention(now_ms=4 * DAY_MS + 1) == 1
    assert (log.log_start_offset, log.segment_base_offsets, log.size) == (4, (4,), 0)
    assert log.retention(now_ms=100 * DAY_MS) == 0
    assert log.append_as_leader(batch(), 0, 0).base_offset == 4


def test_a_segment_without_timestamps_is_as_old_as_its_file() -> None:
    log = opened(new_disk(), segment_bytes=len(batch()), retention_ms=DAY_MS)
    for now_ms in (5 * DAY_MS, 6 * DAY_MS):
        log.append_as_leader(batch(timestamp=-1), 0, now_ms)
    assert log.retention(now_ms=DAY_MS) == 0
    assert log.retention(now_ms=DAY_MS + 1) == 1, "the first segment was begun when the log was opened, at 0"


def test_a_compacted_log_frees_only_what_was_deleted() -> None:
    log = opened(new_disk(), segment_bytes=len(batch()), retention_ms=1, cleanup_policy=frozenset({"compact"}))
    for _ in range(4):
        log.append_as_leader(batch(), 0, 0, origin=Origin.BROKER)
    assert log.retention(now_ms=DAY_MS) == 0
    log.delete_records_before(2)
    assert log.retention(now_ms=DAY_MS) == 2
    assert log.segment_base_offsets == (2, 3)


def test_the_files_of_a_segment_that_went_are_freed_later() -> None:
    disk = new_disk()
    log = opened(disk, segment_bytes=len(batch()), retention_ms=DAY_MS, file_delete_delay_ms=500)
    for _ in range(3):
        log.append_as_leader(batch(), 0, 0)
    log.retention(now_ms=2 * DAY_MS, high_watermark=2)
    assert [name for name in disk.list_directory(DIRECTORY) if name.endswith(".log.deleted")] == [
        f"{0:020d}.log.deleted",
        f"{1:020d}.log.deleted",
    ]
    assert log.free_deleted(2 * DAY_MS + 499) == 0
    assert log.free_deleted(2 * DAY_MS + 500) == 2
    assert not [name for name in disk.list_directory(DIRECTORY) if name.endswith(".deleted")]


def test_files_that_were_to_be_freed_are_when_the_log_is_opened() -> None:
    disk = new_disk()
    log = opened(disk, segment_bytes=len(batch()), retention_ms=DAY_MS)
    for _ in range(3):
        log.append_as_leader(batch(), 0, 0)
    log.retention(now_ms=2 * DAY_MS, high_watermark=2)
    log.flush()
    disk.crash()
    disk.power_on()
    log = opened(disk)
    assert (log.log_start_offset, log.log_end_offset) == (2, 3)
    assert not [name for name in disk.list_directory(DIRECTORY) if name.endswith(".deleted")]


def test_the_jitter_of_segments_spreads_when_they_are_rolled() -> None:
    def rolled_after(directory: str) -> int:
        config = LogConfig(segment_ms=1000, segment_jitter_ms=400)
        log = Log.open(new_disk(), directory, config, now_ms=0)
        for timestamp in range(1100):
            log.append_as_leader(batch(timestamp=timestamp), 0, 0)
            if len(log.segment_base_offsets) > 1:
                return timestamp
        raise AssertionError("never rolled")

    waits = [rolled_after(f"logs/tide-{partition}") for partition in range(5)]
    assert len(set(waits)) > 3
    assert all(601 <= wait <= 1001 for wait in waits)


def test_retention_by_size_keeps_at_least_retention_bytes() -> None:
    size = len(batch())
    log = opened(new_disk(), segment_bytes=size, retention_bytes=3 * size - 1, retention_ms=-1)
    for _ in range(6):
        log.append_as_leader(batch(), 0, 0)
    assert log.retention(now_ms=0) == 3
    assert (log.log_start_offset, log.size) == (3, 3 * size)


def test_retention_leaves_what_is_not_below_the_high_watermark() -> None:
    log = opened(new_disk(), segment_bytes=len(batch()), retention_ms=0)
    for _ in range(5):
        log.append_as_leader(batch(), 0, 0)
    assert log.retention(now_ms=DAY_MS, high_watermark=2) == 2
    assert log.log_start_offset == 2


def test_deleting_records_moves_the_log_start_and_frees_whole_segments() -> None:
    disk = new_disk()
    log = opened(disk, segment_bytes=2 * len(batch()))
    for epoch in range(6):
        log.append_as_leader(batch(), epoch, 0)
    assert log.delete_records_before(3) == 3
    assert log.delete_records_before(1) == 3
    assert log.retention(now_ms=0) == 1
    assert log.segment_base_offsets == (2, 4)
    assert [record.offset for record in decode_batches(log.read(3, 1 << 20))] == [3]
    with pytest.raises(OffsetOutOfRangeError, match=r"offset 2 .* \[3, 6\)"):
        log.read(2, 100)
    with pytest.raises(OffsetOutOfRangeError):
        log.delete_records_before(7)
    assert log.epochs.entries[:2] == ((2, 2), (3, 3)), "with the epoch of the last record that is gone"


def test_the_end_of_an_epoch_is_that_of_the_largest_not_above_it() -> None:
    log = opened(new_disk())
    for epoch in (1, 1, 4):
        log.append_as_leader(batch(), epoch, 0)
    responses = [log.end_offset_for(epoch) for epoch in (0, 1, 3, 4, 9)]
    assert responses == [EpochEndOffset(*pair) for pair in ((-1, 0), (1, 2), (1, 2), (4, 3), (4, 3))]


def test_a_batch_is_cut_as_a_whole() -> None:
    log = opened(new_disk())
    for _ in range(3):
        log.append_as_leader(build_batch([Record(n, 0, None, b"v") for n in range(4)]), 0, 0)
    assert log.truncate_to(6) == 4
    assert log.truncate_to(4) == 4
    assert [record.offset for record in decode_batches(log.read(0, 1000))] == [0, 1, 2, 3]


def test_a_cut_into_the_batch_that_the_log_starts_in_leaves_the_log_start_where_it_is() -> None:
    disk = new_disk()
    log = opened(disk)
    for epoch in (3, 5):
        log.append_as_leader(build_batch([Record(n, 0, None, b"v") for n in range(4)]), epoch, 0)
    log.delete_records_before(6)
    assert log.truncate_to(7) == 6
    assert (log.log_start_offset, log.log_end_offset, log.epochs.entries) == (6, 6, ((5, 5),))
    disk.crash()
    disk.power_on()
    log = Log.open(disk, DIRECTORY, LogConfig(), 0, log_start_offset=6)
    assert (log.log_start_offset, log.log_end_offset, log.latest_epoch) == (6, 6, 5)


def test_a_cut_into_a_gap_ends_the_log_there_however_often() -> None:
    log = opened(new_disk())
    log.append_as_follower(batch(offset=0) + batch(offset=10))
    for end in (8, 5, 3):
        assert log.truncate_to(end) == log.log_end_offset == end
        assert [header.last_offset for header in checked_headers(log.read(0, 1000))] == [0, end - 1]
    assert log.truncate_to(0) == 0
    assert log.append_as_leader(batch(), 0, 0).base_offset == 0


def test_a_log_starts_anew_at_any_offset() -> None:
    disk = new_disk()
    log = opened(disk, segment_bytes=200)
    for epoch in range(5):
        log.append_as_leader(batch(), epoch, 0)
    log.truncate_fully_and_start_at(1000)
    assert (log.log_start_offset, log.log_end_offset, log.latest_epoch, log.size) == (1000, 1000, -1, 0)
    log.append_as_follower(build_batch([Record(n, 0, None, b"v") for n in range(998, 1003)], leader_epoch=7))
    disk.crash()
    disk.power_on()
    log = Log.open(disk, DIRECTORY, LogConfig(), 0, recovery_point=1000, log_start_offset=1000)
    assert log.log_start_offset == 1000
    assert log.log_end_offset in (1000, 1003)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (batch(offset=2), "continues at 3"),
        (batch(offset=3, epoch=4) + batch(offset=3, epoch=4), "continues at 4"),
        (batch(offset=3, epoch=4) + batch(offset=4, epoch=3), "epoch 3 .* after epoch 4"),
        (batch(offset=3, epoch=0), "epoch 0 .* after epoch 1"),
    ],
)
def test_a_follower_takes_only_what_continues_its_log(data: bytes, message: str) -> None:
    log = opened(new_disk())
    for _ in range(3):
        log.append_as_leader(batch(), 1, 0)
    with pytest.raises(InvalidRecordError, match=message):
        log.append_as_follower(data)
    assert (log.log_end_offset, log.size) == (3, 3 * len(batch()))


def test_what_is_refused_leaves_nothing_behind() -> None:
    disk = new_disk()
    log = opened(disk, max_message_bytes=100, segment_bytes=300)
    before = disk.files()
    with pytest.raises(CorruptRecordError):
        log.append_as_leader(batch()[:-1] + b"x", 0, 0)
    with pytest.raises(BatchTooLargeError, match=r"max\.message\.bytes is 100"):
        log.append_as_leader(batch(50), 0, 0)
    with pytest.raises(BatchListTooLargeError, match=r"segment\.bytes is 300"):
        log.append_as_leader(batch() * 4, 0, 0, origin=Origin.BROKER)
    with pytest.raises(InvalidRecordError, match="control"):
        log.append_as_leader(batch(control=True), 0, 0)
    assert disk.files() == before
    assert log.append_as_leader(batch(control=True), 0, 0, origin=Origin.BROKER).last_offset == 0


def test_the_callers_bytes_are_not_changed() -> None:
    log = opened(new_disk())
    for data in (bytearray(batch()), bytearray(batch() * 2)):
        log.append_as_leader(data, 5, 0, origin=Origin.BROKER)
        assert data.startswith(batch())
    assert [header.partition_leader_epoch for header in checked_headers(log.read(0, 1000))] == [5, 5, 5]


def test_flush_messages_bounds_what_a_crash_takes() -> None:
    log = opened(new_disk(), flush_messages=3)
    flushed = []
    for _ in range(7):
        log.append_as_leader(batch(), 0, 0)
        flushed.append(log.flushed_end_offset)
    assert flushed == [0, 0, 3, 3, 3, 6, 6]


def test_flush_ms_bounds_how_long_a_record_waits() -> None:
    log = opened(new_disk(), flush_ms=100)
    log.append_as_leader(batch(), 0, now_ms=1000)
    assert not log.flush_if_due(1099)
    assert log.flush_if_due(1100)
    log.append_as_follower(batch(offset=1))
    assert log.flush_if_due(1200)
    assert not log.flush_if_due(1300)
    assert log.flushed_end_offset == 2


def test_a_clock_that_is_set_back_keeps_no_record_unflushed_and_no_deleted_file() -> None:
    disk = new_disk()
    log = opened(disk, segment_bytes=len(batch()), flush_ms=100, retention_ms=DAY_MS, file_delete_delay_ms=500)
    for _ in range(3):
        log.append_as_leader(batch(), 0, now_ms=2 * DAY_MS)
    assert log.flush_if_due(DAY_MS)
    assert log.flushed_end_offset == 3
    log.retention(now_ms=2 * DAY_MS, high_watermark=2)
    assert log.free_deleted(DAY_MS) == 2


def test_an_append_to_a_full_disk_fails_and_leaves_nothing_behind() -> None:
    disk = new_disk()
    log = opened(disk)
    log.append_as_leader(batch(), 0, 0)
    disk.capacity = disk.used + 40
    with pytest.raises(OSError, match="No space left") as caught:
        log.append_as_leader(batch(), 0, 0)
    assert caught.value.errno == errno.ENOSPC
    assert (log.log_end_offset, disk.size(f"{DIRECTORY}/{0:020d}.log")) == (1, len(batch()))
    disk.capacity = None
    assert log.append_as_leader(batch(), 0, 0).base_offset == 1
    assert len(checked_headers(log.read(0, 1000))) == 2


def test_after_a_failed_sync_the_log_can_only_be_read() -> None:
    disk = new_disk()
    log = opened(disk)
    log.append_as_leader(batch(), 0, 0)
    disk.fail_next_sync(under=DIRECTORY)
    with pytest.raises(OSError, match="Input/output error"):
        log.flush()
    for change in (log.flush, lambda: log.append_as_leader(batch(), 0, 0), lambda: log.truncate_to(0), log.close):
        with pytest.raises(FailedLogError, match="mend the disk"):
            change()
    assert log.flushed_end_offset == 0
    assert len(log.read(0, 1000)) == len(batch())


def test_recovery_tells_what_a_lying_disk_lost() -> None:
    disk = new_disk()
    log = opened(disk)
    for _ in range(5):
        log.append_as_leader(batch(), 0, 0)
        if log.log_end_offset == 2:
            log.flush()
            disk.lose_next_sync(under=DIRECTORY)
    assert log.flush() == 5
    disk.crash(keep={f"{DIRECTORY}/{0:020d}.log": 100})
    disk.power_on()
    log = Log.open(disk, DIRECTORY, LogConfig(), 0, recovery_point=5)
    assert (log.log_end_offset, log.recovery.is_point_rejected) == (3, True)


def test_bit_rot_in_a_header_is_told_when_it_is_met() -> None:
    disk = new_disk()
    log = opened(disk)
    for _ in range(3):
        log.append_as_leader(batch(), 0, 0)
    disk.flip_bit(f"{DIRECTORY}/{0:020d}.log", len(batch()) + 8, bit=7)
    reopened = Log.open(disk, DIRECTORY, LogConfig(), 0)
    assert reopened.log_end_offset == 1
    log = Log.open(new_disk_with_rot(), DIRECTORY, LogConfig(), 0, clean_shutdown=True)
    with pytest.raises(CorruptLogError, match=rf"\[1, 2\).*damaged at position {len(batch())}.*put the file back"):
        log.read(1, 1000)
    assert [header.base_offset for header in checked_headers(log.read(2, 1000))] == [2, 3]


def new_disk_with_rot() -> SimulatedDisk:
    """Two segments, closed cleanly; then the length of a batch in the first one rots."""
    disk = new_disk()
    log = opened(disk, segment_bytes=4 * len(batch()))
    for _ in range(5):
        log.append_as_leader(batch(), 0, 0)
    log.close()
    disk.flip_bit(f"{DIRECTORY}/{0:020d}.log", len(batch()) + 8, bit=7)
    return disk


def test_deleting_a_log_removes_its_directory() -> None:
    disk = new_disk()
    log = opened(disk)
    log.append_as_leader(batch(), 0, 0)
    log.delete()
    assert disk.list_directory("logs") == []


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"segment.bytes": "3"}, r"segment\.bytes is 3: it must be at least 14"),
        ({"segment.bytes": "big"}, r"segment\.bytes is 'big': it must be a whole number"),
        ({"segment.byte": "300"}, r"segment\.byte is not a setting of a log: use one of segment\.bytes, "),
    ],
)
def test_a_bad_setting_is_named_with_its_value_and_the_way_out(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LogConfig.from_properties(properties)


def test_a_cut_takes_the_epochs_of_what_it_cut_along() -> None:
    log = opened(new_disk())
    for epoch in (0, 0, 1, 2):
        log.append_as_leader(batch(), epoch, 0)
    log.truncate_to(2)
    assert (log.latest_epoch, log.epochs.entries) == (0, ((0, 0),))
    log.truncate_to(1)
    log.append_as_leader(batch(), 2, 0)
    assert log.epochs.entries == ((0, 0), (2, 1))


def test_a_flush_makes_the_names_of_new_segments_durable() -> None:
    disk = new_disk()
    log = opened(disk, segment_bytes=len(batch()))
    log.append_as_leader(batch(), 0, 0)
    log.flush()
    for _ in range(3):
        log.append_as_leader(batch(), 0, 0)
        log.flush()
    disk.crash(tails=CrashOutcome.LOST, names=CrashOutcome.LOST)
    disk.power_on()
    assert opened(disk).log_end_offset == 4


@pytest.mark.parametrize("number", range(1, 4))
def test_an_index_entry_that_does_not_fit_the_log_is_not_followed(number: int) -> None:
    disk = new_disk()
    log = opened(disk, index_interval_bytes=0)
    for _ in range(5):
        log.append_as_leader(batch(), 0, 0)
    log.close()
    disk.flip_bit(f"{DIRECTORY}/{0:020d}.index", 8 * number + 7, bit=0)
    log = Log.open(disk, DIRECTORY, LogConfig(), 0, clean_shutdown=True)
    assert log.log_end_offset == 5
    for offset in range(5):
        assert [record.offset for record in decode_batches(log.read(offset, 1))] == [offset]
        assert len(checked_headers(log.read(0, 1 << 20, end_offset=offset + 1))) == offset + 1
