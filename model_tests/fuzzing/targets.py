"""What is fuzzed: each target takes any bytes, and raises only if the code that they reach does what it must not.

Allowed is what the code documents for bad input: `MalformedMessageError`, `RecordError`, a closed connection. Any other
exception, and any response that cannot be read, is a finding.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import attrs
import trio
import trio.testing
from crc32c import crc32c
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.classic.messages import Moment
from tidegauge.impl.coordinators.groups.classic.subscriptions import subscribed_topics
from tidegauge.impl.coordinators.groups.classic.turn import ClassicLimits
from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator, Limits
from tidegauge.impl.coordinators.groups.group_metadata import decode_group_metadata, group_record
from tidegauge.impl.coordinators.groups.log_entries import GroupWritten, LogEntry, log_entries
from tidegauge.impl.coordinators.transactions.coordinator import TransactionConfig, TransactionCoordinator
from tidegauge.impl.coordinators.transactions.log_format import TransactionLogError
from tidegauge.impl.coordinators.transactions.log_format import decode_key as decode_transactional_id
from tidegauge.impl.coordinators.transactions.log_format import decode_value as decode_transaction
from tidegauge.impl.coordinators.transactions.messages import Append, InitProducerId
from tidegauge.impl.ports.clock import SimulatedClock
from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.records.batches import (
    CHECKSUM_START,
    RecordError,
    check_produced,
    checked_headers,
    extents,
    headers,
)
from tidegauge.impl.records.payload import Record, build_batch, decode_batches
from tidegauge.impl.records.slices import at_once
from tidegauge.impl.server.error_responses.table import error_response
from tidegauge.impl.server.transport.connection import Connection
from tidegauge.impl.server.transport.context import Handler, RequestContext
from tidegauge.impl.server.transport.service import Service
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.log import Log
from tidegauge.impl.wire.apis import BROKER_APIS
from tidegauge.impl.wire.codecs import MalformedMessageError, decode_canonical_request
from tidegauge.model_tests.fuzzing import seeds

LARGEST_FRAME = 64 << 10


def frame(data: bytes) -> None:
    """A request is decoded, or malformed."""
    try:
        decode_canonical_request(data)
    except MalformedMessageError:
        return


async def _respond_with_an_error(request: Any, _: RequestContext) -> Any:
    return error_response(request, ErrorCode.unknown_server_error)


_HANDLERS: Final[Mapping[Any, Handler]] = MappingProxyType(dict.fromkeys(BROKER_APIS, _respond_with_an_error))


def connection(data: bytes) -> None:
    """Bytes on a connection: responses in order, then its end; no exception leaves `serve`."""

    async def serve() -> None:
        ours, theirs = trio.testing.memory_stream_pair()
        service = Service(_HANDLERS, BROKER_APIS, SimulatedClock(), LARGEST_FRAME)
        await ours.send_all(data)
        await ours.send_eof()
        with trio.fail_after(60):
            await Connection(theirs, service).serve()
        await theirs.aclose()
        received = bytearray()
        async for chunk in ours:
            received += chunk
        position = 0
        while position < len(received):
            size = int.from_bytes(received[position : position + 4], "big")
            assert size >= 4, f"a response of {size} bytes at {position}"
            position += 4 + size
        assert position == len(received), "the last response is cut short"

    trio.run(serve, clock=trio.testing.MockClock(autojump_threshold=0))


def records(data: bytes) -> None:
    """Batches from a producer are taken as they are, or refused with an error code; also if the checksum is right."""
    for batches in (data, with_right_checksums(data)):
        with contextlib.suppress(RecordError):
            for header in checked_headers(batches):
                check_produced(header)
            list(decode_batches(batches))


def with_right_checksums(data: bytes) -> bytes:
    """The same batches, as a producer would send them that meant what they say."""
    copy = bytearray(data)
    with contextlib.suppress(RecordError):
        for batch in extents(data):
            crc = crc32c(copy[batch.position + CHECKSUM_START : batch.position + batch.size])
            copy[batch.position + CHECKSUM_START - 4 : batch.position + CHECKSUM_START] = crc.to_bytes(4, "big")
    return bytes(copy)


def segment(data: bytes) -> None:
    """A segment with any content opens: what is intact is kept, the rest is cut, and appending goes on."""
    for content in (data, with_right_checksums(data)):
        _open_segment(content)


def _open_segment(data: bytes) -> None:
    disk = SimulatedDisk(random.Random(0))
    disk.make_directory("t-0")
    file = disk.open("t-0/00000000000000000000.log", create=True)
    file.append(data)
    log = Log.open(disk, "t-0", LogConfig(), 0)
    kept = log.read(log.log_start_offset, 1 << 30) if log.log_end_offset > log.log_start_offset else b""
    assert data.startswith(kept), "the log serves bytes that it was not given"
    end_offset = log.log_end_offset
    (one, *_) = seeds.record_batches()
    if end_offset < 1 << 40:
        log.append_as_leader(one, max(log.latest_epoch, 0), 0)
        assert log.log_end_offset == end_offset + sum(e.next_offset - e.base_offset for e in extents(one))
    log.close()


def subscription(data: bytes) -> None:
    """What a member says of itself is read, or left alone."""
    topics = subscribed_topics([data])
    assert topics is None or all(isinstance(topic, str) for topic in topics)


def internal(data: bytes) -> None:
    """A record of an internal topic is taken in, or refused; a group that is taken over lives on, and is written."""
    key, value = seeds.key_and_value(data)
    with contextlib.suppress(TransactionLogError):
        _coordinate(key, value)
    with contextlib.suppress(RecordError):
        record = Record(0, 0, key, value)
        ((_, header),) = headers(build_batch([record]))
        for entry in log_entries(header, [record], None):
            _take_over(entry)


def _coordinate(key: bytes, value: bytes | None) -> None:
    """The coordinator of transactions loads the record, and a process of its id begins. Raises TransactionLogError."""
    core = TransactionCoordinator(TransactionConfig(partitions=1))
    core.begin_loading(0, 5)
    at_once(core.load(0, 5, [(key, value)]))
    transactional_id = decode_transactional_id(key)
    if transactional_id is None:
        return
    core.describe(transactional_id)
    list(core.outstanding(0, 0))
    for due in (core.overdue(1 << 50), core.expired(1 << 50)):
        appends = [one for one in due if one is not None]
        assert all(one.value is None or decode_transaction(one.value) is not None for one in appends)
    core.resign(0)
    core.begin_loading(0, 6)
    at_once(core.load(0, 6, [(key, value)]))
    given = core.init_producer_id(InitProducerId(transactional_id, 60_000), 7, 1_000)
    if isinstance(given, Append):
        assert given.value is not None
        assert decode_transaction(given.value) is not None


def _take_over(entry: LogEntry) -> None:
    """The coordinator's core has the record, goes on with it, and says the same in its own."""
    core = GroupCoordinator(Limits(4_096, 1_000, ClassicLimits()))
    core.offsets.replay([entry])
    if not isinstance(entry, GroupWritten) or entry.metadata is None:
        return
    core.take_over(entry.group, Moment(0, 0))
    outcomes = list(core.classic.time_passed(Moment(1 << 40, 1 << 40)))
    group = core.classic.get(entry.group)
    assert group is None or not group.members, "nobody has sent a heartbeat for years"
    for write in (write for outcome in outcomes for write in outcome.writes):
        record = group_record(write.group, write.metadata)
        assert record.value is not None
        assert decode_group_metadata(record.value) == write.metadata


@attrs.frozen
class Target:
    """One thing to fuzz."""

    run: Callable[[bytes], None]
    seeds: Callable[[], Iterator[bytes]]


TARGETS: Final[Mapping[str, Target]] = MappingProxyType(
    {
        "frame": Target(frame, seeds.request_frames),
        "connection": Target(connection, seeds.connection_bytes),
        "records": Target(records, seeds.record_batches),
        "segment": Target(segment, seeds.record_batches),
        "subscription": Target(subscription, seeds.subscriptions),
        "internal": Target(internal, seeds.internal_records),
    }
)
