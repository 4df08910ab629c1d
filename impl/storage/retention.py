"""What goes at a log's start: DeleteRecords and a leader's log start offset move it, retention frees whole segments.

Theory of operation
-------------------
The log start offset only grows (but for a log that starts anew). Moving it forgets records at once and frees nothing;
`retention` removes segments that lie below it as a whole, and, where the policy is `delete`, those that are too old or
that the log is too large for. Only what is committed goes, so the caller says where the high watermark is. The active
segment goes too once all of it has expired; a new one is begun first.

A segment that goes is renamed to `.deleted` and freed `file.delete.delay.ms` later, so that a reader that was about to
use it still can; a log that is opened finds such files and removes them. Segments go oldest first: a crash half-way
leaves a log that starts at one of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidegauge.impl.storage.errors import OffsetOutOfRangeError
from tidegauge.impl.storage.log_state import LogState
from tidegauge.impl.storage.segment import DELETED_SUFFIX, Segment


class Retention(LogState):
    """A log that forgets its oldest records."""

    def delete_records_before(self, offset: int) -> int:
        """Move the log start offset up (DeleteRecords), never down; returns it. `retention` frees the space.

        Raises OffsetOutOfRangeError beyond the log end offset; that only records below the high watermark go is the
        caller's to see to.
        """
        self._check_not_failed()
        if not 0 <= offset <= self.log_end_offset:
            raise OffsetOutOfRangeError(offset, self._log_start_offset, self.log_end_offset)
        if offset > self._log_start_offset:
            self._log_start_offset = offset
            self._trim_epochs()
            self.observer.start_moved(offset)
        return self._log_start_offset

    def retention(self, now_ms: int, high_watermark: int | None = None) -> int:
        """Remove old segments as `retention.ms`, `retention.bytes` and the log start offset ask; returns how many.

        Whole segments, oldest first, none with records at or above the high watermark (None: the log end offset).
        Durable when it returns, so that what starts the log is.
        """
        self._check_not_failed()
        limit = self.log_end_offset if high_watermark is None else high_watermark
        count = self._expired_segments(now_ms, limit)
        if count == len(self._segments):
            self.roll(now_ms)
        if count:
            if self._segments[count - 1].next_offset > self._flushed_end_offset:
                self.flush()
            self._log_start_offset = max(self._log_start_offset, self._segments[count].base_offset)
            with self._failing():
                self._forget(self._segments[:count], now_ms)
                self._disk.sync_directory(self.directory)
            self._durable_log_start = max(self._durable_log_start, self._segments[count].base_offset)
            del self._segments[:count], self._bases[:count]
            self._trim_epochs()
            self.observer.start_moved(self._log_start_offset)
        return count

    def _expired_segments(self, now_ms: int, limit: int) -> int:
        """How many segments may go, counted from the oldest."""
        config, deletes = self.config, self.config.is_deleted
        excess = self.size - config.retention_bytes if deletes and config.retention_bytes >= 0 else 0
        count = 0
        for segment in self._segments:
            is_active = segment is self._active
            expired = deletes and 0 <= config.retention_ms < now_ms - segment.newest_ms
            oversized = excess - segment.size >= 0 < excess
            started_later = segment.next_offset <= self._log_start_offset and not is_active
            if segment.next_offset > limit or not (expired or oversized or started_later):
                break
            if is_active and not segment.size:
                break
            excess -= segment.size
            count += 1
        return count

    def _forget(self, segments: Iterable[Segment], now_ms: int) -> None:
        """Rename the files of segments that are no longer part of the log; `free_deleted` removes them."""
        for segment in segments:
            segment.rename(DELETED_SUFFIX)
            self._doomed.append((now_ms + self.config.file_delete_delay_ms, segment))
            self._names_version += 1

    def free_deleted(self, now_ms: int) -> int:
        """Remove the files of forgotten segments whose `file.delete.delay.ms` is over; returns how many segments."""
        due = [segment for free_ms, segment in self._doomed if free_ms <= now_ms]
        self._doomed = [(free_ms, segment) for free_ms, segment in self._doomed if free_ms > now_ms]
        for segment in due:
            segment.remove()
        return len(due)
