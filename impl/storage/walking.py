"""Walking over a segment's file from batch to batch, by where each one says that it ends."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

from tidegauge.impl.ports.disk import File
from tidegauge.impl.records.batches import HEADER_SIZE, LENGTH_OVERHEAD, BatchExtent
from tidegauge.impl.storage.errors import CorruptLogError
from tidegauge.impl.storage.survey import DamagedExtent

_WALK_BYTES = 8 << 10
_EXTENT = struct.Struct(">qi11xi")


def walk(file: File, path: str, position: int, end: int, damaged: Mapping[int, DamagedExtent]) -> Iterator[BatchExtent]:
    """The batches of the file in [position, end), and the damaged places that are known, by their positions.

    Raises CorruptLogError where neither is, with the path.
    """
    buffer, start = b"", position
    while position < end:
        if damaged and position in damaged:
            extent = damaged[position]
            yield BatchExtent(position, extent.size, extent.start, extent.end)
            position += extent.size
            continue
        if position + HEADER_SIZE > start + len(buffer):
            buffer, start = file.read(position, _WALK_BYTES), position
            if len(buffer) < HEADER_SIZE:
                raise CorruptLogError(path, position)
        base_offset, length, last_offset_delta = _EXTENT.unpack_from(buffer, position - start)
        size = length + LENGTH_OVERHEAD
        if size < HEADER_SIZE or position + size > end:
            raise CorruptLogError(path, position)
        yield BatchExtent(position, size, base_offset, base_offset + last_offset_delta + 1)
        position += size
