"""What a broker remembers of the metadata log when it is down: how far it has read it.

A controller whose log ends before that, or goes on differently, has lost decisions. The broker must not take a topic
that such a log does not know for a deleted one. The note lies in the first log directory that is online; it is written
after the metadata are in force, and not synced (`offset_notes`).
"""

from __future__ import annotations

from typing import Final

from tidegauge.impl.storage.log_directories import LogDirectories
from tidegauge.impl.storage.log_directory import LogDirectory
from tidegauge.impl.storage.offset_notes import NOTHING, OffsetNote, OffsetNotes

READ: Final = "metadata-read-offset"


class MetadataNotes:
    """The note of one broker."""

    def __init__(self, directories: LogDirectories) -> None:
        self.found = self._found(directories)
        """How far the processes before this one had read."""
        self._directories = directories
        self._last = NOTHING
        self._directory: LogDirectory | None = None
        self._notes: OffsetNotes | None = None

    @staticmethod
    def _found(directories: LogDirectories) -> OffsetNote | None:
        found = []
        for directory in list(directories.online):
            try:
                found.append(directory.read_note(READ))
            except OSError as error:
                directories.fail(directory, error)
        return max(filter(None, found), default=None)

    def write(self, note: OffsetNote) -> None:
        """Note how far the metadata log is in force here; a disk that fails takes its directory offline."""
        if note == self._last or not self._directories.online:
            return
        self._last = note
        directory = self._directories.online[0]
        if self._notes is None or directory is not self._directory:
            self._directory, self._notes = directory, directory.notes(READ)
        try:
            self._notes.write(note)
        except OSError as error:
            self._notes = None
            self._directories.fail(directory, error)
