"""Reading one log: where it starts and ends, its segments and epochs, what is on stable storage, its records."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tidegauge.impl.partition.transactions import AbortedTransaction
from tidegauge.impl.ports.disk import Buffer, Disk
from tidegauge.impl.records.batches import RecordError, checked_header, extents
from tidegauge.impl.records.lazy import LazyRecords
from tidegauge.impl.records.slices import Sliced
from tidegauge.impl.storage.damage import Damage
from tidegauge.impl.storage.durability import Durability
from tidegauge.impl.storage.errors import CorruptLogError, OffsetOutOfRangeError
from tidegauge.impl.storage.leader_epoch_cache import UNDEFINED_EPOCH, EpochEndOffset, LeaderEpochCache
from tidegauge.impl.storage.neighbours import first_batch, last_batch
from tidegauge.impl.storage.noted_epochs import NotedEpochs
from tidegauge.impl.storage.reading import FileRegion
from tidegauge.impl.storage.segment import Segment
from tidegauge.impl.storage.segment_names import LOG_SUFFIX
from tidegauge.impl.storage.segments import Segments
from tidegauge.impl.storage.survey import Around
from tidegauge.impl.storage.timestamp_search import KnownPoints, TimestampOffset, searching


class LogReads:
    """What a log has, and what is read of it; `Log` changes it."""

    def __init__(self, disk: Disk, directory: str, segments: Segments, epochs: LeaderEpochCache) -> None:
        self.directory = directory
        self.epochs = epochs
        self.damage = Damage(disk, directory)
        """Offsets that cannot be read."""
        self._segments = segments
        self._durability = Durability(disk, directory, segments, epochs)
        self._log_start_offset = segments.base_offsets[0]

    # --- offsets and segments -----------------------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        """Offset of the first record that is kept."""
        return self._log_start_offset

    @property
    def log_start_epoch(self) -> int:
        """Leader epoch of the last record below the log start; -1 when there was none, or it is not known."""
        epoch = self.epochs.epoch_for_offset(self._log_start_offset - 1) if self._log_start_offset else None
        return UNDEFINED_EPOCH if epoch is None else epoch

    @property
    def log_start_is_durable(self) -> bool:
        """Whether a crash leaves the log start where it is; others are told only of a durable one."""
        return self.is_durable_start(self._log_start_offset)

    def is_durable_start(self, offset: int) -> bool:
        """Whether after a crash the log would start at the offset, or above."""
        return offset <= self._durability.log_start_offset

    @property
    def log_start_is_implied(self) -> bool:
        """Whether a start finds where the log starts by its first segment's name and its leader epochs."""
        is_told = not self._log_start_offset or (self.epochs_tell_start and self.epochs_are_synced)
        return is_told and self._log_start_offset <= self._segments.base_offsets[0]

    @property
    def epochs_tell_start(self) -> bool:
        """Whether the leader epochs bear out where the log starts: there are some, and they need not be made anew."""
        return self.epochs.latest_epoch is not None and not self.damage

    def _note_start(self) -> None:
        """Have written down where the log starts, if the leader epochs do not tell it. Raises OSError."""
        if not self.epochs_tell_start:
            self._durability.write_start(self._log_start_offset)

    @property
    def log_end_offset(self) -> int:
        """Offset that the next record will get (LEO)."""
        return self._segments.active.next_offset

    @property
    def latest_epoch(self) -> int:
        """Leader epoch of the last record, though it may be below the log start; -1 when there was none."""
        epoch = self.epochs.latest_epoch
        return UNDEFINED_EPOCH if epoch is None else epoch

    @property
    def size(self) -> int:
        """Bytes of all segments' records."""
        return self._segments.size

    @property
    def segment_base_offsets(self) -> Sequence[int]:
        """First offset of each segment, the active one last."""
        return tuple(self._segments.base_offsets)

    @property
    def segments(self) -> Sequence[Segment]:
        """All segments, oldest first."""
        return tuple(self._segments.ordered)

    @property
    def closed_segments(self) -> Sequence[Segment]:
        """All segments but the active one, oldest first."""
        return tuple(self._segments.ordered[:-1])

    def end_offset_for(self, epoch: int) -> EpochEndOffset:
        """The largest epoch of the log that is not larger than `epoch`, and the offset after its last record (KIP-279).

        (-1, log start offset) when every record is of a later epoch.
        """
        floor = self.epochs.floor_epoch(epoch)
        if floor is None:
            return EpochEndOffset(UNDEFINED_EPOCH, self._log_start_offset)
        return self.epochs.end_offset_for(floor, self.log_end_offset)

    # --- what is on stable storage ------------------------------------------------------------------------------------

    @property
    def has_failed(self) -> bool:
        """Whether the log can only be read until it is opened again."""
        return self._durability.failure is not None

    @property
    def flushed_end_offset(self) -> int:
        """Recovery point: every record below it is on stable storage."""
        return self._durability.recovery_point

    @property
    def is_dirty(self) -> bool:
        """Whether a flush has anything to do."""
        return self._durability.is_dirty

    @property
    def is_being_flushed(self) -> bool:
        """Whether a flush is in progress."""
        return self._durability.is_being_flushed

    @property
    def epochs_are_synced(self) -> bool:
        """Whether the leader epochs are on stable storage as they are."""
        return self._durability.epochs_are_synced

    # --- reading -----------------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, end_offset: int | None = None) -> bytes:
        """Whole batches from the first that reaches beyond `offset`, all below `end_offset` (None: the log end offset).

        At most `max_bytes`, though the first batch comes whatever its size; empty when `offset` is not below the end.
        Ends with a segment. Raises OffsetOutOfRangeError outside [log start offset, log end offset].
        """
        data = self.fetch(offset, max_bytes, end_offset)
        return data.read_all() if isinstance(data, FileRegion) else bytes(data)

    def fetch(self, offset: int, max_bytes: int, end_offset: int | None = None) -> Buffer | FileRegion:
        """As `read`, but many bytes may come as the place in a file where they are."""
        segments = self._segments
        log_end_offset = segments.active.next_offset
        if not self._log_start_offset <= offset <= log_end_offset:
            raise OffsetOutOfRangeError(offset, self._log_start_offset, log_end_offset)
        limit = end = log_end_offset if end_offset is None else min(end_offset, log_end_offset)
        if offset >= end:
            return b""
        if self.damage:
            end = self.damage.readable_end(offset, end)
        try:
            data = segments.fetch(offset, max_bytes, end)
        except CorruptLogError as error:
            if not self.examine(error):
                raise
            return self.fetch(offset, max_bytes, end_offset)
        if end < limit and not len(data):  # a cleaner has left out all before the gap: who reads on would wait for ever
            return self.fetch(end, max_bytes, end_offset)
        return data

    @property
    def is_damaged(self) -> bool:
        """Whether a file is known to be damaged, be it below the log start, where nothing is lost by it."""
        return bool(self.damage) or any(segment.damaged for segment in self._segments.ordered)

    def distrust(self, offset: int) -> None:
        """Look at the checksums of the segment with an offset when it is read next."""
        self._segments.ordered[self._segments.number_of(offset)].distrust()

    def look_again(self, offset: int) -> None:
        """Look at the checksum of the batch with an offset, whatever has been looked at; a damaged one is met next."""
        batch = self.read(offset, 1)
        try:
            if batch:
                checked_header(batch)
        except RecordError:
            self.distrust(offset)

    def examine(self, error: CorruptLogError) -> bool:
        """Find out what is damaged where a read met damage; True when that is news."""
        ordered = self._segments.ordered
        for number, segment in enumerate(ordered):
            if segment.path(LOG_SUFFIX) == error.path:
                around = Around(
                    NotedEpochs(self.epochs.entries, self.log_end_offset, ordered[0].base_offset),
                    last_before=partial(last_batch, ordered[:number]) if number else None,
                    first_behind=partial(first_batch, behind) if (behind := ordered[number + 1 :]) else None,
                )
                is_news = self.damage.examine(segment, around, error, self._log_start_offset)
                self._note_start()
                return is_news
        return False

    def offset_for_timestamp(self, timestamp: int | None, known: KnownPoints) -> Sliced[TimestampOffset | None]:
        """The first record at or after a timestamp (ms since 1970; None: the newest), for ListOffsets; or None."""
        try:
            return (yield from self._searching(timestamp, known))
        except CorruptLogError as error:
            if not self.examine(error):
                raise
        return (yield from self.offset_for_timestamp(timestamp, known))

    def _searching(self, timestamp: int | None, known: KnownPoints) -> Sliced[TimestampOffset | None]:
        return searching(self._segments, self.directory, timestamp, self._log_start_offset, known)

    def aborted_in(self, offset: int, records: Buffer | LazyRecords) -> list[AbortedTransaction]:
        """The aborted transactions that reach into records that were fetched from an offset; perhaps a few later ones.

        A place in a file is not read for it: the segment's index says by which offset it ends.
        """
        if not records or not self._segments.has_aborted(offset):
            return []
        end = offset
        if isinstance(records, FileRegion):
            end = self._segments.end_bound(offset, records)
        elif not isinstance(records, LazyRecords):
            for extent in extents(records):
                end = extent.next_offset
        return self.aborted_transactions(offset, end)

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions with records in [start, end)."""
        return self._segments.aborted_transactions(start_offset, end_offset)
