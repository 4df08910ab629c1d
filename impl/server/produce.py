"""Produce: append at the leader, and wait for as much replication as the producer asked for.

acks=0 gets no answer, acks=1 one as soon as the leader has appended, acks=all (-1) one when the high watermark has
passed the batch. An acks=all request that runs into its timeout gets REQUEST_TIMED_OUT, and one whose leader loses its
epoch NOT_LEADER_OR_FOLLOWER: either way the records may still be committed, and nobody can tell. Such an answer carries
the base offset all the same, as Kafka's does; an error without one says that nothing was appended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from kio.schema.errors import ErrorCode
from kio.schema.produce.v11 import response as wire_response
from kio.schema.produce.v11.request import PartitionProduceData, ProduceRequest
from kio.schema.produce.v11.response import ProduceResponse

from impl.partition.leader import ACKS_ALL
from impl.partition.messages import Appended
from impl.server.partitions import Partition, storage_error_code
from impl.wire.primitives import BrokerId, TopicName, i32, i64, to_millis
from impl.wire.records import RecordError

if TYPE_CHECKING:
    from impl.server.broker import Broker
    from impl.server.context import RequestContext

_ACKS = (0, 1, ACKS_ALL)
_NO_LEADER = wire_response.LeaderIdAndEpoch()


@attrs.define(eq=False)
class _Append:
    """One partition's part of a request, and what became of it; `error` is None while that is open."""

    topic: str
    index: int
    partition: Partition | None = None
    appended: Appended | None = None
    error: ErrorCode | None = None
    message: str | None = None


async def handle_produce(broker: Broker, request: ProduceRequest, context: RequestContext) -> ProduceResponse | None:
    """Append, and answer when the producer's acks are met; None (no answer) for acks=0."""
    appends = [
        _append(broker, topic.name, data, request.acks) for topic in request.topic_data for data in topic.partition_data
    ]
    if request.acks == 0:
        return None
    if not _settle(appends):
        keys = [append.partition.key for append in appends if append.error is None and append.partition is not None]
        timeout_ms = to_millis(request.timeout)
        await context.while_connected(
            lambda: broker.partitions.produces.until(keys, lambda: _settle(appends) or None, timeout_ms)
        )
    return _response(request, appends)


def _append(broker: Broker, topic: str, data: PartitionProduceData, acks: int) -> _Append:
    append = _Append(topic, data.index, broker.partitions.get(topic, data.index))
    partition = append.partition
    if acks not in _ACKS:
        append.error, append.message = ErrorCode.invalid_required_acks, f"acks is {acks}: use 0, 1 or -1 (all)"
    elif partition is None:
        known = broker.metadata.image.partition(topic, data.index) is not None
        append.error = ErrorCode.not_leader_or_follower if known else ErrorCode.unknown_topic_or_partition
    elif not data.records:
        append.error, append.message = ErrorCode.invalid_record, "no records"
    else:
        _append_here(broker, partition, data.records, acks, append)
    return append


def _append_here(broker: Broker, partition: Partition, batches: bytes, acks: int, append: _Append) -> None:
    replica = partition.replica
    try:
        result = replica.append(batches, acks, broker.clock.now_ms())
    except (RecordError, OSError) as error:
        append.error, append.message = storage_error_code(error), str(error)
        return
    if isinstance(result, Appended):
        append.appended = result
        append.error = None if acks == ACKS_ALL else ErrorCode.none
        broker.tracer.replica(
            "Append",
            partition.topic,
            partition.index,
            replica,
            acks=acks,
            base_offset=result.base_offset,
            records=result.end_offset - result.base_offset,
        )
    else:
        append.error = result
    broker.partitions.carry_out(partition)


def _settle(appends: list[_Append]) -> bool:
    """Look at every append whose outcome is open; True when none is left."""
    for append in appends:
        if append.error is None:
            assert append.partition is not None, "only a hosted partition is appended to"
            assert append.appended is not None, "only what was appended waits"
            append.error = append.partition.replica.append_outcome(append.appended)
    return all(append.error is not None for append in appends)


def _response(request: ProduceRequest, appends: list[_Append]) -> ProduceResponse:
    remaining = iter(appends)
    return ProduceResponse(
        responses=tuple(
            wire_response.TopicProduceResponse(
                name=TopicName(topic.name),
                partition_responses=tuple(_partition_response(next(remaining)) for _ in topic.partition_data),
            )
            for topic in request.topic_data
        )
    )


def _partition_response(append: _Append) -> wire_response.PartitionProduceResponse:
    error = ErrorCode.request_timed_out if append.error is None else append.error
    partition = append.partition
    leader = _NO_LEADER
    if partition is not None and error is ErrorCode.not_leader_or_follower:
        replica = partition.replica
        leader = wire_response.LeaderIdAndEpoch(
            leader_id=BrokerId(replica.leader), leader_epoch=i32(replica.leader_epoch)
        )
    return wire_response.PartitionProduceResponse(
        index=i32(append.index),
        error_code=error,
        base_offset=i64(append.appended.base_offset if append.appended is not None else -1),
        log_start_offset=i64(partition.log.log_start_offset if partition is not None else -1),
        record_errors=(),
        error_message=append.message,
        current_leader=leader,
    )
