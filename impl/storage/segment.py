"""One segment of a log: a `.log` file with its two indexes, named by the first offset that it may hold.

A segment grows at its end while it is the log's last; then it is closed and only read. Its indexes live in memory
while it grows, and those of a closed one are read back from their files when first used. Nothing here knows of other
segments or of when to sync: that is `Log`.

Offsets grow from batch to batch, with gaps where compaction has taken records or whole batches, or where a follower
copied what its leader had compacted. An offset in a gap stands for the first batch beyond it. A segment ends where its
last batch does; a truncation to a gap leaves batches without records there, so that the end is where it was cut.

What was in the file when it was opened is not trusted: a read that comes to it for the first time looks at the
checksums, unless `recover` has. Damaged places that are known (`survey`) are walked over as if they were a batch; who
reads keeps out of their offsets (`damage`). Meeting one that is not known raises CorruptLogError.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress

from tidegauge.impl.ports.disk import Buffer, Disk, PendingSync
from tidegauge.impl.records.batches import (
    CONTROL_FLAG,
    HEADER_SIZE,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchExtent,
    BatchHeader,
    RecordError,
    empty_batch,
)
from tidegauge.impl.storage import index_files
from tidegauge.impl.storage.appends import AppendedBatch
from tidegauge.impl.storage.errors import CorruptLogError
from tidegauge.impl.storage.index import GROWN_EMPTY, OffsetIndex, TimeIndex, grown_size
from tidegauge.impl.storage.leader_epoch_cache import UNDEFINED_EPOCH, LeaderEpochCache
from tidegauge.impl.storage.reading import FileRegion, copy_file, verified_size, whole_region
from tidegauge.impl.storage.recovered import Recovered
from tidegauge.impl.storage.segment_names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    file_name,
)
from tidegauge.impl.storage.survey import MAX_RELATIVE_OFFSET, Bounds, DamagedExtent, holds_batch, survey
from tidegauge.impl.storage.transaction_index import TRANSACTION_INDEX_SUFFIX, TransactionIndex
from tidegauge.impl.storage.walking import Window, walk

MARKER_FLAGS = TRANSACTIONAL_FLAG | CONTROL_FLAG
_MAX_KNOWN_POSITIONS = 64


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
        self.transaction_index = TransactionIndex(disk, self.path)
        self._file = disk.open(self.path(LOG_SUFFIX), create=True)
        self.size = self._file.size
        self._untrusted_bytes = self.size  # what was in the file before this process appended to it
        self._verified_bytes = (0, 0)
        """The part of it whose checksums were looked at last, from and to."""
        self._found: list[BatchHeader] | None = None
        """The headers of all batches of a small file, while its log is being opened; None where they are to be read."""
        self.damaged: dict[int, DamagedExtent] = {}
        """Damaged places by their positions."""
        self.may_begin_before = True
        """Whether the first batch may begin before the segment, as in a log that starts inside a batch."""
        self._is_examined = False
        """Whether all damaged places are known."""
        self._indexes_loaded = True
        self._indexes_on_disk = False
        self._has_index_files = False
        """Whether both were there at the start, and nothing was appended or cut since."""
        self.indexes_were_flushed = False
        """Whether no file of an index has changed since a clean shutdown."""
        self._reset()

    def _reset(self) -> None:
        self._index = OffsetIndex()
        self._time_index = TimeIndex()
        self._max_timestamp = NO_TIMESTAMP
        self._offset_of_max_timestamp = self.base_offset
        self._bytes_since_index_entry = 0
        self._known_positions: dict[int, int] = {}
        self._grown_index_bytes = GROWN_EMPTY

    def _count_index_bytes(self) -> None:
        self._grown_index_bytes = grown_size(len(self._index), len(self._time_index))

    @property
    def grown_index_bytes(self) -> int:
        """What the larger index takes with one entry more in each: a segment takes no records when that is too much."""
        if not self._indexes_loaded:
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
    def offset_of_max_timestamp(self) -> int:
        """An offset of the batch that has it, if any has."""
        self._load_indexes()
        return self._offset_of_max_timestamp

    @property
    def earliest_timestamp(self) -> int:
        """Largest timestamp of the first batch, -1 when there is none: since when `segment.ms` is counted."""
        if self._first_timestamp == NO_TIMESTAMP and self.size >= HEADER_SIZE and 0 not in self.damaged:
            with suppress(CorruptLogError):  # somebody else may have cut the file
                self._first_timestamp = next(self._headers(0)).max_timestamp
        return self._first_timestamp

    # Taking in what is on disk

    def found_beside(self, names: Container[str]) -> None:
        """The log's directory has these names: which of the segment's other files are there."""
        stem = file_name(self.base_offset, "")
        self._has_index_files = stem + INDEX_SUFFIX in names and stem + TIME_INDEX_SUFFIX in names
        if stem + TRANSACTION_INDEX_SUFFIX not in names:
            self.transaction_index.found_missing()

    def recover(self, epochs: LeaderEpochCache, bounds: Bounds, *, flushed: int = 0) -> Recovered:
        """Index anew what is intact.

        Damage that begins below the offset `flushed` is kept in `damaged`; what follows it is part of the segment. Such
        a place at the end of the file is the first one only if nothing below `flushed` is in it. The leader epochs
        found are assigned in `epochs`.
        """
        self._reset()
        headers = self._found = [] if self._is_small else None
        self.damaged.clear()
        self._indexes_loaded = self._is_examined = True
        self._indexes_on_disk = False
        self.next_offset, end, epoch = self.base_offset, 0, UNDEFINED_EPOCH
        contiguous_end, has_markers = self.base_offset, False
        for found in survey(self._file, bounds):
            if isinstance(found, DamagedExtent):
                if found.start >= flushed:
                    break
                self.damaged[found.position] = found
                end = found.position + found.size
                continue
            position, header = found
            if header.partition_leader_epoch > epoch:
                epoch = header.partition_leader_epoch
                epochs.assign(epoch, max(header.base_offset, self.base_offset))
            has_markers |= header.attributes & MARKER_FLAGS == MARKER_FLAGS
            if contiguous_end == self.next_offset >= header.base_offset:
                contiguous_end = header.next_offset
            self._take_in(AppendedBatch(header.last_offset, header.size, header.max_timestamp), position)
            if headers is not None:
                headers.append(header)
            end = position + header.size
        self._untrusted_bytes = 0
        return Recovered(self.size - end, contiguous_end, epoch, has_markers)

    def cut(self, size: int) -> None:
        """Cut so many bytes from the end (not synced)."""
        if size:
            self._file.truncate(self.size - size)
            self.size -= size

    def end_at(self, offset: int) -> None:
        """End at an offset beyond the last intact batch; a damaged end of the file reaches up to there."""
        self.next_offset = offset
        for position, extent in self.damaged.items():
            if extent.is_tail:
                self.damaged[position] = extent._replace(end=offset)

    @property
    def ends_damaged(self) -> bool:
        """Whether the file ends with a damaged place."""
        return bool(self.damaged) and any(extent.is_tail for extent in self.damaged.values())

    def copy_from(self, position: int, path: str) -> None:
        """Copy the file from a position on to another one, durably but for its name."""
        copy_file(self._disk, self._file, position, path)

    def holds_batch_from(self, position: int, least: int | None = None) -> bool:
        """Whether there is an intact batch in the file from a position on; any, or one of `least` or later offsets."""
        return holds_batch(self._file, position, least)

    def first_intact(self) -> BatchHeader | None:
        """The first batch that is intact, as far as the file alone tells; None without one."""
        pieces = survey(self._file, Bounds(self.base_offset))
        return next((piece[1] for piece in pieces if not isinstance(piece, DamagedExtent)), None)

    def load_closed(self, next_offset: int) -> int | None:
        """Take in a segment that ought to be whole and end here; returns where it does end, None if that is damaged."""
        self.next_offset = next_offset
        self._indexes_loaded = False
        try:
            ends = [one.next_offset for one in self._extents(self._indexed_position(MAX_RELATIVE_OFFSET))]
        except CorruptLogError:
            return None
        return ends[-1] if ends else self.base_offset

    def load_active(self) -> bool:
        """Take in a segment after a clean shutdown; False when it does not end with a batch, so `recover` is due."""
        if self._is_small:
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
        self.indexes_were_flushed = True
        position, found = 0, list[BatchHeader]()
        try:
            for header in self._headers(0):
                self._take_in(AppendedBatch(header.last_offset, header.size, header.max_timestamp), position)
                position += header.size
                found.append(header)
        except (CorruptLogError, RecordError):
            return False
        self._found = found
        return True

    @property
    def _is_small(self) -> bool:
        """Whether its indexes say no more than its batches, which a start reads."""
        return self.size <= self._index_interval_bytes

    def opened(self) -> None:
        """Its log has been opened: forget what only that needed."""
        self._found = None

    def _load_indexes(self) -> None:
        if self._indexes_loaded:
            return
        self._indexes_loaded = True
        paths = self.path(INDEX_SUFFIX), self.path(TIME_INDEX_SUFFIX)
        index, time_index = index_files.read(self._disk, *paths, self.size)
        if index is None or time_index is None:
            self.rebuild_indexes("one of them is missing, or holds what no index can hold")
            return
        self._index, self._time_index = index, time_index
        self._count_index_bytes()
        self._indexes_on_disk = True
        if time_index.last is not None:
            self._max_timestamp = time_index.last[0]
            self._offset_of_max_timestamp = self.base_offset + time_index.last[1]

    def rebuild_indexes(self, reason: str) -> None:
        """Make the indexes from the log, up to the first damaged place that is not known; a walk meets it there."""
        index_files.tell_rebuilt(self.path(LOG_SUFFIX), reason)
        next_offset = self.next_offset
        self._reset()
        self._indexes_on_disk = False
        for found in survey(self._file, Bounds(self.base_offset)):
            if isinstance(found, DamagedExtent):
                if not self._is_examined:
                    break
                continue
            position, header = found
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
        self._indexes_on_disk = self._has_index_files = False
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
        if position in self.damaged:
            return offset
        header = next(self._headers(position))
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
        self.damaged = {position: extent for position, extent in self.damaged.items() if position < cut}
        self.next_offset = end
        relative_offset = self.next_offset - self.base_offset
        self._index.truncate(relative_offset)
        self._time_index.truncate(relative_offset)
        self._known_positions.clear()
        self._indexes_on_disk = self._has_index_files = False
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

    # Reading

    def fetch(self, offset: int, max_bytes: int, end_offset: int) -> Buffer | FileRegion:
        """Whole batches below `end_offset`, from the first that reaches beyond `offset`; at least that one.

        Empty when there is no such batch in the segment. What is large may be the place where it lies.
        """
        start = self._position_of(offset)
        if start is None:
            return b""
        end = self._end_position(start, max_bytes, end_offset)
        if start < self._untrusted_bytes:
            end = self._verified_end(start, end)
        return whole_region(self._file, start, end - start, self.path)

    def holds(self, file: object) -> bool:
        """Whether this is the segment's file."""
        return file is self._file

    def end_bound(self, position: int) -> int:
        """An offset beyond the batches before a position, and beyond few others: where the offset index goes on."""
        self._load_indexes()
        relative = self._index.offset_at(position)
        return self.next_offset if relative is None else self.base_offset + relative + 1

    def _verified_end(self, start: int, end: int) -> int:
        """Where the intact batches in [start, end) end, or the first MiB of them. Raises CorruptLogError."""
        first, last = self._verified_bytes
        if first <= start and end <= last:
            return end
        size = self._verified_size(start, end)
        if not size:
            raise CorruptLogError(self.path(LOG_SUFFIX), start)
        self._verified_bytes = (first if first <= start <= last else start, start + size)
        return start + size

    def _verified_size(self, start: int, end: int) -> int:
        return verified_size(self._file, start, end, self.next_offset, size=self.size, damaged=self.damaged)

    def _position_of(self, offset: int) -> int | None:
        """Where the first batch begins that reaches beyond `offset`; None when the segment has none."""
        known = self._known_positions.get(offset)
        if known is not None:
            return known
        pieces = self._extents(self._indexed_position(offset - self.base_offset))
        return next((extent.position for extent in pieces if extent.next_offset > offset), None)

    def _end_position(self, start: int, max_bytes: int, end_offset: int) -> int:
        limit = start + max_bytes
        if limit >= self.size and end_offset >= self.next_offset and not self.damaged:
            return self.size
        end = start
        indexed = self._verified(lambda index: index.entry_within(end_offset - self.base_offset, limit))
        try:
            for extent in self._extents(max(start, indexed)):
                if extent.position in self.damaged and end > start:
                    break
                if extent.next_offset > end_offset or (
                    extent.position + extent.size > limit and extent.position > start
                ):
                    if extent.next_offset > self.next_offset and extent.position == start:
                        raise CorruptLogError(self.path(LOG_SUFFIX), start)
                    end = extent.position
                    self._known_positions[extent.base_offset] = end
                    break
                end = extent.position + extent.size
        except CorruptLogError:
            if end == start:
                raise
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
            self.rebuild_indexes("an entry does not lead to its batch")
            entry = look_up(self._index)
        return entry[1] if entry else 0

    def _extents(self, position: int, window: Window | None = None) -> Iterator[BatchExtent]:
        """The batches from `position` to the end, by their headers alone. Raises CorruptLogError."""
        beyond = 0 if position else self.base_offset
        least, path = 0 if self.may_begin_before else beyond, self.path(LOG_SUFFIX)
        return walk(self._file, path, position, self.size, self.damaged, window, least=least, beyond=beyond)

    def headers(self) -> Iterator[BatchHeader]:
        """Headers of all batches. Raises CorruptLogError."""
        return self._headers(0) if self._found is None else iter(self._found)

    def headers_from(self, offset: int) -> Iterator[BatchHeader]:
        """Headers of the batches that reach to `offset` or beyond. Raises CorruptLogError."""
        if self._found is not None:
            return (header for header in self._found if header.last_offset >= offset)
        position = self._indexed_position(offset - self.base_offset)
        return (header for header in self._headers(position) if header.last_offset >= offset)

    def intact_headers_from(self, offset: int, *, again: bool) -> Iterator[BatchHeader]:
        """As `headers_from`, with a look at the checksums of what is not trusted, or `again` at all. Raises as that."""
        unsure, intact = self.size if again else self._untrusted_bytes, 0
        window = Window()
        for extent in self._extents(self._indexed_position(offset - self.base_offset), window):
            position = extent.position
            if position in self.damaged or extent.next_offset <= offset:
                continue
            if intact <= position < unsure:
                intact = position + self._verified_size(position, self.size)
                if intact == position:
                    raise CorruptLogError(self.path(LOG_SUFFIX), position)
            yield window.header(extent)

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
        window = Window()
        for extent in self._extents(position, window):
            if extent.position not in self.damaged:
                yield window.header(extent)

    def position_from(self, offset: int) -> int:
        """Where the batch begins, intact or damaged, that holds an offset; the size beyond the last one."""
        pieces = self._extents(self._indexed_position(offset - self.base_offset))
        return next((extent.position for extent in pieces if extent.next_offset > offset), self.size)

    def read_batch(self, header: BatchHeader) -> bytes:
        """The batch of a header that came from this segment. Raises CorruptLogError when it is not intact."""
        position = self._position_of(header.last_offset)
        if position is None:
            raise CorruptLogError(self.path(LOG_SUFFIX), self.size)
        batch = self._file.read(position, header.size)
        if not self._verified_size(position, position + header.size):
            raise CorruptLogError(self.path(LOG_SUFFIX), position)
        return batch

    def distrust(self) -> None:
        """Look at all checksums again when the file is read."""
        self._untrusted_bytes, self._verified_bytes = self.size, (0, 0)

    def sync(self, *, closed: bool) -> None:
        """Return once the log, and if the segment is `closed` its indexes, are on stable storage."""
        for sync in self.begin_sync(closed=closed):
            sync.run()

    def begin_sync(self, *, closed: bool) -> list[PendingSync]:
        """What `sync` has to wait for."""
        syncs = [self._file.begin_sync(), *self.transaction_index.begin_sync()]
        return [*syncs, *self.write_indexes()] if closed else syncs

    def write_indexes(self, *, is_active: bool = False) -> list[PendingSync]:
        """Write the indexes to their files, unless they are there; they are then to be synced.

        Nobody reads the files of a small segment while it is the active one: those that are there may stay, whatever is
        in them.
        """
        if self._indexes_on_disk or not self._indexes_loaded:
            return []
        if is_active and self._has_index_files and self.indexes_were_flushed and self._is_small:
            return []
        self._index_max_timestamp()
        contents = (INDEX_SUFFIX, self._index.encode()), (TIME_INDEX_SUFFIX, self._time_index.encode())
        files = [(self.path(suffix), content) for suffix, content in contents]
        syncs: list[PendingSync] = []
        if not (self.indexes_were_flushed and index_files.hold(self._disk, files)):
            self.indexes_were_flushed = False
            syncs = index_files.write(self._disk, files)
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
