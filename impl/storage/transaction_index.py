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

An append is remembered, and written to the file when the segment is synced: a marker's append never waits for it, and
a disk that is full refuses it no more than it refuses the flush.

Like the other indexes this one is derived: markers are control batches in the log, and a producer has one transaction
at a time, so reading the headers and markers of a log from its start (`Transactions`) finds all entries again. Recovery
does so for the segments that it scans, which are all that may have entries that were not written.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from operator import attrgetter
from typing import Final

from tidegauge.impl.partition.transactions import AbortedTransaction
from tidegauge.impl.ports.disk import Disk, PendingSync

TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0


class TransactionIndex:
    """The aborted transactions of one segment; the file is made with the first of them."""

    ENTRY_SIZE: Final = _ENTRY.size

    __slots__ = ("_disk", "_entries", "_is_missing", "_path", "_unsynced", "_written")

    def __init__(self, disk: Disk, path: Callable[[str], str]) -> None:
        """`path` says what the segment's file with a suffix is called now."""
        self._disk = disk
        self._path = path
        self._entries: list[AbortedTransaction] | None = None
        self._written = 0
        """How many of the entries are in the file."""
        self._unsynced = False
        self._is_missing = False
        """Whether it is known that there is no such file."""

    def found_missing(self) -> None:
        """The log's directory has been looked at, and has no such file."""
        self._is_missing = True

    @property
    def entries(self) -> list[AbortedTransaction]:
        """In the order of their markers; what follows an entry that cannot be is left out."""
        if self._entries is None:
            path = self._path(TRANSACTION_INDEX_SUFFIX)
            has_file = not self._is_missing and self._disk.exists(path)
            self._entries = list(decode_entries((self._disk.read_whole(path) if has_file else None) or b""))
            self._written = len(self._entries)
        return self._entries

    def load(self) -> None:
        """Read the file, before what may have to be added is in the log. Raises OSError."""
        assert self.entries is not None, "an empty list at least"

    def append(self, transaction: AbortedTransaction) -> None:
        """Add the transaction whose marker was appended last."""
        entries = self.entries
        assert not entries or transaction.last_offset > entries[-1].last_offset, (
            f"an abort marker at {transaction.last_offset} is not beyond the last one at {entries[-1].last_offset}"
        )
        entries.append(transaction)
        self._unsynced = True

    def collect(self, start_offset: int, end_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """The aborted transactions with records in [start, end); and whether no later segment can have another one."""
        found = []
        first = bisect_left(self.entries, start_offset, key=attrgetter("last_offset"))
        for entry in islice(self.entries, first, None):
            if entry.first_offset < end_offset:
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
        if self._is_missing and not entries and not self._entries:
            return False
        if entries == self.entries and self._written == len(entries) and not self._is_damaged():
            return False
        self._is_missing = False
        file = self._disk.open(self._path(TRANSACTION_INDEX_SUFFIX), create=True)
        try:
            file.truncate(0)
            file.append(encode_entries(entries))
        finally:
            file.close()
        self._entries, self._written = entries, len(entries)
        self._unsynced = True
        return True

    def _is_damaged(self) -> bool:
        if self._is_missing:
            return False
        path = self._path(TRANSACTION_INDEX_SUFFIX)
        size = self._disk.size(path) if self._disk.exists(path) else 0
        return size != self._written * _ENTRY.size

    def begin_sync(self) -> list[PendingSync]:
        """Write what is not in the file yet; what has to be done for it to be on stable storage. Raises OSError."""
        if not self._unsynced:
            return []
        self._is_missing = False
        file = self._disk.open_apart(self._path(TRANSACTION_INDEX_SUFFIX), create=True)
        try:
            if file.size > self._written * _ENTRY.size:
                file.truncate(self._written * _ENTRY.size)
            if new := self.entries[self._written :]:
                file.append(encode_entries(new))
                self._written += len(new)
            sync = file.begin_sync()
        finally:
            file.close()
        self._unsynced = False
        return [sync]


def encode_entries(entries: Iterable[AbortedTransaction]) -> bytes:
    """What a file has for these entries."""
    return b"".join(_ENTRY.pack(_VERSION, *entry) for entry in entries)


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
