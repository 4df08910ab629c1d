"""Reassignments at the controller: AlterPartitionReassignments and ListPartitionReassignments (KIP-455, KIP-860)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.alter_partition_reassignments.v1.response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0.response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kio.schema.unregister_broker.v0.response import UnregisterBrokerResponse

from tidegauge.impl.server import trace
from tidegauge.impl.wire.primitives import NO_WAIT, BrokerId, TopicName, i32

if TYPE_CHECKING:
    from kio.schema.alter_partition_reassignments.v1.request import (
        AlterPartitionReassignmentsRequest,
        ReassignablePartition,
    )
    from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest
    from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest

    from tidegauge.impl.server.controller.node import ControllerNode
    from tidegauge.impl.server.transport.context import RequestContext


async def handle_alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, _: RequestContext, *, node: ControllerNode
) -> AlterPartitionReassignmentsResponse:
    """Partitions are to move, one by one; one without replicas stays where it was before it was to move."""
    may_change_factor = request.allow_replication_factor_change
    return AlterPartitionReassignmentsResponse(
        throttle_time=NO_WAIT,
        allow_replication_factor_change=may_change_factor,
        error_code=ErrorCode.none,
        error_message=None,
        responses=tuple(
            ReassignableTopicResponse(
                name=topic.name,
                partitions=tuple(_alter(node, topic.name, one, may_change_factor) for one in topic.partitions),
            )
            for topic in request.topics
        ),
    )


def _alter(
    node: ControllerNode, topic: str, asked: ReassignablePartition, may_change_factor: bool
) -> ReassignablePartitionResponse:
    partition = int(asked.partition_index)
    with node.decision() as changed:
        if asked.replicas is None:
            refusal = node.controller.cancel_reassignment(topic, partition)
        else:
            target = tuple(map(int, asked.replicas))
            refusal = node.controller.reassign(topic, partition, target, may_change_factor=may_change_factor)
        if refusal.error is not ErrorCode.none or node.tracer.trace is None:
            pass
        elif asked.replicas is None:
            node.tracer.record(trace.events.CancelReassignment, topic=topic, partition=partition, changed=changed())
        else:
            started = trace.events.StartReassignment
            node.tracer.record(started, topic=topic, partition=partition, target=target, changed=changed())
    return ReassignablePartitionResponse(
        partition_index=asked.partition_index, error_code=refusal.error, error_message=refusal.message or None
    )


async def handle_list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, _: RequestContext, *, node: ControllerNode
) -> ListPartitionReassignmentsResponse:
    """What is being reassigned, of the partitions named or of all."""
    asked = (
        None
        if request.topics is None
        else {(topic.name, int(index)) for topic in request.topics for index in topic.partition_indexes}
    )
    ongoing: dict[str, list[OngoingPartitionReassignment]] = {}
    for topic, partition, registration in node.controller.reassignments(asked):
        ongoing.setdefault(topic, []).append(
            OngoingPartitionReassignment(
                partition_index=i32(partition),
                replicas=tuple(map(BrokerId, registration.replicas)),
                adding_replicas=tuple(map(BrokerId, registration.adding_replicas)),
                removing_replicas=tuple(map(BrokerId, registration.removing_replicas)),
            )
        )
    return ListPartitionReassignmentsResponse(
        throttle_time=NO_WAIT,
        error_code=ErrorCode.none,
        error_message=None,
        topics=tuple(
            OngoingTopicReassignment(name=TopicName(topic), partitions=tuple(partitions))
            for topic, partitions in ongoing.items()
        ),
    )


async def handle_unregister_broker(
    request: UnregisterBrokerRequest, _: RequestContext, *, node: ControllerNode
) -> UnregisterBrokerResponse:
    """A broker that is gone for good is struck off."""
    broker = int(request.broker_id)
    with node.decision() as changed:
        error = node.controller.unregister_broker(broker)
        if error is ErrorCode.none and node.tracer.trace is not None:
            node.tracer.record(trace.events.UnregisterBroker, broker=broker, changed=changed())
    message = None if error is ErrorCode.none else f"broker {broker} is not registered"
    return UnregisterBrokerResponse(throttle_time=NO_WAIT, error_code=error, error_message=message)
