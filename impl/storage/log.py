"""One partition's log: segments, the leader epochs in them, and what of it is on stable storage.

Theory of operation
-------------------
A log is the records [log start offset, log end offset), in segments of consecutive offsets; only the last one grows.
The leader appends with offsets and epoch of its own making, a follower appends what its leader sent, byte for byte:
with gaps where the leader's log was compacted. Both check every batch first, so a log never holds one that is not
intact unless the disk damages it.

An append reaches the operating system at once and stable storage with `flush`, which moves the recovery point
(`flushed_end_offset`). What a crash does is in `recovery`: the log keeps some prefix that ends at or after the
recovery point. Truncating makes the log shorter on stable storage before it returns; otherwise a record that was cut
could come back after a crash, as if it had never been gone.

A disk that fails raises OSError. An append that failed has left nothing behind. After a failed sync nobody knows what
is on the disk (see `ports.disk`), so the log refuses every later change with `FailedLogError`; reading goes on. Bytes
from a peer that are no proper batches raise `wire.records.RecordError`, an offset outside the log
`OffsetOutOfRangeError`; both carry the Kafka error code to answer with, and nothing has changed.

Appending, reading, opening and closing are here; the rest is in `log_state` (fields, durability), `truncation`,
`retention` and `replacement` (what the cleaner does).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from crc32c import crc32c

from tidegauge.impl.partition.producer_state import ProducerStates
from tidegauge.impl.ports.disk import Buffer, Disk
from tidegauge.impl.records.batches import (
    NO_TIMESTAMP,
    PREFIX_SIZE,
    BatchHeader,
    InvalidRecordError,
    assign,
    checked_headers,
    leader_prefix,
)
from tidegauge.impl.records.payload import decode_records
from tidegauge.impl.storage import checkpoints
from tidegauge.impl.storage.config import LOG_APPEND_TIME, NEVER, LogConfig
from tidegauge.impl.storage.errors import BatchListTooLargeError, OffsetOutOfRangeError
from tidegauge.impl.storage.flushing import PendingFlush
from tidegauge.impl.storage.leader_epoch_cache import LeaderEpochCache
from tidegauge.impl.storage.producer_snapshot import ProducerSnapshots
from tidegauge.impl.storage.reading import FileRegion
from tidegauge.impl.storage.recovery import recover_segments
from tidegauge.impl.storage.replacement import Replacement
from tidegauge.impl.storage.segment import MAX_RELATIVE_OFFSET, AppendedBatch, Segment
from tidegauge.impl.storage.transaction_index import AbortedTransaction
from tidegauge.impl.storage.truncation import Truncation
from tidegauge.impl.storage.validation import validated

DELETED_SUFFIX = "-delete"
SMALL_BYTES = 4096
"""Up to here copying is cheaper than writing from two places."""


class Origin(Enum):
    """Who made the batches that a leader appends."""

    CLIENT = "client"
    BROKER = "broker"
    """A coordinator or the controller: may write control batches, of any size that a segment takes."""


class AppendInfo(NamedTuple):
    """What an append put where."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    """ms since 1970, -1 when no record has one."""
    size: int
    """Bytes."""


class TimestampOffset(NamedTuple):
    """A record found by its timestamp."""

    timestamp: int
    offset: int
    leader_epoch: int


class Log(Truncation, Replacement):
    """One partition's log. Not for use by several threads."""

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        config: LogConfig,
        now_ms: int,
        *,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        clean_shutdown: bool = False,
        before_recovery_point_falls: Callable[[int], None] | None = None,
        producers: ProducerStates | None = None,
    ) -> Log:
        """The log in a directory, which is made if it is missing; afterwards all that it holds is on stable storage.

        `recovery_point` and `log_start_offset` are the checkpointed ones. `clean_shutdown` says that `close` was the
        last thing that happened to the log: then nothing is scanned. What the log's producers have written is put into
        `producers`.
        """
        is_made = _created(disk, directory)
        names = () if is_made else disk.list_directory(directory)
        entries = None
        if checkpoints.LEADER_EPOCH_CHECKPOINT in names:
            text = checkpoints.read_text(disk, directory, checkpoints.LEADER_EPOCH_CHECKPOINT)
            entries = checkpoints.decode_leader_epochs(text) if text is not None else None
        epochs = LeaderEpochCache(entries or ())
        segments, recovery = recover_segments(
            disk,
            directory,
            config,
            now_ms,
            names,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            clean_shutdown=clean_shutdown,
            epochs=epochs,
        )
        is_new = not segments
        if is_new:
            segments = [Segment(disk, directory, log_start_offset, config.index_interval_bytes, now_ms)]
        log = cls(disk, directory, config, segments, epochs)
        log.recovery = recovery
        log._before_recovery_point_falls = before_recovery_point_falls
        log._log_start_offset = min(max(log_start_offset, segments[0].base_offset), log.log_end_offset)
        log._durable_log_start = log._log_start_offset
        if entries is None:
            log._find_epochs()
        log._trim_epochs()
        log._epochs_version = int(epochs.entries != tuple(entries or ()))
        log._is_new = is_made
        log._names_version = int(is_new or not clean_shutdown or recovery.scanned_segments > 0)
        log._flushed_end_offset = recovery_point
        log._lower_recovery_point(log.log_end_offset)
        if log.is_dirty and not is_new:  # nothing that could be lost is in a new one
            log._sync()
        log._flushed_end_offset = log.log_end_offset
        log.producers = ProducerStates() if producers is None else producers
        log.observer = snapshots = ProducerSnapshots(disk, log, log.producers)
        snapshots.load(names)
        return log

    def _find_epochs(self) -> None:
        """Read every batch's epoch: the checkpoint is missing or damaged."""
        self.epochs.clear()
        for segment in self._segments:
            for header in segment.headers():
                if header.partition_leader_epoch > self.latest_epoch:
                    self.epochs.assign(header.partition_leader_epoch, max(header.base_offset, segment.base_offset))

    # Appending

    def append_as_leader(
        self,
        batches: Buffer,
        leader_epoch: int,
        now_ms: int,
        *,
        origin: Origin = Origin.CLIENT,
        admit: Callable[[Sequence[BatchHeader]], None] | None = None,
    ) -> AppendInfo:
        """Give the batches the next offsets and this leader epoch, and append them; the caller's bytes are not changed.

        A client's is exactly one batch, and held against the rules for producers (`validation`). Raises RecordError
        when they are not intact or break a rule, OSError when the disk does not take them.
        """
        if origin is Origin.CLIENT:
            header, batches = validated(batches, self.config, now_ms)
            headers = [header]
        else:
            headers = checked_headers(batches)
        if len(batches) > self.config.segment_bytes:
            raise BatchListTooLargeError(f"{len(batches)} bytes: segment.bytes is {self.config.segment_bytes}")
        if admit is not None:
            admit(headers)
        base_offset = next_offset = self._active.next_offset
        if len(headers) == 1:
            (header,) = headers
            prefix = leader_prefix(base_offset, header.batch_length, leader_epoch)
            rest = memoryview(batches)[PREFIX_SIZE:]
            size = PREFIX_SIZE + len(rest)
            parts: tuple[Buffer, ...] = (prefix, rest) if size > SMALL_BYTES else (prefix + rest,)
            assigned = [AppendedBatch(base_offset + header.last_offset_delta, size, header.max_timestamp)]
        else:
            parts = (copy := bytearray(batches),)
            assigned, position = [], 0
            for header in headers:
                assign(copy, position, next_offset, leader_epoch)
                next_offset += header.last_offset_delta + 1
                position += header.size
                assigned.append(AppendedBatch(next_offset - 1, header.size, header.max_timestamp))
        info = self._append(parts, assigned, [(leader_epoch, base_offset)], now_ms)
        for header in headers:
            self.observer.appended(header, base_offset)
            base_offset += header.last_offset_delta + 1
        return info

    def append_time_ms(self, now_ms: int) -> int:
        """What a record appended now is stamped with by this log; -1 when it keeps its producer's time."""
        return now_ms if self.config.message_timestamp_type == LOG_APPEND_TIME else NO_TIMESTAMP

    def append_as_follower(self, batches: Buffer, now_ms: int | None = None) -> AppendInfo:
        """Append batches as the leader sent them, with their offsets and epochs.

        The first may not begin before the log end offset (but may span it, in an empty log that starts inside a batch),
        and no other before the end of the one ahead of it. Raises RecordError when one does, or is not intact; OSError
        from the disk.
        """
        headers = checked_headers(batches)
        self._check_ascending(headers)
        info = AppendInfo(self.log_end_offset, self.log_end_offset - 1, NO_TIMESTAMP, 0)
        for first, last, position, size in self._segment_loads(headers):
            load = headers[first:last]
            part = batches if size == len(batches) else memoryview(batches)[position : position + size]
            assigned = [AppendedBatch(header.last_offset, header.size, header.max_timestamp) for header in load]
            starts = [(header.partition_leader_epoch, header.base_offset) for header in load]
            done = self._append((part,), assigned, starts, now_ms)
            for header in load:
                self.observer.appended(header, header.base_offset)
            info = AppendInfo(
                info.base_offset, done.last_offset, max(info.max_timestamp, done.max_timestamp), info.size + done.size
            )
        return info

    def _check_ascending(self, headers: Sequence[BatchHeader]) -> None:
        expected, epoch = self.log_end_offset, self.latest_epoch
        for number, header in enumerate(headers):
            spans = number == 0 and self.size == 0 and header.base_offset < expected <= header.last_offset
            if header.base_offset < expected and not spans:
                raise InvalidRecordError(f"a batch at offset {header.base_offset}: the log continues at {expected}")
            if header.partition_leader_epoch < epoch:
                raise InvalidRecordError(
                    f"leader epoch {header.partition_leader_epoch} at offset {header.base_offset} after epoch {epoch}"
                )
            expected, epoch = header.next_offset, header.partition_leader_epoch

    def _segment_loads(self, headers: Sequence[BatchHeader]) -> list[tuple[int, int, int, int]]:
        """(first batch, end, position, bytes) of runs of batches, each of which goes into one segment."""
        loads: list[tuple[int, int, int, int]] = []
        first, start, position, room = 0, 0, 0, max(0, self.config.segment_bytes - self._active.size)
        for number, header in enumerate(headers):
            if position + header.size - start > room and number > first:
                loads.append((first, number, start, position - start))
                first, start, room = number, position, self.config.segment_bytes
            position += header.size
        if headers:
            loads.append((first, len(headers), start, position - start))
        return loads

    def _append(
        self,
        parts: Sequence[Buffer],
        batches: Sequence[AppendedBatch],
        epoch_starts: Sequence[tuple[int, int]],
        now_ms: int | None,
    ) -> AppendInfo:
        self._check_not_failed()
        base_offset = self._active.next_offset
        if not batches:
            return AppendInfo(base_offset, base_offset - 1, NO_TIMESTAMP, 0)
        last_offset, size, max_timestamp = batches[-1]
        if len(batches) > 1:
            size = sum(batch.size for batch in batches)
            max_timestamp = max(batch.max_timestamp for batch in batches)
        if self._must_roll(size, last_offset, max_timestamp, now_ms):
            self.roll(now_ms)
        try:
            self._active.append(parts, batches)
        except OSError as error:
            if self._active.is_torn:
                self._failure = error
            raise
        if epoch_starts[-1][0] != self.latest_epoch:
            self._assign_epochs(epoch_starts)
        if self._unflushed_since_ms is None:
            self._unflushed_since_ms = now_ms
        if last_offset + 1 - self._flushed_end_offset >= self.config.flush_messages:
            self.flush()
        elif now_ms is not None and self.config.flush_ms != NEVER:
            self.flush_if_due(now_ms)
        return AppendInfo(base_offset, last_offset, max_timestamp, size)

    def _assign_epochs(self, epoch_starts: Sequence[tuple[int, int]]) -> None:
        for epoch, start_offset in epoch_starts:
            if epoch > self.latest_epoch:
                self._epochs_version += self.epochs.assign(epoch, max(start_offset, self._log_start_offset))

    def _must_roll(self, size: int, last_offset: int, timestamp: int, now_ms: int | None) -> bool:
        active = self._active
        return active.size > 0 and (
            active.size + size > self.config.segment_bytes
            or last_offset - active.base_offset > MAX_RELATIVE_OFFSET
            or active.grown_index_bytes > self.config.segment_index_bytes
            or active.waited_ms(now_ms, timestamp) > self._roll_ms()
        )

    def _roll_ms(self) -> int:
        """How long the active segment may grow; its jitter is drawn from its name, so a restart changes nothing."""
        roll_ms = self.config.roll_ms
        if not self.config.segment_jitter_ms:
            return roll_ms
        jitter_ms = max(1, min(self.config.segment_jitter_ms, self.config.segment_ms))
        return roll_ms - crc32c(f"{self.directory}/{self._active.base_offset}".encode()) % jitter_ms

    # Reading

    def read(self, offset: int, max_bytes: int, end_offset: int | None = None) -> bytes:
        """Whole batches from the first that reaches beyond `offset`, all below `end_offset` (None: the log end offset).

        At most `max_bytes`, but the first batch comes however large it is; empty when `offset` is not below the end.
        Ends with a segment. Raises OffsetOutOfRangeError outside [log start offset, log end offset].
        """
        data = self.fetch(offset, max_bytes, end_offset)
        return data.read_all() if isinstance(data, FileRegion) else bytes(data)

    def fetch(self, offset: int, max_bytes: int, end_offset: int | None = None) -> Buffer | FileRegion:
        """As `read`, but what is large may be the place where it lies."""
        log_end_offset = self._active.next_offset
        if not self._log_start_offset <= offset <= log_end_offset:
            raise OffsetOutOfRangeError(offset, self._log_start_offset, log_end_offset)
        end = log_end_offset if end_offset is None else min(end_offset, log_end_offset)
        if offset >= end:
            return b""
        if offset >= self._active.base_offset:
            return self._active.fetch(offset, max_bytes, end)
        data: Buffer | FileRegion = b""
        for segment in self._segments[self._segment_number(offset) :]:
            if segment.base_offset >= end or (data := segment.fetch(offset, max_bytes, end)):
                break
        return data

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record at or after a timestamp (ms since 1970), for ListOffsets; None when there is none."""
        for segment in self._segments:
            for header in segment.headers_reaching(timestamp):
                for record in decode_records(segment.read_batch(header)):
                    if record.timestamp >= timestamp and record.offset >= self._log_start_offset:
                        return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
        return None

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions with records in [start, end), for readers with read_committed."""
        found: list[AbortedTransaction] = []
        for segment in self._segments[self._segment_number(start_offset) :]:
            collected, complete = segment.transaction_index.collect(start_offset, end_offset)
            found += collected
            if complete:
                break
        return found

    def note_aborted(self, transaction: AbortedTransaction) -> None:
        """Index a transaction whose abort marker is the last batch appended. Raises OSError."""
        self._check_not_failed()
        self._active.transaction_index.append(transaction)

    def newest_record(self) -> TimestampOffset | None:
        """The first record with the largest timestamp, for ListOffsets; None when no record has one."""
        newest = max(segment.max_timestamp for segment in self._segments)
        return None if newest == NO_TIMESTAMP else self.offset_for_timestamp(newest)

    # The end

    def close(self) -> None:
        """Flush, write the indexes and let go of the files: a clean shutdown."""
        if (flush := self.begin_close()) is not None:
            flush.work()
        self.finish_close(flush)

    def begin_close(self) -> PendingFlush | None:
        """What has to be done before a clean shutdown's `finish_close`; None: nothing. Raises OSError."""
        self._check_not_failed()
        self._raise(self._flushes.do_all())
        self.observer.closing()
        syncs = [sync for segment in self._segments for sync in segment.write_indexes()]
        if not syncs and not self.is_dirty:
            return None
        self._names_version += 1
        flush = self.begin_flush()
        flush.syncs = [*syncs, *flush.syncs]
        return flush

    def finish_close(self, flush: PendingFlush | None) -> None:
        """Let go of the files, after all was brought to stable storage. Raises OSError."""
        if flush is not None:
            self.finish_flush(flush)
        self.abandon()

    def abandon(self) -> None:
        """Let go of the files as they are, as a crash does."""
        self._flushes.drop_all()
        for segment in [*self._segments, *(segment for _, segment in self._doomed)]:
            segment.close()

    def delete(self) -> None:
        """Remove the partition's directory. A crash half-way leaves it under a name that ends in `-delete`."""
        self.abandon()
        parent = self.directory.rpartition("/")[0] or "."
        doomed = f"{self.directory}{DELETED_SUFFIX}"
        if self._disk.exists(doomed):
            remove_directory(self._disk, doomed)
        self._disk.rename(self.directory, doomed)
        self._disk.sync_directory(parent)
        remove_directory(self._disk, doomed)


def _created(disk: Disk, directory: str) -> bool:
    """Whether a directory was made that was not there."""
    try:
        return disk.create_directory(directory)
    except FileNotFoundError:
        disk.make_directory(directory)
        return True


def remove_directory(disk: Disk, path: str) -> None:
    """Remove a directory and the files in it."""
    for name in disk.list_directory(path):
        disk.remove(f"{path}/{name}")
    disk.remove_directory(path)
