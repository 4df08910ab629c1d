"""What a log is made of, where it stands, and how it becomes durable; appending, cutting and retention build on it.

The fields of a log are read and written here and by the classes that extend this one: `truncation`, `retention`,
`replacement`, and `log`, which has the theory of operation.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from tidegauge.impl.partition.producer_state import ProducerStates
from tidegauge.impl.ports.disk import Disk, PendingSync
from tidegauge.impl.records.batches import BatchHeader
from tidegauge.impl.storage import checkpoints
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.errors import FailedLogError
from tidegauge.impl.storage.flushing import Flushes, PendingFlush
from tidegauge.impl.storage.leader_epoch_cache import UNDEFINED_EPOCH, EpochEndOffset, LeaderEpochCache
from tidegauge.impl.storage.recovery import Recovery
from tidegauge.impl.storage.segment import Segment


class LogObserver:
    """Is told what happens to a log; whoever keeps state beside it (the producers' snapshots) extends this one."""

    def appended(self, header: BatchHeader, base_offset: int) -> None:
        """A batch is in the log, its first record at `base_offset` (its header need not say so)."""

    def rolled(self, offset: int) -> None:
        """A segment that begins at the log end offset `offset` was begun."""

    def replaced(self, base_offsets: Collection[int]) -> None:
        """No segment begins at these offsets any longer: what they held is in the one before them."""

    def truncated(self, offset: int) -> None:
        """Everything at and above `offset`, the log end offset now, is gone."""

    def started_anew(self, offset: int) -> None:
        """Everything is gone; the log starts and ends at `offset`."""

    def start_moved(self, offset: int) -> None:
        """Everything below `offset`, the log start offset now, is gone."""

    def closing(self) -> None:
        """The log is about to be flushed and closed cleanly."""

    def unsynced(self) -> list[PendingSync]:
        """What of the observer's files is not yet on stable storage, to be synced with the log."""
        return []

    def flushed(self, offset: int) -> None:
        """Everything below `offset` is on stable storage, and what `unsynced` gave for it."""


def _nothing() -> None:
    """Nobody wants to know."""


class LogState:
    """The fields of a log."""

    def __init__(
        self, disk: Disk, directory: str, config: LogConfig, segments: list[Segment], epochs: LeaderEpochCache
    ) -> None:
        """Use `Log.open`."""
        self.directory = directory
        self.config = config
        self.epochs = epochs
        self.observer = LogObserver()
        self.producers = ProducerStates()
        """What the log's producers have written, as far as the leader has to know it."""
        self.recovery = Recovery()
        """What opening the log had to mend."""
        self.on_roll: Callable[[], None] = _nothing
        """Is called when a segment has been closed, which may be flushed now."""
        self._disk = disk
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._active = segments[-1]
        self._log_start_offset = segments[0].base_offset
        self._flushed_end_offset = self._log_start_offset
        self._durable_log_start = self._log_start_offset
        self._unflushed_since_ms: int | None = None
        self._looked_ms: int | None = None
        self._names_version = self._names_synced = 0
        """How often names in the directory have changed, and how many of these changes are on stable storage."""
        self._epochs_version = self._epochs_synced = 0
        self._is_new = False
        """Whether the name of the directory itself may be lost by a crash."""
        self._flushes = Flushes()
        self._failure: OSError | None = None
        self._before_recovery_point_falls: Callable[[int], None] | None = None
        self._doomed: list[tuple[int, Segment]] = []
        """Segments that are no longer part of the log, and when their files are to be removed, in ms."""

    # Where the log is

    @property
    def log_start_offset(self) -> int:
        """Offset of the first record that is kept."""
        return self._log_start_offset

    @property
    def log_start_epoch(self) -> int:
        """Leader epoch of the last record below the log start; -1 when there was none, or nobody knows."""
        epoch = self.epochs.epoch_for_offset(self._log_start_offset - 1) if self._log_start_offset else None
        return UNDEFINED_EPOCH if epoch is None else epoch

    @property
    def log_start_is_durable(self) -> bool:
        """Whether a crash leaves the log start where it is; what is told to others has to be durable."""
        return self._log_start_offset <= self._durable_log_start

    @property
    def log_start_is_implied(self) -> bool:
        """Whether the first segment's name says where the log starts."""
        return self._log_start_offset <= self._bases[0]

    @property
    def log_end_offset(self) -> int:
        """Offset that the next record will get (LEO)."""
        return self._active.next_offset

    @property
    def flushed_end_offset(self) -> int:
        """Recovery point: every record below it is on stable storage."""
        return self._flushed_end_offset

    @property
    def latest_epoch(self) -> int:
        """Leader epoch of the last record, though it may be below the log start; -1 when there was none."""
        epoch = self.epochs.latest_epoch
        return UNDEFINED_EPOCH if epoch is None else epoch

    @property
    def size(self) -> int:
        """Bytes of all segments' records."""
        return sum(segment.size for segment in self._segments)

    @property
    def segment_base_offsets(self) -> Sequence[int]:
        """First offset of each segment, the active one last."""
        return tuple(self._bases)

    @property
    def segments(self) -> Sequence[Segment]:
        """All segments, oldest first."""
        return tuple(self._segments)

    @property
    def closed_segments(self) -> Sequence[Segment]:
        """All segments but the active one, oldest first."""
        return tuple(self._segments[:-1])

    def end_offset_for(self, epoch: int) -> EpochEndOffset:
        """The largest epoch of the log that is not larger than `epoch`, and the offset after its last record (KIP-279).

        (-1, log start offset) when every record is of a later epoch.
        """
        floor = self.epochs.floor_epoch(epoch)
        if floor is None:
            return EpochEndOffset(UNDEFINED_EPOCH, self._log_start_offset)
        return self.epochs.end_offset_for(floor, self.log_end_offset)

    # Segments

    def roll(self, now_ms: int | None) -> None:
        """Close the active segment and begin a new one at the log end offset."""
        segment = Segment(
            self._disk, self.directory, self.log_end_offset, self.config.index_interval_bytes, now_ms or 0
        )
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        self._active = segment
        self._names_version += 1
        self.observer.rolled(segment.base_offset)
        self.on_roll()

    def _segment_number(self, offset: int) -> int:
        return max(0, bisect_right(self._bases, offset) - 1)

    def _trim_epochs(self) -> None:
        """Forget epochs outside the log, but for that of the last record before its start."""
        moved = self.epochs.truncate_from_start(max(0, self._log_start_offset - 1))
        self._epochs_version += self.epochs.truncate_from_end(self.log_end_offset) or moved

    # Durability

    def flush(self) -> int:
        """Bring every record to stable storage; returns the recovery point, which is the log end offset then.

        Raises OSError when the disk cannot; from then on the log can only be read.
        """
        if self.is_dirty:
            self._sync()
        else:
            self._check_not_failed()
        return self._flushed_end_offset

    @property
    def is_dirty(self) -> bool:
        """Whether there is anything that a flush would do."""
        return (
            self._flushed_end_offset < self.log_end_offset
            or self._names_synced < self._names_version
            or self._epochs_synced < self._epochs_version
        )

    def flush_if_due(self, now_ms: int) -> bool:
        """Flush when a record has waited for `flush.ms`; True when it did."""
        if not self.is_flush_due(now_ms):
            return False
        self.flush()
        return True

    def is_flush_due(self, now_ms: int) -> bool:
        """Whether a record has waited for `flush.ms`.

        One whose append told no time has waited since the log was last looked at, at most.
        """
        looked_ms, self._looked_ms = self._looked_ms, now_ms
        since = self._unflushed_since_ms
        if since is None:
            since = now_ms if looked_ms is None else looked_ms
        return self._flushed_end_offset < self.log_end_offset and now_ms - since >= self.config.flush_ms

    def log_start_written(self) -> None:
        """The checkpoint says where the log starts; everything below had been flushed."""
        assert self._flushed_end_offset >= self._log_start_offset, "a log start is written when it is flushed up to"
        self._durable_log_start = self._log_start_offset

    def begin_flush(self, *, closed_only: bool = False) -> PendingFlush:
        """A flush of what the log is now, or with `closed_only` of all but the active segment, to be done in a moment.

        Raises OSError when the disk fails already here.
        """
        self._check_not_failed()
        closed, active = self._segments[self._segment_number(self._flushed_end_offset) : -1], self._active
        with self._failing():
            syncs = self.observer.unsynced()
            for segment in closed:
                syncs += segment.begin_sync(closed=True)
            if not closed_only:
                syncs += active.begin_sync(closed=False)
                self._unflushed_since_ms = None
        names = [self.directory] if self._names_synced < self._names_version else []
        epochs = None
        if self._epochs_synced < self._epochs_version:
            epochs = checkpoints.encode_leader_epochs(self.epochs.entries)
        flush = PendingFlush(
            end_offset=active.base_offset if closed_only else self.log_end_offset,
            disk=self._disk,
            directory=self.directory,
            syncs=syncs,
            epochs=epochs,
            names=[*names, self.directory.rpartition("/")[0] or "."] if self._is_new else names,
            versions=(self._names_version, self._epochs_version),
            flushes=self._flushes,
        )
        self._flushes.pending.append(flush)
        return flush

    def begin_check(self) -> PendingFlush:
        """A flush that writes and syncs though there may be nothing to flush: whether the disk still takes anything."""
        self._epochs_version += 1
        return self.begin_flush()

    @property
    def is_being_flushed(self) -> bool:
        """Whether a flush is under way."""
        return bool(self._flushes.pending)

    def finish_flush(self, flush: PendingFlush) -> bool:
        """Move the recovery point after the flush's work; False when the flush was void. Raises OSError."""
        if flush.flushes is not self._flushes:
            return False  # it was of the log whose place this one has taken
        self._raise(self._flushes.finish(flush))
        if flush.is_void:
            return False
        names_version, epochs_version = flush.versions
        self._names_synced = max(self._names_synced, names_version)
        self._epochs_synced = max(self._epochs_synced, epochs_version)
        self._is_new = False
        self._flushed_end_offset = max(self._flushed_end_offset, flush.end_offset)
        self.observer.flushed(flush.end_offset)
        return True

    def _raise(self, error: OSError | None) -> None:
        """What a sync had to report, if anything."""
        if error is not None:
            with self._failing():
                raise error

    def _sync(self) -> None:
        """Flush all of the log here and now; flushes that are under way are void."""
        self._raise(self._flushes.do_all())
        flush = self.begin_flush()
        flush.work()
        self.finish_flush(flush)

    def _lower_recovery_point(self, offset: int) -> None:
        if offset < self._flushed_end_offset:
            if self._before_recovery_point_falls is not None:
                self._before_recovery_point_falls(offset)
            self._flushed_end_offset = offset

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """After an OSError from here nobody knows what is on the disk: the log refuses every later change."""
        try:
            yield
        except OSError as error:
            self._failure = error
            raise

    def _check_not_failed(self) -> None:
        if self._failure is not None:
            raise FailedLogError(
                f"{self.directory} can only be read since its disk failed ({self._failure}): mend the disk and restart"
            )
