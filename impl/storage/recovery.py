"""What a log directory holds after a shutdown or a crash, made into segments again.

Theory of operation
-------------------
A crash may have lost any unsynced bytes and undone any unsynced creation, renaming or removal. So, unless the
shutdown was clean, every segment that reaches beyond the recovery point, and the last one in any case, is read from
its start with its checksums; it is cut at the first batch that is not intact, and its indexes are made anew. What
follows a cut, or does not begin where the segment before it ends, is not part of the log and is removed: it was
unsynced, or appended after something that was lost.

Segments below the recovery point were synced with their indexes and are believed, except that each has to end where
the next begins, which costs one look at its end.
"""

from __future__ import annotations

from itertools import zip_longest

import attrs

from impl.ports.disk import Disk
from impl.storage.config import LogConfig
from impl.storage.leader_epoch_cache import LeaderEpochCache
from impl.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, Segment

_OFFSET_DIGITS = 20


@attrs.frozen
class Recovery:
    """What recovery found and did."""

    scanned_segments: int = 0
    """Segments read from start to end."""
    cut_bytes: int = 0
    """Bytes that were no intact batch, cut from the ends of segments."""
    removed_segments: int = 0
    """Segments that did not continue the log."""
    lost_below_recovery_point: int = 0
    """Offsets that had been synced and are gone: the disk lied or has damaged them."""


def base_offsets(disk: Disk, directory: str) -> list[int]:
    """Base offsets of the segments in a directory, in order."""
    names = (name.removesuffix(LOG_SUFFIX) for name in disk.list_directory(directory) if name.endswith(LOG_SUFFIX))
    return sorted(int(stem) for stem in names if len(stem) == _OFFSET_DIGITS and stem.isascii() and stem.isdigit())


def remove_leftovers(disk: Disk, directory: str) -> None:
    """Remove what an interrupted replacement or removal left: temporary files, and indexes without a log."""
    names = set(disk.list_directory(directory))
    for name in sorted(names):
        stem, dot, suffix = name.rpartition(".")
        orphan = dot + suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX) and stem + LOG_SUFFIX not in names
        if orphan or suffix == "tmp":
            disk.remove(f"{directory}/{name}")


def recover_segments(
    disk: Disk,
    directory: str,
    config: LogConfig,
    now_ms: int,
    *,
    recovery_point: int,
    clean_shutdown: bool,
    epochs: LeaderEpochCache,
) -> tuple[list[Segment], Recovery]:
    """The log's segments in order, the last one ready to grow; none when the directory is empty.

    What `epochs` says of a segment that is scanned is replaced with what the segment holds.
    """
    remove_leftovers(disk, directory)
    bases = base_offsets(disk, directory)
    segments: list[Segment] = []
    scanned = cut = removed = 0
    for base, next_base in zip_longest(bases, bases[1:]):
        segment = Segment(disk, directory, base, config.index_interval_bytes, now_ms)
        if removed or (segments and segments[-1].next_offset != base):
            segment.remove()
            removed += 1
            continue
        if next_base is None:
            believed = clean_shutdown and segment.load_active()
        else:
            believed = clean_shutdown or next_base <= recovery_point
            believed = believed and segment.load_closed(next_base, check_end=not clean_shutdown)
        if not believed:
            epochs.truncate_from_end(base)
            cut += segment.recover(epochs)
            scanned += 1
        segments.append(segment)
    lost = max(0, recovery_point - segments[-1].next_offset) if segments else recovery_point
    return segments, Recovery(scanned, cut, removed, lost)
