"""An array in a file: as much of it is in memory as the system has room for."""

from __future__ import annotations

import mmap
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tidegauge.spec.kernel.storage import StorageError

__all__ = ["MappedFile"]

_BLOCK = 1 << 24


class MappedFile:
    """A file of `count` items, or rows of `lanes` items. Its room on the disk is there before it is written to."""

    def __init__(self, path: Path, kind: np.dtype[Any], count: int, lanes: int = 0, *, is_new: bool = True) -> None:
        self.path, self.kind, self.lanes = path, kind, lanes
        flags = os.O_RDWR | (os.O_CREAT | os.O_TRUNC if is_new else 0)
        try:
            self._descriptor = os.open(path, flags, 0o644)
        except OSError as error:
            raise StorageError(f"{path} cannot be opened ({error.strerror})") from error
        self._checked, self._checksum = 0, 0
        self._map: mmap.mmap | None = None
        self.grow(count)

    @property
    def row_bytes(self) -> int:
        return self.kind.itemsize * (self.lanes or 1)

    def grow(self, count: int) -> None:
        """Have room for `count` rows. Raises StorageError where the disk has none."""
        size = max(count, 1) * self.row_bytes
        try:
            _allocate(self._descriptor, size)
            self._map = mmap.mmap(self._descriptor, size)
        except OSError as error:
            self.close()
            raise StorageError(f"{self.path}: no room for {size:,} bytes ({error.strerror})") from error
        shape = (count, self.lanes) if self.lanes else (count,)
        self.array: npt.NDArray[Any] = np.frombuffer(self._map, self.kind, int(np.prod(shape))).reshape(shape)

    def checksum(self, count: int) -> int:
        """The CRC-32 of the first `count` rows, which do not change any more."""
        for place in range(self._checked, count, rows := max(1, _BLOCK // self.row_bytes)):
            block = self.array[place : min(count, place + rows)]
            self._checksum = zlib.crc32(np.ascontiguousarray(block).view(np.uint8).data, self._checksum)
        self._checked = count
        return self._checksum

    def sync(self) -> None:
        """Bring what was written to stable storage."""
        if self._map is not None:
            self._map.flush()
            os.fsync(self._descriptor)

    def release(self) -> None:
        """Give the memory back; what was written stays with the system."""
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """The array stays as long as somebody holds it."""
        self._map = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _allocate(descriptor: int, size: int) -> None:
    """Writing to a map of a file for which the disk has no room would end the process."""
    if size <= (there := os.fstat(descriptor).st_size):
        return
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, there, size - there)
        return
    os.lseek(descriptor, there, os.SEEK_SET)
    while there < size:
        there += os.write(descriptor, bytes(min(_BLOCK, size - there)))
