"""One partition's log: record batches in segments, the leader epochs in them, and what of them is on stable storage.

Theory of operation
-------------------
A log holds the records [log start offset, log end offset), in segments of consecutive offsets; only the last one grows.
The leader appends with offsets and an epoch of its own. A follower appends what its leader sent, byte for byte, with
gaps where the leader's log was compacted. Both check every batch first: what is not intact the disk has damaged.

An append reaches the operating system at once. A flush brings it to stable storage and moves the recovery point
(`flushed_end_offset`). After a crash the log keeps some prefix that ends at or after the recovery point (`recovery`).

Truncation is durable when it returns; otherwise a truncated record could come back after a crash. The log start offset
only grows, but for a log that starts anew. DeleteRecords and a leader's log start offset move it at once and free
nothing. Retention removes whole segments below it, and with `cleanup.policy=delete` those that are too old or that the
log is too large for. It removes only committed records, so the caller gives the high watermark. The active segment is
removed too once all of it has expired; a new one is begun first.

A disk that fails raises OSError. An append that failed has left nothing behind. After a failed sync the log refuses
every later change with `FailedLogError`; reading goes on. Bytes from a peer that are no proper batches raise
`RecordError`, an offset outside the log `OffsetOutOfRangeError`. Both carry the Kafka error code for the response, and
nothing has changed.

Segments and their files are in `segments`, flushes and failures in `durability`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from tidegauge.impl.partition.producer_state import ProducerStates
from tidegauge.impl.ports.disk import Buffer, Disk
from tidegauge.impl.records.batches import (
    CONTROL_FLAG,
    NO_TIMESTAMP,
    PREFIX_SIZE,
    BatchHeader,
    assign,
    checked_headers,
    leader_prefix,
)
from tidegauge.impl.records.checked import Batches, CheckedBatch
from tidegauge.impl.records.markers import marker_record
from tidegauge.impl.records.origin import CLIENT, Origin
from tidegauge.impl.storage.appends import AppendedBatch, AppendInfo
from tidegauge.impl.storage.checkpoints import LEADER_EPOCH_CHECKPOINT
from tidegauge.impl.storage.config import LOG_APPEND_TIME, NEVER, LogConfig
from tidegauge.impl.storage.damage import Damage
from tidegauge.impl.storage.errors import BatchListTooLargeError, CorruptLogError, OffsetOutOfRangeError
from tidegauge.impl.storage.flushing import PendingFlush
from tidegauge.impl.storage.follower_batches import check_ascending, segment_loads
from tidegauge.impl.storage.interrupted_replacements import remove_deleted
from tidegauge.impl.storage.leader_epoch_cache import UNDEFINED_EPOCH, LeaderEpochCache
from tidegauge.impl.storage.log_names import LogNames
from tidegauge.impl.storage.log_observer import NO_UPKEEP, LogObserver
from tidegauge.impl.storage.log_reads import LogReads
from tidegauge.impl.storage.log_starts import where_it_starts
from tidegauge.impl.storage.partition_directory import create_directory, delete_directory
from tidegauge.impl.storage.producer_snapshot import ProducerSnapshots
from tidegauge.impl.storage.recovery import (
    NOTHING_RECOVERED,
    Recovery,
    next_segment,
    recover_segments,
)
from tidegauge.impl.storage.recovery_points import Checkpointed
from tidegauge.impl.storage.segment import Segment
from tidegauge.impl.storage.segments import Segments
from tidegauge.impl.storage.validation import validated

SMALL_BYTES = 4096
"""Up to here copying is cheaper than writing from two places."""


class Log(LogReads):
    """One partition's log. One thread at a time may use it."""

    def __init__(
        self, disk: Disk, directory: str, config: LogConfig, segments: Segments, epochs: LeaderEpochCache
    ) -> None:
        """Use `Log.open`."""
        super().__init__(disk, directory, segments, epochs)
        self.config = config
        self.observer = LogObserver()
        self.producers = ProducerStates()
        """What the log's producers have written, as far as the leader has to know it."""
        self.recovery = NOTHING_RECOVERED
        """What opening the log had to mend."""
        self.upkeep = NO_UPKEEP
        """Is told of what is to be done later."""
        self._disk = disk
        self._owes_flush = False
        """Whether the last flush that `flush.messages` or `flush.ms` asked for has failed."""

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
        high_watermark: int = 0,
        cleaned_offset: int | None = None,
        clean_shutdown: bool = False,
        knows_log_start: bool = False,
        reads_all: bool = False,
        names: LogNames | None = None,
        before_lowering: Callable[[int], None] | None = None,
        note_start: Callable[[int], None] | None = None,
        producers: ProducerStates | None = None,
    ) -> Log:
        """Open the log in a directory, which is created if it is missing. All its records are then on stable storage.

        recovery_point, log_start_offset, high_watermark: the checkpointed ones.
        cleaned_offset: up to where a cleaner was at the log, and Kafka's leaves out offsets; None: none was.
        clean_shutdown: `close` was the last thing that happened to the log, so nothing is scanned.
        knows_log_start: after a clean shutdown `log_start_offset` is there even if the first segment's name says it.
        reads_all: look at all checksums all the same.
        names: those in the directory, if it is there and they are known.
        before_lowering: is called with the new recovery point before records below the old are removed.
        note_start: is called with a log start that has to be checkpointed, since the leader epochs do not tell it.
        producers: takes what the log's producers have written.
        """
        is_created = names is None and create_directory(disk, directory)
        if names is None:
            names = LogNames(() if is_created else disk.list_directory(directory))
        clean_shutdown &= not is_created
        epochs = LeaderEpochCache()
        checkpointed = Checkpointed(
            recovery_point, log_start_offset, high_watermark, clean_shutdown, cleaned_offset, reads_all
        )
        segments, recovery = recover_segments(disk, directory, config, now_ms, names, checkpointed, epochs)
        is_new = not segments
        if (base_offset := next_segment(segments, recovery, log_start_offset)) is not None:
            segments.append(Segment(disk, directory, base_offset, config.index_interval_bytes, now_ms))
        log = cls(disk, directory, config, Segments(disk, directory, segments), epochs)
        durability = log._durability
        durability.before_lowering, durability.note_start = before_lowering, note_start
        is_known = knows_log_start and clean_shutdown
        recovery = log._take_in_start(log_start_offset, recovery, is_new=is_new, is_known=is_known)
        known = recovery.checkpointed_epochs  # a file that is not believed is written anew
        is_believed = known is not None or LEADER_EPOCH_CHECKPOINT not in names.all
        is_believed &= not recovery.is_start_in_doubt  # the next process is not to doubt it again
        durability.epochs_version = int(not is_believed or epochs.entries != tuple(known or ()))
        durability.is_new = is_created
        log._segments.names_version = int(is_new or not clean_shutdown or recovery.has_changed_files)
        durability.recovery_point = recovery_point
        durability.lower_recovery_point(log.log_end_offset)
        has_nothing = is_new and LEADER_EPOCH_CHECKPOINT not in names.all  # of a log before it the epochs are left
        if log.is_dirty and not has_nothing:
            durability.sync(log.observer)
        durability.recovery_point = log.log_end_offset
        remove_deleted(disk, directory, names)
        log.damage.renew_note(names.all)
        if producers is not None:
            log.producers = producers
        log.observer = snapshots = ProducerSnapshots(disk, log, log.producers)
        snapshots.load(names, high_watermark)
        for segment in segments:
            segment.opened()
        return log

    def _take_in_start(self, written: int, recovery: Recovery, *, is_new: bool, is_known: bool) -> Recovery:
        """Start where all that is known says, keep the gaps of the log, and tell all; returns what is found."""
        first, end = self._segments.base_offsets[0], self.log_end_offset
        start, recovery = where_it_starts(
            self.directory, written, first, end, recovery, is_new=is_new, is_known=is_known
        )
        self._log_start_offset = self._durability.log_start_offset = start
        self.recovery = recovery
        if recovery.gaps or recovery.doubted:
            kept = tuple(gap for gap in recovery.gaps if gap.end > start or gap.start < first)
            doubted = [gap for gap in recovery.doubted if gap.end > start]
            self.recovery = attrs.evolve(recovery, gaps=kept)
            self.damage = Damage(self._disk, self.directory, kept, doubted)
            self.damage.tell_found(gap for gap in recovery.gaps if gap not in kept)
        self._trim_epochs()
        if recovery.is_start_in_doubt or start < written or not self.epochs_tell_start:
            self._durability.write_start(start)
        return recovery

    # --- appending ---------------------------------------------------------------------------------------------------

    def append_as_leader(
        self,
        batches: Batches,
        leader_epoch: int,
        now_ms: int,
        *,
        origin: Origin = Origin.CLIENT,
        admit: Callable[[Sequence[BatchHeader]], None] | None = None,
    ) -> AppendInfo:
        """Append batches with the next offsets and this leader epoch; the caller's bytes are not changed.

        A client sends exactly one batch, which must obey the rules for producers (`validation`); it may have been
        checked before. `admit` sees the headers before anything is appended, and raises to refuse them. Raises
        RecordError when a batch is not intact or breaks a rule, OSError when the disk does not take it.
        """
        if isinstance(batches, CheckedBatch):
            headers, batches = [batches.header], batches.stored
        elif origin is CLIENT:
            header, batches = validated(batches, self.config, now_ms)
            headers = [header]
        else:
            headers = checked_headers(batches)
        if len(batches) > self.config.segment_bytes:
            raise BatchListTooLargeError(f"{len(batches)} bytes: segment.bytes is {self.config.segment_bytes}")
        if self._owes_flush:  # what was appended before is flushed first: a repeat of it is acknowledged then
            self._flush_as_asked(now_ms)
        if admit is not None:
            admit(headers)
        base_offset = next_offset = self._segments.active.next_offset
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
        if headers[0].attributes & CONTROL_FLAG:
            self._segments.active.transaction_index.load()
        info = self._append(parts, assigned, [(leader_epoch, base_offset)], now_ms)
        position = 0
        for header in headers:
            if header.attributes & CONTROL_FLAG:
                self._take_in_control(batches, position, header, base_offset)
            else:
                self.observer.appended(header, base_offset)
            base_offset += header.last_offset_delta + 1
            position += header.size
        self._flush_as_asked(now_ms)
        return info

    def append_time_ms(self, now_ms: int) -> int:
        """The timestamp that this log gives a record appended now; -1 when the record keeps its producer's."""
        return now_ms if self.config.message_timestamp_type == LOG_APPEND_TIME else NO_TIMESTAMP

    def append_as_follower(self, batches: Buffer, now_ms: int | None = None) -> AppendInfo:
        """Append batches as the leader sent them, with their offsets and epochs.

        The first may not begin before the log end offset (but may span it, in an empty log that starts inside a batch),
        and no other before the end of the one ahead of it. Raises RecordError when one does, or is not intact; OSError
        from the disk.
        """
        headers = checked_headers(batches)
        check_ascending(headers, self.log_end_offset, self.latest_epoch, log_is_empty=self.size == 0)
        info = AppendInfo(self.log_end_offset, self.log_end_offset - 1, NO_TIMESTAMP, 0)
        room = max(0, self.config.segment_bytes - self._segments.active.size)
        for first, last, position, size in segment_loads(headers, room, self.config.segment_bytes):
            load = headers[first:last]
            part = batches if size == len(batches) else memoryview(batches)[position : position + size]
            assigned = [AppendedBatch(header.last_offset, header.size, header.max_timestamp) for header in load]
            starts = [(header.partition_leader_epoch, header.base_offset) for header in load]
            if any(header.attributes & CONTROL_FLAG for header in load):
                self._segments.active.transaction_index.load()
            done = self._append((part,), assigned, starts, now_ms)
            for header in load:
                if header.attributes & CONTROL_FLAG:
                    self._take_in_control(batches, position, header, header.base_offset)
                else:
                    self.observer.appended(header, header.base_offset)
                position += header.size
            self._flush_as_asked(now_ms)
            info = AppendInfo(
                info.base_offset, done.last_offset, max(info.max_timestamp, done.max_timestamp), info.size + done.size
            )
        return info

    def _take_in_control(self, batches: Buffer, position: int, header: BatchHeader, base_offset: int) -> None:
        """Take in a control batch that was appended; a transaction that it aborts is indexed."""
        aborted = self.observer.appended(header, base_offset, marker_record(batches, position))
        if aborted is not None:
            self._segments.active.transaction_index.append(aborted)

    def _append(
        self,
        parts: Sequence[Buffer],
        batches: Sequence[AppendedBatch],
        epoch_starts: Sequence[tuple[int, int]],
        now_ms: int | None,
    ) -> AppendInfo:
        durability, segments = self._durability, self._segments
        if durability.failure is not None:
            durability.check()
        base_offset = segments.active.next_offset
        if not batches:
            return AppendInfo(base_offset, base_offset - 1, NO_TIMESTAMP, 0)
        last_offset, size, max_timestamp = batches[-1]
        if len(batches) > 1:
            size = sum(batch.size for batch in batches)
            max_timestamp = max(batch.max_timestamp for batch in batches)
        if segments.must_roll(self.config, size, last_offset, max_timestamp, now_ms):
            self.roll(now_ms)
        try:
            segments.active.append(parts, batches)
        except OSError as error:
            if segments.active.is_torn:
                durability.fail(error)
            raise
        if epoch_starts[-1][0] != self.epochs.latest_epoch:
            self._assign_epochs(epoch_starts)
        if durability.unflushed_since_ms is None:
            durability.unflushed_since_ms = now_ms
        return AppendInfo(base_offset, last_offset, max_timestamp, size)

    def _flush_as_asked(self, now_ms: int | None) -> None:
        """Flush by `flush.messages` and `flush.ms`, when all is taken in that was appended: it stays if this raises."""
        self._owes_flush = True
        if self.log_end_offset - self._durability.recovery_point >= self.config.flush_messages:
            self.flush()
        elif now_ms is not None and self.config.flush_ms != NEVER:
            self.flush_if_due(now_ms)
        self._owes_flush = False

    def _assign_epochs(self, epoch_starts: Sequence[tuple[int, int]]) -> None:
        for epoch, start_offset in epoch_starts:
            if epoch > self.latest_epoch:
                self._durability.epochs_version += self.epochs.assign(epoch, max(start_offset, self._log_start_offset))

    # --- truncation ---------------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int, *, epoch: int = UNDEFINED_EPOCH) -> int:
        """Remove every batch that reaches to `offset` or beyond, durably; returns the new log end offset.

        That is below `offset` when it lay inside a batch, and never below the log start when `offset` is not. Below the
        log start the log is emptied and starts there, with `epoch` as that of the record before, if it is known. Raises
        CorruptLogError on new damage.
        """
        self._durability.check()
        if offset >= self.log_end_offset:
            return self.log_end_offset
        if offset < self._log_start_offset:
            self.truncate_fully_and_start_at(offset, epoch=epoch)
            return offset
        was_whole = not self.damage
        try:
            self._cut(offset)
        except CorruptLogError as error:
            if not self.examine(error) or self.damage:
                raise
            self._cut(offset)
        self.damage.check(was_whole=was_whole)
        return self.log_end_offset

    def _cut(self, offset: int) -> None:
        durability, segments = self._durability, self._segments
        number = segments.number_of(offset)
        offset = segments.ordered[number].start_of(offset)
        if offset < self._log_start_offset:  # in the batch that the log starts in
            return self._empty_at_start()
        durability.lower_recovery_point(offset)
        try:
            with durability.failing():  # half-way a file is left that is no segment
                segments.remove_from(number + 1)
            if offset < segments.active.next_offset:
                segments.active.truncate(offset, self.epochs)
            self.damage.keep_below(self.log_end_offset)
            self._trim_epochs()
            self._note_start()
            durability.sync(self.observer)
        finally:  # what is remembered of producers is never more than the log has
            with durability.failing():
                self.observer.truncated(self.log_end_offset)

    def truncate_fully_and_start_at(self, offset: int, now_ms: int = 0, *, epoch: int = UNDEFINED_EPOCH) -> None:
        """Remove every record; the next one gets `offset`. Durable when it returns.

        `epoch` is that of the record before, which this log has never had.
        """
        durability = self._durability
        durability.check()
        durability.lower_recovery_point(min(offset, self._log_start_offset))
        try:
            with durability.failing():  # half-way there is no segment to append to
                self._segments.start_anew(offset, self.config, now_ms)
            self._log_start_offset = durability.log_start_offset = offset
            self.damage.forget()
            self.epochs.clear()
            durability.epochs_version += 1  # written even if there are none: no epoch of the former log is left
            if epoch >= 0 and offset:
                self.epochs.assign(epoch, offset - 1)
            self._note_start()
            durability.sync(self.observer)
        finally:
            with durability.failing():
                self.observer.started_anew(offset)

    def _empty_at_start(self) -> None:
        """Remove every record and leave the log start where it is, with the epoch of the record before it."""
        last = self.epochs.epoch_for_offset(self._log_start_offset - 1)
        self.truncate_fully_and_start_at(self._log_start_offset, epoch=UNDEFINED_EPOCH if last is None else last)

    def repair(self) -> int:
        """End before the first damaged offset, durably; returns the log end offset.

        What is damaged, and all behind it, stays on the disk in files whose names end in `.damaged`.
        """
        self._durability.check()
        gap, start, end = self.damage.gaps[0], self.damage.start, self.log_end_offset
        self._durability.lower_recovery_point(start)
        first = self._segments.base_offsets[0]
        with self._durability.failing():  # half-way a file is left that is no segment
            names = self.damage.set_aside(self._segments, empties=start < max(first, self._log_start_offset))
        if start < first:
            self.truncate_fully_and_start_at(start)
        elif start < self._log_start_offset:
            self._empty_at_start()
        else:
            self._cut(start)
        self.damage.repaired(gap, end, names)
        return self.repair() if self.damage else self.log_end_offset  # what is left may be damaged too

    # --- retention and compaction -------------------------------------------------------------------------------------

    def delete_records_before(self, offset: int) -> int:
        """Move the log start offset up (DeleteRecords), never down; returns it. `retention` frees the space.

        The caller makes sure that the records are below the high watermark. Raises OffsetOutOfRangeError beyond the log
        end offset.
        """
        self._durability.check()
        if not 0 <= offset <= self.log_end_offset:
            raise OffsetOutOfRangeError(offset, self._log_start_offset, self.log_end_offset)
        if offset > self._log_start_offset:
            self._log_start_offset = offset
            self.damage.keep_from(offset)
            self._trim_epochs()
            self.observer.start_moved(offset)
        return self._log_start_offset

    def retention(self, now_ms: int, high_watermark: int | None = None) -> int:
        """Remove old segments as `retention.ms`, `retention.bytes` and the log start offset ask; returns how many.

        Whole segments, oldest first, none with records at or above the high watermark (None: the log end offset).
        Durable when it returns, and so is the log start offset. Raises CorruptLogError (`ages`).
        """
        durability, segments = self._durability, self._segments
        durability.check()
        limit = self.log_end_offset if high_watermark is None else high_watermark
        count = segments.expired(self.config, self._log_start_offset, now_ms, limit)
        if count == len(segments.ordered):
            self.roll(now_ms)
        if count:
            if segments.ordered[count - 1].next_offset > durability.recovery_point:
                self.flush()
            start = segments.base_offsets[count]
            with durability.failing():
                self.upkeep.segments_deleted()
                segments.delete_oldest(count, now_ms, self.config.file_delete_delay_ms)
            self._log_start_offset = max(self._log_start_offset, start)  # not of a log that failed: nobody may note it
            durability.log_start_offset = max(durability.log_start_offset, start)
            self.damage.keep_from(self._log_start_offset)
            self._trim_epochs()
            durability.sync_epochs()
            self.observer.start_moved(self._log_start_offset)
        return count

    def replace_segments(self, replaced: Sequence[Segment], cleaned: Segment, now_ms: int) -> None:
        """Put `cleaned` in the place of successive closed segments, durably and as one step.

        `cleaned` has the base offset of the first of them, ends where the last one does, and its files carry
        `CLEANED_SUFFIX`. Raises OSError from the disk; after that the log can only be read.
        """
        durability, segments = self._durability, self._segments
        durability.check()
        segments.check_replaceable(replaced, cleaned)
        if durability.recovery_point < cleaned.next_offset:
            self.flush()
        with durability.failing():
            self.upkeep.segments_deleted()
            segments.replace_files(replaced, cleaned, now_ms, self.config.file_delete_delay_ms)
            self.observer.replaced([segment.base_offset for segment in replaced[1:]])
        segments.replace(replaced, cleaned)

    def free_deleted(self, now_ms: int) -> int:
        """Remove the files of segments deleted `file.delete.delay.ms` ago; returns how many segments."""
        return self._segments.free_deleted(now_ms)

    @property
    def has_deleted(self) -> bool:
        """Whether files of deleted segments are still there."""
        return self._segments.has_deleted

    def roll(self, now_ms: int | None) -> None:
        """Close the active segment and begin a new one at the log end offset."""
        segment = self._segments.roll(self.config, now_ms or 0)
        self.observer.rolled(segment.base_offset)
        self.upkeep.rolled()

    def _trim_epochs(self) -> None:
        """Forget epochs outside the log, but for that of the last record before its start."""
        moved = self.epochs.truncate_from_start(max(0, self._log_start_offset - 1))
        if self.epochs.truncate_from_end(self.log_end_offset) or moved:
            self._durability.trimmed_epochs()

    # --- durability ---------------------------------------------------------------------------------------------------

    def flush(self) -> int:
        """Bring every record to stable storage; returns the recovery point, which is then the log end offset.

        Raises OSError when the disk cannot; from then on the log can only be read.
        """
        if self.is_dirty:
            self._durability.sync(self.observer)
        else:
            self._durability.check()
        return self.flushed_end_offset

    def flush_if_due(self, now_ms: int) -> bool:
        """Flush when a record has waited for `flush.ms`; True when it did."""
        if is_due := self.is_flush_due(now_ms):
            self.flush()
        return is_due

    def is_flush_due(self, now_ms: int) -> bool:
        """Whether a record has waited for `flush.ms`."""
        return self._durability.is_flush_due(now_ms, self.config.flush_ms)

    def begin_flush(self, *, closed_only: bool = False) -> PendingFlush:
        """A flush of what the log is now, or with `closed_only` of all but the active segment, to be done soon.

        Raises OSError when the disk fails already here.
        """
        return self._durability.begin_flush(self.observer, closed_only=closed_only)

    def begin_check(self) -> PendingFlush:
        """A flush that writes and syncs something even if nothing is dirty: it fails if the disk does."""
        self._durability.epochs_version += 1
        return self.begin_flush()

    def finish_flush(self, flush: PendingFlush) -> bool:
        """Move the recovery point after the flush's work; False when the flush was void. Raises OSError."""
        return self._durability.finish_flush(flush, self.observer)

    def prepare_log_start(self, offset: int) -> None:
        """Flush up to where the log is to start, and write the leader epochs down that it has then. Raises OSError.

        They bear witness to a checkpoint that says where the log starts (`believed_log_start`).
        """
        if self.flushed_end_offset < offset:
            self.flush()
        self._durability.write_epochs_ahead(max(0, offset - 1))

    def record_log_start_written(self, offset: int) -> None:
        """A checkpoint says that the log starts at an offset; `prepare_log_start` was before."""
        durability = self._durability
        assert durability.recovery_point >= offset, "a log start is written when it is flushed up to"
        durability.log_start_offset = offset

    # --- the end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Flush, write the indexes and close the files: a clean shutdown. Raises OSError."""
        if (flush := self.begin_close()) is not None:
            flush.work()
        self.finish_close(flush)

    def begin_close(self) -> PendingFlush | None:
        """The flush before a clean shutdown's `finish_close`; None when there is nothing to flush. Raises OSError."""
        self._durability.check()
        self._durability.finish_pending()
        is_named = self.observer.closing()
        active = self._segments.active
        syncs = [sync for one in self._segments.ordered for sync in one.write_indexes(is_active=one is active)]
        if not syncs and not self.is_dirty and not is_named:
            return None
        self._segments.names_version += 1
        flush = self.begin_flush()
        flush.syncs = [*syncs, *flush.syncs]
        return flush

    def finish_close(self, flush: PendingFlush | None) -> None:
        """Close the files after the flush's work. Raises OSError."""
        if flush is not None:
            self.finish_flush(flush)
        self.abandon()

    def abandon(self) -> None:
        """Close the files as they are, as a crash does."""
        self._durability.drop_pending()
        self._segments.close()

    def delete(self) -> None:
        """Remove the partition's directory. A crash half-way leaves it under a name that ends in `-delete`."""
        self.abandon()
        delete_directory(self._disk, self.directory)
