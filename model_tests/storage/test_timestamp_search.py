"""A search for a time passes over what cannot be: what a topic takes that is not compacted nobody looks into."""

from __future__ import annotations

from random import Random

import pytest

from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.records.batches import BatchHeader
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.records.slices import at_once
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.timestamp_search import KnownPoints, TimestampOffset
from tidegauge.model_tests.storage.test_cleaner import A, odd_batch

FAR = (1 << 63) - 1


@pytest.mark.parametrize(
    "odd",
    [Record(1, FAR, b"b", b"w"), Record(FAR, 9, b"b", b"w"), Record(-5, 9, b"b", b"w"), Record(7, 9, b"b", b"w")],
)
def test_a_record_with_an_offset_or_a_time_that_cannot_be_is_found_by_no_time(odd: Record) -> None:
    log = Log.open(SimulatedDisk(Random(0)), "logs/t-0", LogConfig(), 0)
    batch = odd_batch(A, odd, base_timestamp=50, max_timestamp=60)
    assert BatchHeader.parse(batch).max_timestamp == 60
    log.append_as_leader(batch, 0, 0)
    log.append_as_leader(build_batch([Record(0, 100, b"c", b"x")]), 0, 0)
    for timestamp in (51, 100, None):
        assert at_once(log.offset_for_timestamp(timestamp, KnownPoints())) == TimestampOffset(100, 2, 0)
    assert at_once(log.offset_for_timestamp(50, KnownPoints())) == TimestampOffset(50, 0, 0)
