"""Which records a compacted log keeps: the rules, batch by batch.

A record stays when

* it lies beyond what the offset map has taken in, or
* no record with its key comes after it, and it has a value or is a tombstone whose time has not come.

Records without a key go. Batches of aborted transactions go as a whole, and markers once no record needs them and their
own time has come. A batch that is left without records is dropped, except where its header is still needed: the last
one of a producer that is active, for its last sequence or its epoch, and the last one of a segment, so that it ends
where it did. (An empty batch over all the offsets that went would do as well here, but not for a follower: its log may
end inside of that, at the end of a batch that it has and its leader has dropped.)
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import NamedTuple

import attrs

from tidegauge.impl.records.batches import NO_PRODUCER_ID, BatchHeader
from tidegauge.impl.records.markers import marker_kind
from tidegauge.impl.storage.cleaner_batches import (
    KeyedRecord,
    delete_horizon,
    emptied,
    keyed_records,
    payload_of,
    with_records,
)
from tidegauge.impl.storage.cleaner_transactions import CleanedTransactions
from tidegauge.impl.storage.offset_map import OffsetMap

RECORDS_A_SLICE = 250
"""Records between two pauses."""

Sliced = Generator[None, None, bytes]
"""Work that pauses now and then, and gives bytes at the end."""


class LastRecord(NamedTuple):
    """Where an active producer stands in the log."""

    last_data_offset: int | None
    """Of its last record; None when it has only markers left."""
    producer_epoch: int


@attrs.define
class CleaningCounts:
    """What a round read and wrote."""

    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    records_without_key: int = 0


@attrs.define(eq=False)
class RetentionRules:
    """The rules of one round."""

    offsets: OffsetMap
    now_ms: int
    delete_retention_ms: int
    segment_end: int = 0
    """Where the segment that is being written will end."""
    last_records: Mapping[int, LastRecord] = attrs.field(factory=dict)
    """Of each active producer, by its id."""
    transactions: CleanedTransactions = attrs.field(factory=CleanedTransactions)
    counts: CleaningCounts = attrs.field(factory=CleaningCounts)

    def clean(self, batch: bytes, header: BatchHeader) -> Sliced:
        """What stays of an intact batch: the same bytes, fewer, or none."""
        self.counts.bytes_read += len(batch)
        payload = payload_of(batch, header)
        removable = self._removable(header, payload)
        horizon = delete_horizon(header)
        due = horizon is not None and horizon <= self.now_ms
        discarded = removable and (due or not header.is_control)
        kept: list[KeyedRecord] = []
        for number, record in enumerate(keyed_records(header, payload), 1):
            if not discarded and (self.keeps_marker(record) if header.is_control else self.is_kept(record, due=due)):
                kept.append(record)
            if number % RECORDS_A_SLICE == 0:
                yield
        self.counts.records_read += header.records_count
        self.counts.records_kept += len(kept)
        return self._rebuilt(batch, header, payload, kept, marker_without_records=removable and header.is_control)

    def _removable(self, header: BatchHeader, payload: bytes) -> bool:
        """Whether the batch is garbage: aborted data, or a marker that no record needs."""
        if header.is_control:
            return self.transactions.on_marker(header, marker_type(header, payload))
        return self.transactions.on_batch(header)

    def keeps_marker(self, record: KeyedRecord) -> bool:
        """Whether the record of a marker stays that is needed, or has its time: its key is none of the users' keys."""
        return True

    def is_kept(self, record: KeyedRecord, *, due: bool) -> bool:
        """Whether a record of a batch that is no marker stays; `due`: the time of its batch's tombstones has come."""
        if record.offset > self.offsets.latest_offset:
            return True
        if record.key is None:
            self.counts.records_without_key += 1
            return False
        return record.offset >= self.offsets.get(record.key) and (record.has_value or not due)

    def _rebuilt(
        self, batch: bytes, header: BatchHeader, payload: bytes, kept: list[KeyedRecord], marker_without_records: bool
    ) -> bytes:
        if not kept:
            return emptied(header) if self._is_header_needed(header) else b""
        tombstones = marker_without_records or any(not record.has_value for record in kept)
        # Beyond the map the values that they are for are still there: a reader that meets those has to meet them.
        met = header.last_offset <= self.offsets.latest_offset
        if tombstones and met and delete_horizon(header) is None:
            return with_records(header, payload, kept, horizon=self.now_ms + self.delete_retention_ms)
        if len(kept) == header.records_count:
            return batch
        return with_records(header, payload, kept)

    def _is_header_needed(self, header: BatchHeader) -> bool:
        last = self.last_records.get(header.producer_id) if header.producer_id != NO_PRODUCER_ID else None
        if header.next_offset == self.segment_end:
            return True
        if last is None:
            return False
        if last.last_data_offset is not None:
            return header.last_offset == last.last_data_offset
        return header.is_control and header.producer_epoch == last.producer_epoch


def marker_type(header: BatchHeader, payload: bytes) -> int | None:
    """The type of a control batch's marker, 0 abort, 1 commit; None for a batch without a record."""
    for record in keyed_records(header, payload):
        if (kind := marker_kind(record.key)) is not None:
            return kind
    return None
