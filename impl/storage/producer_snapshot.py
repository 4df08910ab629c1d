"""Snapshots of what a log's producers have written, in Kafka's files, and how memory is made from them again.

Theory of operation
-------------------
`00000000000000000042.snapshot` says what was known of the producers when the log ended at offset 42 (KIP-98)::

    version                  int16    1
    crc                      uint32   CRC-32C of everything after this field
    count                    int32    of the entries
    producer id              int64    \\
    producer epoch           int16     |
    last sequence            int32     |  -1: no batch is known
    last offset              int64     |  -1: no batch is known
    offset delta             int32     >  for each producer
    timestamp                int64     |  ms since 1970
    coordinator epoch        int32     |  -1: none
    current txn first offset int64    /   -1: none is open

One is written whenever a segment is begun, named as the segment, and one when the log is closed cleanly; it is synced
with the log, before the recovery point passes it. It goes with its segment. A log that is opened takes the newest that
lies in it and reads the batch headers since; a file that is damaged, or was torn by a crash, is removed, and the one
before it is taken. Where Kafka leaves it at the one batch that
a snapshot keeps of a producer, the batches before it are looked up in the log behind the snapshot (in its last 262,144
records), so that a repeat of any of the last five is known for one after a restart as well.

No header is believed that is not intact: an id, an epoch or a sequence that the disk has changed would fence a
producer, or acknowledge what was never appended. So a cut looks at the checksums again; what it meets is damage.

A snapshot beyond a cut would be a lie once the log has grown again, so those go durably before the cut is over.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, Protocol

from tidegauge.impl.partition.producer_state import (
    NO_OFFSET,
    NO_SEQUENCE,
    BatchMetadata,
    ProducerEntry,
    ProducerStates,
)
from tidegauge.impl.partition.transactions import AbortedTransaction
from tidegauge.impl.ports.disk import Disk, PendingSync
from tidegauge.impl.records.batches import BatchHeader
from tidegauge.impl.records.checksum import crc32c
from tidegauge.impl.records.markers import MarkerRecord, marker_record
from tidegauge.impl.storage.errors import CorruptLogError
from tidegauge.impl.storage.log_names import LogNames
from tidegauge.impl.storage.log_observer import LogObserver
from tidegauge.impl.storage.segment import Segment
from tidegauge.impl.storage.segment_names import SNAPSHOT_SUFFIX, file_name, offset_in

LOOK_BACK: Final = 1 << 18
"""How many records before a snapshot are looked through at most."""
VERSION: Final = 1

_HEAD = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_END = 6
_FIRST_STEP = 256


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """A snapshot file's content."""
    rows = [_row(entry) for entry in entries]
    body = struct.pack(">i", len(rows)) + b"".join(rows)
    return struct.pack(">hI", VERSION, crc32c(body)) + body


def _row(entry: ProducerEntry) -> bytes:
    last = entry.batches[-1] if entry.batches else BatchMetadata(NO_SEQUENCE, NO_OFFSET, 0, entry.last_timestamp)
    return _ENTRY.pack(
        entry.producer_id,
        entry.epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.current_txn_first_offset,
    )


def decode_snapshot(content: bytes) -> list[ProducerEntry] | None:
    """The entries, each with one batch or none; None when the content is damaged or of another version."""
    if len(content) < _HEAD.size:
        return None
    version, crc, count = _HEAD.unpack_from(content)
    if version != VERSION or crc != crc32c(content[_CRC_END:]):
        return None
    if count < 0 or len(content) != _HEAD.size + count * _ENTRY.size:
        return None
    entries = []
    for row in _ENTRY.iter_unpack(content[_HEAD.size :]):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, txn_first_offset = row
        batches = [BatchMetadata(last_sequence, last_offset, delta, timestamp)] if last_offset >= 0 else []
        entries.append(ProducerEntry(producer_id, epoch, batches, timestamp, coordinator_epoch, txn_first_offset))
    return entries


class SnapshottedLog(Protocol):
    """What snapshots need of their log."""

    directory: str

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def segments(self) -> Sequence[Segment]: ...

    @property
    def segment_base_offsets(self) -> Sequence[int]: ...

    def examine(self, error: CorruptLogError) -> bool: ...


class ProducerSnapshots(LogObserver):
    """Keeps the producers' memory of one log, and its snapshots."""

    def __init__(self, disk: Disk, log: SnapshottedLog, states: ProducerStates) -> None:
        self.states = states
        self._disk = disk
        self._log = log
        self._offsets: list[int] = []
        """Of the snapshots on disk, ascending."""
        self._unsynced: dict[int, bool] = {}
        """Of those that a crash may tear, though a producer is in them -> whether a flush has begun that syncs it."""

    @property
    def offsets(self) -> Sequence[int]:
        """The log end offsets of which there is a snapshot."""
        return tuple(self._offsets)

    def load(self, names: LogNames | None = None, high_watermark: int | None = None) -> None:
        """Make the memory anew from what is on disk: a log was opened, whose directory had these names (None: look).

        What is committed below the high watermark is decided; a marker beyond it has to be known. None: all is.
        """
        if names is None:
            names = LogNames(self._disk.list_directory(self._log.directory))
        self._offsets = list(names.snapshots)
        self._remove_strays()
        self._rebuild(high_watermark)

    def _remove_strays(self) -> None:
        """Remove those that belong to no segment, but for the last: a clean shutdown may have written it."""
        if not self._offsets:
            return
        bases = self._log.segment_base_offsets
        last = bisect_right(self._offsets, self._log.log_end_offset) - 1
        for number, offset in list(enumerate(self._offsets)):
            if number != last and not _has(bases, offset):
                self._remove(offset)

    # --- what happens to the log -------------------------------------------------------------------------------

    def appended(
        self, header: BatchHeader, base_offset: int, marker: MarkerRecord | None = None
    ) -> AbortedTransaction | None:
        return self.states.take_in(header, base_offset, marker)

    def rolled(self, offset: int) -> None:
        self._write(offset)

    def replaced(self, base_offsets: Collection[int]) -> None:
        for found in [found for found in self._offsets if found in base_offsets]:
            self._remove(found)

    def closing(self) -> bool:
        offset = self._log.log_end_offset
        is_new = offset > (self._offsets[-1] if self._offsets else self._log.log_start_offset)
        if is_new:
            self._write(offset)
        return is_new

    def truncated(self, offset: int) -> None:
        try:
            self._rebuild(again=True)
        except CorruptLogError as error:
            if not self._log.examine(error):
                raise
            self.truncated(offset)

    def started_anew(self, offset: int) -> None:
        self.states.restart((), offset, offset)
        self._remove_where(lambda _: True)

    def start_moved(self, offset: int) -> None:
        self.states.log_start_offset = offset
        first = self._log.segments[0].base_offset
        for found in [found for found in self._offsets if found < first]:
            self._remove(found)

    def unsynced(self) -> list[PendingSync]:
        syncs = []
        for offset in sorted(self._unsynced.keys() & set(self._offsets)):
            file = self._disk.open_apart(self._path(offset))
            try:
                syncs.append(file.begin_sync())
            finally:
                file.close()
            self._unsynced[offset] = True
        return syncs

    def flushed(self, offset: int) -> None:
        # One that was written since the flush began, where the log ended then, is not among what it has synced.
        self._unsynced = {found: begun for found, begun in self._unsynced.items() if found > offset or not begun}

    # --- memory ------------------------------------------------------------------------------------------------

    def _rebuild(self, high_watermark: int | None = None, *, again: bool = False) -> None:
        """Make memory anew; with `again` of what is intact now. Raises CorruptLogError then where it ends before."""
        start, end = self._log.log_start_offset, self._log.log_end_offset
        try:
            damage = self._read_again(start, end, high_watermark, again=again)
        except OSError:  # what the disk does not tell is forgotten: never more is remembered than the log has
            self.states.restart((), end, start)
            raise
        # Last: a disk that refuses it leaves memory as the log is.
        self._remove_where(lambda found: not start < found <= end)
        if again and damage is not None:
            raise damage

    def _read_again(self, start: int, end: int, high_watermark: int | None, *, again: bool) -> CorruptLogError | None:
        """Make memory what a snapshot says of [start, end), and the log from there on; the damage that was met.

        A segment that is damaged below the recovery point can be served up to there; nothing beyond is known of it.
        """
        entries, offset = self._newest(start, end)
        decided = offset if high_watermark is None else max(start, high_watermark)
        if high_watermark is not None and decided < offset and self._has_marker(decided, offset):
            entries, offset = self._newest(start, high_watermark)
        self.states.restart(entries, offset, start)
        damage: CorruptLogError | None = None
        try:
            self._fill_before(offset, again=again)
        except CorruptLogError as error:
            damage = error
        try:
            for segment, header in self._headers(offset, end, again=again) if offset < end else ():
                marker = marker_record(segment.read_batch(header)) if header.is_control else None
                self.states.take_in(header, header.base_offset, marker)
        except CorruptLogError as error:
            damage = error
        self.states.end_offset = end
        self.states.oldest_timestamp = self._oldest_timestamp()
        return damage

    def _newest(self, start: int, most: int) -> tuple[list[ProducerEntry], int]:
        """The newest snapshot beyond the log's start, up to an offset: its entries, and its offset.

        Those that are damaged are removed.
        """
        for found in self._offsets[::-1]:
            if not start < found <= most:
                continue
            if (read := self._read(found)) is not None:
                return read, found
            self._remove(found)
        return [], self._log.log_start_offset

    def _has_marker(self, start: int, end: int) -> bool:
        """Whether a transaction ended at [start, end)."""
        with suppress(CorruptLogError):
            return any(
                header.is_control and header.is_transactional for _, header in self._headers(start, end, again=False)
            )
        return False

    def _oldest_timestamp(self) -> int | None:
        try:
            for segment in self._log.segments:
                for header in segment.headers():
                    return header.max_timestamp
        except CorruptLogError:  # what is damaged has no time
            pass
        return None

    def _fill_before(self, offset: int, *, again: bool) -> None:
        """Backwards in growing steps, as long as more may be found of somebody, and not for ever."""
        if not self.states.entries:
            return
        least = max(self._log.log_start_offset, offset - LOOK_BACK)
        step = _FIRST_STEP
        while offset > least and (missing := self.states.incomplete()):
            start = max(least, offset - step)
            self.states.fill(
                [
                    header
                    for _, header in self._headers(start, offset, again=again)
                    if header.producer_id in missing and header.base_offset >= self._log.log_start_offset
                ]
            )
            offset, step = start, 4 * step

    def _headers(self, start: int, end: int, *, again: bool) -> Iterator[tuple[Segment, BatchHeader]]:
        """Of the batches whose last record is in [start, end), with their segments. Raises CorruptLogError."""
        for segment in self._log.segments:
            if segment.next_offset > start and segment.base_offset < end:
                for header in segment.intact_headers_from(start, again=again):
                    if header.last_offset >= end:
                        return
                    yield segment, header

    # --- files -------------------------------------------------------------------------------------------------

    def _path(self, offset: int) -> str:
        return f"{self._log.directory}/{snapshot_name(offset)}"

    def _write(self, offset: int) -> None:
        entries = self.states.entries.values()
        file = self._disk.open_apart(self._path(offset), create=True)
        try:
            if file.size:
                file.truncate(0)
            file.append(encode_snapshot(entries))
        finally:
            file.close()
        if entries:
            self._unsynced[offset] = False
        if offset not in self._offsets:
            self._offsets = sorted((*self._offsets, offset))

    def _read(self, offset: int) -> list[ProducerEntry] | None:
        content = self._disk.read_whole(self._path(offset))
        return None if content is None else decode_snapshot(content)

    def _remove(self, offset: int) -> None:
        self._offsets.remove(offset)
        self._disk.remove(self._path(offset))

    def _remove_where(self, gone: Callable[[int], bool]) -> None:
        """Remove snapshots, durably."""
        doomed = [offset for offset in self._offsets if gone(offset)]
        for offset in doomed:
            self._remove(offset)
        if doomed:
            self._disk.sync_directory(self._log.directory)


def _has(ascending: Sequence[int], number: int) -> bool:
    found = bisect_left(ascending, number)
    return found < len(ascending) and ascending[found] == number


def snapshot_name(offset: int) -> str:
    return file_name(offset, SNAPSHOT_SUFFIX)


def snapshot_offset(name: str) -> int | None:
    """The offset that a file is named after; None for files that are no snapshots."""
    return offset_in(name.removesuffix(SNAPSHOT_SUFFIX)) if name.endswith(SNAPSHOT_SUFFIX) else None
