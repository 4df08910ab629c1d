"""A crash at every byte: whatever survives of the unsynced bytes, the log recovers to a prefix of its batches."""

from __future__ import annotations

import random

import pytest

from tidegauge.impl.ports.simulated_disk import CrashOutcome, SimulatedDisk
from tidegauge.impl.records.batches import checked_headers
from tidegauge.impl.records.payload import Record, build_batch, decode_batches
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.log import Log

DIRECTORY = "logs/tide-0"
SEGMENT = f"{DIRECTORY}/00000000000000000000.log"
CONFIG = LogConfig(index_interval_bytes=100)
BATCHES = [[b"a"], [b"bb", b"c"], [b"d" * 40], [b"e"], [b"f", b"g", b"h"]]
FLUSHED_BATCHES = 2


def built(values: list[bytes]) -> bytes:
    return build_batch([Record(n, 100 + n, None, value) for n, value in enumerate(values)])


def written() -> tuple[SimulatedDisk, list[int], list[int]]:
    """A disk with all batches appended and two flushed, and where each batch ends, in bytes and in offsets."""
    disk = SimulatedDisk(random.Random(1))
    log = Log.open(disk, DIRECTORY, CONFIG, 0)
    positions, offsets = [], []
    for number, values in enumerate(BATCHES):
        log.append_as_leader(built(values), leader_epoch=number, now_ms=0)
        positions.append(log.size)
        offsets.append(log.log_end_offset)
        if number + 1 == FLUSHED_BATCHES:
            log.flush()
    return disk, positions, offsets


_, POSITIONS, OFFSETS = written()
SYNCED = POSITIONS[FLUSHED_BATCHES - 1]


@pytest.mark.parametrize("kept", range(POSITIONS[-1] - SYNCED + 1))
def test_any_torn_tail_is_cut_back_to_the_last_whole_batch(kept: int) -> None:
    disk, positions, offsets = written()
    assert disk.unsynced(SEGMENT) == POSITIONS[-1] - SYNCED
    disk.crash(keep={SEGMENT: kept}, names=CrashOutcome.KEPT)
    disk.power_on()
    log = Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=OFFSETS[FLUSHED_BATCHES - 1])
    whole = sum(position <= SYNCED + kept for position in positions)
    assert log.log_end_offset == offsets[whole - 1]
    assert log.recovery.cut_bytes == SYNCED + kept - positions[whole - 1]
    values = [record.value for record in decode_batches(log.read(0, 10_000))]
    assert values == [value for batch in BATCHES[:whole] for value in batch]
    assert log.latest_epoch == whole - 1
    log.append_as_leader(built([b"next"]), leader_epoch=9, now_ms=0)
    assert len(checked_headers(log.read(0, 10_000))) == whole + 1


@pytest.mark.parametrize("position", range(SYNCED, POSITIONS[-1]))
def test_damage_at_any_byte_of_the_unsynced_tail_ends_the_log_there(position: int) -> None:
    disk, positions, offsets = written()
    disk.flip_bit(SEGMENT, position, bit=6)
    disk.crash(tails=CrashOutcome.KEPT, names=CrashOutcome.KEPT)
    disk.power_on()
    log = Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=OFFSETS[FLUSHED_BATCHES - 1])
    damaged = sum(end <= position for end in positions)
    start = positions[damaged - 1]
    if start + 12 <= position < start + 16:
        # The leader epoch is outside the checksum. One that has grown beyond the next batch's cannot be right.
        contradicted = damaged + 1 < len(BATCHES)
        assert log.log_end_offset == offsets[damaged - 1 if contradicted else -1]
    elif start + 4 <= position < start + 8 and log.log_end_offset != offsets[damaged - 1]:
        # So is the base offset. One that has grown, in the last batch, looks like a gap that compaction has left.
        assert damaged + 1 == len(BATCHES)
        assert log.log_end_offset >= offsets[damaged - 1] + (1 << 6)
    else:
        assert log.log_end_offset == offsets[damaged - 1]


def test_zeros_after_the_last_batch_are_cut() -> None:
    disk, positions, offsets = written()
    file = disk.open(SEGMENT)
    file.append(bytes(4096))
    file.sync()
    log = Log.open(disk, DIRECTORY, CONFIG, 0)
    assert (log.log_end_offset, log.recovery.cut_bytes) == (offsets[-1], 4096)
    assert disk.size(SEGMENT) == positions[-1]


def test_a_cut_record_does_not_come_back_after_a_crash() -> None:
    for seed in range(40):
        disk, _, offsets = written()
        log = Log.open(disk, DIRECTORY, CONFIG, 0)
        log.flush()
        log.truncate_to(offsets[2])
        rng = random.Random(seed)
        disk.crash(tails=rng.choice(list(CrashOutcome)), names=rng.choice(list(CrashOutcome)))
        disk.power_on()
        assert Log.open(disk, DIRECTORY, CONFIG, 0).log_end_offset == offsets[2]


def test_a_segment_after_a_torn_one_is_not_part_of_the_log() -> None:
    disk = SimulatedDisk(random.Random(1))
    config = LogConfig(segment_bytes=200)
    log = Log.open(disk, DIRECTORY, config, 0)
    for _ in range(6):
        log.append_as_leader(built([b"x" * 30]), leader_epoch=0, now_ms=0)
    first, second, third = log.segment_base_offsets
    keep = {f"{DIRECTORY}/{base:020d}.log": disk.unsynced(f"{DIRECTORY}/{base:020d}.log") for base in (first, third)}
    disk.crash(keep={**keep, f"{DIRECTORY}/{second:020d}.log": 150}, names=CrashOutcome.KEPT)
    disk.power_on()
    log = Log.open(disk, DIRECTORY, config, 0)
    assert log.log_end_offset == second + 1
    assert log.segment_base_offsets == (first, second)
    assert log.recovery.strays == (f"{third:020d}.log.stray",)
