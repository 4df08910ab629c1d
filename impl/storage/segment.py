"""One segment of a log: a `.log` file with its two indexes, named by the first offset that it may hold.

A segment grows at its end while it is the log's last; then it is closed and only read. Its indexes live in memory
while it grows, and those of a closed one are read back from their files when first used. Nothing here knows of other
segments or of when to sync: that is `Log`.

Offsets grow from batch to batch, with gaps where compaction has taken records or whole batches, or where a follower
copied what its leader had compacted. An offset in a gap stands for the first batch beyond it. A segment ends where its
last batch does; a truncation to a gap leaves batches without records there, so that the end is where it was cut.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from tidegauge.impl.ports.disk import Buffer, Disk, File, PendingSync
from tidegauge.impl.records.batches import (
    CONTROL_FLAG,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchExtent,
    BatchHeader,
    RecordError,
    checked_header,
    empty_batch,
)
from tidegauge.impl.storage.errors import CorruptLogError
from tidegauge.impl.storage.index import OffsetIndex, TimeIndex
from tidegauge.impl.storage.leader_epoch_cache import UNDEFINED_EPOCH, LeaderEpochCache
from tidegauge.impl.storage.reading import FileRegion, region
from tidegauge.impl.storage.transaction_index import TRANSACTION_INDEX_SUFFIX, TransactionIndex

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
SEGMENT_SUFFIXES = (TRANSACTION_INDEX_SUFFIX, TIME_INDEX_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX)
"""A segment's files, the log last, for it makes the segment."""
DELETED_SUFFIX = ".deleted"
"""Of the files of a segment that is no longer part of the log."""
CLEANED_SUFFIX = ".cleaned"
"""Of a segment that is being written by the cleaner; dropped after a crash."""
SWAP_SUFFIX = ".swap"
"""Of a segment that is written and synced, and replaces others; put in place after a crash."""

MAX_RELATIVE_OFFSET = (1 << 31) - 1
_OFFSET_DIGITS = 20
MARKER_FLAGS = TRANSACTIONAL_FLAG | CONTROL_FLAG
_SCAN_BYTES = 1 << 20
_WALK_BYTES = 8 << 10
_MAX_KNOWN_POSITIONS = 64
_EXTENT = struct.Struct(">qi11xi")


def file_name(base_offset: int, suffix: str) -> str:
    """Kafka's name: the base offset in 20 digits."""
    return f"{base_offset:020d}{suffix}"


def base_offset_of(name: str) -> int | None:
    """The base offset of the segment whose `.log` file has this name; None for other names."""
    stem = name.removesuffix(LOG_SUFFIX)
    is_log = stem != name and len(stem) == _OFFSET_DIGITS and stem.isascii() and stem.isdigit()
    return int(stem) if is_log else None


def intact_batches(file: File) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of the batches of a file, checksums included; ends at the first that is not intact."""
    end = file.size
    buffer, start, position = b"", 0, 0
    while position + HEADER_SIZE <= end:
        if position + HEADER_SIZE > start + len(buffer):
            buffer, start = file.read(position, _SCAN_BYTES), position
        size = _EXTENT.unpack_from(buffer, position - start)[1] + LENGTH_OVERHEAD
        if size < HEADER_SIZE or position + size > end:
            return
        if position + size > start + len(buffer):
            buffer, start = file.read(position, max(size, _SCAN_BYTES)), position
        try:
            header = checked_header(buffer, position - start)
        except RecordError:
            return
        yield position, header
        position += size


class AppendedBatch(NamedTuple):
    """What a segment has to know of a batch to index it."""

    last_offset: int
    size: int
    max_timestamp: int


class Segment:
    """The records [base_offset, next_offset) in the first `size` bytes of a file."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        index_interval_bytes: int,
        created_ms: int,
        *,
        suffix: str = "",
    ) -> None:
        """Opens the file, or creates it; what it holds already is taken in by `recover` or `load`.

        `suffix` follows the names of the files of a segment that is not yet part of the log.
        """
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.created_ms = created_ms
        self._first_timestamp = NO_TIMESTAMP
        self._disk = disk
        self._directory = directory
        self._index_interval_bytes = index_interval_bytes
        self._suffix = suffix
        self.transaction_index = TransactionIndex(disk, lambda: self.path(TRANSACTION_INDEX_SUFFIX))
        self._file = disk.open(self.path(LOG_SUFFIX), create=True)
        self.size = self._file.size
        self._indexes_loaded = True
        self._indexes_on_disk = False
        self.has_markers = False
        """Whether `recover` has met a transaction's marker."""
        self._reset()

    def _reset(self) -> None:
        self._index = OffsetIndex()
        self._time_index = TimeIndex()
        self._max_timestamp = NO_TIMESTAMP
        self._offset_of_max_timestamp = self.base_offset
        self._bytes_since_index_entry = 0
        self._known_positions: dict[int, int] = {}
        self._count_index_bytes()

    def _count_index_bytes(self) -> None:
        # The time index gets one more entry when the segment is closed.
        offsets, times = len(self._index), len(self._time_index) + 1
        self._index_bytes = max(offsets * OffsetIndex.ENTRY_SIZE, times * TimeIndex.ENTRY_SIZE)
        self._grown_index_bytes = max((offsets + 1) * OffsetIndex.ENTRY_SIZE, (times + 1) * TimeIndex.ENTRY_SIZE)

    @property
    def index_bytes(self) -> int:
        """Size that the larger index has when the segment is closed."""
        self._load_indexes()
        return self._index_bytes

    @property
    def grown_index_bytes(self) -> int:
        """The same with one entry more in each index: a segment takes no more records when that is too much."""
        self._load_indexes()
        return self._grown_index_bytes

    def path(self, suffix: str) -> str:
        """Of one of the segment's files."""
        return f"{self._directory}/{file_name(self.base_offset, suffix)}{self._suffix}"

    @property
    def max_timestamp(self) -> int:
        """Largest timestamp of its records, -1 when there is none."""
        self._load_indexes()
        return self._max_timestamp

    @property
    def earliest_timestamp(self) -> int:
        """Largest timestamp of the first batch, -1 when there is none: since when `segment.ms` is counted."""
        if self._first_timestamp == NO_TIMESTAMP and self.size:
            self._first_timestamp = BatchHeader.parse(self._file.read(0, HEADER_SIZE)).max_timestamp
        return self._first_timestamp

    @property
    def newest_ms(self) -> int:
        """When its newest record was made, by the largest timestamp, or else when the segment was begun or opened."""
        timestamp = self.max_timestamp
        return timestamp if timestamp != NO_TIMESTAMP else self.created_ms

    # Taking in what is on disk

    def recover(self, epochs: LeaderEpochCache) -> int:
        """Cut the file at the first batch that is not intact, and index anew; returns the bytes cut (not synced).

        The leader epochs found are assigned in `epochs`.
        """
        self._reset()
        self._indexes_loaded = True
        self._indexes_on_disk = False
        self.next_offset, end, epoch = self.base_offset, 0, UNDEFINED_EPOCH
        self.has_markers = False
        for position, header in intact_batches(self._file):
            spans_start = position == 0 and header.base_offset < self.next_offset <= header.last_offset
            if header.base_offset < self.next_offset and not spans_start:
                break
            if header.last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
                break
            if header.partition_leader_epoch > epoch:
                epoch = header.partition_leader_epoch
                epochs.assign(epoch, max(header.base_offset, self.base_offset))
            self.has_markers |= header.attributes & MARKER_FLAGS == MARKER_FLAGS
            self._take_in(AppendedBatch(header.last_offset, header.size, header.max_timestamp), position)
            end = position + header.size
        cut = self.size - end
        if cut:
            self._file.truncate(end)
            self.size = end
        return cut

    def load_closed(self, next_offset: int, *, check_end: bool) -> bool:
        """Take in a segment that ought to be whole; False when it is seen to reach beyond `next_offset`, or damaged.

        It may end before: Kafka's own cleaner leaves such segments, and what was synced has not been lost.
        """
        self.next_offset = next_offset
        self._indexes_loaded = False
        if not check_end:
            return True
        found = self.base_offset
        try:
            for extent in self._extents(self._indexed_position(MAX_RELATIVE_OFFSET)):
                found = extent.next_offset
        except CorruptLogError:
            return False
        return found <= next_offset

    def load_active(self) -> bool:
        """Take in a segment after a clean shutdown; False when it does not end with a batch, so `recover` is due."""
        if self.size <= self._index_interval_bytes:
            return self._load_small()
        self._indexes_loaded = False
        self._indexed_position(MAX_RELATIVE_OFFSET)
        position = self._indexed_position(self._time_index.last[1] if self._time_index.last else 0)
        try:
            for header in self._headers(position):
                self.next_offset = header.next_offset
                if header.max_timestamp > self._max_timestamp:
                    self._max_timestamp, self._offset_of_max_timestamp = header.max_timestamp, header.last_offset
        except (CorruptLogError, RecordError):
            return False
        return True

    def _load_small(self) -> bool:
        """As `load_active`, of one that is too small to have an index entry: its batches say all."""
        indexes = (INDEX_SUFFIX, TIME_INDEX_SUFFIX)
        self._indexes_on_disk = all(self._disk.exists(self.path(suffix)) for suffix in indexes)
        position = 0
        try:
            for header in self._headers(0):
                self._take_in(AppendedBatch(header.last_offset, header.size, header.max_timestamp), position)
                position += header.size
        except (CorruptLogError, RecordError):
            return False
        return True

    def _load_indexes(self) -> None:
        if self._indexes_loaded:
            return
        self._indexes_loaded = True
        index, time_index = self._decoded_indexes()
        if index is None or time_index is None:
            self._rebuild_indexes()
            return
        self._index, self._time_index = index, time_index
        self._count_index_bytes()
        self._indexes_on_disk = True
        if time_index.last is not None:
            self._max_timestamp = time_index.last[0]
            self._offset_of_max_timestamp = self.base_offset + time_index.last[1]

    def _decoded_indexes(self) -> tuple[OffsetIndex | None, TimeIndex | None]:
        contents = []
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            if not self._disk.exists(self.path(suffix)):
                return None, None
            file = self._disk.open_apart(self.path(suffix))
            contents.append(file.read(0, file.size))
            file.close()
        return OffsetIndex.decode(contents[0], self.size), TimeIndex.decode(contents[1])

    def _rebuild_indexes(self) -> None:
        next_offset = self.next_offset
        self._reset()
        self._indexes_on_disk = False
        for position, header in intact_batches(self._file):
            self._take_in(AppendedBatch(header.last_offset, header.size, header.max_timestamp), position)
        self.next_offset = max(next_offset, self.next_offset)

    # Growing and shrinking

    @property
    def is_torn(self) -> bool:
        """Whether part of an append that failed could not be cut off again."""
        return self._file.size != self.size

    def append(self, parts: Sequence[Buffer], batches: Sequence[AppendedBatch]) -> None:
        """Write the parts, which make up the batches, at the end.

        Raises OSError; nothing was appended unless `is_torn`.
        """
        position = self.size
        try:
            self._file.append(*parts)
        except OSError:
            with suppress(OSError):
                self._file.truncate(position)
            raise
        self._known_positions[self.next_offset] = position
        for batch in batches:
            self._take_in(batch, position)
            position += batch.size
        self.size = position
        self._indexes_on_disk = False
        if len(self._known_positions) > _MAX_KNOWN_POSITIONS:
            self._known_positions.clear()

    def _take_in(self, batch: AppendedBatch, position: int) -> None:
        last_offset, size, max_timestamp = batch
        if max_timestamp > self._max_timestamp:
            self._max_timestamp, self._offset_of_max_timestamp = max_timestamp, last_offset
        if self._bytes_since_index_entry > self._index_interval_bytes:
            self._index.append(last_offset - self.base_offset, position)
            self._index_max_timestamp()
            self._bytes_since_index_entry = 0
            self._count_index_bytes()
        self._bytes_since_index_entry += size
        self.next_offset = last_offset + 1

    def _index_max_timestamp(self) -> None:
        if self._max_timestamp != NO_TIMESTAMP:
            self._time_index.maybe_append(self._max_timestamp, self._offset_of_max_timestamp - self.base_offset)

    def start_of(self, offset: int) -> int:
        """`offset`, or where the batch begins whose records it lies among; the end, beyond that."""
        if offset >= self.next_offset:
            return self.next_offset
        position = self._position_of(offset)
        if position is None:
            return offset
        header = BatchHeader.parse(self._file.read(position, HEADER_SIZE))
        return min(offset, max(header.base_offset, self.base_offset)) if header.records_count else offset

    def truncate(self, offset: int, epochs: LeaderEpochCache) -> None:
        """Cut the batch that holds `offset` and all after it, so that the segment ends at `start_of(offset)`.

        What a gap leaves open below that is filled with batches without records. Not synced.
        """
        self._load_indexes()
        end_offset, end, cut = self.start_of(offset), self.base_offset, 0
        for extent in self._extents(self._indexed_position(offset - self.base_offset - 1)):
            cut = extent.position
            if extent.next_offset > offset:
                break
            end, cut = extent.next_offset, extent.position + extent.size
        self._file.truncate(cut)
        self.size = cut
        self.next_offset = end
        relative_offset = self.next_offset - self.base_offset
        self._index.truncate(relative_offset)
        self._time_index.truncate(relative_offset)
        self._known_positions.clear()
        self._indexes_on_disk = False
        self._bytes_since_index_entry = cut - (self._index.last[1] if self._index.last else 0)
        self._count_index_bytes()
        self._find_max_timestamp()
        self.transaction_index.truncate(end_offset)
        for start, stop, epoch in epochs.spans(end, end_offset):
            filler = empty_batch(start, stop, epoch)
            self.append((filler,), (AppendedBatch(stop - 1, len(filler), NO_TIMESTAMP),))

    def _find_max_timestamp(self) -> None:
        last = self._time_index.last
        self._max_timestamp, relative_offset = last if last else (NO_TIMESTAMP, 0)
        self._offset_of_max_timestamp = self.base_offset + relative_offset
        for header in self._headers(self._indexed_position(relative_offset)):
            if header.max_timestamp > self._max_timestamp:
                self._max_timestamp, self._offset_of_max_timestamp = header.max_timestamp, header.last_offset

    def waited_ms(self, now_ms: int | None, timestamp: int) -> int:
        """How long the segment has been filling, by its records' timestamps or else by the clock; for `segment.ms`."""
        if self.size == 0:
            return 0
        first_timestamp = self.earliest_timestamp
        if NO_TIMESTAMP not in (first_timestamp, timestamp):
            return timestamp - first_timestamp
        return now_ms - self.created_ms if now_ms is not None else 0

    # Reading

    def fetch(self, offset: int, max_bytes: int, end_offset: int) -> Buffer | FileRegion:
        """Whole batches below `end_offset`, from the first that reaches beyond `offset`; at least that one.

        Empty when there is no such batch in the segment. What is large may be the place where it lies.
        """
        start = self._position_of(offset)
        if start is None:
            return b""
        return region(self._file, start, self._end_position(start, max_bytes, end_offset) - start)

    def _position_of(self, offset: int) -> int | None:
        """Where the first batch begins that reaches beyond `offset`; None when the segment has none."""
        known = self._known_positions.get(offset)
        if known is not None:
            return known
        position = self._indexed_position(offset - self.base_offset)
        for extent in self._extents(position):
            if extent.next_offset > offset:
                return extent.position
        return None

    def _end_position(self, start: int, max_bytes: int, end_offset: int) -> int:
        limit = start + max_bytes
        if limit >= self.size and end_offset >= self.next_offset:
            return self.size
        end = start
        indexed = self._verified(lambda index: index.entry_within(end_offset - self.base_offset, limit))
        for extent in self._extents(max(start, indexed)):
            if extent.next_offset > end_offset or (extent.position + extent.size > limit and extent.position > start):
                end = extent.position
                self._known_positions[extent.base_offset] = end
                break
            end = extent.position + extent.size
        return end

    def _indexed_position(self, relative_offset: int) -> int:
        """Where to begin to walk to the batch that holds an offset."""
        return self._verified(lambda index: index.entry_before(relative_offset))

    def _verified(self, look_up: Callable[[OffsetIndex], tuple[int, int] | None]) -> int:
        """The position in an index entry, 0 without one; an index that does not fit the log is rebuilt first."""
        self._load_indexes()
        entry = look_up(self._index)
        if entry is not None:
            header = self._file.read(entry[1], HEADER_SIZE)
            if len(header) == HEADER_SIZE and BatchHeader.parse(header).last_offset == self.base_offset + entry[0]:
                return entry[1]
            self._rebuild_indexes()
            entry = look_up(self._index)
        return entry[1] if entry else 0

    def _extents(self, position: int) -> Iterator[BatchExtent]:
        """The batches from `position` to the end, by their headers alone. Raises CorruptLogError."""
        buffer, start, end = b"", position, self.size
        while position < end:
            if position + HEADER_SIZE > start + len(buffer):
                buffer, start = self._file.read(position, _WALK_BYTES), position
                if len(buffer) < HEADER_SIZE:
                    raise CorruptLogError(self.path(LOG_SUFFIX), position)
            base_offset, length, last_offset_delta = _EXTENT.unpack_from(buffer, position - start)
            size = length + LENGTH_OVERHEAD
            if size < HEADER_SIZE or position + size > end:
                raise CorruptLogError(self.path(LOG_SUFFIX), position)
            yield BatchExtent(position, size, base_offset, base_offset + last_offset_delta + 1)
            position += size

    def headers(self) -> Iterator[BatchHeader]:
        """Headers of all batches. Raises CorruptLogError."""
        return self._headers(0)

    def headers_from(self, offset: int) -> Iterator[BatchHeader]:
        """Headers of the batches that reach to `offset` or beyond. Raises CorruptLogError."""
        if offset <= self.base_offset:
            return self.headers()
        position = self._indexed_position(offset - self.base_offset)
        return (header for header in self._headers(position) if header.last_offset >= offset)

    def next_reaching(self, timestamp: int, offset: int, most: int) -> tuple[BatchHeader | None, int]:
        """The first batch from an offset on with a timestamp at or after `timestamp`, and the offset after it.

        Looks at so many batches at `most`: None, and the offset from which to look on, when none of them has one.
        """
        if self.size == 0 or self.max_timestamp < timestamp:
            return None, self.next_offset
        first = max(offset - self.base_offset, self._time_index.offset_before(timestamp))
        for header in self._headers(self._indexed_position(first)):
            if header.last_offset < offset:
                continue
            if header.max_timestamp >= timestamp:
                return header, header.next_offset
            offset, most = header.next_offset, most - 1
            if not most:
                return None, offset
        return None, self.next_offset

    def _headers(self, position: int) -> Iterator[BatchHeader]:
        for extent in self._extents(position):
            yield BatchHeader.parse(self._file.read(extent.position, HEADER_SIZE))

    def read_batch(self, header: BatchHeader) -> bytes:
        """The batch of a header that came from this segment."""
        position = self._position_of(header.last_offset)
        assert position is not None, f"no batch holds offset {header.last_offset} in {self.path(LOG_SUFFIX)}"
        return self._file.read(position, header.size)

    # Files

    def sync(self, *, closed: bool) -> None:
        """Return once the log, and if the segment is `closed` its indexes, are on stable storage."""
        for sync in self.begin_sync(closed=closed):
            sync.run()

    def begin_sync(self, *, closed: bool) -> list[PendingSync]:
        """What `sync` has to wait for."""
        syncs = [self._file.begin_sync(), *self.transaction_index.begin_sync()]
        return [*syncs, *self.write_indexes()] if closed else syncs

    def write_indexes(self) -> list[PendingSync]:
        """Write the indexes to their files, unless they are there; they are then to be synced."""
        if self._indexes_on_disk or not self._indexes_loaded:
            return []
        self._index_max_timestamp()
        syncs: list[PendingSync] = []
        for suffix, content in ((INDEX_SUFFIX, self._index.encode()), (TIME_INDEX_SUFFIX, self._time_index.encode())):
            file = self._disk.open_apart(self.path(suffix), create=True)
            try:
                if file.size:
                    file.truncate(0)
                if content:
                    file.append(content)
                    syncs.append(file.begin_sync())
            finally:
                file.close()
        self._indexes_on_disk = True
        return syncs

    def close(self) -> None:
        """Let go of the file, without syncing."""
        self._file.close()

    def rename(self, suffix: str) -> None:
        """Give the files another suffix, "" for those of a log (durable once the directory is synced)."""
        for kind in SEGMENT_SUFFIXES:
            source = self.path(kind)
            if self._disk.exists(source):
                self._disk.rename(source, f"{source.removesuffix(self._suffix)}{suffix}")
        self._suffix = suffix

    def remove(self) -> None:
        """Remove the segment's files (durable once the directory is synced)."""
        self._file.close()
        for kind in SEGMENT_SUFFIXES:
            if self._disk.exists(self.path(kind)):
                self._disk.remove(self.path(kind))
