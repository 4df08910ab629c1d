"""Produce 3 to 13 as bytes, field by field.

| from version | request | response |
|---|---|---|
| 3 | transactional id | |
| 5 | | log start offset |
| 8 | | record errors, error message (KIP-467) |
| 9 | flexible (KIP-482) | flexible |
| 10 | | current leader, node endpoints: tagged (KIP-951) |
| 13 | topic id for name (KIP-516) | topic id for name |

Decoding copies no records: they are views of the frame. Encoding copies none either: it returns buffers, to be sent one
after the other. Held against kio's classes by a differential test, for every version in both directions.

What most producers send, a request of one partition outside of transactions, is decoded in one go; any other goes by
the field, and so does one with a tagged field or a length that takes more bytes than one. So it is, in flexible
versions, with the response for one partition that has nothing to add to its offset.
"""

from __future__ import annotations

import struct
from typing import Final

from tidegauge.impl.records.slices import Sliced, at_once
from tidegauge.impl.wire.budget import SHORT_BYTES, STEP, Budget
from tidegauge.impl.wire.element_limits import IN_SLICES
from tidegauge.impl.wire.fields import (
    NO_ID,
    Buffer,
    count,
    error_code,
    id_bytes,
    id_text,
    read_count,
    read_nullable_string,
    read_records,
    read_string,
    read_tags,
    read_topic,
    read_varint,
    records_size,
    skip_tags,
    string,
    tags,
    topic_bytes,
)
from tidegauge.impl.wire.produce_messages import (
    NodeEndpoint,
    PartitionProduced,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
    RecordErrorIndex,
    TopicProduced,
)

FLEXIBLE_FROM: Final = 9
TOPIC_IDS_FROM: Final = 13
_LOG_START_FROM: Final = 5
_RECORD_ERRORS_FROM: Final = 8
_LEADERS_FROM: Final = 10
_CURRENT_LEADER: Final = 0
_NODE_ENDPOINTS: Final = 0

_I32 = struct.Struct(">i")
_ACKS_AND_TIMEOUT = struct.Struct(">hi")
_APPENDED = struct.Struct(">ihqq")
_I64 = struct.Struct(">q")
_LEADER = struct.Struct(">ii")
_ONE_TOPIC = struct.Struct(">bhibB")
"""No transactional id, acks, timeout, an array of one topic, and the length of its name."""
_ONE_TOPIC_BY_ID = struct.Struct(">bhib16s")
"""The same with the topic's id in place of its name."""
_ONE_PARTITION = struct.Struct(">biBB")
"""An array of one partition, its index, and the records' length in two bytes, or in one and the first of them."""
_ONE_LEGACY_TOPIC = struct.Struct(">hhiih")
"""The same as `_ONE_TOPIC` in a version that is not flexible."""
_ONE_LEGACY_PARTITION = struct.Struct(">iii")
"""An array of one partition, its index, and the records' length."""
_LONGEST: Final = 0x7F
"""A string's length that is written in one byte is below this."""
_ONE: Final = 2
"""The length of an array of one, as flexible versions write it."""
_NO_TAGS_THRICE: Final = bytes(3)
_ONE_HEAD = struct.Struct(">iibb")
"""The size of the frame, the correlation id, no tagged fields, and an array of one topic."""
_ONE_PRODUCED = struct.Struct(">bihqqq4sib")
"""An array of one partition without more fields than these, the throttle time, and no tagged fields."""
_ONE_SIZE: Final = _ONE_HEAD.size + _ONE_PRODUCED.size - 4
"""Bytes of the frame without the topic."""
_NO_ERRORS: Final = b"\x01\x00\x00\x00"
"""No record errors, no message, no tagged fields of the partition and of the topic."""


def decode_quickly(view: memoryview, position: int, version: int) -> ProduceRequest | None:
    """The request at `position`, if it cannot have many elements; None if it may. Raises one of `fields.DAMAGE`."""
    request = _decode_one(view, position, version) if version >= FLEXIBLE_FROM else _decode_one_legacy(view, position)
    if request is None and len(view) <= SHORT_BYTES:
        return at_once(decoding_request(view, position, version))[0]
    return request


def decoding_request(view: memoryview, position: int, version: int) -> Sliced[tuple[ProduceRequest, int]]:
    """The request at `position`, and the position behind it, field by field and in slices.

    It has a budget of elements. Raises one of `fields.DAMAGE`.
    """
    flexible = version >= FLEXIBLE_FROM
    budget = Budget(IN_SLICES)
    transactional_id, position = read_nullable_string(view, position, flexible=flexible)
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(view, position)
    number, position = read_count(view, position + _ACKS_AND_TIMEOUT.size, flexible=flexible)
    budget.claim(number)
    topics = []
    for _ in range(number):
        name, topic_id, position = read_topic(view, position, by_id=version >= TOPIC_IDS_FROM, flexible=flexible)
        partition_count, position = read_count(view, position, flexible=flexible)
        budget.claim(partition_count)
        partitions = []
        for _ in range(partition_count):
            (index,) = _I32.unpack_from(view, position)
            records, position = read_records(view, position + 4, flexible=flexible)
            if flexible:
                position = skip_tags(view, position, budget)
            partitions.append(ProducePartition(index, records))
            budget.due += 1
            if budget.due >= STEP:
                yield budget.step()
        if flexible:
            position = skip_tags(view, position, budget)
        topics.append(ProduceTopic(name, topic_id, partitions))
        budget.due += 1
        if budget.due >= STEP:
            yield budget.step()
    if flexible:
        position = skip_tags(view, position, budget)
    return ProduceRequest(acks, timeout_ms, topics, transactional_id), position


def _decode_one(view: memoryview, position: int, version: int) -> ProduceRequest | None:
    """The request that ends where the view does, of one partition and of no transaction; None when it is another."""
    end = len(view) - len(_NO_TAGS_THRICE)
    if position + _ONE_TOPIC_BY_ID.size > end or view[end:] != _NO_TAGS_THRICE:
        return None
    if version >= TOPIC_IDS_FROM:
        transactional_id, acks, timeout_ms, topics, raw_id = _ONE_TOPIC_BY_ID.unpack_from(view, position)
        name, topic_id = "", id_text(raw_id)
        position += _ONE_TOPIC_BY_ID.size
    else:
        transactional_id, acks, timeout_ms, topics, length = _ONE_TOPIC.unpack_from(view, position)
        start = position + _ONE_TOPIC.size
        position = start + length - 1
        if transactional_id or topics != _ONE or not 0 < length <= _LONGEST or position > end:
            return None
        name, topic_id = str(view[start:position], "utf-8"), NO_ID
    if transactional_id or topics != _ONE or position + _ONE_PARTITION.size > end:
        return None
    partitions, index, size, more = _ONE_PARTITION.unpack_from(view, position)
    if partitions != _ONE:
        return None
    position += _ONE_PARTITION.size
    if size < 0x80:
        position -= 1
    elif more < 0x80:
        size += (more << 7) - 0x80
    else:
        size, position = read_varint(view, position - 2)
    if position + size - 1 != end:
        return None
    data = ProducePartition(index, view[position:end])
    return ProduceRequest(acks, timeout_ms, [ProduceTopic(name, topic_id, [data])])


def _decode_one_legacy(view: memoryview, position: int) -> ProduceRequest | None:
    """The same for the versions that are not flexible."""
    start = position + _ONE_LEGACY_TOPIC.size
    if start > len(view):
        return None
    transactional_id, acks, timeout_ms, topics, length = _ONE_LEGACY_TOPIC.unpack_from(view, position)
    partitions_at = start + length
    records_at = partitions_at + _ONE_LEGACY_PARTITION.size
    if transactional_id != -1 or topics != 1 or length < 0 or records_at > len(view):
        return None
    partitions, index, size = _ONE_LEGACY_PARTITION.unpack_from(view, partitions_at)
    if partitions != 1 or records_at + size != len(view):
        return None
    data = ProducePartition(index, view[records_at:])
    return ProduceRequest(acks, timeout_ms, [ProduceTopic(str(view[start:partitions_at], "utf-8"), NO_ID, [data])])


def encode_request(request: ProduceRequest, version: int) -> list[Buffer]:
    """The body of a request."""
    flexible = version >= FLEXIBLE_FROM
    parts: list[Buffer] = []
    head = bytearray(string(request.transactional_id, flexible=flexible))
    head += _ACKS_AND_TIMEOUT.pack(request.acks, request.timeout_ms)
    head += count(len(request.topics), flexible=flexible)
    for topic in request.topics:
        head += topic_bytes(topic.name, topic.topic_id, by_id=version >= TOPIC_IDS_FROM, flexible=flexible)
        head += count(len(topic.partitions), flexible=flexible)
        for partition in topic.partitions:
            head += _I32.pack(partition.index)
            head += records_size(partition.records, flexible=flexible)
            if partition.records:
                parts += (head, partition.records)
                head = bytearray()
            if flexible:
                head += b"\x00"
        if flexible:
            head += b"\x00"
    if flexible:
        head += b"\x00"
    parts.append(head)
    return parts


def encode_response(response: ProduceResponse, version: int) -> list[Buffer]:
    """The body of a response."""
    body = bytearray(count(len(response.topics), flexible=version >= FLEXIBLE_FROM))
    for topic in response.topics:
        body += _topic_head(topic, version)
        for partition in topic.partitions:
            _encode_produced(body, partition, version)
        if version >= FLEXIBLE_FROM:
            body += b"\x00"
    return [body + _response_end(response, version)]


def encoding_response(response: ProduceResponse, version: int) -> Sliced[list[Buffer]]:
    """The same in slices."""
    body = bytearray(count(len(response.topics), flexible=version >= FLEXIBLE_FROM))
    for topic in response.topics:
        body += _topic_head(topic, version)
        for number, partition in enumerate(topic.partitions, 1):
            _encode_produced(body, partition, version)
            if not number % STEP:
                yield STEP
        if version >= FLEXIBLE_FROM:
            body += b"\x00"
        yield 2
    return [body + _response_end(response, version)]


def _topic_head(topic: TopicProduced, version: int) -> bytes:
    flexible = version >= FLEXIBLE_FROM
    name = topic_bytes(topic.name, topic.topic_id, by_id=version >= TOPIC_IDS_FROM, flexible=flexible)
    return name + count(len(topic.partitions), flexible=flexible)


def _response_end(response: ProduceResponse, version: int) -> bytes:
    end = _I32.pack(response.throttle_time_ms)
    if version < FLEXIBLE_FROM:
        return end
    return end + (_encode_endpoints(response.node_endpoints) if version >= _LEADERS_FROM else b"\x00")


def encode_one(response: ProduceResponse, version: int, correlation_id: int) -> bytes | None:
    """The whole frame of a response for one partition that has nothing to add to its offset; None for any other."""
    topics = response.topics
    if version < FLEXIBLE_FROM or len(topics) != 1 or len(topics[0].partitions) != 1 or response.node_endpoints:
        return None
    (topic,) = topics
    (produced,) = topic.partitions
    if produced.record_errors or produced.error_message is not None:
        return None
    if produced.leader_id != -1 or produced.leader_epoch != -1:
        return None
    name = id_bytes(topic.topic_id) if version >= TOPIC_IDS_FROM else string(topic.name, flexible=True)
    fields = _ONE_PRODUCED.pack(
        _ONE,
        produced.index,
        produced.error_code,
        produced.base_offset,
        produced.log_append_time_ms,
        produced.log_start_offset,
        _NO_ERRORS,
        response.throttle_time_ms,
        0,
    )
    return _ONE_HEAD.pack(_ONE_SIZE + len(name), correlation_id, 0, _ONE) + name + fields


def _encode_produced(body: bytearray, partition: PartitionProduced, version: int) -> None:
    flexible = version >= FLEXIBLE_FROM
    error = int(partition.error_code)
    body += _APPENDED.pack(partition.index, error, partition.base_offset, partition.log_append_time_ms)
    if version >= _LOG_START_FROM:
        body += _I64.pack(partition.log_start_offset)
    if version >= _RECORD_ERRORS_FROM:
        body += count(len(partition.record_errors), flexible=flexible)
        for record in partition.record_errors:
            body += _I32.pack(record.batch_index) + string(record.message, flexible=flexible)
            if flexible:
                body += b"\x00"
        body += string(partition.error_message, flexible=flexible)
    if flexible:
        body += encode_leader(partition.leader_id, partition.leader_epoch) if version >= _LEADERS_FROM else b"\x00"


def encode_leader(leader_id: int, leader_epoch: int, tag: int = _CURRENT_LEADER) -> bytes:
    """A partition's tagged fields: who leads it, unless that is left open."""
    if leader_id == leader_epoch == -1:
        return b"\x00"
    return tags((tag, _LEADER.pack(leader_id, leader_epoch) + b"\x00"))


def _encode_endpoints(endpoints: list[NodeEndpoint]) -> bytes:
    """A response's tagged fields."""
    return tags((_NODE_ENDPOINTS, encode_endpoints(endpoints))) if endpoints else b"\x00"


def encode_endpoints(endpoints: list[NodeEndpoint]) -> bytes:
    """Where brokers listen, as Produce and Fetch both say it."""
    body = bytearray(count(len(endpoints), flexible=True))
    for endpoint in endpoints:
        body += _I32.pack(endpoint.node_id) + string(endpoint.host, flexible=True)
        body += _I32.pack(endpoint.port) + string(endpoint.rack, flexible=True) + b"\x00"
    return bytes(body)


def decode_response(view: memoryview, position: int, version: int) -> tuple[ProduceResponse, int]:
    """The response at `position`, and the position behind it. Raises one of `fields.DAMAGE`."""
    flexible = version >= FLEXIBLE_FROM
    number, position = read_count(view, position, flexible=flexible)
    topics = []
    for _ in range(number):
        name, topic_id, position = read_topic(view, position, by_id=version >= TOPIC_IDS_FROM, flexible=flexible)
        produced, position = read_count(view, position, flexible=flexible)
        partitions = []
        for _ in range(produced):
            partition, position = _decode_produced(view, position, version)
            partitions.append(partition)
        if flexible:
            position = skip_tags(view, position)
        topics.append(TopicProduced(name, topic_id, partitions))
    (throttle_time_ms,) = _I32.unpack_from(view, position)
    position += 4
    endpoints: list[NodeEndpoint] = []
    if flexible:
        found, position = read_tags(view, position)
        if version >= _LEADERS_FROM and _NODE_ENDPOINTS in found:
            endpoints = decode_endpoints(view, *found[_NODE_ENDPOINTS])
    return ProduceResponse(topics, throttle_time_ms, endpoints), position


def _decode_produced(view: memoryview, position: int, version: int) -> tuple[PartitionProduced, int]:
    flexible = version >= FLEXIBLE_FROM
    index, error, base_offset, log_append_time_ms = _APPENDED.unpack_from(view, position)
    position += _APPENDED.size
    partition = PartitionProduced(index, error_code(error), base_offset, log_append_time_ms)
    if version >= _LOG_START_FROM:
        (partition.log_start_offset,) = _I64.unpack_from(view, position)
        position += _I64.size
    if version >= _RECORD_ERRORS_FROM:
        number, position = read_count(view, position, flexible=flexible)
        for _ in range(number):
            (batch_index,) = _I32.unpack_from(view, position)
            message, position = read_nullable_string(view, position + 4, flexible=flexible)
            if flexible:
                position = skip_tags(view, position)
            partition.record_errors.append(RecordErrorIndex(batch_index, message))
        partition.error_message, position = read_nullable_string(view, position, flexible=flexible)
    if flexible:
        found, position = read_tags(view, position)
        if version >= _LEADERS_FROM and _CURRENT_LEADER in found:
            partition.leader_id, partition.leader_epoch = decode_leader(view, *found[_CURRENT_LEADER])
    return partition, position


def decode_leader(view: memoryview, start: int, end: int) -> tuple[int, int]:
    """(leader id, leader epoch) of the tagged field between two positions."""
    leader_id, leader_epoch = _LEADER.unpack_from(view, start)
    check_end(skip_tags(view, start + _LEADER.size), end)
    return leader_id, leader_epoch


def decode_endpoints(view: memoryview, start: int, end: int) -> list[NodeEndpoint]:
    """The node endpoints of the tagged field between two positions."""
    number, position = read_count(view, start, flexible=True)
    endpoints = []
    for _ in range(number):
        (node_id,) = _I32.unpack_from(view, position)
        host, position = read_string(view, position + 4, flexible=True)
        (port,) = _I32.unpack_from(view, position)
        rack, position = read_nullable_string(view, position + 4, flexible=True)
        position = skip_tags(view, position)
        endpoints.append(NodeEndpoint(node_id, host, port, rack))
    check_end(position, end)
    return endpoints


def check_end(position: int, end: int) -> None:
    """Raise ValueError where a tagged field is not as long as it says."""
    if position != end:
        raise ValueError(f"a tagged field ends {end - position} bytes behind what it holds")
