"""The files of a segment's two indexes: reading them, comparing them with what they ought to hold, writing them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from tidegauge.impl.ports.disk import Disk, PendingSync
from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.storage.index import OffsetIndex, TimeIndex

LOGGER: Final = logging.getLogger(__name__)


def read(disk: Disk, offsets_path: str, times_path: str, log_size: int) -> tuple[OffsetIndex | None, TimeIndex | None]:
    """The two indexes in these files; None for one that is damaged, or both when one is missing."""
    try:
        offsets, times = (disk.read_whole(path) or b"" for path in (offsets_path, times_path))
    except FileNotFoundError:
        return None, None
    return OffsetIndex.decode(offsets, log_size), TimeIndex.decode(times)


def hold(disk: Disk, files: Iterable[tuple[str, bytes]]) -> bool:
    """Whether each of the files has just this content."""
    try:
        return all(disk.read_whole(path, len(content)) == content for path, content in files)
    except FileNotFoundError:
        return False


def write(disk: Disk, files: Iterable[tuple[str, bytes]]) -> list[PendingSync]:
    """Write indexes to their files; returns the syncs that they need."""
    return [sync for path, content in files if (sync := _write(disk, path, content)) is not None]


def _write(disk: Disk, path: str, content: bytes) -> PendingSync | None:
    """Returns the sync that it needs, None when it is empty."""
    file = disk.open_apart(path, create=True)
    try:
        if file.size:
            file.truncate(0)
        if not content:
            return None
        file.append(content)
        return file.begin_sync()
    finally:
        file.close()


def tell_rebuilt(log_path: str, reason: str) -> None:
    """Say that a segment's indexes are made anew."""
    log_event(LOGGER, logging.WARNING, "indexes rebuilt", log=log_path, why=reason)
