"""What a log directory holds after a shutdown or a crash, made into segments again.

Theory of operation
-------------------
A crash may have lost any unsynced bytes and undone any unsynced creation, renaming or removal. So, unless the
shutdown was clean, every segment that reaches beyond the recovery point, and the last one in any case, is read from
its start with its checksums; it is cut at the first batch that is not intact, and its indexes are made anew. What
follows a cut, or does not begin where the segment before it ends, is not part of the log and is removed: it was
unsynced, or appended after something that was lost.

Segments below the recovery point were synced with their indexes and are believed, except that none may reach beyond
the start of the next, which costs one look at its end. Within a segment offsets may leave gaps (see `segment`).

The aborted transactions of a segment that is scanned are found again by its markers.

Whatever else lies in the directory is left over from something that a crash has interrupted: `finish_replacements`
carries out what was decided and drops the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial
from itertools import zip_longest

import attrs

from tidegauge.impl.ports.disk import Disk
from tidegauge.impl.records.batches import BatchHeader, RecordError
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.leader_epoch_cache import LeaderEpochCache
from tidegauge.impl.storage.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    Segment,
    base_offset_of,
)
from tidegauge.impl.storage.transaction_index import OpenTransactions, marker_type

_LEFT_OVER = (CLEANED_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX, ".tmp")


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


def base_offsets(names: Iterable[str]) -> list[int]:
    """Base offsets of the segments among the names of a directory, in order."""
    found = (base_offset_of(name) for name in names)
    return sorted(base for base in found if base is not None)


def finish_replacements(disk: Disk, directory: str, names: Iterable[str], index_interval_bytes: int) -> Sequence[str]:
    """Put every `.swap` segment in place of those that it replaces, and drop what else was left over.

    Takes the names in the directory and returns those that are there afterwards. Durable when it returns.
    """
    found = frozenset(names)
    if not any(name.endswith(_LEFT_OVER) or _is_orphan(name, found) for name in found):
        return sorted(found)
    _remove_where(disk, directory, lambda name: name.endswith((CLEANED_SUFFIX, DELETED_SUFFIX, ".tmp")))
    swaps = [name for name in disk.list_directory(directory) if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    for name in swaps:
        base_offset = base_offset_of(name.removesuffix(SWAP_SUFFIX))
        if base_offset is not None:
            _put_in_place(disk, directory, base_offset, index_interval_bytes)
    _remove_where(disk, directory, lambda name: name.endswith(SWAP_SUFFIX))
    found = frozenset(disk.list_directory(directory))
    _remove_where(disk, directory, lambda name: _is_orphan(name, found))
    disk.sync_directory(directory)
    return disk.list_directory(directory)


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
    segment.recover(LeaderEpochCache())
    for name in disk.list_directory(directory):
        base = base_offset_of(name)
        if base is not None and base_offset <= base < segment.next_offset:
            Segment(disk, directory, base, index_interval_bytes, 0).remove()
    segment.rename("")
    segment.close()


def recover_segments(
    disk: Disk,
    directory: str,
    config: LogConfig,
    now_ms: int,
    names: Iterable[str],
    *,
    recovery_point: int,
    log_start_offset: int = 0,
    clean_shutdown: bool,
    epochs: LeaderEpochCache,
) -> tuple[list[Segment], Recovery]:
    """The log's segments in order, the last one ready to grow; none when the directory is empty.

    `names` are those in the directory. What `epochs` says of a segment that is scanned is replaced with what the
    segment holds.
    """
    bases = base_offsets(finish_replacements(disk, directory, names, config.index_interval_bytes))
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
            cut_here = segment.recover(epochs)
            _index_transactions(segments, segment)
            cut += cut_here
            scanned += 1
            if next_base is not None and not cut_here and segment.next_offset < next_base <= recovery_point:
                segment.next_offset = next_base
        segments.append(segment)
    end_offset = max(segments[-1].next_offset if segments else 0, log_start_offset)  # what is deleted is not lost
    lost = max(0, recovery_point - end_offset)
    return segments, Recovery(scanned, cut, removed, lost)


def _index_transactions(earlier: Sequence[Segment], segment: Segment) -> None:
    """Find the aborted transactions of a segment that was scanned, with their starts in earlier ones."""
    if not segment.has_markers:
        segment.transaction_index.replace(())
        return
    open_transactions = OpenTransactions()
    found = []
    for one in (*earlier, segment):
        for header in one.headers():
            if header.is_transactional:
                aborted = open_transactions.on_batch(header, partial(_marker, one, header))
                if aborted is not None and one is segment:
                    found.append(aborted)
    segment.transaction_index.replace(found)


def _marker(segment: Segment, header: BatchHeader) -> int | None:
    """The marker in a control batch; None for one whose records cannot be read, which keeps no log from opening."""
    try:
        return marker_type(segment.read_batch(header))
    except RecordError:
        return None
