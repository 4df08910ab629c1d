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

From version 1 on lengths are unsigned varints, one more than they say (KIP-482), and tags that are not known are passed
over (KIP-915). Version 1 is written from `transaction.version` 1 on.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from tidegauge.impl.coordinators.transactions.metadata import (
    NO_PRODUCER_ID,
    TopicPartition,
    TransactionMetadata,
    TransactionStatus,
)

KEY_VERSION: Final = 0
FLEXIBLE_VERSION: Final = 1
_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_HEAD = struct.Struct(">qhib")
_TIMES = struct.Struct(">qq")
_PREVIOUS, _NEXT, _CLIENT_VERSION = range(3)


class TransactionLogError(ValueError):
    """Bytes in the transaction log that are no record of it."""


def encode_key(transactional_id: str) -> bytes:
    """The key of a transactional id's records."""
    name = transactional_id.encode()
    return _SHORT.pack(KEY_VERSION) + _SHORT.pack(len(name)) + name


def decode_key(key: bytes) -> str | None:
    """The transactional id that a key names; None for a key of a version that is not known."""
    try:
        (version,) = _SHORT.unpack_from(key)
        if version != KEY_VERSION:
            return None
        return _Reader(key, _SHORT.size).string()
    except (struct.error, UnicodeDecodeError) as error:
        raise TransactionLogError(f"{key[:100]!r} is no key of the transaction log: {error}") from None


def value_version(transaction_version: int) -> int:
    """The version of values under a level of the feature `transaction.version`."""
    return FLEXIBLE_VERSION if transaction_version >= 1 else 0


def encode_value(metadata: TransactionMetadata, version: int = FLEXIBLE_VERSION) -> bytes:
    """A value of this version."""
    head = _HEAD.pack(metadata.producer_id, metadata.epoch, metadata.timeout_ms, metadata.status)
    times = _TIMES.pack(metadata.last_update_ms, metadata.start_ms)
    body = head + _partitions(metadata, version) + times
    return _SHORT.pack(version) + body + (_tags(metadata) if version >= FLEXIBLE_VERSION else b"")


def decode_value(value: bytes) -> TransactionMetadata | None:
    """What a value says; None for a version that is not known. Raises TransactionLogError."""
    try:
        (version,) = _SHORT.unpack_from(value)
        if not 0 <= version <= FLEXIBLE_VERSION:
            return None
        return _decoded(_Reader(value, _SHORT.size, flexible=version >= FLEXIBLE_VERSION))
    except (struct.error, UnicodeDecodeError, IndexError, ValueError) as error:
        raise TransactionLogError(f"{value[:100]!r} is no value of the transaction log: {error}") from None


def _decoded(reader: _Reader) -> TransactionMetadata:
    producer_id, epoch, timeout_ms, status = reader.take(_HEAD)
    partitions = frozenset(reader.partitions())
    last_update_ms, start_ms = reader.take(_TIMES)
    tags = dict(reader.tags()) if reader.flexible else {}
    return TransactionMetadata(
        producer_id,
        epoch,
        TransactionStatus(status),
        timeout_ms,
        previous_producer_id=_LONG.unpack(tags[_PREVIOUS])[0] if _PREVIOUS in tags else NO_PRODUCER_ID,
        next_producer_id=_LONG.unpack(tags[_NEXT])[0] if _NEXT in tags else NO_PRODUCER_ID,
        partitions=partitions,
        last_update_ms=last_update_ms,
        start_ms=start_ms,
        client_version=_SHORT.unpack(tags[_CLIENT_VERSION])[0] if _CLIENT_VERSION in tags else 0,
    )


# --- writing ---------------------------------------------------------------------------------------------------------


def _partitions(metadata: TransactionMetadata, version: int) -> bytes:
    flexible = version >= FLEXIBLE_VERSION
    if metadata.status is TransactionStatus.EMPTY:
        return b"\0" if flexible else _INT.pack(-1)
    topics = [
        (topic.encode(), [one.partition for one in group])
        for topic, group in groupby(sorted(metadata.partitions), key=lambda one: one.topic)
    ]
    if not flexible:
        return _INT.pack(len(topics)) + b"".join(
            _SHORT.pack(len(topic)) + topic + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
            for topic, numbers in topics
        )
    return _length(len(topics)) + b"".join(
        _length(len(topic)) + topic + _length(len(numbers)) + struct.pack(f">{len(numbers)}i", *numbers) + b"\0"
        for topic, numbers in topics
    )


def _tags(metadata: TransactionMetadata) -> bytes:
    fields = [
        (tag, packed)
        for tag, packed, is_default in (
            (_PREVIOUS, _LONG.pack(metadata.previous_producer_id), metadata.previous_producer_id == NO_PRODUCER_ID),
            (_NEXT, _LONG.pack(metadata.next_producer_id), metadata.next_producer_id == NO_PRODUCER_ID),
            (_CLIENT_VERSION, _SHORT.pack(metadata.client_version), metadata.client_version == 0),
        )
        if not is_default
    ]
    return _varint(len(fields)) + b"".join(_varint(tag) + _varint(len(packed)) + packed for tag, packed in fields)


def _length(count: int) -> bytes:
    return _varint(count + 1)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


# --- reading ---------------------------------------------------------------------------------------------------------


class _Reader:
    """Reads fields one after the other."""

    def __init__(self, source: bytes, position: int, *, flexible: bool = False) -> None:
        self._source = source
        self._position = position
        self.flexible = flexible

    def take(self, layout: struct.Struct) -> tuple[int, ...]:
        found: tuple[int, ...] = layout.unpack_from(self._source, self._position)
        self._position += layout.size
        return found

    def raw(self, size: int) -> bytes:
        found = self._source[self._position : self._position + size]
        if size < 0 or len(found) < size:
            raise struct.error(f"{size} bytes are asked for at {self._position}, of {len(self._source)}")
        self._position += size
        return found

    def varint(self) -> int:
        value = shift = 0
        while True:
            (byte,) = self.raw(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def string(self) -> str:
        return self.raw(self.varint() - 1 if self.flexible else self.take(_SHORT)[0]).decode()

    def count(self) -> int:
        """The length of an array; -1 for null."""
        return self.varint() - 1 if self.flexible else self.take(_INT)[0]

    def partitions(self) -> Iterator[TopicPartition]:
        for _ in range(self.count()):
            topic = self.string()
            for _ in range(self.count()):
                yield TopicPartition(topic, self.take(_INT)[0])
            if self.flexible:
                dict(self.tags())

    def tags(self) -> Iterator[tuple[int, bytes]]:
        for _ in range(self.varint()):
            tag = self.varint()
            yield tag, self.raw(self.varint())
