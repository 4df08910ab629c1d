"""No checksum covers where a batch begins: what comes before and behind it tells, though the log is not read whole.

Each bit of each base offset is flipped while the log is closed. It is then read from several offsets, in pieces of
several sizes. What is served is what was written there, and no offset is passed over: it is refused with words.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.records.payload import Record, build_batch, decode_batches
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.errors import DamagedLogError
from tidegauge.impl.storage.log import Log

DIRECTORY = "logs/tide-0"
SEGMENTS = 3
BATCHES = 3
"""In each segment."""
SIZES = (1, 250, 1 << 20)
INTO_THE_FILE_BEFORE = ((7, BATCHES, 0), (7, 2 * BATCHES, 1))
"""Records, batch and bit: the first batch of a file would begin in the last one of the file before it."""


def value(offset: int) -> bytes:
    return b"%03d" % offset * 20


def batch(offset: int, records: int) -> bytes:
    return build_batch([Record(number, 100, None, value(offset + number)) for number in range(records)])


def config(records: int) -> LogConfig:
    return LogConfig(segment_bytes=BATCHES * len(batch(0, records)), index_interval_bytes=150)


def written(records: int) -> SimulatedDisk:
    """Three closed and flushed segments of three batches with so many records each, and a clean stop."""
    disk = SimulatedDisk(random.Random(1))
    log = Log.open(disk, DIRECTORY, config(records), 0)
    for number in range(SEGMENTS * BATCHES):
        log.append_as_leader(batch(number * records, records), 1, 0)
    log.close()
    return disk


def served(log: Log, start: int, most: int) -> Iterator[tuple[int, bytes | None]]:
    """What a consumer gets from an offset on: offsets and values."""
    while start < log.log_end_offset:
        try:
            records = list(decode_batches(log.read(start, most)))
        except DamagedLogError as error:
            is_right, start = error.start <= start < error.end, error.end
            if not is_right:
                pytest.fail(f"{error} is refused from {start} on")
            continue
        assert records[0].offset <= start <= records[-1].offset, f"offset {start} is passed over"
        yield from ((record.offset, record.value) for record in records)
        start = records[-1].offset + 1


def check(records: int, number: int, bit: int) -> None:
    """Flip a bit of the base offset of a batch, and read."""
    disk = written(records)
    segment, place = divmod(number, BATCHES)
    position = place * len(batch(0, records)) + 7 - bit // 8
    disk.flip_bit(f"{DIRECTORY}/{segment * BATCHES * records:020d}.log", position, bit % 8)
    end = SEGMENTS * BATCHES * records
    log = Log.open(disk, DIRECTORY, config(records), 0, recovery_point=end, high_watermark=end, clean_shutdown=True)
    assert log.log_end_offset == end
    spoilt = range(number * records, (number + 1) * records)
    for most in SIZES:
        for start in {0, records - 1, spoilt.start, spoilt.stop - 1}:
            found = list(served(log, start, most))
            assert all(content == value(offset) for offset, content in found)
            kept = {offset for offset in range(start, end) if offset not in spoilt}
            assert kept <= {offset for offset, _ in found}, "only the damaged batch is refused"


def flips() -> list[tuple[int, int, int]]:
    every = [(records, number, bit) for records in (1, 4) for number in range(SEGMENTS * BATCHES) for bit in range(64)]
    small = [one for one in every if one[2] < 6 or one[2] in (30, 31, 32, 63)]
    return [*random.Random(1).sample(small, 40), *INTO_THE_FILE_BEFORE]


@pytest.mark.parametrize(("records", "number", "bit"), flips())
def test_a_base_offset_that_has_changed_is_refused_and_nothing_is_passed_over(
    records: int, number: int, bit: int
) -> None:
    check(records, number, bit)


@pytest.mark.deep
@pytest.mark.parametrize("records", [1, 2, 3, 4, 7])
def test_no_bit_of_any_base_offset_goes_unnoticed(records: int) -> None:
    for number in range(SEGMENTS * BATCHES):
        for bit in range(64):
            check(records, number, bit)
