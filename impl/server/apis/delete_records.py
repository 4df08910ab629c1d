"""DeleteRecords: which records a client may delete, and what it is told of that (`ReplicaManager.delete_records`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kio.schema.errors import ErrorCode

from tidegauge.impl.metadata.topic_names import INTERNAL_TOPICS
from tidegauge.impl.server.broker.metadata_cache import MetadataCache
from tidegauge.impl.server.broker.record_deletions import DeletionOutcome, PartitionDeletion
from tidegauge.impl.server.broker.replica_manager import ReplicaManager
from tidegauge.impl.server.pace import ELEMENT
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.primitives import NO_WAIT, TopicName, i32, i64, to_millis

if TYPE_CHECKING:
    from kio.schema.delete_records.v2.request import DeleteRecordsRequest

    from tidegauge.impl.server.transport.context import RequestContext


async def handle_delete_records(
    request: DeleteRecordsRequest, context: RequestContext, *, replicas: ReplicaManager, metadata: MetadataCache
) -> DeleteRecordsResponse:
    """Delete the records before the given offsets; -1 stands for the high watermark. Only the leader does."""
    allowed: list[PartitionDeletion] = []
    topics: list[tuple[TopicName, list[tuple[int, ErrorCode | None]]]] = []
    for topic in request.topics:
        await context.pace.did(ELEMENT)
        partitions = []
        for asked in topic.partitions:
            await context.pace.did(ELEMENT)
            refusal = _refusal(topic.name, asked.partition_index, context, metadata)
            partitions.append((int(asked.partition_index), refusal))
            if refusal is None:
                allowed.append(PartitionDeletion(topic.name, asked.partition_index, asked.offset))
        topics.append((topic.name, partitions))
    outcomes = iter(
        await replicas.delete_records(
            allowed, timeout_ms=to_millis(request.timeout), wait=context.while_connected, pace=context.pace
        )
    )
    results = []
    for name, partitions in topics:
        await context.pace.did(ELEMENT)
        found = []
        for index, refusal in partitions:
            await context.pace.did(ELEMENT)
            found.append(_result(index, next(outcomes) if refusal is None else DeletionOutcome(refusal)))
        results.append(DeleteRecordsTopicResult(name=name, partitions=tuple(found)))
    return DeleteRecordsResponse(throttle_time=NO_WAIT, topics=tuple(results))


def _refusal(topic: str, index: int, context: RequestContext, metadata: MetadataCache) -> ErrorCode | None:
    """Why the client may not delete records of this partition; None when it may."""
    if not context.allowed(Operation.DELETE, ResourceType.TOPIC, topic):
        return ErrorCode.topic_authorization_failed
    if topic in INTERNAL_TOPICS and metadata.image.partition(topic, index) is not None:
        return ErrorCode.invalid_topic_exception
    return None


def _result(index: int, outcome: DeletionOutcome) -> DeleteRecordsPartitionResult:
    """A deletion that is still pending has timed out, though the records are gone at the leader."""
    return DeleteRecordsPartitionResult(
        partition_index=i32(index),
        low_watermark=i64(outcome.low_watermark),
        error_code=ErrorCode.request_timed_out if outcome.is_pending else outcome.error,
    )
