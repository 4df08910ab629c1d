"""Records that stay where they are until they are sent."""

from __future__ import annotations

from abc import ABC, abstractmethod


class LazyRecords(ABC):
    """Record batches that are read when they are needed, and perhaps never into this process's memory.

    What is read later may have gone meanwhile, with the file that held it: then reading raises OSError.
    """

    @abstractmethod
    def __len__(self) -> int:
        """Their size in bytes; known without reading."""

    @abstractmethod
    def read(self, start: int, size: int) -> bytes:
        """The bytes [start, start + size). Raises OSError when they are not all there."""

    @property
    @abstractmethod
    def place(self) -> tuple[int, int]:
        """(descriptor of the file, position in it), for the operating system to send from. Raises OSError."""

    def read_all(self) -> bytes:
        """All of it. Raises OSError."""
        return self.read(0, len(self))


def in_memory(records: bytes | bytearray | memoryview | LazyRecords) -> bytes | bytearray | memoryview:
    """The bytes of records that may be lazy. Raises OSError."""
    return records.read_all() if isinstance(records, LazyRecords) else records
