"""Reading a segment's file batch by batch, and going on behind what the disk has damaged.

Theory of operation
-------------------
The CRC of a batch covers all of it but four fields before it: base offset, length, leader epoch and magic. A damaged
length or magic leads nowhere. A damaged base offset or leader epoch leads to a contradiction, for both only grow along
a log: a batch is not believed that begins below the end of the one before it, that reaches beyond the segment, or that
the next batch contradicts. Nor is one that leaves offsets out and ends beyond the recovery point, where the log once
ended, unless what follows it bears it out: another batch, or a file whose name is where this one ends.

Whether a batch is damaged whose leader epoch is not the one that is noted of it, the batches beside it say
(`noted_epochs`): the nearest ones that are intact, though damage or the end of the file lies between.

Behind a place that is no batch the next one is searched for by its magic byte. A batch is only found if its successor
is a batch too, or the file ends with it: a record's value may hold a record batch of its own, and that one has no
successor.

Bytes may look like batches that each reach to the end of the file. So the search is bounded: when it has checked eight
times the file in vain, what is left of the file counts as damaged.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from tidegauge.impl.ports.disk import File
from tidegauge.impl.records.batches import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    BatchHeader,
    RecordError,
    checked_header,
)
from tidegauge.impl.records.payload import encode_varint
from tidegauge.impl.storage.leader_epoch_cache import UNDEFINED_EPOCH
from tidegauge.impl.storage.noted_epochs import Beside, NotedEpochs

MAX_RELATIVE_OFFSET = (1 << 31) - 1
"""How far offsets may be from the base offset of their segment."""
_SCAN_BYTES = 1 << 20
_MOST_IN_VAIN = 8
"""Bytes checked in vain for each byte of a file, before no more batches are looked for behind damage."""
_ALWAYS_IN_VAIN = 256 << 20
"""The same for a file of any size."""
_CANDIDATE_BYTES = 1 << 10
"""What a place that is looked at costs, in bytes checked."""
_MAGIC_BYTE = bytes([MAGIC])
_MAGIC_POSITION = 16
_PROBE = struct.Struct(">qii")
_DELTA = struct.Struct(">i")
_DELTA_POSITION = 23


def reaches(base_offset: int, offset: int) -> bool:
    """Whether an offset is no farther behind another one than any of a segment's is behind where it begins."""
    return offset - base_offset <= MAX_RELATIVE_OFFSET


NEVER: Final = -1
"""In the place of up to where a cleaner was, where none was."""


class DamagedExtent(NamedTuple):
    """A place in a file that holds no intact batches."""

    position: int
    size: int
    start: int
    """The first offset that it ought to hold."""
    end: int
    """The offset after the last; that of the next intact batch, or `start` when none follows in the file."""
    is_tail: bool = False
    """Whether the file ends with it."""


class Around(NamedTuple):
    """What a log has around one of its segments."""

    noted: NotedEpochs | None = None
    epoch: int = UNDEFINED_EPOCH
    """Of the last batch before it, if that was read."""
    last_before: Callable[[], BatchHeader | None] | None = None
    """Finds the last intact batch of the segments before; None for the first segment."""
    first_behind: Callable[[], Beside] | None = None
    """Finds the first intact batch of the segments behind; None for the last segment."""


class Bounds(NamedTuple):
    """What is known of a segment before it is read."""

    base_offset: int
    limit: int | None = None
    """Where the next segment begins; None for the last one."""
    flushed_end_offset: int = 0
    """An offset at which the log ended once, and below which nothing was lost by a crash."""
    is_last_end: bool = False
    """Whether nothing was appended after the log ended there."""
    following: Sequence[int] = ()
    """Where the files behind this one begin, by their names; some may be strays."""
    around: Around = Around()
    rejected_end: int = 0
    """A recovery point that nothing else knows of: no batch of the last file is believed that leaps over it."""
    cleaned: int = NEVER
    """Up to where a cleaner was, which may have left out what followed a batch."""


class _Reader:
    """The bytes of a file through a window."""

    def __init__(self, file: File) -> None:
        self._file = file
        self.size = file.size
        self._buffer = b""
        self._start = 0
        self._in_vain = 0

    @property
    def is_spent(self) -> bool:
        """Whether so much was looked at in vain that no more is looked for."""
        return self._in_vain > _MOST_IN_VAIN * self.size + _ALWAYS_IN_VAIN

    def window(self, position: int, size: int) -> tuple[bytes, int]:
        """A buffer that holds the bytes [position, position + size) as far as the file has them, and where they are."""
        end = min(position + size, self.size)
        if position < self._start or end > self._start + len(self._buffer):
            size = min(max(size, _SCAN_BYTES), self.size - position)  # memory for more than there is has its price
            # What somebody has cut off beneath a process that has the file open counts as zeroes.
            self._buffer, self._start = self._file.read(position, size).ljust(size, b"\0"), position
        return self._buffer, position - self._start

    def intact(self, position: int) -> BatchHeader | None:
        """The batch at a position; None when there is none."""
        if position + HEADER_SIZE > self.size:
            return None
        buffer, at = self.window(position, HEADER_SIZE)
        length = _PROBE.unpack_from(buffer, at)[1]
        size = length + LENGTH_OVERHEAD
        if not HEADER_SIZE <= size <= self.size - position:
            return None
        buffer, at = self.window(position, size)
        try:
            return checked_header(buffer, at)
        except RecordError:
            self._in_vain += size
            return None

    def next_candidate(self, position: int, bounds: Bounds, expected: int) -> int:
        """The first place from `position` on that looks like a batch beyond `expected`; the file's end without one."""
        return next((one for one in self.magic_from(position) if self._is_plausible(one, bounds, expected)), self.size)

    def magic_from(self, position: int) -> Iterator[int]:
        """The places from `position` on that have the magic byte where a batch has it, until the search is spent."""
        while position + HEADER_SIZE <= self.size and not self.is_spent:
            buffer, at = self.window(position, HEADER_SIZE)
            found = buffer.find(_MAGIC_BYTE, at + _MAGIC_POSITION)
            if found == -1:
                position += len(buffer) - at - _MAGIC_POSITION
                continue
            position += found - at - _MAGIC_POSITION
            self._in_vain += _CANDIDATE_BYTES
            yield position
            position += 1

    def _is_plausible(self, position: int, bounds: Bounds, expected: int) -> bool:
        """Whether the offsets and the epoch there could be a batch's; its length is looked at with its checksum."""
        if position + HEADER_SIZE > self.size:
            return False
        buffer, at = self.window(position, HEADER_SIZE)
        base_offset, _, epoch = _PROBE.unpack_from(buffer, at)
        (delta,) = _DELTA.unpack_from(buffer, at + _DELTA_POSITION)
        last_offset = base_offset + delta
        return (
            epoch >= 0
            and delta >= 0
            and base_offset >= expected
            and reaches(bounds.base_offset, last_offset)
            and (bounds.limit is None or last_offset < bounds.limit)
        )


def holds_batch(file: File, position: int, least: int | None = None) -> bool:
    """Whether there is a batch from a position on that is intact by its checksum, whatever offsets it says it has.

    `least`: only one counts that begins at this offset or later, and is not the value of a record in what is damaged.
    True as well where the search was spent before it could tell.
    """
    reader = _Reader(file)
    for one in reader.magic_from(position):
        header = reader.intact(one)
        if header is None or (least is not None and (header.base_offset < least or _is_value(reader, one, header))):
            continue
        return True
    return reader.is_spent


def _is_value(reader: _Reader, position: int, header: BatchHeader) -> bool:
    """Whether a batch is a record's value: its size stands before it, and it leads neither to a batch nor to the end.

    One that follows what is damaged has there what a record ends with: no headers, as a rule.
    """
    size, end = encode_varint(header.size), position + header.size
    start = max(0, position - len(size))
    buffer, at = reader.window(start, len(size))
    return buffer[at : at + len(size)] == size and end < reader.size and reader.intact(end) is None


def survey(file: File, bounds: Bounds) -> Iterator[tuple[int, BatchHeader] | DamagedExtent]:
    """(position, header) of each intact batch of a file, and what lies between them that is none."""
    reader = _Reader(file)
    expected, epoch = bounds.base_offset, bounds.around.epoch
    position, damaged_from = 0, None
    before: BatchHeader | None = None
    while position < reader.size:
        header = reader.intact(position)
        if (
            header is not None
            and damaged_from is not None
            and not (header.base_offset > expected and _is_followed(reader, position, header, bounds))
        ):
            header = None  # what is damaged before it held an offset at least
        if (
            header is None
            or not _continues(reader, position, header, bounds, expected, epoch)
            or _is_accused(reader, position, header, bounds, before, begun=damaged_from is not None)
        ):
            damaged_from = position if damaged_from is None else damaged_from
            position = _behind(reader, position, header, bounds, expected)
            continue
        if damaged_from is not None:
            yield DamagedExtent(damaged_from, position - damaged_from, expected, header.base_offset)
            damaged_from = None
        yield position, header
        position += header.size
        expected, epoch = header.next_offset, header.partition_leader_epoch
        before = header
    if damaged_from is not None:
        yield DamagedExtent(damaged_from, reader.size - damaged_from, expected, expected, is_tail=True)


def _behind(reader: _Reader, position: int, header: BatchHeader | None, bounds: Bounds, expected: int) -> int:
    """Where to look on behind a batch that is not believed: behind it by its length, if that leads to a batch."""
    if header is not None:
        return position + header.size
    if position + HEADER_SIZE <= reader.size:
        buffer, at = reader.window(position, HEADER_SIZE)
        size: int = _PROBE.unpack_from(buffer, at)[1] + LENGTH_OVERHEAD
        if size >= HEADER_SIZE and reader.intact(position + size) is not None:
            return position + size
    return reader.next_candidate(position + 1, bounds, expected)


def _is_followed(reader: _Reader, position: int, header: BatchHeader, bounds: Bounds) -> bool:
    """Whether another batch begins where this one ends, in the file and by its offsets, or the file ends there.

    What has damaged the place before may reach into this batch's base offset. So the last batch of a file has to end
    where the next file begins, or in the last one no earlier than where the log once ended.
    """
    end, next_offset = position + header.size, header.next_offset
    if end == reader.size and bounds.limit is None:
        return next_offset >= max(bounds.flushed_end_offset, bounds.cleaned) or next_offset in bounds.following
    if end == reader.size:
        return next_offset == bounds.limit
    after = reader.intact(end)
    return after is not None and after.base_offset == header.next_offset


def _continues(reader: _Reader, position: int, header: BatchHeader, bounds: Bounds, expected: int, epoch: int) -> bool:
    """Whether an intact batch may follow what ended at `expected` in this leader epoch."""
    may_begin_before = position == 0 and bounds.around.last_before is None
    spans_start = may_begin_before and header.base_offset >= 0 and header.last_offset >= expected
    if header.base_offset < expected and not spans_start:
        return False
    if header.partition_leader_epoch < epoch:
        return False
    if not reaches(bounds.base_offset, header.last_offset):
        return False
    if bounds.limit is not None and header.next_offset > bounds.limit:
        return False
    leaps = header.base_offset > expected and bounds.limit is None
    if leaps and _leaps_over_end(header, bounds, expected) and not _is_borne_out(reader, position, header, bounds):
        return False
    if header.base_offset > expected and _leaps_over_next(reader, position, header, expected, epoch):
        return False
    return header.partition_leader_epoch == epoch or not _outruns_next(reader, position, header, bounds, epoch)


def _leaps_over_end(header: BatchHeader, bounds: Bounds, expected: int) -> bool:
    """Whether the log ended once at an offset that a batch has been put over, as far as is known or was said."""
    ends = (bounds.flushed_end_offset, bounds.rejected_end)
    return any(
        expected < ended < header.next_offset and (header.base_offset != ended or bounds.is_last_end) for ended in ends
    )


def _is_borne_out(reader: _Reader, position: int, header: BatchHeader, bounds: Bounds) -> bool:
    """Whether what follows a batch knows of the offset at which it ends: the next batch, or the name of a file."""
    end = position + header.size
    if end == reader.size:
        return header.next_offset in bounds.following
    return reader.intact(end) is not None  # where that one begins is for `_leaps_over_next`


def _leaps_over_next(reader: _Reader, position: int, header: BatchHeader, expected: int, epoch: int) -> bool:
    """Whether the next batch would follow what came before this one, and begins before this one ends."""
    after = reader.intact(position + header.size)
    if after is None or after.partition_leader_epoch < epoch:
        return False
    return expected <= after.base_offset < header.next_offset


def _outruns_next(reader: _Reader, position: int, header: BatchHeader, bounds: Bounds, epoch: int) -> bool:
    """Whether the next batch, of any segment, would follow what came before this one, and is of an earlier epoch.

    Where the epoch is noted of this one, it is the next one that has changed.
    """
    after = _next_intact(reader, position, header, bounds).batch
    if after is None or not epoch <= after.partition_leader_epoch < header.partition_leader_epoch:
        return False
    noted = bounds.around.noted
    return noted is None or not noted.bears_out(header)


def _next_intact(reader: _Reader, position: int, header: BatchHeader, bounds: Bounds) -> Beside:
    """The first intact batch behind one, though damage or the end of the file lies between."""
    position += header.size
    found = reader.intact(position)
    is_damaged = found is None and position < reader.size
    while found is None and position < reader.size:
        position = _behind(reader, position, None, bounds, header.next_offset)
        found = reader.intact(position)
        if found is not None and not _is_followed(reader, position, found, bounds):
            found = None
    find = bounds.around.first_behind
    if found is not None or find is None:
        return Beside(found, is_damaged)
    further = find()
    return Beside(further.batch, is_damaged or further.is_damaged)


def _is_accused(
    reader: _Reader, position: int, header: BatchHeader, bounds: Bounds, before: BatchHeader | None, *, begun: bool
) -> bool:
    """Whether a batch's leader epoch is odd, and the batches beside it say that it is damaged.

    `begun`: damage lies before.
    """
    noted, _, last_before, _ = bounds.around
    if noted is None or not noted.is_odd(header):
        return False
    if before is None and last_before is not None:
        before = last_before()
        begun = begun or before is None
    behind = _next_intact(reader, position, header, bounds)
    ends_early = header.next_offset < bounds.flushed_end_offset and bounds.cleaned == NEVER
    if behind.batch is None and ends_early:  # the end of the log is missing
        behind = Beside(None, is_damaged=True)
    return noted.accuses(header, Beside(before, begun), behind)
