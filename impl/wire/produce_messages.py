"""Produce as this project handles it: one pair of messages for all versions.

A topic is known by its name or, from version 13 on, by its id; the other one is empty in a message that came over the
wire. What a version does not carry has its default. Record batches are views of the frame that they came in.
"""

from __future__ import annotations

from typing import ClassVar

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.wire.fields import NO_ID, Buffer


@attrs.define
class NodeEndpoint:
    """Where a broker listens, for a client that has to ask another one (KIP-951)."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@attrs.define
class ProducePartition:
    """A producer's records for one partition."""

    index: int
    records: Buffer | None


@attrs.define
class ProduceTopic:
    """A producer's records for one topic."""

    name: str
    topic_id: str
    partitions: list[ProducePartition]


@attrs.define
class ProduceRequest:
    """Records to append, and how much replication to wait for."""

    __api_key__: ClassVar = 0
    __version__: ClassVar = 13

    acks: int
    timeout_ms: int
    topics: list[ProduceTopic]
    transactional_id: str | None = None


@attrs.define
class RecordErrorIndex:
    """A record that a batch was refused for, by its place in the batch (KIP-467)."""

    batch_index: int
    message: str | None = None


@attrs.define
class PartitionProduced:
    """What became of one partition's records."""

    index: int
    error_code: ErrorCode = ErrorCode.none
    base_offset: int = -1
    log_append_time_ms: int = -1
    """Of a topic with LogAppendTime."""
    log_start_offset: int = -1
    record_errors: list[RecordErrorIndex] = attrs.field(factory=list)
    error_message: str | None = None
    leader_id: int = -1
    leader_epoch: int = -1


@attrs.define
class TopicProduced:
    """What became of one topic's records."""

    name: str
    topic_id: str
    partitions: list[PartitionProduced]


@attrs.define
class ProduceResponse:
    """The response to a `ProduceRequest`."""

    __api_key__: ClassVar = 0
    __version__: ClassVar = 13

    topics: list[TopicProduced]
    throttle_time_ms: int = 0
    node_endpoints: list[NodeEndpoint] = attrs.field(factory=list)
    """Of the leaders named beside NOT_LEADER_OR_FOLLOWER."""


def produce_error(request: ProduceRequest, error: ErrorCode, message: str | None = None) -> ProduceResponse:
    """The response that gives every partition of a request this error."""
    return ProduceResponse(
        [
            TopicProduced(
                topic.name,
                topic.topic_id,
                [PartitionProduced(asked.index, error, error_message=message) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


__all__ = [
    "NO_ID",
    "NodeEndpoint",
    "PartitionProduced",
    "ProducePartition",
    "ProduceRequest",
    "ProduceResponse",
    "ProduceTopic",
    "RecordErrorIndex",
    "TopicProduced",
    "produce_error",
]
