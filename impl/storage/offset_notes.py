"""Notes of how far a log is known to be committed: beside the metadata log, and where a broker has read it.

A torn write at the end of a log is cut. A log that ends before what was acknowledged, or read, has lost it; that must
not look the same. A note says how far the log was. It is one line, appended after each commit and not synced: a process
that is killed loses none, a machine that loses power the newest at most. The first note of a file is synced, and so is
the last one of a clean stop.

A line carries its checksum. The highest line that is intact counts, so a note is never more than was true, and what a
crash has torn at the end of the file spoils no later line: each process begins a line of its own.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final, NamedTuple

from tidegauge.impl.ports.disk import Disk, File
from tidegauge.impl.records.checksum import crc32c
from tidegauge.impl.storage import checkpoints

MOST_BYTES: Final = 64 << 10
"""Beyond them the file begins anew with the last note."""


class OffsetNote(NamedTuple):
    """The log was committed up to `end_offset`, the last record in leader epoch `epoch`."""

    end_offset: int = 0
    epoch: int = -1

    @property
    def line(self) -> str:
        text = f"{self.end_offset} {self.epoch}"
        return f"{text} {crc32c(text.encode()):08x}\n"


NOTHING: Final = OffsetNote()


def read_note(disk: Disk, directory: str, name: str) -> OffsetNote | None:
    """The highest intact note of a file; None when there is none. Raises OSError."""
    try:
        file = disk.open_apart(f"{directory}/{name}")
    except FileNotFoundError:
        return None
    try:
        content = file.read(0, file.size)
    finally:
        file.close()
    return max(filter(None, map(_decoded, content.split(b"\n"))), default=None)


def _decoded(line: bytes) -> OffsetNote | None:
    text, _, checksum = line.rpartition(b" ")
    if checksum != b"%08x" % crc32c(text):
        return None
    offset, _, epoch = text.partition(b" ")
    return OffsetNote(int(offset), int(epoch))


class OffsetNotes:
    """The file of notes of one log."""

    def __init__(self, disk: Disk, directory: str, name: str, last: OffsetNote = NOTHING) -> None:
        """`last` is what `read_note` found."""
        self.last = last
        self._disk = disk
        self._directory = directory
        self._name = name
        self._file: File | None = None

    def write(self, note: OffsetNote) -> None:
        """Note that the log is committed so far. Raises OSError."""
        self.last = note
        line = note.line.encode()
        if self._file is None:
            line = b"\n" + line
            with suppress(FileNotFoundError):
                self._file = self._disk.open(f"{self._directory}/{self._name}")
        if self._file is not None and self._file.size <= MOST_BYTES:
            self._file.append(line)
            return
        self.close()
        checkpoints.write_atomically(self._disk, self._directory, self._name, note.line)
        self._file = self._disk.open(f"{self._directory}/{self._name}")

    def sync(self) -> None:
        """Bring the last note to stable storage. Raises OSError."""
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
