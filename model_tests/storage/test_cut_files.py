"""Somebody else cuts the file of a segment beneath a process that has it open: no offset is passed over in silence.

What is missing counts as damage, as bytes do that a disk has changed: it is refused, and all else is served.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from tidegauge.impl.ports.disk import RealDisk
from tidegauge.impl.records.payload import Record, build_batch, decode_batches
from tidegauge.impl.storage.cleaner import Round
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.errors import CorruptLogError, DamagedLogError
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.offset_map import OffsetMap
from tidegauge.impl.storage.reading import LAZY_BYTES, FileRegion
from tidegauge.impl.storage.segment import Segment
from tidegauge.impl.storage.segment_names import LOG_SUFFIX

BATCHES: Final = 5
"""In each of three segments."""
SMALL, LARGE = 200, LAZY_BYTES // BATCHES + 1
"""Bytes of a value: a segment of small ones is read, of one of large ones the place is handed out."""


def batch(offset: int, size: int) -> bytes:
    return build_batch([Record(0, 100, b"%d" % offset, b"%03d" % offset * (size // 3))])


def written(directory: Path, size: int) -> Log:
    config = LogConfig(segment_bytes=BATCHES * len(batch(100, size)), index_interval_bytes=len(batch(0, size)))
    log = Log.open(RealDisk(), str(directory), config, 0)
    for offset in range(3 * BATCHES):
        log.append_as_leader(batch(offset, size), leader_epoch=0, now_ms=0)
    assert len(log.segments) == 3
    return log


def cut(segment: Segment, whole_batches: int, bytes_more: int) -> None:
    headers = list(segment.headers())
    os.truncate(segment.path(LOG_SUFFIX), sum(header.size for header in headers[:whole_batches]) + bytes_more)


def read_as_consumers_do(log: Log) -> tuple[dict[int, bytes | None], set[int]]:
    """What is served, and the offsets that are refused, in a log of which no offset was left out."""
    served: dict[int, bytes | None] = {}
    refused: set[int] = set()
    offset = 0
    while offset < log.log_end_offset:
        try:
            data = log.fetch(offset, 1 << 20)
        except DamagedLogError:
            refused.add(offset)
            offset += 1
            continue
        records = list(decode_batches(data.read_all() if isinstance(data, FileRegion) else bytes(data)))
        assert records, f"nothing at {offset}, where the log ends at {log.log_end_offset}"
        assert records[0].offset == offset, "readers are led over what is missing"
        served |= {record.offset: record.value for record in records}
        offset = records[-1].offset + 1
    return served, refused


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize(("whole_batches", "bytes_more"), [(0, 0), (0, 30), (2, 0), (2, 7), (4, 100)])
def test_what_is_missing_is_refused_and_all_else_is_served(
    tmp_path: Path, size: int, number: int, whole_batches: int, bytes_more: int
) -> None:
    log = written(tmp_path / "t-0", size)
    cut(log.segments[number], whole_batches, bytes_more)
    first = number * BATCHES
    missing = set(range(first + whole_batches, first + BATCHES))
    served, refused = read_as_consumers_do(log)
    assert refused == missing
    assert served.keys() == set(range(3 * BATCHES)) - missing
    end = log.log_end_offset
    assert log.append_as_leader(batch(end, size), leader_epoch=0, now_ms=0).base_offset == end
    served, refused = read_as_consumers_do(log)
    assert refused == missing
    assert served[end] == b"%03d" % end * (size // 3)
    log.abandon()


@pytest.mark.parametrize("bytes_more", [0, 30, 100])
def test_a_cleaner_that_meets_it_writes_no_segment(tmp_path: Path, bytes_more: int) -> None:
    log = written(tmp_path / "t-0", SMALL)
    cut(log.segments[0], 2, bytes_more)
    disk, before = RealDisk(), log.segments
    with pytest.raises(CorruptLogError):
        list(Round(log, disk, OffsetMap(1 << 12), 0, log.closed_segments[-1].next_offset, 0).run())
    assert log.segments == before
    log.abandon()
