"""Walking over a segment's file from batch to batch, by where each one says that it ends."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

from tidegauge.impl.ports.disk import File
from tidegauge.impl.records.batches import HEADER_SIZE, LENGTH_OVERHEAD, BatchExtent, BatchHeader
from tidegauge.impl.storage.errors import CorruptLogError
from tidegauge.impl.storage.survey import DamagedExtent

_WALK_BYTES = 8 << 10
_EXTENT = struct.Struct(">qi11xi")


class Window:
    """The bytes of a file that a walk has read last: the header of the batch that it is at is among them."""

    __slots__ = ("buffer", "start")

    def __init__(self) -> None:
        self.buffer, self.start = b"", 0

    def header(self, extent: BatchExtent) -> BatchHeader:
        """Of the batch that the walk is at."""
        return BatchHeader.parse(self.buffer, extent.position - self.start)


def walk(
    file: File,
    path: str,
    position: int,
    end: int,
    damaged: Mapping[int, DamagedExtent],
    window: Window | None = None,
    *,
    least: int = 0,
    beyond: int = 0,
) -> Iterator[BatchExtent]:
    """The batches of the file in [position, end), and the damaged places that are known, by their positions.

    Raises CorruptLogError where neither is, with the path; a batch that begins before the end of the one ahead of it is
    none, for no checksum covers where it begins. What is read is in the window, if there is one. The first one begins
    at the offset `least` or later, and ends later than `beyond`.
    """
    unpack = _EXTENT.unpack_from
    buffer, start, covered = b"", position, position
    if position in damaged:
        beyond = 0
    while position < end:
        if damaged and position in damaged:
            extent = damaged[position]
            yield BatchExtent(position, extent.size, extent.start, extent.end)
            position += extent.size
            least = max(least, extent.end)
            continue
        if position >= covered:  # the header there is not in the buffer, or not all of it
            buffer, start = file.read(position, _WALK_BYTES), position
            covered = start + len(buffer) - HEADER_SIZE + 1
            if window is not None:
                window.buffer, window.start = buffer, start
            if covered <= start:
                raise CorruptLogError(path, position)
        base_offset, length, last_offset_delta = unpack(buffer, position - start)
        size = length + LENGTH_OVERHEAD
        behind = position + size
        next_offset = base_offset + last_offset_delta + 1
        if size < HEADER_SIZE or behind > end or base_offset < least or next_offset <= beyond:
            raise CorruptLogError(path, position)
        yield BatchExtent(position, size, base_offset, next_offset)
        position, least, beyond = behind, next_offset, 0
