"""The records of `__transaction_state`, byte for byte as Kafka has them.

A key is a transactional id, a value what is known of it; a key without a value, a tombstone, removes the id::

    key    version int16  0    transactional id string
    value  version int16
           producer id          int64
           producer epoch       int16
           timeout              int32    ms
           status               int8
           partitions           [topic string, [partition int32]]; null while the status is Empty
           last update          int64    ms since 1970
           start                int64    ms since 1970; -1: none is open
           tagged fields, from version 1 on; one that has its default is left out
               0  previous producer id       int64    -1
               1  next producer id           int64    -1
               2  client transaction version int16     0
               3  next producer epoch        int16    -1

A transaction that another process has taken over (KIP-939) has the producer id and epoch that it was begun under, and
as the next ones those of that process. Such a record is of version 1 always: version 0 would forget one of them.

From version 1 on lengths are unsigned varints, one more than they say (KIP-482), and tags that are not known are passed
over (KIP-915). Version 1 is written from `transaction.version` 1 on.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import groupby
from typing import Final

import attrs

from tidegauge.impl.coordinators.fields import INT16, INT32, INT64, FieldReader, encode_string, encode_varint
from tidegauge.impl.coordinators.transactions.metadata import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    TopicPartition,
    TransactionMetadata,
    TransactionStatus,
)
from tidegauge.impl.records.batches import RecordError

KEY_VERSION: Final = 0
NO_VERSION: Final = -1
FLEXIBLE_VERSION: Final = 1
_HEAD = struct.Struct(">qhib")
_TIMES = struct.Struct(">qq")
_PREVIOUS, _NEXT, _CLIENT_VERSION, _NEXT_EPOCH = range(4)


class TransactionLogError(ValueError):
    """Bytes in the transaction log that are no record of it."""


def encode_key(transactional_id: str) -> bytes:
    """The key of a transactional id's records."""
    return INT16.pack(KEY_VERSION) + encode_string(transactional_id)


def decode_key(key: bytes) -> str | None:
    """The transactional id that a key names; None for a key of a version that is not known."""
    fields = FieldReader(key)
    try:
        return fields.string() if fields.int16() == KEY_VERSION else None
    except RecordError as error:
        raise TransactionLogError(f"{key[:100]!r} is no key of the transaction log: {error}") from None


def value_version(transaction_version: int, metadata: TransactionMetadata) -> int:
    """The version of a value under a level of the feature `transaction.version`."""
    return FLEXIBLE_VERSION if transaction_version >= 1 or metadata.is_taken_over else 0


def version_of(value: bytes | None) -> int:
    """The version of a value; -1 for a tombstone, which has none."""
    return NO_VERSION if value is None else int(INT16.unpack_from(value)[0])


def encode_value(metadata: TransactionMetadata, version: int = FLEXIBLE_VERSION) -> bytes:
    """A value of this version."""
    head = _HEAD.pack(*metadata.ongoing, metadata.timeout_ms, metadata.status)
    times = _TIMES.pack(metadata.last_update_ms, metadata.start_ms)
    body = head + _partitions(metadata, version) + times
    return INT16.pack(version) + body + (_tags(metadata) if version >= FLEXIBLE_VERSION else b"")


def decode_value(value: bytes) -> TransactionMetadata | None:
    """What a value says; None for a version that is not known. Raises TransactionLogError."""
    fields = FieldReader(value)
    try:
        version = fields.int16()
        return _decoded(fields, compact=version >= FLEXIBLE_VERSION) if 0 <= version <= FLEXIBLE_VERSION else None
    except (RecordError, ValueError, struct.error) as error:
        raise TransactionLogError(f"{value[:100]!r} is no value of the transaction log: {error}") from None


def _decoded(fields: FieldReader, *, compact: bool) -> TransactionMetadata:
    """Raises RecordError, ValueError for an unknown status, struct.error for a tagged field of another size."""
    producer_id, epoch, timeout_ms, status = fields.take(_HEAD)
    partitions = frozenset(_decoded_partitions(fields, compact=compact))
    last_update_ms, start_ms = fields.take(_TIMES)
    tags = dict(fields.tagged_fields()) if compact else {}
    found = TransactionMetadata(
        producer_id,
        epoch,
        TransactionStatus(status),
        timeout_ms,
        previous_producer_id=INT64.unpack(tags[_PREVIOUS])[0] if _PREVIOUS in tags else NO_PRODUCER_ID,
        next_producer_id=INT64.unpack(tags[_NEXT])[0] if _NEXT in tags else NO_PRODUCER_ID,
        partitions=partitions,
        last_update_ms=last_update_ms,
        start_ms=start_ms,
        client_version=INT16.unpack(tags[_CLIENT_VERSION])[0] if _CLIENT_VERSION in tags else 0,
    )
    if _NEXT_EPOCH not in tags:
        return found
    return attrs.evolve(
        found,
        producer_id=found.next_producer_id,
        epoch=INT16.unpack(tags[_NEXT_EPOCH])[0],
        next_producer_id=NO_PRODUCER_ID,
        ongoing_producer_id=producer_id,
        ongoing_epoch=epoch,
    )


def _decoded_partitions(fields: FieldReader, *, compact: bool) -> Iterator[TopicPartition]:
    for _ in range(fields.count(compact=compact)):
        topic = fields.string(compact=compact)
        for _ in range(fields.count(compact=compact)):
            yield TopicPartition(topic, fields.int32())
        if compact:
            dict(fields.tagged_fields())


# --- writing ---------------------------------------------------------------------------------------------------------


def _partitions(metadata: TransactionMetadata, version: int) -> bytes:
    flexible = version >= FLEXIBLE_VERSION
    if metadata.status is TransactionStatus.EMPTY:
        return b"\0" if flexible else INT32.pack(-1)
    topics = [
        (topic.encode(), [one.partition for one in group])
        for topic, group in groupby(sorted(metadata.partitions), key=lambda one: one.topic)
    ]
    if not flexible:
        return INT32.pack(len(topics)) + b"".join(
            INT16.pack(len(topic)) + topic + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
            for topic, numbers in topics
        )
    return _length(len(topics)) + b"".join(
        _length(len(topic)) + topic + _length(len(numbers)) + struct.pack(f">{len(numbers)}i", *numbers) + b"\0"
        for topic, numbers in topics
    )


def _tags(metadata: TransactionMetadata) -> bytes:
    next_id, next_epoch = metadata.next_producer_id, NO_EPOCH
    if metadata.is_taken_over:
        next_id, next_epoch = metadata.producer_id, metadata.epoch
    fields = [
        (tag, packed)
        for tag, packed, is_default in (
            (_PREVIOUS, INT64.pack(metadata.previous_producer_id), metadata.previous_producer_id == NO_PRODUCER_ID),
            (_NEXT, INT64.pack(next_id), next_id == NO_PRODUCER_ID),
            (_CLIENT_VERSION, INT16.pack(metadata.client_version), metadata.client_version == 0),
            (_NEXT_EPOCH, INT16.pack(next_epoch), next_epoch == NO_EPOCH),
        )
        if not is_default
    ]
    tagged = (encode_varint(tag) + encode_varint(len(packed)) + packed for tag, packed in fields)
    return encode_varint(len(fields)) + b"".join(tagged)


def _length(count: int) -> bytes:
    return encode_varint(count + 1)
