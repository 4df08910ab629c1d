"""Fetch 4 to 18 as bytes, field by field.

| from version | request | response |
|---|---|---|
| 4 | isolation level | last stable offset, aborted transactions |
| 5 | a follower's log start offset | log start offset |
| 7 | session, forgotten topics (KIP-227) | error code, session id |
| 9 | current leader epoch (KIP-320) | |
| 11 | rack (KIP-392) | preferred read replica |
| 12 | flexible, last fetched epoch, cluster | flexible; tagged: diverging epoch, current leader, snapshot (KIP-595) |
| 13 | topic id for name (KIP-516) | topic id for name |
| 15 | replica id and epoch, tagged, for replica id (KIP-903) | |
| 16 | | node endpoints, tagged (KIP-951) |
| 17 | a follower's directory id, tagged (KIP-853) | |
| 18 | a replica's high watermark, tagged (KIP-1166) | |

Decoding copies no records: they are views of the frame. Encoding copies none either: it returns buffers, to be sent one
after the other. Held against kio's classes by a differential test, for every version in both directions.
"""

from __future__ import annotations

import struct
from typing import Final

from tidegauge.impl.records.slices import Sliced
from tidegauge.impl.wire.budget import SHORT_BYTES, STEP, Budget
from tidegauge.impl.wire.fetch_messages import (
    CONSUMER,
    NO_SESSION,
    SESSIONLESS_EPOCH,
    UNTOLD_HIGH_WATERMARK,
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionFetched,
    TopicFetched,
)
from tidegauge.impl.wire.fields import (
    NO_ID,
    Buffer,
    Part,
    count,
    error_code,
    id_bytes,
    read_count,
    read_id,
    read_nullable_count,
    read_nullable_string,
    read_records,
    read_string,
    read_tags,
    read_topic,
    records_size,
    skip_tags,
    string,
    tags,
    topic_bytes,
    varint,
)
from tidegauge.impl.wire.produce_codec import check_end, decode_endpoints, decode_leader, encode_endpoints

FLEXIBLE_FROM: Final = 12
TOPIC_IDS_FROM: Final = 13
_LOG_START_FROM: Final = 5
_SESSIONS_FROM: Final = 7
_LEADER_EPOCH_FROM: Final = 9
_RACKS_FROM: Final = 11
_REPLICA_STATE_FROM: Final = 15
_ENDPOINTS_FROM: Final = 16
_DIRECTORY_FROM: Final = 17
_HIGH_WATERMARK_FROM: Final = 18

_CLUSTER_ID: Final = 0
_REPLICA_STATE: Final = 1
_DIRECTORY_ID: Final = 0
_HIGH_WATERMARK: Final = 1
_DIVERGING_EPOCH: Final = 0
_CURRENT_LEADER: Final = 1
_SNAPSHOT_ID: Final = 2
_NODE_ENDPOINTS: Final = 0

_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_LIMITS = struct.Struct(">iiib")
"""Longest wait in ms, least bytes, most bytes, isolation level."""
_SESSION = struct.Struct(">ii")
_PARTITION_4 = struct.Struct(">iqi")
_PARTITION_5 = struct.Struct(">iqqi")
_PARTITION_9 = struct.Struct(">iiqqi")
_PARTITION_12 = struct.Struct(">iiqiqi")
_REPLICA = struct.Struct(">iq")
_FETCHED_4 = struct.Struct(">ihqq")
_FETCHED_5 = struct.Struct(">ihqqq")
_TRANSACTION = struct.Struct(">qq")
_EPOCH_END = struct.Struct(">iq")
_SNAPSHOT = struct.Struct(">qi")
_LEADER = struct.Struct(">ii")
_HEAD = struct.Struct(">ihi")
"""Throttle time in ms, error code, session id."""
_ONE_HEAD = struct.Struct(">iibihib")
"""The size of the frame, the correlation id, no tagged fields, as `_HEAD`, and an array of one topic."""
_ONE_FETCHED = struct.Struct(">bihqqqbi")
"""An array of one partition, as `_FETCHED_5`, the length of its aborted transactions, the preferred replica."""
_ONE: Final = 2
"""The length of an array of one, as flexible versions write it."""
_ONE_SIZE: Final = _ONE_HEAD.size - 4 + 3
"""Bytes of the frame without the topic and the partition."""
_NOTHING: Final = _ONE - 1
"""The length of an empty array, and of an empty text."""
_NOTHING_NAMED = struct.Struct(">iiibii6biqb")
"""A request of a follower at rest: `_LIMITS`, `_SESSION`, no topic, none to forget, no rack, and of tagged fields the
replica's id and epoch alone."""
_AS_NOTHING_NAMED: Final = (_NOTHING, _NOTHING, _NOTHING, 1, _REPLICA_STATE, _REPLICA.size + 1, 0)
"""What else is in it."""
_NOTHING_FETCHED = struct.Struct(">iibihibb")
"""The response to one: its frame's size, the correlation id, no tagged fields, `_HEAD`, no topic, no tagged fields."""
_NO_TAGS: Final = b"\x00"
_NO_TAGS_THRICE: Final = bytes(3)
"""Of a partition, its topic and the response."""


# --- requests ------------------------------------------------------------------------------------------------------


def decode_quickly(view: memoryview, position: int, version: int) -> FetchRequest | None:
    """The request at `position`, if it cannot have many elements; None if it may. Raises one of `fields.DAMAGE`."""
    return decode_request(view, position, version)[0] if len(view) <= SHORT_BYTES else None


def decode_request(view: memoryview, position: int, version: int) -> tuple[FetchRequest, int]:
    """The request at `position`, and the position behind it, at once. Raises one of `fields.DAMAGE`."""
    if version >= _REPLICA_STATE_FROM and len(view) - position == _NOTHING_NAMED.size:
        values = _NOTHING_NAMED.unpack_from(view, position)
        wait_ms, least, most, isolation, session, number = values[:6]
        replica, epoch = values[12:14]
        if (*values[6:12], values[14]) == _AS_NOTHING_NAMED:
            return FetchRequest([], wait_ms, least, most, isolation, session, number, [], "", replica, epoch), len(view)
    flexible = version >= FLEXIBLE_FROM
    request, position = _decode_head(view, position, version)
    number, position = read_count(view, position, flexible=flexible)
    for _ in range(number):
        name, topic_id, position = read_topic(view, position, by_id=version >= TOPIC_IDS_FROM, flexible=flexible)
        partition_count, position = read_count(view, position, flexible=flexible)
        partitions = []
        for _ in range(partition_count):
            partition, position = _decode_partition(view, position, version)
            partitions.append(partition)
        if flexible:
            position = skip_tags(view, position)
        request.topics.append(FetchTopic(name, topic_id, partitions))
    if version >= _SESSIONS_FROM:
        number, position = read_count(view, position, flexible=flexible)
        for _ in range(number):
            forgotten, position = _decode_forgotten(view, position, version)
            request.forgotten.append(forgotten)
    return request, _decode_end(request, view, position, version)


def decoding_request(view: memoryview, position: int, version: int) -> Sliced[tuple[FetchRequest, int]]:
    """The same in slices; the request has a budget of elements."""
    flexible = version >= FLEXIBLE_FROM
    budget = Budget()
    request, position = _decode_head(view, position, version)
    number, position = read_count(view, position, flexible=flexible)
    budget.claim(number)
    for _ in range(number):
        name, topic_id, position = read_topic(view, position, by_id=version >= TOPIC_IDS_FROM, flexible=flexible)
        partition_count, position = read_count(view, position, flexible=flexible)
        budget.claim(partition_count)
        partitions = []
        for _ in range(partition_count):
            partition, position = _decode_partition(view, position, version, budget)
            partitions.append(partition)
            budget.due += 1
            if budget.due >= STEP:
                yield budget.step()
        if flexible:
            position = skip_tags(view, position, budget)
        request.topics.append(FetchTopic(name, topic_id, partitions))
        budget.due += 1
        if budget.due >= STEP:
            yield budget.step()
    if version >= _SESSIONS_FROM:
        number, position = read_count(view, position, flexible=flexible)
        budget.claim(number)
        for _ in range(number):
            forgotten, position = _decode_forgotten(view, position, version, budget)
            request.forgotten.append(forgotten)
            budget.due += 1
            if budget.due >= STEP:
                yield budget.step()
    return request, _decode_end(request, view, position, version)


def _decode_head(view: memoryview, position: int, version: int) -> tuple[FetchRequest, int]:
    """All that stands before the topics."""
    replica_id = CONSUMER
    if version < _REPLICA_STATE_FROM:
        (replica_id,) = _I32.unpack_from(view, position)
        position += 4
    max_wait_ms, min_bytes, max_bytes, isolation_level = _LIMITS.unpack_from(view, position)
    position += _LIMITS.size
    session_id, session_epoch = NO_SESSION, SESSIONLESS_EPOCH
    if version >= _SESSIONS_FROM:
        session_id, session_epoch = _SESSION.unpack_from(view, position)
        position += _SESSION.size
    request = FetchRequest([], max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch)
    request.replica_id = replica_id
    return request, position


def _decode_end(request: FetchRequest, view: memoryview, position: int, version: int) -> int:
    """All that stands behind the forgotten topics; returns the position behind it."""
    flexible = version >= FLEXIBLE_FROM
    if version >= _RACKS_FROM:
        request.rack_id, position = read_string(view, position, flexible=flexible)
    return _decode_request_tags(request, view, position, version) if flexible else position


def _decode_request_tags(request: FetchRequest, view: memoryview, position: int, version: int) -> int:
    found, position = read_tags(view, position)
    if _CLUSTER_ID in found:
        start, end = found[_CLUSTER_ID]
        request.cluster_id, start = read_nullable_string(view, start, flexible=True)
        check_end(start, end)
    if version >= _REPLICA_STATE_FROM and _REPLICA_STATE in found:
        start, end = found[_REPLICA_STATE]
        request.replica_id, request.replica_epoch = _REPLICA.unpack_from(view, start)
        check_end(skip_tags(view, start + _REPLICA.size), end)
    return position


def _decode_partition(
    view: memoryview, position: int, version: int, budget: Budget | None = None
) -> tuple[FetchPartition, int]:
    if version >= FLEXIBLE_FROM:
        index, epoch, offset, last_epoch, log_start, max_bytes = _PARTITION_12.unpack_from(view, position)
        partition = FetchPartition(index, offset, max_bytes, epoch, last_epoch, log_start)
        return partition, _decode_partition_tags(partition, view, position + _PARTITION_12.size, version, budget)
    if version >= _LEADER_EPOCH_FROM:
        index, epoch, offset, log_start, max_bytes = _PARTITION_9.unpack_from(view, position)
        return FetchPartition(index, offset, max_bytes, epoch, -1, log_start), position + _PARTITION_9.size
    if version >= _LOG_START_FROM:
        index, offset, log_start, max_bytes = _PARTITION_5.unpack_from(view, position)
        return FetchPartition(index, offset, max_bytes, -1, -1, log_start), position + _PARTITION_5.size
    index, offset, max_bytes = _PARTITION_4.unpack_from(view, position)
    return FetchPartition(index, offset, max_bytes), position + _PARTITION_4.size


def _decode_partition_tags(
    partition: FetchPartition, view: memoryview, position: int, version: int, budget: Budget | None
) -> int:
    if view[position] == 0:
        return position + 1
    found, position = read_tags(view, position, budget)
    if found and version >= _DIRECTORY_FROM and _DIRECTORY_ID in found:
        start, end = found[_DIRECTORY_ID]
        partition.directory_id, start = read_id(view, start)
        check_end(start, end)
    if found and version >= _HIGH_WATERMARK_FROM and _HIGH_WATERMARK in found:
        start, end = found[_HIGH_WATERMARK]
        (partition.high_watermark,) = _I64.unpack_from(view, start)
        check_end(start + _I64.size, end)
    return position


def _decode_forgotten(
    view: memoryview, position: int, version: int, budget: Budget | None = None
) -> tuple[ForgottenTopic, int]:
    flexible = version >= FLEXIBLE_FROM
    name, topic_id, position = read_topic(view, position, by_id=version >= TOPIC_IDS_FROM, flexible=flexible)
    number, position = read_count(view, position, flexible=flexible)
    if budget is not None:
        budget.claim(number)
    partitions = list(struct.unpack_from(f">{number}i", view, position))
    position += 4 * number
    return ForgottenTopic(name, topic_id, partitions), skip_tags(view, position, budget) if flexible else position


def encode_request(request: FetchRequest, version: int) -> list[Buffer]:
    """The body of a request."""
    if version >= _REPLICA_STATE_FROM and request.replica_id > CONSUMER and _names_nothing(request):
        limits = request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level
        session = request.session_id, request.session_epoch
        named, end = _AS_NOTHING_NAMED[:-1], _AS_NOTHING_NAMED[-1]
        return [
            bytearray(_NOTHING_NAMED.pack(*limits, *session, *named, request.replica_id, request.replica_epoch, end))
        ]
    flexible = version >= FLEXIBLE_FROM
    body = bytearray()
    if version < _REPLICA_STATE_FROM:
        body += _I32.pack(request.replica_id)
    body += _LIMITS.pack(request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level)
    if version >= _SESSIONS_FROM:
        body += _SESSION.pack(request.session_id, request.session_epoch)
    body += count(len(request.topics), flexible=flexible)
    for topic in request.topics:
        body += topic_bytes(topic.name, topic.topic_id, by_id=version >= TOPIC_IDS_FROM, flexible=flexible)
        body += count(len(topic.partitions), flexible=flexible)
        for partition in topic.partitions:
            body += _partition(partition, version)
        if flexible:
            body += b"\x00"
    if version >= _SESSIONS_FROM:
        body += count(len(request.forgotten), flexible=flexible)
        for forgotten in request.forgotten:
            body += topic_bytes(forgotten.name, forgotten.topic_id, by_id=version >= TOPIC_IDS_FROM, flexible=flexible)
            body += count(len(forgotten.partitions), flexible=flexible)
            body += struct.pack(f">{len(forgotten.partitions)}i", *forgotten.partitions)
            if flexible:
                body += b"\x00"
    if version >= _RACKS_FROM:
        body += string(request.rack_id, flexible=flexible)
    if flexible:
        body += _request_tags(request, version)
    return [body]


def _names_nothing(request: FetchRequest) -> bool:
    return not (request.topics or request.forgotten or request.rack_id) and request.cluster_id is None


def _partition(asked: FetchPartition, version: int) -> bytes:
    index, offset, max_bytes = asked.index, asked.fetch_offset, asked.max_bytes
    epoch, last_epoch, log_start = asked.current_leader_epoch, asked.last_fetched_epoch, asked.log_start_offset
    if version >= FLEXIBLE_FROM:
        fields: list[tuple[int, bytes]] = []
        if version >= _DIRECTORY_FROM and asked.directory_id != NO_ID:
            fields.append((_DIRECTORY_ID, id_bytes(asked.directory_id)))
        if version >= _HIGH_WATERMARK_FROM and asked.high_watermark != UNTOLD_HIGH_WATERMARK:
            fields.append((_HIGH_WATERMARK, _I64.pack(asked.high_watermark)))
        return _PARTITION_12.pack(index, epoch, offset, last_epoch, log_start, max_bytes) + tags(*fields)
    if version >= _LEADER_EPOCH_FROM:
        return _PARTITION_9.pack(index, epoch, offset, log_start, max_bytes)
    if version >= _LOG_START_FROM:
        return _PARTITION_5.pack(index, offset, log_start, max_bytes)
    return _PARTITION_4.pack(index, offset, max_bytes)


def _request_tags(request: FetchRequest, version: int) -> bytes:
    fields: list[tuple[int, bytes]] = []
    if request.cluster_id is not None:
        fields.append((_CLUSTER_ID, string(request.cluster_id, flexible=True)))
    if version >= _REPLICA_STATE_FROM and (request.replica_id, request.replica_epoch) != (CONSUMER, -1):
        fields.append((_REPLICA_STATE, _REPLICA.pack(request.replica_id, request.replica_epoch) + b"\x00"))
    return tags(*fields)


# --- responses ----------------------------------------------------------------------------------------------------


def encode_response(response: FetchResponse, version: int) -> list[Part]:
    """The body of a response: what frames the records, and between it the records as they are."""
    parts: list[Part] = []
    head = _response_head(response, version)
    for topic in response.topics:
        head += _topic_head(topic, version)
        for partition in topic.partitions:
            head = _encode_partition(parts, head, partition, version)
        if version >= FLEXIBLE_FROM:
            head += b"\x00"
    parts.append(_with_endpoints(head, response, version))
    return parts


def encode_one(response: FetchResponse, version: int, correlation_id: int) -> list[Part] | None:
    """The whole frame of a response for one partition, or for none, that needs no tagged fields; None for any other."""
    topics = response.topics
    if version < FLEXIBLE_FROM or response.node_endpoints:
        return None
    if not topics:
        told = response.throttle_time_ms, response.error_code, response.session_id
        size = _NOTHING_FETCHED.size - 4
        return [_NOTHING_FETCHED.pack(size, correlation_id, 0, *told, _NOTHING, 0)]
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    (topic,) = topics
    (fetched,) = topic.partitions
    aborted, records = fetched.aborted_transactions, fetched.records
    if fetched.error_code or aborted or records is None or _fetched_tags(fetched) != _NO_TAGS:
        return None
    name = id_bytes(topic.topic_id) if version >= TOPIC_IDS_FROM else string(topic.name, flexible=True)
    read = _ONE_FETCHED.pack(
        _ONE,
        fetched.index,
        0,
        fetched.high_watermark,
        fetched.last_stable_offset,
        fetched.log_start_offset,
        0 if aborted is None else 1,
        fetched.preferred_read_replica,
    )
    after = read + varint(len(records) + 1)
    size = _ONE_SIZE + len(name) + len(after) + len(records)
    head = _ONE_HEAD.pack(
        size, correlation_id, 0, response.throttle_time_ms, response.error_code, response.session_id, _ONE
    )
    return [head + name + after, records, _NO_TAGS_THRICE] if records else [head + name + after + _NO_TAGS_THRICE]


def encoding_response(response: FetchResponse, version: int) -> Sliced[list[Part]]:
    """The same in slices."""
    parts: list[Part] = []
    head = _response_head(response, version)
    for topic in response.topics:
        head += _topic_head(topic, version)
        for number, partition in enumerate(topic.partitions, 1):
            if not number % STEP:
                yield 2 * STEP
            aborted = b""
            if partition.aborted_transactions and len(partition.aborted_transactions) > STEP:
                aborted = yield from _encoding_aborted(partition.aborted_transactions, version)
            head = _encode_partition(parts, head, partition, version, aborted)
        if version >= FLEXIBLE_FROM:
            head += b"\x00"
        yield 2
    parts.append(_with_endpoints(head, response, version))
    return parts


def _response_head(response: FetchResponse, version: int) -> bytearray:
    if version >= _SESSIONS_FROM:
        head = bytearray(_HEAD.pack(response.throttle_time_ms, int(response.error_code), response.session_id))
    else:
        head = bytearray(_I32.pack(response.throttle_time_ms))
    head += count(len(response.topics), flexible=version >= FLEXIBLE_FROM)
    return head


def _topic_head(topic: TopicFetched, version: int) -> bytes:
    flexible = version >= FLEXIBLE_FROM
    name = topic_bytes(topic.name, topic.topic_id, by_id=version >= TOPIC_IDS_FROM, flexible=flexible)
    return name + count(len(topic.partitions), flexible=flexible)


def _encode_partition(
    parts: list[Part], head: bytearray, partition: PartitionFetched, version: int, aborted: bytes = b""
) -> bytearray:
    """Add a partition to `head`, or to `parts` up to its records; returns the head of what follows."""
    _encode_fetched(head, partition, version, aborted)
    if partition.records:
        parts += (head, partition.records)
        head = bytearray()
    if version >= FLEXIBLE_FROM:
        head += _fetched_tags(partition)
    return head


def _with_endpoints(head: bytearray, response: FetchResponse, version: int) -> bytearray:
    if version >= FLEXIBLE_FROM:
        with_endpoints = version >= _ENDPOINTS_FROM and response.node_endpoints
        head += tags((_NODE_ENDPOINTS, encode_endpoints(response.node_endpoints))) if with_endpoints else b"\x00"
    return head


def _encode_fetched(head: bytearray, fetched: PartitionFetched, version: int, aborted: bytes) -> None:
    """All of a partition's response that stands before its records; `aborted` where these are many."""
    flexible = version >= FLEXIBLE_FROM
    fields = fetched.index, int(fetched.error_code), fetched.high_watermark, fetched.last_stable_offset
    if version >= _LOG_START_FROM:
        head += _FETCHED_5.pack(*fields, fetched.log_start_offset)
    else:
        head += _FETCHED_4.pack(*fields)
    if fetched.aborted_transactions is None:
        head += b"\x00" if flexible else b"\xff\xff\xff\xff"
    else:
        head += count(len(fetched.aborted_transactions), flexible=flexible)
        head += aborted or _aborted(fetched.aborted_transactions, flexible=flexible)
    if version >= _RACKS_FROM:
        head += _I32.pack(fetched.preferred_read_replica)
    head += records_size(fetched.records, flexible=flexible)


def _encoding_aborted(transactions: list[AbortedTransaction], version: int) -> Sliced[bytes]:
    encoded = bytearray()
    for start in range(0, len(transactions), STEP):
        encoded += _aborted(transactions[start : start + STEP], flexible=version >= FLEXIBLE_FROM)
        yield STEP
    return bytes(encoded)


def _aborted(transactions: list[AbortedTransaction], *, flexible: bool) -> bytes:
    tags_of_each = b"\x00" if flexible else b""
    return b"".join(_TRANSACTION.pack(one.producer_id, one.first_offset) + tags_of_each for one in transactions)


def _fetched_tags(fetched: PartitionFetched) -> bytes:
    fields: list[tuple[int, bytes]] = []
    if not fetched.diverging_epoch == fetched.diverging_end_offset == -1:
        diverging = _EPOCH_END.pack(fetched.diverging_epoch, fetched.diverging_end_offset)
        fields.append((_DIVERGING_EPOCH, diverging + b"\x00"))
    if not fetched.leader_id == fetched.leader_epoch == -1:
        fields.append((_CURRENT_LEADER, _LEADER.pack(fetched.leader_id, fetched.leader_epoch) + b"\x00"))
    if not fetched.snapshot_end_offset == fetched.snapshot_epoch == -1:
        snapshot = _SNAPSHOT.pack(fetched.snapshot_end_offset, fetched.snapshot_epoch)
        fields.append((_SNAPSHOT_ID, snapshot + b"\x00"))
    return tags(*fields)


def decode_response(view: memoryview, position: int, version: int) -> tuple[FetchResponse, int]:
    """The response at `position`, and the position behind it. Raises one of `fields.DAMAGE`."""
    flexible = version >= FLEXIBLE_FROM
    response = FetchResponse([])
    if version >= _SESSIONS_FROM:
        response.throttle_time_ms, error, response.session_id = _HEAD.unpack_from(view, position)
        response.error_code = error_code(error)
        position += _HEAD.size
    else:
        (response.throttle_time_ms,) = _I32.unpack_from(view, position)
        position += 4
    number, position = read_count(view, position, flexible=flexible)
    for _ in range(number):
        name, topic_id, position = read_topic(view, position, by_id=version >= TOPIC_IDS_FROM, flexible=flexible)
        partition_count, position = read_count(view, position, flexible=flexible)
        partitions = []
        for _ in range(partition_count):
            partition, position = _decode_fetched(view, position, version)
            partitions.append(partition)
        if flexible:
            position = skip_tags(view, position)
        response.topics.append(TopicFetched(name, topic_id, partitions))
    if flexible:
        found, position = read_tags(view, position)
        if version >= _ENDPOINTS_FROM and _NODE_ENDPOINTS in found:
            response.node_endpoints = decode_endpoints(view, *found[_NODE_ENDPOINTS])
    return response, position


def _decode_fetched(view: memoryview, position: int, version: int) -> tuple[PartitionFetched, int]:
    flexible = version >= FLEXIBLE_FROM
    layout = _FETCHED_5 if version >= _LOG_START_FROM else _FETCHED_4
    index, error, *offsets = layout.unpack_from(view, position)
    fetched = PartitionFetched(index, error_code(error), *offsets)
    position += layout.size
    number, position = read_nullable_count(view, position, flexible=flexible)
    if number >= 0:
        fetched.aborted_transactions = []
        for _ in range(number):
            fetched.aborted_transactions.append(AbortedTransaction(*_TRANSACTION.unpack_from(view, position)))
            position += _TRANSACTION.size
            if flexible:
                position = skip_tags(view, position)
    if version >= _RACKS_FROM:
        (fetched.preferred_read_replica,) = _I32.unpack_from(view, position)
        position += 4
    fetched.records, position = read_records(view, position, flexible=flexible)
    return fetched, _decode_fetched_tags(fetched, view, position) if flexible else position


def _decode_fetched_tags(fetched: PartitionFetched, view: memoryview, position: int) -> int:
    found, position = read_tags(view, position)
    if _DIVERGING_EPOCH in found:
        start, end = found[_DIVERGING_EPOCH]
        fetched.diverging_epoch, fetched.diverging_end_offset = _EPOCH_END.unpack_from(view, start)
        check_end(skip_tags(view, start + _EPOCH_END.size), end)
    if _CURRENT_LEADER in found:
        fetched.leader_id, fetched.leader_epoch = decode_leader(view, *found[_CURRENT_LEADER])
    if _SNAPSHOT_ID in found:
        start, end = found[_SNAPSHOT_ID]
        fetched.snapshot_end_offset, fetched.snapshot_epoch = _SNAPSHOT.unpack_from(view, start)
        check_end(skip_tags(view, start + _SNAPSHOT.size), end)
    return position
