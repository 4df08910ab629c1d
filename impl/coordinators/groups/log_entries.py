"""What a log of `__consumer_offsets` says, entry by entry, in the order of its offsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from tidegauge.impl.coordinators.groups.group_metadata import GroupMetadata, decode_group_metadata
from tidegauge.impl.coordinators.groups.record_formats import (
    ConsumerKey,
    GroupKey,
    OffsetKey,
    OffsetValue,
    decode_key,
    decode_offset_value,
)
from tidegauge.impl.records.batches import NO_PRODUCER_ID, BatchHeader
from tidegauge.impl.records.markers import ABORT_MARKER, COMMIT_MARKER, MarkerRecord
from tidegauge.impl.records.payload import Record


class OffsetWritten(NamedTuple):
    """An offset, or its tombstone; that of a transaction counts once its producer's marker says so."""

    log_offset: int
    producer_id: int
    """-1 if it is of no transaction."""
    key: OffsetKey
    value: OffsetValue | None


class GroupWritten(NamedTuple):
    """What is known of a group's members, or its tombstone."""

    log_offset: int
    group: str
    metadata: GroupMetadata | None


class ConsumerGroupWritten(NamedTuple):
    """A record of a consumer group (KIP-848), or its tombstone."""

    log_offset: int
    key: ConsumerKey
    value: bytes | None


class TransactionEnded(NamedTuple):
    """A marker: the offsets of its producer's transaction count, or never did."""

    log_offset: int
    producer_id: int
    is_commit: bool


LogEntry: TypeAlias = OffsetWritten | GroupWritten | ConsumerGroupWritten | TransactionEnded


def log_entries(header: BatchHeader, records: Iterable[Record], marker: MarkerRecord | None) -> Iterator[LogEntry]:
    """The entries of a batch; `marker` is what a control batch says. What is not known here is left out.

    Raises RecordError for bytes that no coordinator can have written.
    """
    if header.is_control:
        if marker is not None and marker.kind in (ABORT_MARKER, COMMIT_MARKER):
            yield TransactionEnded(header.last_offset, header.producer_id, marker.kind == COMMIT_MARKER)
        return
    producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
    for record in records:
        key = decode_key(record.key)
        if isinstance(key, OffsetKey):
            value = None if record.value is None else decode_offset_value(record.value)
            yield OffsetWritten(record.offset, producer_id, key, value)
        elif isinstance(key, GroupKey):
            metadata = None if record.value is None else decode_group_metadata(record.value)
            yield GroupWritten(record.offset, key.group, metadata)
        elif isinstance(key, ConsumerKey):
            yield ConsumerGroupWritten(record.offset, key, record.value)
