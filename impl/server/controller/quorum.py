"""DescribeQuorum and UpdateFeatures at the controller: a quorum of one, whose features stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kio.schema.describe_quorum.v2 import response as quorum_response
from kio.schema.describe_quorum.v2.response import DescribeQuorumResponse, ReplicaState
from kio.schema.errors import ErrorCode
from kio.schema.update_features.v2.response import UpdateFeaturesResponse

from tidegauge.impl.server.api_versions import FEATURES
from tidegauge.impl.wire.primitives import NO_WAIT, BrokerId, TopicName, i32, i64, u16

if TYPE_CHECKING:
    from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest
    from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest

    from tidegauge.impl.controller.controller import Controller
    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.server.controller.metadata_fetches import MetadataFetches
    from tidegauge.impl.server.controller.voters import Voters
    from tidegauge.impl.server.transport.context import RequestContext

METADATA_PARTITION: Final = ("__cluster_metadata", 0)
LISTENER: Final = "CONTROLLER"
UPGRADE_TYPES: Final = (1, 2, 3)
"""Upgrade, safe downgrade, unsafe downgrade (KIP-778)."""


async def handle_describe_quorum(
    request: DescribeQuorumRequest,
    _: RequestContext,
    *,
    controller: Controller,
    fetches: MetadataFetches,
    voters: Voters,
    clock: Clock,
) -> DescribeQuorumResponse:
    """Who replicates the metadata log, and how far they are (KIP-595): one voter, and the brokers as observers."""
    asked = [(topic.topic_name, part.partition_index) for topic in request.topics for part in topic.partitions]
    return DescribeQuorumResponse(
        error_code=ErrorCode.none,
        error_message="",
        topics=tuple(
            quorum_response.TopicData(
                topic_name=TopicName(topic.topic_name),
                partitions=tuple(
                    _partition(controller, fetches, clock.now_ms())
                    if asked == [METADATA_PARTITION]
                    else _no_quorum(topic.topic_name, partition.partition_index)
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
        nodes=_nodes(voters) if asked == [METADATA_PARTITION] else (),
    )


def _nodes(voters: Voters) -> tuple[quorum_response.Node, ...]:
    return tuple(
        quorum_response.Node(
            node_id=BrokerId(node_id),
            listeners=(quorum_response.Listener(name=LISTENER, host=address.host, port=u16(address.port)),),
        )
        for node_id, address in sorted(voters.addresses.items())
    )


def _no_quorum(topic: str, partition: int) -> quorum_response.PartitionData:
    """Told of all partitions unless the one that has a quorum is asked for alone, with zeros as at Kafka."""
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


async def handle_update_features(
    request: UpdateFeaturesRequest,
    _: RequestContext,
) -> UpdateFeaturesResponse:
    """Each feature has one level, which cannot be changed; a request for that level succeeds."""
    problem = next((wrong for update in request.feature_updates if (wrong := _problem(update))), "")
    error = ErrorCode.invalid_update_version if problem else ErrorCode.none
    return UpdateFeaturesResponse(throttle_time=NO_WAIT, error_code=error, error_message=problem or None)


def _problem(update: FeatureUpdateKey) -> str:
    if update.upgrade_type not in UPGRADE_TYPES:
        return f"upgrade type {update.upgrade_type} is none: use 1 (upgrade), 2 (safe) or 3 (unsafe downgrade)"
    feature = FEATURES.get(update.feature)
    if feature is None:
        return f"{update.feature!r} is no feature of this cluster; there are {', '.join(FEATURES)}"
    if update.max_version_level != feature.finalized:
        return f"{update.feature} is at level {feature.finalized} and stays there, not {update.max_version_level}"
    return ""
