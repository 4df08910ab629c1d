"""Records that stay where they are until they are sent."""

from __future__ import annotations


class LazyRecords:
    """Record batches that are read when they are needed, and perhaps never into this process's memory.

    A file may be deleted before its records are read; reading then raises OSError. This is a plain base class because
    every part of every response is tested with `isinstance`, which is slow for an abstract one.
    """

    def __len__(self) -> int:
        """Their size in bytes; known without reading."""
        raise NotImplementedError

    def read(self, start: int, size: int) -> bytes:
        """The bytes [start, start + size). Raises OSError when they are not all there."""
        raise NotImplementedError

    @property
    def place(self) -> tuple[int, int]:
        """(descriptor of the file, position in it), for the operating system to send from. Raises OSError."""
        raise NotImplementedError

    def read_all(self) -> bytes:
        """All of it. Raises OSError."""
        return self.read(0, len(self))


def in_memory(records: bytes | bytearray | memoryview | LazyRecords) -> bytes | bytearray | memoryview:
    """The bytes of records that may be lazy. Raises OSError."""
    return records.read_all() if isinstance(records, LazyRecords) else records
