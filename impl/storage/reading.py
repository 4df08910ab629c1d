"""Reading a log without copying it: a stretch of a file instead of its bytes.

Few bytes are read at once. For many bytes the log returns the place where they are: a server that only sends them on
never holds them in memory, and a slow reader costs a broker nothing but a connection. Deleted segments keep their files
open until `file.delete.delay.ms` has passed, so that what was returned can still be sent. After that, and where a log
was truncated, reading fails.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Container
from typing import Final

import attrs

from tidegauge.impl.ports.disk import Buffer, DescribedFile, Disk, File
from tidegauge.impl.records.batches import HEADER_SIZE, BatchHeader, RecordError, checked_header
from tidegauge.impl.records.lazy import LazyRecords
from tidegauge.impl.storage.errors import CorruptLogError
from tidegauge.impl.storage.segment_names import LOG_SUFFIX

LAZY_BYTES = 64 << 10
"""From here on handing out a place is cheaper than reading."""
BASE_OFFSET: Final = struct.Struct(">q")
MOST_VERIFIED_BYTES = 1 << 20
"""Bytes whose checksums one read looks at; what it does not reach comes with the next."""


@attrs.frozen(eq=False)
class FileRegion(LazyRecords):
    """`size` bytes of a file from `position` on."""

    file: DescribedFile
    position: int
    size: int

    def __len__(self) -> int:
        return self.size

    def read(self, start: int, size: int) -> bytes:
        try:
            data = self.file.read(self.position + start, size)
        except ValueError as error:  # the file was closed
            raise OSError(errno.EBADF, str(error)) from error
        if len(data) != size:
            raise OSError(errno.EIO, f"{len(data)} of {size} bytes are left of what was to be read: the log was cut")
        return data

    @property
    def place(self) -> tuple[int, int]:
        try:
            return self.file.descriptor(), self.position
        except ValueError as error:
            raise OSError(errno.EBADF, str(error)) from error


def region(file: File, position: int, size: int) -> Buffer | FileRegion:
    """The bytes [position, position + size), or where they are."""
    if size >= LAZY_BYTES and isinstance(file, DescribedFile):
        return FileRegion(file, position, size)
    return file.read(position, size)


def whole_region(file: File, position: int, size: int, path: Callable[[str], str]) -> Buffer | FileRegion:
    """As `region`. Raises CorruptLogError, with the path of the log, where somebody else has cut the file."""
    found = region(file, position, size)
    if len(found) == size and (not isinstance(found, FileRegion) or found.file.reaches(position + size)):
        return found
    raise CorruptLogError(path(LOG_SUFFIX), position)


def verified_size(
    file: File, start: int, end: int, end_offset: int, *, size: int = 0, damaged: Container[int] = ()
) -> int:
    """How many bytes of [start, end) are intact batches in order, all below an offset; of a MiB at most, or one batch.

    No checksum covers where a batch begins, so the one behind it has a say: it begins no earlier than that one ends. It
    is looked at if it lies in the first `size` bytes of the file and is not `damaged`, as known by positions. 0 when
    not even the first one is intact.
    """
    data = file.read(start, min(end - start, MOST_VERIFIED_BYTES))
    position = next_offset = 0
    while position + HEADER_SIZE <= len(data):
        taken = BatchHeader.parse(data, position).size
        if position + taken > len(data):
            if position or start + taken > end:
                break
            data = file.read(start, taken)
        try:
            header = checked_header(data, position)
        except RecordError:
            break
        if header.base_offset < next_offset or header.next_offset > end_offset:
            break
        behind = position + header.size
        if start + behind + BASE_OFFSET.size <= size and start + behind not in damaged:
            ahead = data[behind : behind + BASE_OFFSET.size]
            if len(ahead) < BASE_OFFSET.size:
                ahead = file.read(start + behind, BASE_OFFSET.size)
            if BASE_OFFSET.unpack(ahead)[0] < header.next_offset:
                break
        position, next_offset = behind, header.next_offset
    return position


def copy_file(disk: Disk, file: File, position: int, path: str) -> None:
    """Copy a file from a position on to another one, durably but for its name."""
    copy = disk.open_apart(path, create=True)
    try:
        for start in range(position, file.size, MOST_VERIFIED_BYTES):
            copy.append(file.read(start, min(MOST_VERIFIED_BYTES, file.size - start)))
        copy.sync()
    finally:
        copy.close()
