"""DeleteRecords: the log start moves up at the leader; the answer waits until it has at every live replica (KIP-107).

What is answered is the *low watermark*, the lowest log start of the live replicas: below it no record can be read any
more. Followers learn of the new log start with the answers to their fetches, which are not held any longer for it, and
tell theirs with the next fetch, after they have written it down. A replica whose broker is fenced is not waited for; it
learns when it comes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kio.schema.errors import ErrorCode

from tidegauge.impl.server import trace
from tidegauge.impl.server.apis.produce import INTERNAL_TOPICS
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.primitives import NO_WAIT, i32, i64, to_millis

if TYPE_CHECKING:
    from kio.schema.delete_records.v2.request import DeleteRecordsRequest

    from tidegauge.impl.server.broker_server import Broker
    from tidegauge.impl.server.transport.context import RequestContext

NO_LOW_WATERMARK: Final = -1


@attrs.define(eq=False)
class _Deletion:
    """One partition's part of a request, and what became of it; `error` is None while that is open."""

    index: int
    partition: Partition | None = None
    offset: int = 0
    leader_epoch: int = -1
    low_watermark: int = NO_LOW_WATERMARK
    error: ErrorCode | None = None


async def handle_delete_records(
    request: DeleteRecordsRequest, context: RequestContext, *, broker: Broker
) -> DeleteRecordsResponse:
    """Delete the records before the given offsets; -1 is the high watermark. Only the leader does."""
    made = [
        [_delete(broker, topic.name, asked.partition_index, asked.offset, context) for asked in topic.partitions]
        for topic in request.topics
    ]
    deletions = [deletion for topic in made for deletion in topic]
    moved = {deletion.partition: deletion for deletion in deletions if deletion.error is None and deletion.partition}
    broker.replicas.write_log_starts(moved)
    for partition, deletion in moved.items():
        if broker.tracer.trace is not None and not partition.is_gone:
            deleted = trace.events.DeleteRecords
            broker.tracer.replica(deleted, *partition.key, partition.replica, offset=deletion.offset)
        broker.replicas.follower_fetches.wake(partition.key)
    if not _settle(broker, deletions):
        await context.while_connected(
            lambda: broker.replicas.deletions.until(
                [partition.key for partition in moved],
                lambda: _settle(broker, deletions) or None,
                to_millis(request.timeout),
            )
        )
    return DeleteRecordsResponse(
        throttle_time=NO_WAIT,
        topics=tuple(
            DeleteRecordsTopicResult(name=topic.name, partitions=tuple(map(_result, parts)))
            for topic, parts in zip(request.topics, made, strict=True)
        ),
    )


def _delete(broker: Broker, topic: str, index: int, offset: int, context: RequestContext) -> _Deletion:
    """Move the log start, not durably yet."""
    known = broker.metadata.image.partition(topic, index) is not None
    partition = broker.replicas.get(topic, index)
    if not context.allowed(Operation.DELETE, ResourceType.TOPIC, topic):
        return _Deletion(index, error=ErrorCode.topic_authorization_failed)
    if known and topic in INTERNAL_TOPICS:
        return _Deletion(index, error=ErrorCode.invalid_topic_exception)
    if partition is None:
        return _Deletion(index, error=broker.replicas.absence(topic, index, known=known))
    if partition.replica.is_leader and not partition.log.config.is_deleted:
        return _Deletion(index, error=ErrorCode.policy_violation)
    try:
        deleted = partition.replica.delete_records(offset)
    except OSError as error:
        return _Deletion(index, error=broker.replicas.storage_failed(partition, error))
    if isinstance(deleted, ErrorCode):
        return _Deletion(index, error=deleted)
    return _Deletion(index, partition, deleted, partition.replica.leader_epoch)


def _settle(broker: Broker, deletions: list[_Deletion]) -> bool:
    """Look at every deletion whose outcome is open; True when none is left."""
    live = {one for one, registered in broker.metadata.image.brokers.items() if not registered.fenced}
    for deletion in deletions:
        partition = deletion.partition
        if deletion.error is not None or partition is None:
            continue
        replica = partition.replica
        if partition.is_offline:
            deletion.error = ErrorCode.kafka_storage_error
        elif partition.is_removed or not replica.is_leader or replica.leader_epoch != deletion.leader_epoch:
            deletion.error = ErrorCode.not_leader_or_follower
        elif (low_watermark := replica.low_watermark(live)) >= deletion.offset:
            deletion.error, deletion.low_watermark = ErrorCode.none, low_watermark
    return all(deletion.error is not None for deletion in deletions)


def _result(deletion: _Deletion) -> DeleteRecordsPartitionResult:
    """A deletion that is still open has timed out: the records are gone at the leader all the same."""
    return DeleteRecordsPartitionResult(
        partition_index=i32(deletion.index),
        low_watermark=i64(deletion.low_watermark),
        error_code=ErrorCode.request_timed_out if deletion.error is None else deletion.error,
    )
