"""What a log's directory is left with when the replacement or deletion of segments was interrupted."""

from __future__ import annotations

from collections.abc import Callable, Container

from tidegauge.impl.ports.disk import Disk
from tidegauge.impl.storage.leader_epoch_cache import LeaderEpochCache
from tidegauge.impl.storage.log_names import LogNames
from tidegauge.impl.storage.segment import Segment
from tidegauge.impl.storage.segment_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    base_offset_of,
)
from tidegauge.impl.storage.survey import Bounds


def finish_replacements(disk: Disk, directory: str, names: LogNames, index_interval_bytes: int) -> LogNames:
    """Put every `.swap` segment in place of those that it replaces, and drop what else was left over.

    Takes the names in the directory and returns those that are there afterwards. Durable when it returns. Deleted
    segments stay: until the leader epochs are written nothing else says that the log has not lost them.
    """
    if not names.is_left_over:
        return names
    dropped = (CLEANED_SUFFIX, DELETED_SUFFIX, ".tmp")
    _remove_where(disk, directory, lambda name: name.endswith(dropped) and name not in names.deleted)
    swaps = [name for name in disk.list_directory(directory) if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    for name in swaps:
        base_offset = base_offset_of(name.removesuffix(SWAP_SUFFIX))
        if base_offset is not None:
            _put_in_place(disk, directory, base_offset, index_interval_bytes)
    _remove_where(disk, directory, lambda name: name.endswith(SWAP_SUFFIX))
    found = frozenset(disk.list_directory(directory))
    _remove_where(disk, directory, lambda name: _is_orphan(name, found))
    disk.sync_directory(directory)
    return LogNames(disk.list_directory(directory))


def remove_deleted(disk: Disk, directory: str, names: LogNames) -> None:
    """Remove the segments among the names that were deleted, once the leader epochs say where the log begins."""
    for name in names.deleted:
        disk.remove(f"{directory}/{name}")


def _is_orphan(name: str, names: Container[str]) -> bool:
    """Whether it is an index whose log is not among the names."""
    stem, dot, suffix = name.rpartition(".")
    return dot + suffix in SEGMENT_SUFFIXES and stem + LOG_SUFFIX not in names


def _remove_where(disk: Disk, directory: str, is_doomed: Callable[[str], bool]) -> None:
    for name in disk.list_directory(directory):
        if is_doomed(name):
            disk.remove(f"{directory}/{name}")


def _put_in_place(disk: Disk, directory: str, base_offset: int, index_interval_bytes: int) -> None:
    segment = Segment(disk, directory, base_offset, index_interval_bytes, 0, suffix=SWAP_SUFFIX)
    segment.cut(segment.recover(LeaderEpochCache(), Bounds(base_offset)).cut)
    for name in disk.list_directory(directory):
        base = base_offset_of(name)
        if base is not None and base_offset <= base < segment.next_offset:
            Segment(disk, directory, base, index_interval_bytes, 0).remove()
    segment.rename("")
    segment.close()
