"""How old the records of a segment are, for `segment.ms` and `retention.ms`.

The largest timestamp of a segment is known from its time index, which has no checksums. A flipped bit there, or in the
header of a batch, would make records look older than they are, and retention would remove them. So before a segment is
taken for expired, the batch that its largest timestamp is of is looked at, checksum and all.
"""

from __future__ import annotations

from tidegauge.impl.records.batches import NO_TIMESTAMP
from tidegauge.impl.storage.segment import Segment


def waited_ms(segment: Segment, now_ms: int | None, timestamp: int) -> int:
    """How long a segment has been filling, by its records' timestamps or else by the clock; for `segment.ms`."""
    if segment.size == 0:
        return 0
    first_timestamp = segment.earliest_timestamp
    if NO_TIMESTAMP not in (first_timestamp, timestamp):
        return timestamp - first_timestamp
    return now_ms - segment.created_ms if now_ms is not None else 0


def is_expired(segment: Segment, now_ms: int, retention_ms: int) -> bool:
    """Whether all records of a segment are older than `retention_ms`; one that is borne out by no batch has its indexes
    made anew.

    Raises CorruptLogError when the batch is not intact.
    """
    if now_ms - newest_ms(segment) <= retention_ms:
        return False
    if segment.max_timestamp == NO_TIMESTAMP or _is_borne_out(segment):
        return True
    segment.rebuild_indexes("its largest timestamp is of no batch")
    return now_ms - newest_ms(segment) > retention_ms


def newest_ms(segment: Segment) -> int:
    """When its newest record was made, by the largest timestamp, or else when the segment was begun or opened."""
    timestamp = segment.max_timestamp
    return timestamp if timestamp != NO_TIMESTAMP else segment.created_ms


def _is_borne_out(segment: Segment) -> bool:
    """Whether there is a batch with the segment's largest timestamp where the segment believes it."""
    header = next(segment.headers_from(segment.offset_of_max_timestamp), None)
    if header is None or header.max_timestamp != segment.max_timestamp:
        return False
    segment.read_batch(header)
    return True
