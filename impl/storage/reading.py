"""Reading a log without copying it: a stretch of a file instead of its bytes.

Few bytes are read at once. For many bytes the log returns the place where they are: a server that only sends them on
never holds them in memory, and a slow reader costs a broker nothing but a connection. Deleted segments keep their files
open until `file.delete.delay.ms` has passed, so that what was returned can still be sent. After that, and where a log
was truncated, reading fails.
"""

from __future__ import annotations

import errno
from typing import Protocol, runtime_checkable

import attrs

from tidegauge.impl.ports.disk import Buffer, File
from tidegauge.impl.records.lazy import LazyRecords

LAZY_BYTES = 64 << 10
"""From here on handing out a place is cheaper than reading."""


@runtime_checkable
class DescribedFile(Protocol):
    """A file that the operating system knows by a descriptor."""

    def read(self, position: int, size: int) -> bytes: ...

    def descriptor(self) -> int:
        """Good until the next use of the disk."""


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
