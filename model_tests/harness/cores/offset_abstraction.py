"""What the coordinator of groups knows of one offset, and what its log says, as `spec.offsets` has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from tidegauge.impl.coordinators.fields import INT16
from tidegauge.impl.coordinators.groups.log_entries import LogEntry, OffsetWritten, TransactionEnded
from tidegauge.impl.coordinators.groups.offsets import CommittedOffset, GroupOffsets
from tidegauge.impl.coordinators.groups.record_formats import NO_TIME, OffsetKey
from tidegauge.impl.records.batches import BatchHeader
from tidegauge.impl.records.payload import decode_records
from tidegauge.spec.offsets.state import Committed, Entry, Kind, Store

KEY: Final = OffsetKey("group", "topic", 3)
"""The offset that the machine is about."""
KINDS: Final = {True: Kind.COMMIT, False: Kind.ABORT}


def abstract_store(offsets: GroupOffsets, key: OffsetKey = KEY) -> Store:
    """What is known of an offset."""
    found = offsets.get(key)
    pending = ((producer, waiting[key]) for producer, waiting in offsets.pending.items() if key in waiting)
    return Store(
        None if found is None else _committed(found),
        tuple((producer, _committed(committed)) for producer, committed in sorted(pending)),
    )


def _committed(found: CommittedOffset) -> Committed:
    expires_at = None if found.value.expire_time == NO_TIME else found.value.expire_time
    return Committed(found.log_offset, found.value.offset, found.value.commit_time, expires_at)


def abstract_entry(batch: bytes, entry: LogEntry, expiries: Mapping[int, Entry]) -> Entry:
    """An entry as the specification has it; `expiries`: the tombstones of old offsets, as that has them.

    The log does not say which those are.
    """
    place = entry.log_offset
    if isinstance(entry, TransactionEnded):
        return Entry(place, KINDS[entry.is_commit], producer=entry.producer_id)
    assert isinstance(entry, OffsetWritten), "no group has members here"
    if entry.value is None:
        time = BatchHeader.parse(batch).max_timestamp
        written = expiries.get(place, Entry(place, Kind.TOMBSTONE))
        return attrs.evolve(written, time=time)
    value, is_old_format = entry.value, _version(batch) == 1
    expires_at = None if value.expire_time == NO_TIME and not is_old_format else value.expire_time
    return Entry(place, Kind.OFFSET, entry.producer_id, value.offset, value.commit_time, expires_at=expires_at)


def _version(batch: bytes) -> int:
    """The version of the value that the batch has."""
    (record,) = decode_records(batch)
    assert record.value is not None
    version: int = INT16.unpack(record.value[: INT16.size])[0]
    return version
