"""What of a log is on stable storage: the recovery point, flushes, and the failure of the disk.

Every record below the recovery point is on stable storage. `flushing` has the theory of how flushes move it. After a
failed sync nobody knows what is on the disk, so the log refuses every later change with `FailedLogError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidegauge.impl.ports.disk import Disk, PendingSync
from tidegauge.impl.storage import checkpoints
from tidegauge.impl.storage.errors import FailedLogError
from tidegauge.impl.storage.flushing import Flushes, PendingFlush, leaves_doubt
from tidegauge.impl.storage.leader_epoch_cache import EpochEntry, LeaderEpochCache
from tidegauge.impl.storage.log_observer import LogObserver
from tidegauge.impl.storage.segments import Segments


class Durability:
    """The state of one log's stable storage."""

    def __init__(self, disk: Disk, directory: str, segments: Segments, epochs: LeaderEpochCache) -> None:
        self.recovery_point = segments.base_offsets[0]
        self.log_start_offset = self.recovery_point
        """The log start offset that a crash leaves."""
        self.epochs_version = 0
        """How often the leader epochs have changed."""
        self.is_new = False
        """Whether a crash may lose the name of the directory itself."""
        self.before_lowering: Callable[[int], None] | None = None
        self.note_start: Callable[[int], None] | None = None
        self._disk = disk
        self._directory = directory
        self._segments = segments
        self._epochs = epochs
        self._names_synced = 0
        """How many changes of names are on stable storage."""
        self._epochs_synced = 0
        self._epochs_ahead: tuple[EpochEntry, ...] | None = None
        """Those that were written last, if that was for a log start that is yet to come."""
        self._flushes = Flushes()
        self.failure: OSError | None = None
        """Why every later change is refused, if it is."""
        self.unflushed_since_ms: int | None = None
        """When the first record was appended that no flush has taken."""
        self._looked_ms: int | None = None

    # --- failure ------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise FailedLogError when the disk has failed."""
        if self.failure is not None:
            raise FailedLogError(
                f"{self._directory} can only be read since its disk failed ({self.failure}): mend the disk and restart"
            ) from self.failure

    def fail(self, error: OSError) -> None:
        """Refuse every later change: nobody knows what is on the disk."""
        self.failure = error

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Refuse every later change after an OSError from here."""
        try:
            yield
        except OSError as error:
            self.failure = error
            raise

    def _raise(self, error: OSError | None, *, in_doubt: bool) -> None:
        if error is not None:
            if in_doubt:
                self.failure = error
            raise error

    # --- when to flush ------------------------------------------------------------------------------------------------

    @property
    def is_dirty(self) -> bool:
        """Whether a flush has anything to do."""
        return (
            self.recovery_point < self._segments.active.next_offset
            or self._names_synced < self._segments.names_version
            or self._epochs_synced < self.epochs_version
        )

    @property
    def is_being_flushed(self) -> bool:
        """Whether a flush is in progress."""
        return bool(self._flushes.pending)

    def is_flush_due(self, now_ms: int, flush_ms: int) -> bool:
        """Whether a record has waited for `flush_ms`.

        One that was appended without a time has waited, at most, since this was asked last. One that is younger than
        now, because the wall clock was set back, has waited long enough.
        """
        looked_ms, self._looked_ms = self._looked_ms, now_ms
        since = self.unflushed_since_ms
        if since is None:
            since = now_ms if looked_ms is None else looked_ms
        return self.recovery_point < self._segments.active.next_offset and not 0 <= now_ms - since < flush_ms

    # --- flushing -----------------------------------------------------------------------------------------------------

    def begin_flush(self, observer: LogObserver, *, closed_only: bool = False) -> PendingFlush:
        """Collect what a flush has to sync, or with `closed_only` only what belongs to closed segments.

        Raises OSError when the disk fails already here.
        """
        self.check()
        segments = self._segments
        closed, active = segments.ordered[segments.number_of(self.recovery_point) : -1], segments.active
        syncs: list[PendingSync] = []
        try:
            syncs += observer.unsynced()
            for segment in closed:
                syncs += segment.begin_sync(closed=True)
            if not closed_only:
                syncs += active.begin_sync(closed=False)
                self.unflushed_since_ms = None
        except OSError as error:
            for sync in syncs:
                sync.drop()
            if leaves_doubt(error, is_sync=False):  # nothing is synced yet
                self.failure = error
            raise
        names = [self._directory] if self._names_synced < segments.names_version else []
        epochs = None
        if self._epochs_synced < self.epochs_version:
            epochs = checkpoints.encode_leader_epochs(self._epochs.entries)
        flush = PendingFlush(
            end_offset=active.base_offset if closed_only else active.next_offset,
            disk=self._disk,
            directory=self._directory,
            syncs=syncs,
            epochs=epochs,
            names=[*names, self._directory.rpartition("/")[0] or "."] if self.is_new else names,
            versions=(segments.names_version, self.epochs_version),
            flushes=self._flushes,
        )
        self._flushes.pending.append(flush)
        return flush

    def finish_flush(self, flush: PendingFlush, observer: LogObserver) -> bool:
        """Move the recovery point after the flush's work; False when the flush was void. Raises OSError."""
        if flush.flushes is not self._flushes:
            return False  # it belongs to the log that this one has replaced
        self._raise(self._flushes.finish(flush), in_doubt=flush.in_doubt)
        if flush.is_void:
            return False
        names_version, epochs_version = flush.versions
        self._names_synced = max(self._names_synced, names_version)
        self._epochs_synced = max(self._epochs_synced, epochs_version)
        self.is_new = False
        self.recovery_point = max(self.recovery_point, flush.end_offset)
        observer.flushed(flush.end_offset)
        return True

    @property
    def epochs_are_synced(self) -> bool:
        """Whether the leader epochs are on stable storage as they are."""
        return self._epochs_synced >= self.epochs_version

    def sync_epochs(self) -> None:
        """Bring the leader epochs to stable storage, if they have changed; without room the next flush does so.

        Raises OSError when the disk fails.
        """
        if not self.epochs_are_synced:
            text = checkpoints.encode_leader_epochs(self._epochs.entries)
            try:
                self._flushes.write_epochs(self._disk, self._directory, text, self.epochs_version)
            except OSError as error:
                if leaves_doubt(error, is_sync=False):
                    self.failure = error
                    raise
                return
            self._epochs_synced = self.epochs_version

    def write_epochs_ahead(self, start_offset: int) -> None:
        """Bring the leader epochs to stable storage as they will be without those that ended by `start_offset`.

        Raises OSError.
        """
        epochs = LeaderEpochCache(self._epochs.entries)
        if epochs.truncate_from_start(start_offset):
            self.epochs_version += 1  # until the log starts there, the file has others than the log
        elif self.epochs_are_synced:
            return
        self._epochs_ahead = epochs.entries
        try:
            text = checkpoints.encode_leader_epochs(self._epochs_ahead)
            self._flushes.write_epochs(self._disk, self._directory, text, self.epochs_version)
        except OSError as error:
            self._epochs_ahead = None
            if leaves_doubt(error, is_sync=False):
                self.failure = error
            raise
        self._note_epochs()

    def trimmed_epochs(self) -> None:
        """Leader epochs outside the log are forgotten."""
        self.epochs_version += 1
        self._note_epochs()

    def _note_epochs(self) -> None:
        """Leader epochs that were written ahead need not be written again."""
        if self._epochs_ahead == self._epochs.entries:
            self._epochs_synced = self._flushes.epochs_written = self.epochs_version
            self._epochs_ahead = None

    def sync(self, observer: LogObserver) -> None:
        """Flush everything now; flushes in progress become void. Raises OSError."""
        self.finish_pending()
        flush = self.begin_flush(observer)
        flush.work()
        self.finish_flush(flush, observer)

    def finish_pending(self) -> None:
        """Do the work of all flushes in progress and make them void. Raises OSError."""
        error, in_doubt = self._flushes.do_all()
        self._raise(error, in_doubt=in_doubt)

    def drop_pending(self) -> None:
        """Give up all flushes in progress."""
        self._flushes.drop_all()

    def lower_recovery_point(self, offset: int) -> None:
        """Move the recovery point down before records below it are removed."""
        if offset < self.recovery_point:
            if self.before_lowering is not None:
                self.before_lowering(offset)
            self.recovery_point = offset

    def write_start(self, offset: int) -> None:
        """Have the checkpoint say that the log starts at an offset, which the leader epochs do not tell."""
        if self.note_start is not None:
            self.note_start(offset)
