"""Segments that are no part of the log that is being opened: their files stay, under names that end in `.stray`.

Where the log is read once more, by other rules, they are put back first: what did not follow a log that was read by a
recovery point which nothing else knows of may follow it without that point.
"""

from __future__ import annotations

import logging
from typing import Final

from tidegauge.impl.ports.disk import Disk
from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.storage.damage import STRAY_SUFFIX, unused_path
from tidegauge.impl.storage.segment_names import LOG_SUFFIX, SEGMENT_SUFFIXES, file_name

LOGGER: Final = logging.getLogger(__name__)


class StraySegments:
    """Those of one log."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self.names: list[str] = []
        """The files' names now, one a segment."""
        self._moved: list[tuple[str, str]] = []
        """What each file was called, and what it is called now."""
        self._disk = disk
        self._directory = directory

    def set_aside(self, base: int, reason: str) -> None:
        """Give the files of a segment other names, durably, and say why. Raises OSError."""
        for suffix in SEGMENT_SUFFIXES:
            path = f"{self._directory}/{file_name(base, suffix)}"
            if self._disk.exists(path):
                aside = unused_path(self._disk, f"{path}{STRAY_SUFFIX}")
                self._disk.rename(path, aside)
                self._moved.append((path, aside))
        self._disk.sync_directory(self._directory)
        self.names.append(aside.rpartition("/")[2])
        log_event(
            LOGGER,
            logging.ERROR,
            "stray segment set aside",
            log=self._directory,
            segment=file_name(base, LOG_SUFFIX),
            start=base,
            bytes=self._disk.size(aside),
            why=reason,
            next=f"it is kept as {aside} until an operator removes it",
        )

    def put_back(self) -> None:
        """Give all their former names again, durably. Raises OSError."""
        for path, aside in self._moved:
            self._disk.rename(aside, path)
        if self._moved:
            self._disk.sync_directory(self._directory)
            log_event(
                LOGGER,
                logging.WARNING,
                "stray segments put back",
                log=self._directory,
                segments=",".join(self.names),
                next="the log is read again, without what did not let them follow it",
            )
        self._moved, self.names = [], []
