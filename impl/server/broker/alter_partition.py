"""AlterPartition (KIP-497) between the core's messages and kio's: a request about one partition, and its response."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.alter_partition.v3 import request as wire_request
from kio.schema.alter_partition.v3.request import AlterPartitionRequest as WireRequest
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import AlterPartitionRequest, AlterPartitionResponse
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.wire.primitives import BrokerId, i32, i64, topic_uuid

if TYPE_CHECKING:
    from kio.schema.alter_partition.v3.response import AlterPartitionResponse as WireResponse


def wire_request_of(topic_id: str, partition: int, request: AlterPartitionRequest) -> WireRequest:
    """The core's request as kio's message."""
    members = tuple(
        wire_request.BrokerState(broker_id=BrokerId(member), broker_epoch=i64(epoch)) for member, epoch in request.isr
    )
    data = wire_request.PartitionData(
        partition_index=i32(partition),
        leader_epoch=i32(request.leader_epoch),
        new_isr_with_epochs=members,
        partition_epoch=i32(request.partition_epoch),
    )
    topic = wire_request.TopicData(topic_id=topic_uuid(topic_id), partitions=(data,))
    return WireRequest(broker_id=BrokerId(request.broker_id), broker_epoch=i64(request.broker_epoch), topics=(topic,))


def core_response_of(message: WireResponse, replicas: tuple[int, ...], controller_epoch: int) -> AlterPartitionResponse:
    """kio's message as the core's response, from the controller of this epoch, for a partition with these replicas."""
    if message.error_code is not ErrorCode.none or not message.topics:
        return AlterPartitionResponse(message.error_code, controller_epoch)
    data = message.topics[0].partitions[0]
    if data.error_code is not ErrorCode.none:
        return AlterPartitionResponse(data.error_code, controller_epoch)
    registration = PartitionRegistration(
        replicas=replicas,
        leader=data.leader_id,
        leader_epoch=data.leader_epoch,
        partition_epoch=data.partition_epoch,
        isr=frozenset(int(member) for member in data.isr),
    )
    return AlterPartitionResponse(ErrorCode.none, controller_epoch, registration)
