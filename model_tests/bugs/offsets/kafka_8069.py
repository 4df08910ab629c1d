"""KAFKA-8069: a load takes an expiry of -1 for a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidegauge.impl.coordinators.groups.log_entries import LogEntry, OffsetWritten, log_entries
from tidegauge.impl.coordinators.groups.record_formats import NO_TIME
from tidegauge.impl.records.batches import BatchHeader
from tidegauge.impl.records.markers import MarkerRecord
from tidegauge.impl.records.payload import Record
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.offsets import OffsetRoles

WITH_EXPIRY = b"\0\1"
"""What a value of version 1 begins with."""


def taking_none_for_a_time(
    header: BatchHeader, records: Iterable[Record], marker: MarkerRecord | None
) -> Iterator[LogEntry]:
    """The entries of a batch; a value of version 1 always has a time, and this one is long over."""
    read = list(records)
    versions = {record.offset: (record.value or b"")[:2] for record in read}
    for entry in log_entries(header, read, marker):
        is_of_none = isinstance(entry, OffsetWritten) and entry.value is not None and entry.value.expire_time == NO_TIME
        if isinstance(entry, OffsetWritten) and is_of_none and versions[entry.log_offset] == WITH_EXPIRY:
            assert entry.value is not None
            yield entry._replace(value=entry.value._replace(expire_time=0))
        else:
            yield entry


BUG = CoreBug("kafka_8069", OffsetRoles(read=taking_none_for_a_time))
