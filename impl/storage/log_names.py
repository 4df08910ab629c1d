"""The names in a log's directory, each looked at once: a start looks at those of every log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidegauge.impl.ports.disk import Disk
from tidegauge.impl.storage.segment_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    offset_in,
)

_LOG: Final = LOG_SUFFIX[1:]
_SNAPSHOT: Final = SNAPSHOT_SUFFIX[1:]
_INDEXES: Final = frozenset(suffix[1:] for suffix in SEGMENT_SUFFIXES if suffix != LOG_SUFFIX)
_LEFT_OVER: Final = frozenset(suffix[1:] for suffix in (CLEANED_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX, ".tmp"))


class LogNames:
    """What the names in a directory say, in the order of their offsets."""

    __slots__ = ("all", "bases", "deleted", "is_left_over", "odd", "snapshots")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.all = frozenset(names)
        self.bases: list[int] = []
        """Base offsets of the segments."""
        self.snapshots: list[int] = []
        """The offsets that snapshots of producers are named after."""
        self.deleted: list[str] = []
        """Segments that were deleted, and are there for a while under another name."""
        self.odd: list[str] = []
        """Files that end like a segment, and are named after no offset."""
        self.is_left_over = False
        """Whether the replacement or deletion of segments may have been interrupted."""
        indexed = []
        for name in self.all:
            stem, dot, kind = name.rpartition(".")
            if not dot:
                continue
            if kind == _LOG:
                if (offset := offset_in(stem)) is None:
                    self.odd.append(name)
                else:
                    self.bases.append(offset)
            elif kind in _INDEXES:
                indexed.append(stem)
            elif kind == _SNAPSHOT:
                if (offset := offset_in(stem)) is not None:
                    self.snapshots.append(offset)
            elif kind in _LEFT_OVER:
                self.is_left_over = True
                if name.endswith(LOG_SUFFIX + DELETED_SUFFIX):
                    self.deleted.append(name)
        for found in (self.bases, self.snapshots, self.deleted, self.odd):
            if len(found) > 1:
                found.sort()
        for stem in indexed:
            if stem + LOG_SUFFIX not in self.all:  # an index whose log is gone
                self.is_left_over = True

    def __contains__(self, name: object) -> bool:
        return name in self.all


def names_in(disk: Disk, directory: str) -> LogNames | None:
    """The names in a log's directory; None when it is missing."""
    try:
        return LogNames(disk.list_directory(directory))
    except FileNotFoundError:
        return None
