"""Finding a record by its timestamp, for ListOffsets, in slices.

Theory of operation
-------------------
The time index of a segment says from where on a timestamp may be found. From there the headers of batches are looked
at, and the first batch that reaches the timestamp is looked into. Wherever the search pauses, it goes on by offset in
what the log then is: it may have been truncated, cleaned or shortened meanwhile.

To look into a batch takes long when it holds many records. What a search can find in a batch are the records whose
timestamps are larger than all before them, its *points*. Those of large batches are kept, so that it is looked into
once and not at every request.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from tidegauge.impl.records.batches import HEADER_SIZE, NO_TIMESTAMP, BatchHeader, Buffer, Compression
from tidegauge.impl.records.compression import decompress
from tidegauge.impl.records.slices import UNIT_BYTES, Sliced
from tidegauge.impl.records.walk import Walked, walking
from tidegauge.impl.storage.segments import Segments

MOST_POINTS: Final = 1 << 20
"""That one broker keeps, of all batches together; 16 bytes each."""
FEW_RECORDS: Final = 256
"""Batches of no more records are looked into each time."""
_HEADERS_A_STEP: Final = 64
_BEYOND: Final = 1 << 63
"""No timestamp is as large."""
_UNITS_A_HEADER: Final = 4

Key: TypeAlias = tuple[str, int, int, int, int]
"""(The log's directory, base offset, CRC, size in bytes, the first offset that counts) of a batch."""


class TimestampOffset(NamedTuple):
    """A record found by its timestamp."""

    timestamp: int
    """ms since 1970."""
    offset: int
    leader_epoch: int


class Points(NamedTuple):
    """The records of a batch whose timestamps are larger than all before them."""

    timestamps: array[int]
    offsets: array[int]


class KnownPoints:
    """The points of the batches that were looked into last."""

    def __init__(self, most: int = MOST_POINTS, few: int = FEW_RECORDS) -> None:
        self.few = few
        self.count = 0
        """How many points are kept."""
        self.looked_into = 0
        """How many batches were looked into, record by record."""
        self._most = most
        self._known: dict[Key, Points] = {}

    def get(self, key: Key) -> Points | None:
        """Those of a batch, if they are known."""
        if (points := self._known.pop(key, None)) is not None:
            self._known[key] = points
        return points

    def keep(self, key: Key, points: Points) -> None:
        """Keep them, in the place of those that have not been asked for the longest."""
        if key in self._known or len(points.offsets) > self._most:
            return
        self._known[key] = points
        self.count += len(points.offsets)
        while self.count > self._most:
            self.count -= len(self._known.pop(next(iter(self._known))).offsets)


def searching(
    segments: Segments, directory: str, timestamp: int | None, log_start_offset: int, known: KnownPoints
) -> Sliced[TimestampOffset | None]:
    """The first record at or after a timestamp (ms since 1970) and the log start offset; None without one.

    Without a `timestamp` it is the largest of all records.
    """
    if timestamp is None:
        timestamp = segments.newest_timestamp()
        if timestamp == NO_TIMESTAMP:
            return None
    offset = log_start_offset
    while offset < segments.active.next_offset:
        segment = segments.ordered[segments.number_of(offset)]
        header, following = segment.next_reaching(timestamp, offset, _HEADERS_A_STEP)
        if header is not None:
            start = max(log_start_offset, header.base_offset)
            key = directory, header.base_offset, header.crc, header.size, start
            if (points := known.get(key)) is None:
                batch = segment.read_batch(header)
                points = yield from _points(batch, header, start)
                known.looked_into += 1
                if header.records_count > known.few:
                    known.keep(key, points)
            number = bisect_left(points.timestamps, timestamp)
            if number < len(points.offsets):
                return TimestampOffset(points.timestamps[number], points.offsets[number], header.partition_leader_epoch)
        yield _HEADERS_A_STEP * _UNITS_A_HEADER
        if following <= offset:
            return None
        offset = following
    return None


def _points(batch: Buffer, header: BatchHeader, start: int) -> Sliced[Points]:
    points = Points(array("q"), array("q"))
    newest = -(1 << 63)

    def take(walked: Walked) -> None:
        fields = walked.fields()
        nonlocal newest
        for timestamp_delta, offset_delta in zip(fields.timestamp_deltas, fields.offset_deltas, strict=True):
            timestamp = header.max_timestamp if header.is_log_append_time else header.base_timestamp + timestamp_delta
            offset = header.base_offset + offset_delta
            # Nobody has looked inside of the records (`validation`): what cannot be is passed over.
            if newest < timestamp < _BEYOND and start <= offset < header.next_offset:
                newest = timestamp
                points.timestamps.append(timestamp)
                points.offsets.append(offset)

    payload = bytes(memoryview(batch)[HEADER_SIZE:])
    yield len(payload) // UNIT_BYTES
    if header.compression is not Compression.NONE:
        payload = yield partial(decompress, header.compression, payload)
        yield len(payload) // UNIT_BYTES
    yield from walking(payload, header.records_count, take)
    return points
