"""Compaction: of each key of a log the newest value is kept, the order and the offsets of what stays are unchanged.

Theory of operation
-------------------
A log that is compacted has a *clean* part, up to the offset in `cleaner-offset-checkpoint`, in which no key comes
twice, and a *dirty* part after it. The active segment, what is above the high watermark (or belongs to an open
transaction) and what is younger than `min.compaction.lag.ms` is not cleanable. A round of cleaning

1. reads the dirty part into an offset map: key -> newest offset, until the map is full or the cleanable part ends,
2. reads the log from its start up to where the map ends, in groups of successive segments that together fit into one,
   and writes of each group what stays (`cleaner_filter`) into a new segment,
3. puts the new segment in the place of its group as one step (`replacement`).

A log with more dirty keys than the map holds takes several rounds; each ends where its map ended.

The work is a generator: it does a bounded piece of reading or writing and yields how many bytes that was, so that its
driver decides when it goes on, in which task, and how fast. Between two pieces the log may change in any way. The
cleaner looks again before it touches a file, and gives up when a segment of the round is not in the log any more.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

import attrs

from tidegauge.impl.partition.transactions import AbortedTransaction
from tidegauge.impl.ports.disk import Disk, File
from tidegauge.impl.records.batches import HEADER_SIZE, BatchHeader, RecordError, checked_header, empty_batch
from tidegauge.impl.storage.appends import AppendedBatch
from tidegauge.impl.storage.cleaner_batches import keyed_records, payload_of
from tidegauge.impl.storage.cleaner_filter import (
    RECORDS_A_SLICE,
    CleaningCounts,
    LastRecord,
    RetentionRules,
    marker_type,
)
from tidegauge.impl.storage.cleaner_transactions import CleanedTransactions
from tidegauge.impl.storage.errors import CorruptLogError
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.offset_map import OffsetMap
from tidegauge.impl.storage.segment import Segment
from tidegauge.impl.storage.segment_names import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    file_name,
)
from tidegauge.impl.storage.survey import MAX_RELATIVE_OFFSET

SLICE_BYTES = 64 << 10
"""Bytes read or written between two pauses, as far as batches allow."""
SYNC_BYTES = 1 << 20
"""Bytes written between two syncs, so that none takes long; all of a large segment at once would take seconds."""
_READ_BYTES = 512 << 10

Slices = Generator[int, None, "CleanedLog | None"]


@attrs.frozen
class CleanedLog:
    """What a round has done."""

    end_offset: int
    """Up to here the log is clean now."""
    counts: CleaningCounts
    replaced_segments: int


class GivenUpError(Exception):
    """The log has changed under the cleaner: the round is void, and nothing of it is left."""


@attrs.define(eq=False)
class Round:
    """One round over one log: `run` yields bytes until it returns what was done, or None when it gave up."""

    log: Log
    disk: Disk
    offsets: OffsetMap
    first_dirty_offset: int
    first_uncleanable_offset: int
    now_ms: int
    last_records: Mapping[int, LastRecord] = attrs.field(factory=dict)
    aborted: Callable[[int, int], Iterable[AbortedTransaction]] = attrs.field(
        default=attrs.Factory(lambda self: self.log.aborted_transactions, takes_self=True)
    )
    """The aborted transactions with records in a range of offsets, by the transaction indexes."""
    rules_class: type[RetentionRules] = RetentionRules
    _segments: tuple[Segment, ...] = ()
    _replaced: int = 0

    def run(self) -> Slices:
        """Raises OSError from the disk, CorruptLogError when a batch is not intact."""
        cleanable = [s for s in self.log.closed_segments if s.next_offset <= self.first_uncleanable_offset]
        self._segments = tuple(cleanable)
        try:
            yield from self._read_offsets([s for s in cleanable if s.next_offset > self.first_dirty_offset])
            end_offset = self.offsets.latest_offset + 1
            self._segments = tuple(s for s in cleanable if s.base_offset < end_offset)
            rules = self.rules_class(
                self.offsets, self.now_ms, self.log.config.delete_retention_ms, last_records=self.last_records
            )
            for group in self._groups():
                yield from self._clean(group, rules)
        except GivenUpError:
            return None
        return CleanedLog(end_offset, rules.counts, self._replaced)

    def _check(self) -> None:
        """Raises GivenUpError unless every segment that the round still needs is a closed one of the log."""
        closed = set(map(id, self.log.closed_segments))
        if not all(id(segment) in closed for segment in self._segments):
            raise GivenUpError

    # The offset map

    def _read_offsets(self, dirty: Sequence[Segment]) -> Generator[int, None, None]:
        transactions = CleanedTransactions()
        for segment in dirty:
            transactions.expect(self.aborted(segment.base_offset, segment.next_offset))
            for size, batch, header in self._batches(segment):
                if header.is_control:
                    transactions.on_marker(header, marker_type(header, payload_of(batch, header)))
                elif not transactions.on_batch(header) and not (yield from self._put_all(batch, header)):
                    return
                self.offsets.latest_offset = max(self.offsets.latest_offset, header.last_offset)
                yield from self._pause(size)
            self.offsets.latest_offset = segment.next_offset - 1

    def _put_all(self, batch: bytes, header: BatchHeader) -> Generator[int, None, bool]:
        """Take a batch's keys in; False when there is no place for one of them."""
        offsets, first = self.offsets, self.first_dirty_offset
        for number, record in enumerate(keyed_records(header, payload_of(batch, header)), 1):
            if record.key is not None and record.offset >= first and not offsets.put(record.key, record.offset):
                return False
            offsets.latest_offset = max(offsets.latest_offset, record.offset)
            if number % RECORDS_A_SLICE == 0:
                yield from self._pause(0)
        return True

    # Reading

    def _pause(self, size: int) -> Generator[int, None, None]:
        yield size
        self._check()

    def _batches(self, segment: Segment) -> Iterator[tuple[int, bytes, BatchHeader]]:
        """(size, batch, header), each with its checksum looked at: a damaged batch must not be rebuilt."""
        file = self.disk.open(segment.path(LOG_SUFFIX))
        try:
            yield from _intact(file, segment)
        finally:
            file.close()

    # Groups

    def _groups(self) -> list[list[Segment]]:
        """Successive segments that together are no larger than one may be."""
        config = self.log.config
        groups: list[list[Segment]] = []
        size = index_size = 0
        for segment in self._segments:
            index_bytes = self._index_bytes(segment)
            fits = (
                bool(groups)
                and size + segment.size <= config.segment_bytes
                and index_size + index_bytes <= config.segment_index_bytes
                and segment.next_offset - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET
            )
            if fits:
                groups[-1].append(segment)
                size, index_size = size + segment.size, index_size + index_bytes
            else:
                groups.append([segment])
                size, index_size = segment.size, index_bytes
        return groups

    def _index_bytes(self, segment: Segment) -> int:
        """Of the larger of its indexes."""
        paths = (segment.path(INDEX_SUFFIX), segment.path(TIME_INDEX_SUFFIX))
        return max((self.disk.size(path) for path in paths if self.disk.exists(path)), default=0)

    # Writing

    def _clean(self, group: Sequence[Segment], rules: RetentionRules) -> Generator[int, None, None]:
        """Write what stays of the group into a segment, and put it in the group's place."""
        first, end_offset = group[0], group[-1].next_offset
        rules.segment_end = end_offset
        writer = _Writer(self.disk, self.log, first)
        try:
            for segment in group:
                rules.transactions.expect(self.aborted(segment.base_offset, segment.next_offset))
                for size, batch, header in self._batches(segment):
                    kept = yield from self._filtered(rules, batch, header)
                    yield from self._pause(size + writer.add(kept))
            writer.finish(end_offset)
            for entry in rules.transactions.take_kept():
                writer.segment.transaction_index.append(entry)
            self._check()
            rules.counts.bytes_written += writer.segment.size
            self.log.replace_segments(group, writer.segment, self.now_ms)
        except (GivenUpError, RecordError, OSError):
            if self.log.has_failed:  # how far it was replaced is found out when the log is opened
                writer.segment.close()
            else:
                writer.give_up()
            raise
        except BaseException:  # it is ended from outside, and another log may have the directory's name by now
            writer.segment.close()
            raise
        self._replaced += len(group)
        gone = set(map(id, group))
        self._segments = tuple(segment for segment in self._segments if id(segment) not in gone)

    def _filtered(self, rules: RetentionRules, batch: bytes, header: BatchHeader) -> Generator[int, None, bytes]:
        work = rules.clean(batch, header)
        while True:
            try:
                next(work)
            except StopIteration as done:
                kept: bytes = done.value
                return kept
            yield from self._pause(0)


def _intact(file: File, segment: Segment) -> Iterator[tuple[int, bytes, BatchHeader]]:
    """Raises CorruptLogError also for a batch out of its place: no checksum covers where it begins."""
    buffer, start, position, size = b"", 0, 0, segment.size
    least, beyond = 0 if segment.may_begin_before else segment.base_offset, segment.base_offset
    while position < size:
        if position + HEADER_SIZE > start + len(buffer):
            buffer, start = file.read(position, min(_READ_BYTES, size - position)), position
            if len(buffer) < HEADER_SIZE:  # somebody else has cut the file
                raise CorruptLogError(segment.path(LOG_SUFFIX), position)
        try:
            length = BatchHeader.parse(buffer, position - start).size
            if position + length > start + len(buffer):
                buffer, start = file.read(position, min(max(length, _READ_BYTES), size - position)), position
            header = checked_header(buffer, position - start)
        except RecordError:
            raise CorruptLogError(segment.path(LOG_SUFFIX), position) from None
        if header.base_offset < least or not beyond < header.next_offset <= segment.next_offset:
            raise CorruptLogError(segment.path(LOG_SUFFIX), position)
        yield length, buffer[position - start : position - start + length], header
        position += length
        least = beyond = header.next_offset


class _Writer:
    """A cleaned segment that is being written."""

    def __init__(self, disk: Disk, log: Log, first: Segment) -> None:
        """Removes what a round before has left of such a segment. Raises OSError."""
        left = f"{log.directory}/{file_name(first.base_offset, '')}"
        for path in (f"{left}{kind}{CLEANED_SUFFIX}" for kind in SEGMENT_SUFFIXES):
            if disk.exists(path):
                disk.remove(path)
        self.segment = Segment(
            disk,
            log.directory,
            first.base_offset,
            log.config.index_interval_bytes,
            first.created_ms,
            suffix=CLEANED_SUFFIX,
        )
        self._log = log
        self._parts: list[bytes] = []
        self._batches: list[AppendedBatch] = []
        self._size = 0
        self._unsynced = 0

    def add(self, batch: bytes) -> int:
        """Take a batch (or nothing); returns how many bytes were written to the file."""
        if batch:
            header = BatchHeader.parse(batch)
            self._parts.append(batch)
            self._batches.append(AppendedBatch(header.last_offset, len(batch), header.max_timestamp))
            self._size += len(batch)
        return self._write() if self._size >= SLICE_BYTES else 0

    def _write(self) -> int:
        if not self._parts:
            return 0
        self.segment.append(self._parts, self._batches)
        written, self._size = self._size, 0
        self._parts, self._batches = [], []
        self._unsynced += written
        if self._unsynced >= SYNC_BYTES:
            self.segment.sync(closed=False)
            self._unsynced = 0
        return written

    def give_up(self) -> None:
        """Leave nothing of it, so that a full disk has the room again; what a disk keeps goes with the next round."""
        with suppress(OSError):
            self.segment.remove()

    def finish(self, end_offset: int) -> None:
        """Write the rest; the segment ends at `end_offset`.

        Where the last batch of the group ended earlier, as Kafka's cleaner leaves it, an empty one takes up the rest.
        """
        self._write()
        start = self.segment.next_offset
        for begin, end, epoch in self._log.epochs.spans(start, end_offset):
            self.add(empty_batch(begin, end, epoch))
        self._write()
