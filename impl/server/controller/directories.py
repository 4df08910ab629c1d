"""AssignReplicasToDirs at the controller (KIP-858): brokers say in which of their directories their replicas are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.assign_replicas_to_dirs.v0 import response as wire_response
from kio.schema.assign_replicas_to_dirs.v0.response import AssignReplicasToDirsResponse
from kio.schema.errors import ErrorCode

from tidegauge.impl.server import trace
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.assign_replicas_to_dirs.v0.request import AssignReplicasToDirsRequest
    from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest

    from tidegauge.impl.server.controller.node import ControllerNode
    from tidegauge.impl.server.transport.context import RequestContext


async def handle_assign_replicas_to_dirs(
    request: AssignReplicasToDirsRequest, _: RequestContext, *, node: ControllerNode
) -> AssignReplicasToDirsResponse:
    """Note each replica's directory; a request of a former process of the broker is refused as a whole."""
    error = node.controller.broker_error(request.broker_id, request.broker_epoch)
    if error is not ErrorCode.none:
        return AssignReplicasToDirsResponse(throttle_time=NO_WAIT, error_code=error, directories=())
    names = {image.topic_id: name for name, image in node.controller.image.topics.items()}
    with node.decision() as changed:
        answered = tuple(
            wire_response.DirectoryData(
                id_=directory.id_,
                topics=tuple(
                    wire_response.TopicData(
                        topic_id=topic.topic_id,
                        partitions=tuple(
                            wire_response.PartitionData(
                                partition_index=one.partition_index,
                                error_code=_assign(
                                    node,
                                    request.broker_id,
                                    names.get(str(topic.topic_id)),
                                    one.partition_index,
                                    str(directory.id_),
                                ),
                            )
                            for one in topic.partitions
                        ),
                    )
                    for topic in directory.topics
                ),
            )
            for directory in request.directories
        )
        if node.tracer.trace is not None:
            node.tracer.record(trace.events.AssignReplicasToDirs, broker=request.broker_id, changed=changed())
    return AssignReplicasToDirsResponse(throttle_time=NO_WAIT, error_code=ErrorCode.none, directories=answered)


def _assign(node: ControllerNode, broker_id: int, topic: str | None, partition: int, directory: str) -> ErrorCode:
    if topic is None:
        return ErrorCode.unknown_topic_id
    return node.controller.assign_directory(broker_id, topic, partition, directory)


def note_offline_directories(node: ControllerNode, request: BrokerHeartbeatRequest) -> None:
    """What a heartbeat says of directories that have failed; one of a former process says nothing."""
    if not request.offline_log_dirs or _is_refused(node, request):
        return
    with node.decision() as changed:
        newly = node.controller.directories_offline(request.broker_id, {str(one) for one in request.offline_log_dirs})
        if newly and node.tracer.trace is not None:
            node.tracer.record(trace.events.DirectoriesOffline, broker=request.broker_id, changed=changed())


def _is_refused(node: ControllerNode, request: BrokerHeartbeatRequest) -> bool:
    return node.controller.broker_error(request.broker_id, request.broker_epoch) is not ErrorCode.none
