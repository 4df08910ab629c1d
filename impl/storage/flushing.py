"""Bringing a log to stable storage while it grows.

Theory of operation
-------------------
A flush has three parts. What is to be synced is collected at one moment, in the thread that uses the log: the segments
beyond the recovery point, the indexes of those that are closed, the producers' snapshots, the leader epochs, and the
names in the log's directory. Then all of it is synced (`PendingFlush.work`, in any thread). Only after that the
recovery point moves up to where the log ended when the flush began, in the log's thread again; what was appended in
between waits for the next one. A caller that needs the log on stable storage does the three in a row; a timer lets
other tasks run during the second.

A flush at once, a truncation and a new start first do the work of the flushes that still wait for their turn, or wait
for the one that is at work: both write the leader epoch checkpoint, and no other flush syncs what a flush has
collected. After that these flushes are void: they do not move the recovery point, for the log is another.

After a sync that failed nobody knows what is on the disk: the flush raises, and the log refuses every later change.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import attrs

from tidegauge.impl.ports.disk import Disk, PendingSync
from tidegauge.impl.ports.disk_errors import NO_DESCRIPTORS, Extent, extent_of
from tidegauge.impl.storage import checkpoints


@attrs.define(eq=False, repr=False)
class PendingFlush:
    """One flush of one log."""

    end_offset: int
    """Up to where the log is on stable storage afterwards."""
    disk: Disk
    directory: str
    syncs: Sequence[PendingSync]
    epochs: str | None
    """The leader epochs' checkpoint, if it has to be written."""
    names: Sequence[str]
    """Directories whose names have to be synced."""
    versions: tuple[int, int]
    """Of the names and of the leader epochs that are on stable storage afterwards."""
    flushes: Flushes
    """Those of the same log."""
    is_void: bool = False
    """Whether it moves the recovery point no more."""
    error: OSError | None = None
    in_doubt: bool = False
    """Whether nobody knows what of the log is on stable storage: a sync has failed, or the disk."""
    _is_syncing: bool = False
    _is_done: bool = False

    def work(self) -> None:
        """Do what takes long, unless it is done. `Durability.finish_flush` raises what made it fail."""
        with self.flushes.lock:
            if not self._is_done:
                self._is_done = True
                try:
                    self._sync()
                except OSError as error:
                    self.error = error
                    self.in_doubt = leaves_doubt(error, is_sync=self._is_syncing)

    def drop(self) -> None:
        """Leave it; wait for it if it is being done."""
        with self.flushes.lock:
            self.is_void = True
            if not self._is_done:
                self._is_done = True
                _drop(self.syncs)

    def _sync(self) -> None:
        self._is_syncing = True
        for number, sync in enumerate(self.syncs):
            try:
                sync.run()
            except OSError:
                _drop(self.syncs[number + 1 :])
                raise
        self._is_syncing = False
        _, version = self.versions
        writes_epochs = self.epochs is not None and version > self.flushes.epochs_written
        if self.epochs is not None and writes_epochs:
            name = checkpoints.LEADER_EPOCH_CHECKPOINT
            checkpoints.write_atomically(self.disk, self.directory, name, self.epochs)
            self.flushes.epochs_written = version
        self._is_syncing = True
        for directory in self.names:
            if not writes_epochs or directory != self.directory:
                self.disk.sync_directory(directory)


def leaves_doubt(error: OSError, *, is_sync: bool) -> bool:
    """Whether an error of a flush leaves a log in doubt: not for want of room for something beside the log's files."""
    return extent_of(error) is not Extent.PASSING or (is_sync and error.errno not in NO_DESCRIPTORS)


def _drop(syncs: Sequence[PendingSync]) -> None:
    for sync in syncs:
        sync.drop()


@attrs.define(eq=False, repr=False)
class Flushes:
    """The flushes of one log that are under way."""

    lock: threading.Lock = attrs.field(factory=threading.Lock)
    pending: list[PendingFlush] = attrs.field(factory=list)
    epochs_written: int = 0
    """The version of the leader epochs that was written last: an older one that comes late is not written over it."""

    def write_epochs(self, disk: Disk, directory: str, text: str, version: int) -> None:
        """Write the leader epochs' checkpoint now; no flush that began before writes an older one over it."""
        with self.lock:
            checkpoints.write_atomically(disk, directory, checkpoints.LEADER_EPOCH_CHECKPOINT, text)
            self.epochs_written = version

    def finish(self, flush: PendingFlush) -> OSError | None:
        """End a flush after the work of those that began before it; returns the disk's error, if any."""
        if flush in self.pending:
            for earlier in self.pending[: self.pending.index(flush)]:
                earlier.work()
                flush.error = flush.error or earlier.error
                flush.in_doubt = flush.in_doubt or earlier.in_doubt
            self.pending.remove(flush)
        return flush.error

    def do_all(self) -> tuple[OSError | None, bool]:
        """Do their work now and make them void; returns the disk's error, if any, and whether the log is in doubt."""
        error, in_doubt = None, False
        for flush in self.pending:
            flush.work()
            flush.is_void = True
            error, in_doubt = error or flush.error, in_doubt or flush.in_doubt
        self.pending.clear()
        return error, in_doubt

    def drop_all(self) -> None:
        """Give all of them up: the log is closed as it is."""
        for flush in self.pending:
            flush.drop()
        self.pending.clear()
