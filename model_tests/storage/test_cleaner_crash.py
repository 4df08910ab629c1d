"""A crash at every operation of a round of cleaning: the log is whole, and no old value comes back."""

from __future__ import annotations

import errno
import os
from random import Random

import pytest

from tidegauge.impl.ports.failing_disk import FailingDisk, Operation
from tidegauge.impl.ports.simulated_disk import CrashOutcome, SimulatedDisk
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.storage.cleaner import Round
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.offset_map import OffsetMap
from tidegauge.impl.storage.segment_names import CLEANED_SUFFIX, SEGMENT_SUFFIXES, file_name
from tidegauge.model_tests.amounts import stride
from tidegauge.model_tests.storage.compacted import fill, newest, records_of

DIRECTORY = "logs/tide-0"
CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100, delete_retention_ms=1_000)
FIRST_ROUND_MS, SECOND_ROUND_MS = 5_000, 10_000


class PowerCutError(Exception):
    """The machine stops here."""


def opened(disk: FailingDisk, *, recovery_point: int) -> Log:
    return Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=recovery_point)


def clean(disk: FailingDisk, log: Log, now_ms: int) -> None:
    end = log.closed_segments[-1].next_offset
    for _ in Round(log, disk, OffsetMap(1 << 12), 0, end, now_ms).run():
        pass


def written(seed: int) -> tuple[SimulatedDisk, FailingDisk, Log]:
    """A log whose tombstones have been seen by the cleaner once: the next round drops them and what they are for."""
    inner = SimulatedDisk(Random(seed))
    disk = FailingDisk(inner)
    log = opened(disk, recovery_point=0)
    fill(log, Random(seed), 14, tombstones=0.5)
    clean(disk, log, FIRST_ROUND_MS)
    fill(log, Random(seed + 1), 14, tombstones=0.5)
    log.flush()
    return inner, disk, log


def cut_after(disk: FailingDisk, operations: int) -> list[Operation]:
    """Let the machine stop before the operation after so many; returns the list of those that were done."""
    met: list[Operation] = []

    def watch(operation: Operation, path: str) -> None:
        if len(met) == operations:
            raise PowerCutError
        met.append(operation)

    disk.watched_by(watch)
    return met


def operations_of_a_round(seed: int) -> list[Operation]:
    _, disk, log = written(seed)
    met = cut_after(disk, 1 << 30)
    clean(disk, log, SECOND_ROUND_MS)
    return met


SEED = 4
OPERATIONS = operations_of_a_round(SEED)


def test_the_round_does_what_a_crash_could_tear() -> None:
    wanted = {Operation.OPEN, Operation.APPEND, Operation.SYNC, Operation.RENAME}
    assert wanted | {Operation.SYNC_DIRECTORY} <= set(OPERATIONS)


@pytest.mark.parametrize("names", CrashOutcome)
def test_a_crash_at_any_operation_leaves_a_whole_log(names: CrashOutcome) -> None:
    for done in range(0, len(OPERATIONS), stride(3)):
        inner, disk, log = written(SEED)
        before = records_of(log)
        end = log.log_end_offset
        met = cut_after(disk, done)
        with pytest.raises(PowerCutError):
            clean(disk, log, SECOND_ROUND_MS)
        assert len(met) == done
        disk.watched_by(None)
        inner.crash(tails=CrashOutcome.LOST if names is CrashOutcome.KEPT else CrashOutcome.SEEDED, names=names)
        inner.power_on()
        log = opened(disk, recovery_point=end)
        where = f"after {done} operations, before {OPERATIONS[done].value}"
        assert log.log_end_offset == end, where
        assert log.recovery.lost_nothing, where
        after = records_of(log)
        assert newest(after) == newest(before), where
        assert {record[:4] for record in after} <= {record[:4] for record in before}, where
        names_left = disk.list_directory(DIRECTORY)
        assert not [name for name in names_left if name.endswith((".cleaned", ".swap"))], where
        clean(disk, log, SECOND_ROUND_MS)
        assert newest(records_of(log)) == newest(before), where


def no_room_at(disk: FailingDisk, operation: int) -> None:
    """Let the disk have no room once, for the operation after so many."""
    met = 0

    def watch(kind: Operation, path: str) -> None:
        nonlocal met
        met += 1
        if met == operation + 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    disk.watched_by(watch)


def partly_flushed() -> tuple[FailingDisk, Log]:
    """The same log with a segment that is closed and not flushed."""
    _, disk, log = written(SEED)
    log.append_as_leader(build_batch([Record(0, 0, b"unflushed", b"-")]), log.latest_epoch, 0)
    log.roll(0)
    return disk, log


@pytest.mark.parametrize("operation", range(0, len(OPERATIONS), stride(3)))
def test_a_round_without_room_leaves_nothing_and_the_next_one_cleans(operation: int) -> None:
    other_disk, other = partly_flushed()
    clean(other_disk, other, SECOND_ROUND_MS)
    disk, log = partly_flushed()
    expected = newest(records_of(log))
    no_room_at(disk, operation)
    with pytest.raises(OSError, match="No space"):
        clean(disk, log, SECOND_ROUND_MS)
    disk.watched_by(None)
    if log.has_failed:
        log.abandon()
        log = opened(disk, recovery_point=0)
    assert not [name for name in disk.list_directory(DIRECTORY) if name.endswith(CLEANED_SUFFIX)]
    assert newest(records_of(log)) == expected
    clean(disk, log, SECOND_ROUND_MS)
    assert newest(records_of(log)) == expected
    assert shown(records_of(log)) == shown(records_of(other))


def shown(records: list[Record]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records]


def test_what_a_round_that_was_ended_from_outside_has_left_does_not_stop_the_next_one() -> None:
    _, disk, log = written(SEED)
    expected = newest(records_of(log))
    first = log.closed_segments[0].base_offset
    for suffix in SEGMENT_SUFFIXES:
        disk.open(f"{DIRECTORY}/{file_name(first, suffix)}{CLEANED_SUFFIX}", create=True).append(b"left")
    clean(disk, log, SECOND_ROUND_MS)
    assert newest(records_of(log)) == expected
    assert not [name for name in disk.list_directory(DIRECTORY) if name.endswith(CLEANED_SUFFIX)]
