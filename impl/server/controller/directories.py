"""AssignReplicasToDirs at the controller (KIP-858): brokers report the directories of their replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.assign_replicas_to_dirs.v0 import response as wire_response
from kio.schema.assign_replicas_to_dirs.v0.response import AssignReplicasToDirsResponse
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.directories import UNASSIGNED
from tidegauge.impl.controller.membership import broker_error
from tidegauge.impl.server import trace
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.assign_replicas_to_dirs.v0.request import AssignReplicasToDirsRequest

    from tidegauge.impl.server.controller.decisions import Decisions, Turn
    from tidegauge.impl.server.transport.context import RequestContext


async def handle_assign_replicas_to_dirs(
    request: AssignReplicasToDirsRequest, _: RequestContext, *, decisions: Decisions
) -> AssignReplicasToDirsResponse:
    """Record each replica's directory; a request of a former process of the broker is refused as a whole."""
    async with decisions.turn() as turn:
        error = broker_error(turn.controller.image, request.broker_id, request.broker_epoch)
        if error is not ErrorCode.none:
            return AssignReplicasToDirsResponse(throttle_time=NO_WAIT, error_code=error, directories=())
        directories = []
        for directory in request.directories:
            topics = []
            for topic in directory.topics:
                partitions = []
                for partition in topic.partitions:
                    index = partition.partition_index
                    where = UNASSIGNED if directory.id_ is None else str(directory.id_)
                    assigned = await _assign(turn, request.broker_id, str(topic.topic_id), index, where)
                    partitions.append(wire_response.PartitionData(partition_index=index, error_code=assigned))
                topics.append(wire_response.TopicData(topic_id=topic.topic_id, partitions=tuple(partitions)))
            directories.append(wire_response.DirectoryData(id_=directory.id_, topics=tuple(topics)))
        if turn.is_traced:
            assign = trace.events.AssignReplicasToDirs
            turn.tracer.record(assign, broker=request.broker_id, changed=turn.changed())
    return AssignReplicasToDirsResponse(
        throttle_time=NO_WAIT, error_code=ErrorCode.none, directories=tuple(directories)
    )


async def _assign(turn: Turn, broker_id: int, topic_id: str, partition: int, directory: str) -> ErrorCode:
    topic = turn.controller.image.topic_names.get(topic_id)
    if topic is None:
        return ErrorCode.unknown_topic_id
    return await turn.commit(turn.controller.directories.assign(broker_id, topic, partition, directory))
