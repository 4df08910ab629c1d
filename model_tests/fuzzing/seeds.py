"""Where a search begins: a valid request of every API and version, and batches of every compression."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tidegauge.impl.coordinators.groups.group_metadata import GroupMember, GroupMetadata, group_record
from tidegauge.impl.coordinators.groups.record_formats import OffsetKey, OffsetValue, group_tombstone, offset_record
from tidegauge.impl.coordinators.transactions.log_format import encode_key, encode_value
from tidegauge.impl.coordinators.transactions.metadata import TopicPartition, TransactionMetadata, TransactionStatus
from tidegauge.impl.records.batches import Compression
from tidegauge.impl.records.payload import Record, RecordHeader, build_batch
from tidegauge.impl.wire.apis import BROKER_APIS, INTER_BROKER_APIS, PRODUCE_SERVED_FROM, ApiKey, request_class
from tidegauge.impl.wire.codecs import encode_request
from tidegauge.impl.wire.message_classes import blank


def request_frames() -> Iterator[bytes]:
    """Requests without their length, of every API in every version."""
    for api, versions in {**BROKER_APIS, **INTER_BROKER_APIS}.items():
        lowest = PRODUCE_SERVED_FROM if api is ApiKey.PRODUCE else versions.lowest
        for version in range(lowest, versions.highest + 1):
            yield encode_request(blank(request_class(api, version)), version, "fuzzer")[4:]


def connection_bytes() -> Iterator[bytes]:
    """What a peer sends, lengths included: each request alone, and then many at once."""
    frames = [struct.pack(">i", len(frame)) + frame for frame in request_frames()]
    yield from frames
    yield b"".join(frames[::7])


def record_batches() -> Iterator[bytes]:
    """Batches from a producer, one of each compression, and two at once."""
    records = [
        Record(offset, 1_000 + offset, b"key", b"value" * offset, (RecordHeader("h", b"1"), RecordHeader("n", None)))
        for offset in range(5)
    ]
    batches = [build_batch(records, compression=compression) for compression in Compression]
    yield from batches
    yield batches[0] + batches[1]


def subscriptions() -> Iterator[bytes]:
    """What consumers say of themselves, in several versions."""
    topics = struct.pack(">i", 2) + b"\0\1t\0\5other"
    for version in range(4):
        owned = struct.pack(">i", 1) + b"\0\1t" + struct.pack(">ii", 1, 0) if version else b""
        yield struct.pack(">h", version) + topics + struct.pack(">i", -1) + owned


def internal_records() -> Iterator[bytes]:
    """Records of internal topics: of groups, of offsets, of transactions; tombstones too."""
    members = tuple(
        GroupMember(f"m{number}", instance, "client", "/host", 60_000, 10_000, b"says", b"has")
        for number, instance in enumerate((None, "i"))
    )
    records = [
        *(group_record("g", GroupMetadata("consumer", 3, "range", "m0", 7, members[:count])) for count in range(3)),
        group_tombstone("g"),
        offset_record(OffsetKey("g", "t", 0), OffsetValue(5, 2, "said", 7)),
        offset_record(OffsetKey("g", "t", 0), None),
    ]
    partitions = frozenset({TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)})
    states = (
        TransactionMetadata(7, 1, TransactionStatus.ONGOING, 60_000, partitions=partitions, start_ms=5),
        TransactionMetadata(7, 2, TransactionStatus.COMPLETE_COMMIT, 60_000, 6, 8, client_version=2),
    )
    yield from (with_key(record.key, record.value or b"") for record in records)
    for version in (0, 1):
        yield from (with_key(encode_key("tx"), encode_value(state, version)) for state in states)


def with_key(key: bytes, value: bytes) -> bytes:
    """Key and value as the bytes of one input."""
    return struct.pack(">H", len(key)) + key + value


def key_and_value(data: bytes) -> tuple[bytes, bytes | None]:
    """The record that an input is; without a value it is a tombstone."""
    end = 2 + int.from_bytes(data[:2], "big")
    return data[2:end], data[end:] or None
