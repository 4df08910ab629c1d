"""A segment's index of aborted transactions, `.txnindex` (KIP-98), and how it is found again in the log.

Theory of operation
-------------------
A reader with read_committed gets the records of aborted transactions too, and a list of those transactions, so that it
can drop them. The list comes from here: each entry says whose transaction it was, where its first record is, where its
abort marker, and what the last stable offset was when the marker was written. An entry lies in the index of the segment
that has the marker; entries are in the order of their markers. A segment without aborted transactions has no file. An
entry is 34 bytes::

    version             int16    0
    producer id         int64
    first offset        int64    of the transaction
    last offset         int64    of its abort marker
    last stable offset  int64    when the marker was appended

A look-up from an offset reads on until an entry's last stable offset shows that no later one can matter.

Like the other indexes this one is derived: markers are control batches in the log, and a producer has one transaction
at a time, so reading the headers and markers of a log from its start (`OpenTransactions`) finds all entries
again. Recovery does so for the segments that it scans.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from tidegauge.impl.ports.disk import Disk, File, PendingSync
from tidegauge.impl.records.batches import BatchHeader, Buffer
from tidegauge.impl.records.payload import decode_records

TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
ABORT_MARKER: Final = 0
COMMIT_MARKER: Final = 1
_ENTRY = struct.Struct(">hqqqq")
_MARKER_KEY = struct.Struct(">hh")
_VERSION = 0


class AbortedTransaction(NamedTuple):
    """An entry: whose transaction, its first record, its abort marker, and the last stable offset then."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    def encode(self) -> bytes:
        return _ENTRY.pack(_VERSION, *self)


class TransactionIndex:
    """The aborted transactions of one segment; the file is made with the first of them."""

    ENTRY_SIZE: Final = _ENTRY.size

    def __init__(self, disk: Disk, path: Callable[[], str]) -> None:
        """`path` says what the file is called now."""
        self._disk = disk
        self._path = path
        self._entries: list[AbortedTransaction] | None = None
        self._unsynced = False

    @property
    def entries(self) -> list[AbortedTransaction]:
        """In the order of their markers; what follows an entry that cannot be is left out."""
        if self._entries is None:
            data = b""
            if self._disk.exists(self._path()):
                file = self._disk.open(self._path())
                data = file.read(0, file.size)
                file.close()
            self._entries = list(decode_entries(data))
        return self._entries

    def append(self, transaction: AbortedTransaction) -> None:
        """Add the transaction whose marker was appended last. Raises OSError."""
        entries = self.entries
        assert not entries or transaction.last_offset > entries[-1].last_offset, (
            f"an abort marker at {transaction.last_offset} is not beyond the last one at {entries[-1].last_offset}"
        )
        file = self._opened(len(entries) * _ENTRY.size)
        try:
            file.append(transaction.encode())
        finally:
            file.close()
        entries.append(transaction)
        self._unsynced = True

    def _opened(self, size: int) -> File:
        """The file, cut to the entries that are believed."""
        file = self._disk.open(self._path(), create=True)
        if file.size > size:
            file.truncate(size)
        return file

    def collect(self, start_offset: int, end_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """The aborted transactions with records in [start, end); and whether no later segment can have another one."""
        found = []
        for entry in self.entries:
            if entry.last_offset >= start_offset and entry.first_offset < end_offset:
                found.append(entry)
            if entry.last_stable_offset >= end_offset:
                return found, True
        return found, False

    def truncate(self, offset: int) -> None:
        """Forget the transactions whose markers are at this offset or beyond (not synced)."""
        self.replace([entry for entry in self.entries if entry.last_offset < offset])

    def replace(self, entries: Iterable[AbortedTransaction]) -> bool:
        """Hold these entries and no others (not synced); False when that is so already."""
        entries = list(entries)
        if entries == self.entries and not self._is_damaged():
            return False
        file = self._disk.open(self._path(), create=True)
        try:
            file.truncate(0)
            file.append(b"".join(entry.encode() for entry in entries))
        finally:
            file.close()
        self._entries = entries
        self._unsynced = True
        return True

    def _is_damaged(self) -> bool:
        size = self._disk.size(self._path()) if self._disk.exists(self._path()) else 0
        return size != len(self.entries) * _ENTRY.size

    def begin_sync(self) -> list[PendingSync]:
        """What has to be done for all entries to be on stable storage. Raises OSError."""
        if not self._unsynced:
            return []
        file = self._disk.open_apart(self._path())
        try:
            sync = file.begin_sync()
        finally:
            file.close()
        self._unsynced = False
        return [sync]


def decode_entries(data: bytes) -> Iterator[AbortedTransaction]:
    """The entries in a file, up to the first that is cut short, of another version, or not beyond the one before it."""
    last_offset = -1
    for position in range(0, len(data) - _ENTRY.size + 1, _ENTRY.size):
        version, *fields = _ENTRY.unpack_from(data, position)
        entry = AbortedTransaction(*fields)
        if version != _VERSION or not 0 <= entry.first_offset <= entry.last_offset or entry.last_offset <= last_offset:
            return
        last_offset = entry.last_offset
        yield entry


def marker_type(batch: Buffer) -> int | None:
    """The type of a control batch's marker, 0 abort and 1 commit; None when the cleaner has taken its record."""
    for record in decode_records(batch):
        if record.key is not None and len(record.key) >= _MARKER_KEY.size:
            return int(_MARKER_KEY.unpack_from(record.key)[1])
    return None


class OpenTransactions:
    """The transactions that are open at a place in a log, by the batches up to there."""

    def __init__(self) -> None:
        self._first_offsets: dict[int, int] = {}

    @property
    def first_offset(self) -> int | None:
        """Where the earliest of them begins; None when none is open."""
        return min(self._first_offsets.values(), default=None)

    def on_batch(self, header: BatchHeader, marker: Callable[[], int | None]) -> AbortedTransaction | None:
        """Take in the next batch; the transaction that it aborts, if it does. `marker` reads a control batch's type."""
        producer_id = header.producer_id
        if not header.is_transactional:
            return None
        if not header.is_control:
            self._first_offsets.setdefault(producer_id, header.base_offset)
            return None
        kind = marker()
        first_offset = self._first_offsets.pop(producer_id, None)
        if kind != ABORT_MARKER or first_offset is None:
            return None
        others = self.first_offset
        stable = header.next_offset if others is None else others
        return AbortedTransaction(producer_id, first_offset, header.last_offset, stable)
