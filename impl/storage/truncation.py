"""Cutting a log at its end, as a follower does whose log has left the leader's, and starting it anew.

Both are durable when they return; otherwise a record that was cut could come back after a crash, as if it had never
been gone.
"""

from __future__ import annotations

from tidegauge.impl.storage.leader_epoch_cache import UNDEFINED_EPOCH
from tidegauge.impl.storage.log_state import LogState
from tidegauge.impl.storage.segment import Segment


class Truncation(LogState):
    """A log that can be cut."""

    def truncate_to(self, offset: int, *, epoch: int = UNDEFINED_EPOCH) -> int:
        """Cut every batch that reaches to `offset` or beyond, durably; returns the new log end offset.

        That is below `offset` when it lay inside a batch. An offset below the log start empties the log and starts it
        there; `epoch` is then that of the record before, as far as it is known.
        """
        self._check_not_failed()
        if offset >= self.log_end_offset:
            return self.log_end_offset
        if offset < self._log_start_offset:
            self.truncate_fully_and_start_at(offset, epoch=epoch)
            return offset
        number = self._segment_number(offset)
        offset = self._segments[number].start_of(offset)
        self._lower_recovery_point(offset)
        self._drop_from(number + 1)
        self._active = self._segments[-1]
        if offset < self._active.next_offset:
            self._active.truncate(offset, self.epochs)
        self._log_start_offset = min(self._log_start_offset, self.log_end_offset)
        self._durable_log_start = min(self._durable_log_start, self.log_end_offset)
        self._trim_epochs()
        self._sync()
        self.observer.truncated(self.log_end_offset)
        return self.log_end_offset

    def truncate_fully_and_start_at(self, offset: int, now_ms: int = 0, *, epoch: int = UNDEFINED_EPOCH) -> None:
        """Remove every record; the next one gets `offset`. Durable when it returns.

        `epoch` is that of the record before, which the log never has had.
        """
        self._check_not_failed()
        self._lower_recovery_point(min(offset, self._log_start_offset))
        self._drop_from(0)
        self._log_start_offset = self._durable_log_start = offset
        self._active = Segment(self._disk, self.directory, offset, self.config.index_interval_bytes, now_ms)
        self._segments, self._bases = [self._active], [offset]
        self._names_version += 1
        self._epochs_version += self.epochs.clear()
        if epoch >= 0 and offset:
            self._epochs_version += self.epochs.assign(epoch, offset - 1)
        self._sync()
        self.observer.started_anew(offset)

    def _drop_from(self, number: int) -> None:
        """Remove the segments from there on, from the end backwards, so that a crash half-way leaves no hole."""
        for segment in reversed(self._segments[number:]):
            segment.remove()
            self._names_version += 1
        del self._segments[number:], self._bases[number:]
