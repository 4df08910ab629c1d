"""The segments of one log: their order, their files, and which of them hold an offset or a time.

A segment that retention or the cleaner removes is renamed to `.deleted`; its files are removed
`file.delete.delay.ms` later, so that a reader that was about to use it still can. A log that is opened removes such
files.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tidegauge.impl.partition.transactions import AbortedTransaction
from tidegauge.impl.ports.disk import Buffer, Disk
from tidegauge.impl.records.batches import NO_TIMESTAMP
from tidegauge.impl.records.checksum import crc32c
from tidegauge.impl.storage import ages
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.reading import FileRegion
from tidegauge.impl.storage.segment import Segment
from tidegauge.impl.storage.segment_names import DELETED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX
from tidegauge.impl.storage.survey import MAX_RELATIVE_OFFSET


class Deleted(NamedTuple):
    """A segment that is deleted, whose files are still there."""

    segment: Segment
    since_ms: int
    delay_ms: int

    def is_due(self, now_ms: int) -> bool:
        """Whether its time has come, or is not known, because the wall clock was set back."""
        return not 0 <= now_ms - self.since_ms < self.delay_ms


class Segments:
    """Segments of consecutive offsets, oldest first. Only the last one, the active one, grows."""

    def __init__(self, disk: Disk, directory: str, segments: list[Segment]) -> None:
        self.ordered = segments
        self.base_offsets = [segment.base_offset for segment in segments]
        self.active = segments[-1]
        self.names_version = 0
        """How often names in the log's directory have changed."""
        self._disk = disk
        self._directory = directory
        self._deleted: tuple[Deleted, ...] = ()
        """Segments that are no longer part of the log, and when their files are to be removed, in ms."""

    @property
    def size(self) -> int:
        """Bytes of all segments' records."""
        return sum(segment.size for segment in self.ordered)

    def number_of(self, offset: int) -> int:
        """The number of the segment that holds an offset; 0 for one below all of them."""
        return max(0, bisect_right(self.base_offsets, offset) - 1)

    def must_roll(self, config: LogConfig, size: int, last_offset: int, timestamp: int, now_ms: int | None) -> bool:
        """Whether a new segment has to be begun before so many bytes with this last offset and time are appended."""
        active = self.active
        return active.size > 0 and (
            active.size + size > config.segment_bytes
            or last_offset - active.base_offset > MAX_RELATIVE_OFFSET
            or active.grown_index_bytes > config.segment_index_bytes
            or ages.waited_ms(active, now_ms, timestamp)
            > (self._jittered_roll_ms(config) if config.segment_jitter_ms else config.roll_ms)
        )

    def _jittered_roll_ms(self, config: LogConfig) -> int:
        """How long the active segment may grow; its name decides its jitter, so that a restart changes nothing."""
        jitter_ms = max(1, min(config.segment_jitter_ms, config.segment_ms))
        return config.roll_ms - crc32c(f"{self._directory}/{self.active.base_offset}".encode()) % jitter_ms

    # --- reading ------------------------------------------------------------------------------------------------------

    def fetch(self, offset: int, max_bytes: int, end_offset: int) -> Buffer | FileRegion:
        """Whole batches of one segment below an offset, from the first that reaches beyond `offset`."""
        if offset >= self.active.base_offset:
            return self.active.fetch(offset, max_bytes, end_offset)
        data: Buffer | FileRegion = b""
        for segment in self.ordered[self.number_of(offset) :]:
            if segment.base_offset >= end_offset or (data := segment.fetch(offset, max_bytes, end_offset)):
                break
        return data

    # --- looking up ---------------------------------------------------------------------------------------------------

    def newest_timestamp(self) -> int:
        """The largest timestamp of all records, in ms since 1970; -1 when none has one."""
        return max((segment.max_timestamp for segment in self.ordered), default=NO_TIMESTAMP)

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions with records in [start, end)."""
        found: list[AbortedTransaction] = []
        for segment in self.ordered[self.number_of(start_offset) :]:
            collected, complete = segment.transaction_index.collect(start_offset, end_offset)
            found += collected
            if complete:
                break
        return found

    def has_aborted(self, offset: int) -> bool:
        """Whether a transaction was aborted at an offset or beyond."""
        for segment in reversed(self.ordered):
            if entries := segment.transaction_index.entries:
                return entries[-1].last_offset >= offset
            if segment.base_offset <= offset:
                break
        return False

    def end_bound(self, offset: int, records: FileRegion) -> int:
        """An offset beyond these records, which were fetched from `offset`, and not much beyond."""
        for segment in self.ordered[self.number_of(offset) :]:
            if segment.holds(records.file):
                return segment.end_bound(records.position + records.size)
        return offset

    def expired(self, config: LogConfig, log_start_offset: int, now_ms: int, limit: int) -> int:
        """How many segments retention removes, counted from the oldest: none with records at or above `limit`.

        Raises CorruptLogError when one looks expired and the batch that says so is damaged.
        """
        deletes = config.is_deleted
        excess = self.size - config.retention_bytes if deletes and config.retention_bytes >= 0 else 0
        count = 0
        for segment in self.ordered:
            is_active = segment is self.active
            expired = deletes and config.retention_ms >= 0 and ages.is_expired(segment, now_ms, config.retention_ms)
            oversized = excess - segment.size >= 0 < excess
            below_start = segment.next_offset <= log_start_offset and not is_active
            if segment.next_offset > limit or not (expired or oversized or below_start):
                break
            if is_active and not segment.size:
                break
            excess -= segment.size
            count += 1
        return count

    # --- changing -----------------------------------------------------------------------------------------------------

    def roll(self, config: LogConfig, now_ms: int) -> Segment:
        """Begin a new active segment where the last one ends, and return it."""
        return self._begin(self.active.next_offset, config, now_ms)

    def _begin(self, offset: int, config: LogConfig, now_ms: int) -> Segment:
        segment = Segment(self._disk, self._directory, offset, config.index_interval_bytes, now_ms)
        self.ordered.append(segment)
        self.base_offsets.append(offset)
        self.active = segment
        self.names_version += 1
        return segment

    def remove_from(self, number: int) -> None:
        """Remove the segments from this number on, the last one first, so that a crash half-way leaves no hole."""
        self._end_before(number, Segment.remove)

    def set_aside_from(self, number: int, suffix: str) -> list[str]:
        """As `remove_from`, but the files stay, their names with another suffix; returns those of the logs."""
        names = []

        def set_aside(segment: Segment) -> None:
            segment.close()
            segment.rename(suffix)
            names.append(segment.path(LOG_SUFFIX).rpartition("/")[2])

        self._end_before(number, set_aside)
        return names

    def _end_before(self, number: int, close: Callable[[Segment], None]) -> None:
        """Close the segments from this number on, the last one first.

        One whose files cannot be removed or renamed is closed all the same, and so no segment of the log any more.
        """
        try:
            for segment in reversed(self.ordered[number:]):
                self.ordered.pop()
                self.base_offsets.pop()
                close(segment)
                self.names_version += 1
        finally:
            if self.ordered:
                self.active = self.ordered[-1]

    def start_anew(self, offset: int, config: LogConfig, now_ms: int) -> None:
        """Remove all segments and begin one at this offset."""
        self.remove_from(0)
        self._begin(offset, config, now_ms)

    def delete_oldest(self, count: int, now_ms: int, delay_ms: int) -> None:
        """Delete so many segments, oldest first, durably; their files go `delay_ms` after now.

        A crash half-way leaves a log that starts at one of them.
        """
        self._delete(self.ordered[:count], now_ms, delay_ms)
        self._disk.sync_directory(self._directory)
        del self.ordered[:count], self.base_offsets[:count]

    def check_replaceable(self, replaced: Sequence[Segment], cleaned: Segment) -> None:
        """Assert that `cleaned` can take the place of these closed segments."""
        first = self.ordered.index(replaced[0])
        assert self.ordered[first : first + len(replaced)] == list(replaced), "one replaces only successive segments"
        assert self.active not in replaced, "the active segment cannot be replaced"
        assert cleaned.base_offset == replaced[0].base_offset, f"{cleaned.base_offset} != {replaced[0].base_offset}"
        assert cleaned.next_offset == replaced[-1].next_offset, f"{cleaned.next_offset} != {replaced[-1].next_offset}"

    def replace_files(self, replaced: Sequence[Segment], cleaned: Segment, now_ms: int, delay_ms: int) -> None:
        """Put the files of `cleaned` in the place of the others', durably, so that a crash shows the one or the others.

        The cleaner writes a segment whose files end in `.cleaned`. When it is whole and synced it is renamed to
        `.swap`, which decides: from now on it replaces every segment from its base offset up to its end. Those are
        renamed to `.deleted`, and the new one gets its proper name. A log that is opened removes what is `.cleaned`
        and puts in place what is `.swap` (`interrupted_replacements`). Taking these steps twice does no harm.

        A replacement ends where the last of the replaced segments ends. Segments therefore still follow each other
        without a gap, by which recovery knows that no tail is missing.
        """
        cleaned.sync(closed=True)
        cleaned.rename(SWAP_SUFFIX)
        self._disk.sync_directory(self._directory)
        self._delete(replaced, now_ms, delay_ms)
        cleaned.rename("")
        self._disk.sync_directory(self._directory)

    def replace(self, replaced: Sequence[Segment], cleaned: Segment) -> None:
        """Hold `cleaned` in the place of the others, whose files it has replaced."""
        first = self.ordered.index(replaced[0])
        self.ordered[first : first + len(replaced)] = [cleaned]
        self.base_offsets[first : first + len(replaced)] = [cleaned.base_offset]

    def _delete(self, segments: Sequence[Segment], now_ms: int, delay_ms: int) -> None:
        renamed: list[Deleted] = []
        try:
            for segment in segments:
                segment.rename(DELETED_SUFFIX)
                renamed.append(Deleted(segment, now_ms, delay_ms))
                self.names_version += 1
        finally:  # one that cannot be renamed hides none of those before it
            self._deleted += tuple(renamed)

    @property
    def has_deleted(self) -> bool:
        """Whether files of deleted segments are still there."""
        return bool(self._deleted)

    def free_deleted(self, now_ms: int) -> int:
        """Remove the files of deleted segments whose time has come, or is not known: the wall clock was set back.

        Returns how many segments.
        """
        due = [one for one in self._deleted if one.is_due(now_ms)]
        self._deleted = tuple(one for one in self._deleted if not one.is_due(now_ms))
        for deleted in due:
            deleted.segment.remove()
        return len(due)

    def close(self) -> None:
        """Close all files, those of deleted segments included."""
        for segment in [*self.ordered, *(deleted.segment for deleted in self._deleted)]:
            segment.close()
