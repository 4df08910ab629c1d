"""Transaction markers: the control batches that end a producer's transaction in one partition (KIP-98).

A marker is a batch of one record. Its key says what kind it is, its value which coordinator wrote it::

    key    version int16  0    type int16  0: abort, 1: commit
    value  version int16  0    coordinator epoch int32
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from tidegauge.impl.records.batches import Buffer, RecordError
from tidegauge.impl.records.payload import ProducerIdentity, Record, build_batch, decode_records

ABORT_MARKER: Final = 0
COMMIT_MARKER: Final = 1
UNKNOWN_COORDINATOR_EPOCH: Final = -1
_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_VERSION = 0
_NO_SEQUENCE = -1


class TransactionMarker(NamedTuple):
    """The end of one producer's transaction."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    """Of the leader of the coordinator's partition, which fences coordinators before it."""


class MarkerRecord(NamedTuple):
    """What the record of a control batch says."""

    kind: int
    """`ABORT_MARKER`, `COMMIT_MARKER`, or another control record's type."""
    coordinator_epoch: int


def build_marker(marker: TransactionMarker, now_ms: int) -> bytes:
    """The control batch with a marker."""
    key = _KEY.pack(_VERSION, COMMIT_MARKER if marker.is_commit else ABORT_MARKER)
    record = Record(0, now_ms, key, _VALUE.pack(_VERSION, marker.coordinator_epoch))
    producer = ProducerIdentity(marker.producer_id, marker.producer_epoch, _NO_SEQUENCE)
    return build_batch([record], producer=producer, transactional=True, control=True)


def marker_record(batch: Buffer, position: int = 0) -> MarkerRecord | None:
    """The record of the control batch at `position`; None where none can be read, or the cleaner has taken it."""
    try:
        records = decode_records(batch, position)
    except RecordError:
        return None
    for record in records:
        if (kind := marker_kind(record.key)) is not None:
            value = record.value or b""
            epoch = _VALUE.unpack_from(value)[1] if len(value) >= _VALUE.size else UNKNOWN_COORDINATOR_EPOCH
            return MarkerRecord(kind, epoch)
    return None


def marker_kind(key: bytes | None) -> int | None:
    """The kind of control record that a key names; None for one that is too short."""
    return int(_KEY.unpack_from(key)[1]) if key is not None and len(key) >= _KEY.size else None
