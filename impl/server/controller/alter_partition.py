"""AlterPartition at the controller: leaders propose ISRs (KIP-497)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.alter_partition.v3 import response as alter_response
from kio.schema.alter_partition.v3.response import AlterPartitionResponse as WireAlterPartitionResponse
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import AlterPartitionRequest
from tidegauge.impl.server import trace
from tidegauge.impl.wire.primitives import NO_WAIT, BrokerId, i32

if TYPE_CHECKING:
    from kio.schema.alter_partition.v3.request import AlterPartitionRequest as WireAlterPartitionRequest
    from kio.schema.alter_partition.v3.request import PartitionData as AlterData

    from tidegauge.impl.server.controller.decisions import Decisions
    from tidegauge.impl.server.transport.context import RequestContext


async def handle_alter_partition(
    request: WireAlterPartitionRequest, _: RequestContext, *, decisions: Decisions
) -> WireAlterPartitionResponse:
    """Leaders propose ISRs; each is written or refused by itself."""
    topics = []
    for topic in request.topics:
        partitions = [await _alter(decisions, request, str(topic.topic_id), data) for data in topic.partitions]
        topics.append(alter_response.TopicData(topic_id=topic.topic_id, partitions=tuple(partitions)))
    return WireAlterPartitionResponse(throttle_time=NO_WAIT, error_code=ErrorCode.none, topics=tuple(topics))


async def _alter(
    decisions: Decisions, request: WireAlterPartitionRequest, topic_id: str, data: AlterData
) -> alter_response.PartitionData:
    proposal = AlterPartitionRequest(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        leader_epoch=data.leader_epoch,
        partition_epoch=data.partition_epoch,
        isr=tuple((int(member.broker_id), int(member.broker_epoch)) for member in data.new_isr_with_epochs),
    )
    async with decisions.turn() as turn:
        topic = turn.controller.image.topic_names.get(topic_id)
        if topic is None:
            return _refused(data, ErrorCode.unknown_topic_id)
        response = await turn.commit(turn.controller.isr_changes.alter(topic, data.partition_index, proposal))
        if turn.is_traced:
            turn.tracer.record(
                trace.events.ReceiveAlterPartition,
                topic=topic,
                partition=int(data.partition_index),
                request=proposal,
                error=response.error,
                changed=turn.changed(),
            )
    new = response.registration
    if response.error is not ErrorCode.none or new is None:
        return _refused(data, response.error)
    return alter_response.PartitionData(
        partition_index=data.partition_index,
        error_code=ErrorCode.none,
        leader_id=BrokerId(new.leader),
        leader_epoch=i32(new.leader_epoch),
        isr=tuple(BrokerId(member) for member in sorted(new.isr)),
        partition_epoch=i32(new.partition_epoch),
    )


def _refused(data: AlterData, error: ErrorCode) -> alter_response.PartitionData:
    return alter_response.PartitionData(
        partition_index=data.partition_index,
        error_code=error,
        leader_id=BrokerId(-1),
        leader_epoch=data.leader_epoch,
        partition_epoch=data.partition_epoch,
    )
