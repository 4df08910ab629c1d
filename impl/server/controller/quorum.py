"""DescribeQuorum at the controller (KIP-595): the voters are those of the settings, all else that fetches observes.

As in Kafka a voter that has not fetched from this leader is at offset -1, and an observer that has not fetched for
`OBSERVER_SESSION_MS` is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kio.schema.describe_quorum.v2 import response as quorum_response
from kio.schema.describe_quorum.v2.response import DescribeQuorumResponse, ReplicaState
from kio.schema.errors import ErrorCode

from tidegauge.impl.ports.network import Address
from tidegauge.impl.server.controller.observers import ObserverState
from tidegauge.impl.server.settings.voters import Voter, parse_voters
from tidegauge.impl.wire.primitives import BrokerId, TopicName, i32, i64, u16

if TYPE_CHECKING:
    from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest

    from tidegauge.impl.controller.controller import Controller
    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.server.controller.metadata_fetches import MetadataFetches
    from tidegauge.impl.server.settings.server_config import ServerConfig
    from tidegauge.impl.server.transport.context import RequestContext

METADATA_PARTITION: Final = ("__cluster_metadata", 0)
LISTENER: Final = "CONTROLLER"
OBSERVER_SESSION_MS: Final = 300_000
NEVER: Final = ObserverState(-1, -1, -1)
"""The state of a voter that has not fetched."""


async def handle_describe_quorum(
    request: DescribeQuorumRequest,
    context: RequestContext,
    *,
    controller: Controller,
    fetches: MetadataFetches,
    clock: Clock,
    config: ServerConfig,
) -> DescribeQuorumResponse:
    """How far the replicas of the metadata log are."""
    voters = parse_voters(config.controller_quorum_voters)
    wanted = [(topic.topic_name, part.partition_index) for topic in request.topics for part in topic.partitions]
    topics = []
    for topic in request.topics:
        partitions = [
            _partition(controller, fetches, voters, clock.now_ms())
            if wanted == [METADATA_PARTITION]
            else _no_quorum(topic.topic_name, partition.partition_index)
            async for partition in context.pace.each(topic.partitions)
        ]
        name = TopicName(topic.topic_name)
        topics.append(quorum_response.TopicData(topic_name=name, partitions=tuple(partitions)))
    return DescribeQuorumResponse(
        error_code=ErrorCode.none,
        error_message="",
        topics=tuple(topics),
        nodes=_nodes(controller, voters) if wanted == [METADATA_PARTITION] else (),
    )


def _nodes(controller: Controller, voters: Sequence[Voter]) -> tuple[quorum_response.Node, ...]:
    """Where each voter is reached: by what it has registered as the active controller, else by the settings."""
    addresses = {voter.id: voter.address for voter in voters}
    addresses |= {known: Address(one.host, one.port) for known, one in controller.image.controllers.items()}
    return tuple(
        quorum_response.Node(
            node_id=BrokerId(node_id),
            listeners=(quorum_response.Listener(name=LISTENER, host=address.host, port=u16(address.port)),),
        )
        for node_id, address in sorted(addresses.items())
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


def _partition(
    controller: Controller, fetches: MetadataFetches, voters: Sequence[Voter], now_ms: int
) -> quorum_response.PartitionData:
    leader_id, end_offset = controller.node_id, fetches.end_offset
    states = {**fetches.observers.states, leader_id: ObserverState(end_offset, now_ms, now_ms)}
    voting = {leader_id, *(voter.id for voter in voters)}
    observing = {
        node_id for node_id, state in states.items() if node_id >= 0 and now_ms - state.at_ms < OBSERVER_SESSION_MS
    }
    return quorum_response.PartitionData(
        partition_index=i32(METADATA_PARTITION[1]),
        error_code=ErrorCode.none,
        error_message="",
        leader_id=BrokerId(leader_id),
        leader_epoch=i32(controller.controller_epoch),
        high_watermark=i64(end_offset),
        current_voters=tuple(_replica(voter, states.get(voter, NEVER)) for voter in sorted(voting)),
        observers=tuple(_replica(observer, states[observer]) for observer in sorted(observing - voting)),
    )


def _replica(node_id: int, state: ObserverState) -> ReplicaState:
    return ReplicaState(
        replica_id=BrokerId(node_id),
        replica_directory_id=None,
        log_end_offset=i64(state.offset),
        last_fetch_timestamp=i64(state.at_ms),
        last_caught_up_timestamp=i64(state.caught_up_ms),
    )
