"""Transactions as the cleaner meets them, reading a log from its start: what was aborted, and which markers may go.

Records of an aborted transaction are garbage as soon as they are seen. A marker is needed while a record of its
transaction is in the log, and is kept `delete.retention.ms` beyond that, so that a reader that has seen the records
sees the marker too. A transaction's records are known as aborted before its marker comes, from the transaction index.

The class is told of every batch in the order of the log; control batches and others by methods of their own.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from tidegauge.impl.partition.transactions import AbortedTransaction
from tidegauge.impl.records.batches import BatchHeader
from tidegauge.impl.records.markers import ABORT_MARKER, COMMIT_MARKER


class CleanedTransactions:
    """The transactions around the place that the cleaner has reached."""

    def __init__(self) -> None:
        self.kept: list[AbortedTransaction] = []
        """Aborted transactions of which a marker stays: what the cleaned segment's transaction index says."""
        self._to_come: list[tuple[int, AbortedTransaction]] = []
        self._aborted: dict[int, tuple[AbortedTransaction, bool]] = {}
        """Producer id -> its aborted transaction that is open here, and whether a batch of it was met."""
        self._committed: set[int] = set()
        """Producers with a transaction that is not aborted, of which a batch was met."""

    def expect(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Learn of aborted transactions that overlap what is read next; one that is known already may come again."""
        known = {entry for _, entry in self._to_come} | {entry for entry, _ in self._aborted.values()}
        for entry in aborted:
            if entry not in known:
                heapq.heappush(self._to_come, (entry.first_offset, entry))

    def on_batch(self, header: BatchHeader) -> bool:
        """A batch of records; True when it belongs to an aborted transaction."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        found = self._aborted.get(header.producer_id)
        if found is None:
            self._committed.add(header.producer_id)
            return False
        self._aborted[header.producer_id] = (found[0], True)
        return True

    def on_marker(self, header: BatchHeader, kind: int | None) -> bool:
        """A control batch, with the type of its marker (None: it is empty); True when no record needs it any more."""
        self._begin_up_to(header.last_offset)
        if kind is None:
            return True
        if kind == ABORT_MARKER:
            found = self._aborted.pop(header.producer_id, None)
            if found is not None and found[1]:
                self.kept.append(found[0])
                return False
            return True
        if kind == COMMIT_MARKER:
            met = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not met
        return False

    def take_kept(self) -> list[AbortedTransaction]:
        """The entries for the segment that was just written, each handed out once."""
        kept, self.kept = self.kept, []
        return kept

    def _begin_up_to(self, offset: int) -> None:
        while self._to_come and self._to_come[0][0] <= offset:
            _, entry = heapq.heappop(self._to_come)
            self._aborted.setdefault(entry.producer_id, (entry, False))
