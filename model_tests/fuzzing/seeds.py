"""Where a search begins: a valid request of every API and version, and batches of every compression."""

from __future__ import annotations

import struct
from collections.abc import Iterator

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
