"""DescribeProducers: what a partition's leader remembers of its producers (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.describe_producers.v0.response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import ProducerId

from tidegauge.impl.metadata.topic_names import is_topic_name
from tidegauge.impl.partition.producer_state import ProducerEntry
from tidegauge.impl.server.broker.replica_manager import ReplicaManager
from tidegauge.impl.server.error_responses.explanation import explain_error
from tidegauge.impl.server.pace import ELEMENT
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.primitives import NO_WAIT, TopicName, i32, i64

if TYPE_CHECKING:
    from kio.schema.describe_producers.v0.request import DescribeProducersRequest

    from tidegauge.impl.server.transport.context import RequestContext


async def handle_describe_producers(
    request: DescribeProducersRequest, context: RequestContext, *, replicas: ReplicaManager
) -> DescribeProducersResponse:
    """The producers of each partition that is asked for and led here."""
    topics = []
    for name, indexes in _once_each(request).items():
        allowed = context.allowed(Operation.READ, ResourceType.TOPIC, name)
        partitions = []
        for index in indexes:
            await context.pace.did(ELEMENT)
            partitions.append(await _described(replicas, name, index, context, allowed=allowed))
        topics.append(TopicResponse(name=name, partitions=tuple(partitions)))
    return DescribeProducersResponse(throttle_time=NO_WAIT, topics=tuple(topics))


def _once_each(request: DescribeProducersRequest) -> dict[TopicName, dict[i32, None]]:
    """Each partition once: a partition may have many producers."""
    asked: dict[TopicName, dict[i32, None]] = {}
    for topic in request.topics:
        asked.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return asked


async def _described(
    replicas: ReplicaManager, topic: str, index: int, context: RequestContext, *, allowed: bool
) -> PartitionResponse:
    partition = replicas.get(topic, index)
    error, message, entries = ErrorCode.none, None, list[ProducerEntry]()
    if not is_topic_name(topic):
        error, message = ErrorCode.invalid_topic_exception, f"{topic!r} is no topic name"
    elif not allowed:
        error = ErrorCode.topic_authorization_failed
    elif partition is None:
        error = replicas.absence(topic, index)
    elif not partition.replica.is_leader:
        error, message = ErrorCode.not_leader_or_follower, f"broker {partition.replica.leader} leads {topic}-{index}"
    else:
        entries = sorted(partition.replica.producers.entries.values(), key=lambda entry: entry.producer_id)
    producers = []
    for entry in entries:
        await context.pace.did(ELEMENT)
        producers.append(_state(entry))
    return PartitionResponse(
        partition_index=i32(index),
        error_code=error,
        error_message=explain_error(error, message),
        active_producers=tuple(producers),
    )


def _state(entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=ProducerId(entry.producer_id),
        producer_epoch=i32(entry.epoch),
        last_sequence=i32(entry.last_sequence),
        last_timestamp=i64(entry.last_timestamp),
        coordinator_epoch=i32(entry.coordinator_epoch),
        current_txn_start_offset=i64(entry.current_txn_first_offset),
    )
