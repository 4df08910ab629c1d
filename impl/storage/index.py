"""A segment's sparse indexes: offset to position, and timestamp to offset.

Theory of operation
-------------------
About once in `index.interval.bytes` of log, the offset index gets an entry (last offset of a batch - base offset,
int32; position of that batch, int32), and the time index, if timestamps have grown, (largest timestamp so far, int64;
offset of that record's batch - base offset, int32). Both are therefore sorted, a look-up is a binary search for the
last entry that is not beyond the target, and the log is walked from there.

An index only ever saves work: it is derived from the log and can be rebuilt from it. So entries gather in memory and
go to the file when the segment is closed; a file that does not hold what an index can hold is not believed (`decode`
gives None).
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from operator import lt
from typing import Final

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_NONE: Final = array("q")
"""The columns of an index without entries, which all of them share: those of most small segments never get one."""


class OffsetIndex:
    """Relative offsets of batches' last records, and the positions of those batches."""

    __slots__ = ("_offsets", "_positions")
    ENTRY_SIZE = _OFFSET_ENTRY.size

    def __init__(self) -> None:
        self._offsets = self._positions = _NONE

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(relative offset, position), oldest first."""
        return list(zip(self._offsets, self._positions, strict=True))

    @property
    def last(self) -> tuple[int, int] | None:
        """The newest entry."""
        return (self._offsets[-1], self._positions[-1]) if self._offsets else None

    def append(self, relative_offset: int, position: int) -> None:
        """Add an entry beyond all others."""
        assert not self._offsets or (relative_offset > self._offsets[-1] and position > self._positions[-1]), (
            f"index entry ({relative_offset}, {position}) is not beyond the last one"
        )
        if not self._offsets:
            self._offsets, self._positions = array("i"), array("i")
        self._offsets.append(relative_offset)
        self._positions.append(position)

    def entry_before(self, relative_offset: int) -> tuple[int, int] | None:
        """The last entry (relative offset, position) up to an offset: walking from there meets the offset's batch."""
        found = bisect_right(self._offsets, relative_offset) - 1
        return (self._offsets[found], self._positions[found]) if found >= 0 else None

    def entry_within(self, end_relative_offset: int, end_position: int) -> tuple[int, int] | None:
        """The last entry for a batch that lies below an offset as a whole and starts by a position."""
        by_offset = bisect_left(self._offsets, end_relative_offset)
        found = bisect_right(self._positions, end_position, 0, by_offset) - 1
        return (self._offsets[found], self._positions[found]) if found >= 0 else None

    def offset_at(self, position: int) -> int | None:
        """The relative offset of the first entry for a batch at or behind a position; None when there is none."""
        found = bisect_left(self._positions, position)
        return self._offsets[found] if found < len(self._offsets) else None

    def truncate(self, relative_offset: int) -> None:
        """Drop the entries for this offset and beyond."""
        keep = bisect_left(self._offsets, relative_offset)
        del self._offsets[keep:], self._positions[keep:]

    def encode(self) -> bytes:
        return b"".join(map(_OFFSET_ENTRY.pack, self._offsets, self._positions))

    @classmethod
    def decode(cls, data: bytes, log_size: int) -> OffsetIndex | None:
        """The index in a file; None unless entries are whole, increasing, and inside a log of `log_size` bytes."""
        if len(data) % _OFFSET_ENTRY.size:
            return None
        if not data:
            return cls()
        numbers = array("i", data)
        if sys.byteorder == "little":
            numbers.byteswap()
        index = cls()
        index._offsets, index._positions = numbers[0::2], numbers[1::2]
        for column in (index._offsets, index._positions):
            if column[0] < 0 or not all(map(lt, column, column[1:])):
                return None
        return index if index._positions[-1] < log_size else None


class TimeIndex:
    """Largest timestamps so far, and the relative offsets of the batches that brought them."""

    __slots__ = ("_offsets", "_timestamps")
    ENTRY_SIZE = _TIME_ENTRY.size

    def __init__(self) -> None:
        self._timestamps = self._offsets = _NONE

    def __len__(self) -> int:
        return len(self._timestamps)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(timestamp, relative offset), oldest first."""
        return list(zip(self._timestamps, self._offsets, strict=True))

    @property
    def last(self) -> tuple[int, int] | None:
        """The entry with the largest timestamp."""
        return (self._timestamps[-1], self._offsets[-1]) if self._timestamps else None

    def maybe_append(self, timestamp: int, relative_offset: int) -> None:
        """Add an entry if its timestamp is larger than all others."""
        if not self._timestamps:
            self._timestamps, self._offsets = array("q"), array("i")
        elif timestamp <= self._timestamps[-1] or relative_offset <= self._offsets[-1]:
            return
        self._timestamps.append(timestamp)
        self._offsets.append(relative_offset)

    def offset_before(self, timestamp: int) -> int:
        """A relative offset before which every timestamp is smaller than `timestamp`."""
        found = bisect_left(self._timestamps, timestamp) - 1
        return self._offsets[found] if found >= 0 else 0

    def truncate(self, relative_offset: int) -> None:
        """Drop the entries for this offset and beyond."""
        keep = bisect_left(self._offsets, relative_offset)
        del self._timestamps[keep:], self._offsets[keep:]

    def encode(self) -> bytes:
        return b"".join(map(_TIME_ENTRY.pack, self._timestamps, self._offsets))

    @classmethod
    def decode(cls, data: bytes) -> TimeIndex | None:
        """The index in a file; None unless entries are whole and increasing."""
        if len(data) % _TIME_ENTRY.size:
            return None
        if not data:
            return cls()
        timestamps, offsets = array("q"), array("i")
        last_timestamp, last_offset = -(1 << 63), -1
        for timestamp, offset in _TIME_ENTRY.iter_unpack(data):
            if timestamp <= last_timestamp or offset <= last_offset:
                return None
            timestamps.append(timestamp)
            offsets.append(offset)
            last_timestamp, last_offset = timestamp, offset
        index = cls()
        index._timestamps, index._offsets = timestamps, offsets
        return index


def grown_size(offsets: int, times: int) -> int:
    """Bytes of the larger of two indexes with so many entries and one more in each; the time index gets another one
    when its segment is closed.
    """
    return max((offsets + 1) * OffsetIndex.ENTRY_SIZE, (times + 2) * TimeIndex.ENTRY_SIZE)


GROWN_EMPTY: Final = grown_size(0, 0)
