"""What a log directory may have lost: logs that were removed while its broker was down.

Theory of operation
-------------------
The recovery points of a log directory name the logs that had something on stable storage. One whose directory is
missing was removed. Of a directory that is new nobody knows: it may have taken the place of one that was removed, with
all its logs. A log that is made anew in such a place looks like one that never had a record, and must not be taken for
it: its replica would be elected over others that have records. So what is in doubt is noted, durably and before
anything is made anew, and the note stays until the broker's process has told the controller what it no longer has.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.impl.ports.disk import Disk
from tidegauge.impl.storage import checkpoints
from tidegauge.impl.storage.checkpoints import TopicPartition

LOST_LOGS = "lost-logs-checkpoint"
"""The note: as the other checkpoints, each log with where it ended at least; without a line it means every log."""


class LostLogs:
    """The note of one log directory."""

    def __init__(self, disk: Disk, path: str) -> None:
        """As it is on the disk; a damaged one means every log."""
        self._disk = disk
        self._path = path
        self._is_there = disk.exists(f"{path}/{LOST_LOGS}")
        self._points = checkpoints.read_offsets(disk, path, LOST_LOGS) if self._is_there else {}

    @property
    def may_be_any(self) -> bool:
        """Whether nobody knows which logs the directory had."""
        return self._is_there and not self._points

    def names(self, key: TopicPartition) -> bool:
        """Whether this very log was lost."""
        return key in self._points

    def note(self, ends: Mapping[TopicPartition, int]) -> None:
        """Add logs, each with where it ended at least. Durable when it returns."""
        if self.may_be_any or not (news := {key: end for key, end in ends.items() if key not in self._points}):
            return
        self._points.update(news)
        self._is_there = True
        text = checkpoints.encode_offsets(self._points)
        checkpoints.write_atomically(self._disk, self._path, LOST_LOGS, text)

    def settle(self) -> None:
        """The controller knows of all that was lost."""
        if self._is_there:
            self._disk.remove(f"{self._path}/{LOST_LOGS}")
            self._disk.sync_directory(self._path)
            self._is_there, self._points = False, {}


def note_any(disk: Disk, path: str) -> None:
    """The directory is about to be formatted: any log may have been in its place before."""
    checkpoints.write_atomically(disk, path, LOST_LOGS, checkpoints.encode_offsets({}))
