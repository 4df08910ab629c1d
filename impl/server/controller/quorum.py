"""DescribeQuorum at the controller: its replicas are the active controller and, as observers, the brokers (KIP-595)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kio.schema.describe_quorum.v2 import response as quorum_response
from kio.schema.describe_quorum.v2.response import DescribeQuorumResponse, ReplicaState
from kio.schema.errors import ErrorCode

from tidegauge.impl.wire.primitives import BrokerId, TopicName, i32, i64, u16

if TYPE_CHECKING:
    from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest

    from tidegauge.impl.controller.controller import Controller
    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.server.controller.metadata_fetches import MetadataFetches
    from tidegauge.impl.server.transport.context import RequestContext

METADATA_PARTITION: Final = ("__cluster_metadata", 0)
LISTENER: Final = "CONTROLLER"


async def handle_describe_quorum(
    request: DescribeQuorumRequest,
    _: RequestContext,
    *,
    controller: Controller,
    fetches: MetadataFetches,
    clock: Clock,
) -> DescribeQuorumResponse:
    """How far the replicas of the metadata log are."""
    wanted = [(topic.topic_name, part.partition_index) for topic in request.topics for part in topic.partitions]
    return DescribeQuorumResponse(
        error_code=ErrorCode.none,
        error_message="",
        topics=tuple(
            quorum_response.TopicData(
                topic_name=TopicName(topic.topic_name),
                partitions=tuple(
                    _partition(controller, fetches, clock.now_ms())
                    if wanted == [METADATA_PARTITION]
                    else _no_quorum(topic.topic_name, partition.partition_index)
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
        nodes=_nodes(controller) if wanted == [METADATA_PARTITION] else (),
    )


def _nodes(controller: Controller) -> tuple[quorum_response.Node, ...]:
    """The nodes that have been the active controller, and where each is reached."""
    return tuple(
        quorum_response.Node(
            node_id=BrokerId(node_id),
            listeners=(quorum_response.Listener(name=LISTENER, host=registered.host, port=u16(registered.port)),),
        )
        for node_id, registered in sorted(controller.image.controllers.items())
    )


def _no_quorum(topic: str, partition: int) -> quorum_response.PartitionData:
    """The response for each partition of a request that names another one than the metadata log; zeros as in Kafka."""
    metadata = f"{METADATA_PARTITION[0]}-{METADATA_PARTITION[1]}"
    return quorum_response.PartitionData(
        partition_index=i32(partition),
        error_code=ErrorCode.unknown_topic_or_partition,
        error_message=f"{topic}-{partition} has no quorum: ask for {metadata} alone",
        leader_id=BrokerId(0),
        leader_epoch=i32(0),
        high_watermark=i64(0),
        current_voters=(),
        observers=(),
    )


def _partition(controller: Controller, fetches: MetadataFetches, now_ms: int) -> quorum_response.PartitionData:
    leader_id, end_offset = controller.node_id, fetches.end_offset
    return quorum_response.PartitionData(
        partition_index=i32(METADATA_PARTITION[1]),
        error_code=ErrorCode.none,
        error_message="",
        leader_id=BrokerId(leader_id),
        leader_epoch=i32(controller.controller_epoch),
        high_watermark=i64(end_offset),
        current_voters=(_replica(leader_id, end_offset, now_ms, now_ms),),
        observers=tuple(
            _replica(broker_id, fetch.offset, fetch.at_ms, fetch.caught_up_ms)
            for broker_id, fetch in sorted(fetches.observers.states.items())
        ),
    )


def _replica(node_id: int, end_offset: int, fetched_ms: int, caught_up_ms: int) -> ReplicaState:
    return ReplicaState(
        replica_id=BrokerId(node_id),
        replica_directory_id=None,
        log_end_offset=i64(end_offset),
        last_fetch_timestamp=i64(fetched_ms),
        last_caught_up_timestamp=i64(caught_up_ms),
    )
