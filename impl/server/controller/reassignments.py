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

from tidegauge.impl.controller.reassignments import ongoing_reassignments
from tidegauge.impl.server import trace
from tidegauge.impl.server.error_responses.explanation import explain_error
from tidegauge.impl.server.pace import DECISION_UNITS
from tidegauge.impl.wire.primitives import NO_WAIT, BrokerId, TopicName, i32

if TYPE_CHECKING:
    from kio.schema.alter_partition_reassignments.v1.request import (
        AlterPartitionReassignmentsRequest,
        ReassignablePartition,
    )
    from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest

    from tidegauge.impl.controller.controller import Controller
    from tidegauge.impl.server.controller.decisions import Decisions
    from tidegauge.impl.server.transport.context import RequestContext


async def handle_alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, context: RequestContext, *, decisions: Decisions
) -> AlterPartitionReassignmentsResponse:
    """Each partition is moved, or, without replicas in the request, its move is cancelled."""
    may_change_factor = request.allow_replication_factor_change
    topics = []
    for topic in request.topics:
        each = context.pace.each(topic.partitions, units=DECISION_UNITS)
        partitions = [await _alter(decisions, topic.name, one, may_change_factor) async for one in each]
        topics.append(ReassignableTopicResponse(name=topic.name, partitions=tuple(partitions)))
    return AlterPartitionReassignmentsResponse(
        throttle_time=NO_WAIT,
        allow_replication_factor_change=may_change_factor,
        error_code=ErrorCode.none,
        error_message=None,
        responses=tuple(topics),
    )


async def _alter(
    decisions: Decisions, topic: str, wanted: ReassignablePartition, may_change_factor: bool
) -> ReassignablePartitionResponse:
    partition = int(wanted.partition_index)
    target = None if wanted.replicas is None else tuple(map(int, wanted.replicas))
    async with decisions.turn() as turn:
        moves = turn.controller.reassignments
        refusal = await turn.commit(
            moves.cancel(topic, partition)
            if target is None
            else moves.reassign(topic, partition, target, may_change_factor=may_change_factor)
        )
        if refusal.error is ErrorCode.none and turn.is_traced:
            changed = turn.changed()
            if target is None:
                cancelled = trace.events.CancelReassignment
                turn.tracer.record(cancelled, topic=topic, partition=partition, changed=changed)
            else:
                started = trace.events.StartReassignment
                turn.tracer.record(started, topic=topic, partition=partition, target=target, changed=changed)
    return ReassignablePartitionResponse(
        partition_index=wanted.partition_index,
        error_code=refusal.error,
        error_message=explain_error(refusal.error, refusal.message),
    )


async def handle_list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, context: RequestContext, *, controller: Controller
) -> ListPartitionReassignmentsResponse:
    """The reassignments under way, of the partitions that the request names or of all."""
    wanted = (
        None
        if request.topics is None
        else ((topic.name, int(index)) for topic in request.topics for index in topic.partition_indexes)
    )
    found = await context.pace.finish(ongoing_reassignments(controller.image, wanted))
    ongoing: dict[str, list[OngoingPartitionReassignment]] = {}
    async for topic, partition, registration in context.pace.each(found):
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
