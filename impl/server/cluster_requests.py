"""Requests about the cluster: Metadata, which any broker answers from its cache, and what is the controller's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.create_topics.v7 import response as create_response
from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreateTopicsResponse
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest
from kio.schema.elect_leaders.v2.response import ElectLeadersResponse
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13 import response as wire_response
from kio.schema.metadata.v13.request import MetadataRequest
from kio.schema.metadata.v13.response import MetadataResponse

from impl.controller.image import ClusterImage, TopicImage
from impl.partition.registration import NO_LEADER, PartitionRegistration
from impl.wire.channel import NoAnswerError, UnreachableError
from impl.wire.primitives import NO_WAIT, BrokerId, TopicName, i32, topic_uuid

if TYPE_CHECKING:
    from impl.server.broker import Broker
    from impl.server.context import RequestContext


async def handle_metadata(broker: Broker, request: MetadataRequest, _: RequestContext) -> MetadataResponse:
    """Brokers that are up, and the topics asked for (all of them when none is named)."""
    image = broker.metadata.image
    if request.topics is None:
        topics = tuple(_topic(image, topic) for topic in image.topics.values())
    else:
        topics = tuple(
            _asked_topic(broker, topic.name, str(topic.topic_id) if topic.topic_id is not None else None)
            for topic in request.topics
        )
    return MetadataResponse(
        throttle_time=NO_WAIT,
        brokers=tuple(
            wire_response.MetadataResponseBroker(
                node_id=BrokerId(known.broker_id), host=known.host, port=i32(known.port), rack=known.rack
            )
            for known in image.unfenced_brokers()
        ),
        cluster_id=broker.cluster_id,
        controller_id=BrokerId(image.controller_id),
        topics=topics,
        error_code=ErrorCode.none,
    )


def _asked_topic(broker: Broker, name: str | None, topic_id: str | None) -> wire_response.MetadataResponseTopic:
    by_id = name is None
    if by_id and topic_id is not None:
        name = broker.metadata.topic_name(topic_id)
    topic = broker.metadata.image.topics.get(name) if name is not None else None
    if topic is not None:
        return _topic(broker.metadata.image, topic)
    return wire_response.MetadataResponseTopic(
        error_code=ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition,
        name=None if name is None else TopicName(name),
        topic_id=topic_uuid(topic_id) if by_id and topic_id is not None else None,
        partitions=(),
    )


def _topic(image: ClusterImage, topic: TopicImage) -> wire_response.MetadataResponseTopic:
    return wire_response.MetadataResponseTopic(
        error_code=ErrorCode.none,
        name=TopicName(topic.name),
        topic_id=topic_uuid(topic.topic_id),
        partitions=tuple(
            _partition(image, index, registration) for index, registration in sorted(topic.partitions.items())
        ),
    )


def _partition(
    image: ClusterImage, index: int, registration: PartitionRegistration
) -> wire_response.MetadataResponsePartition:
    leaderless = registration.leader == NO_LEADER
    offline = tuple(BrokerId(replica) for replica in registration.replicas if not image.is_unfenced(replica))
    return wire_response.MetadataResponsePartition(
        error_code=ErrorCode.leader_not_available if leaderless else ErrorCode.none,
        partition_index=i32(index),
        leader_id=BrokerId(registration.leader),
        leader_epoch=i32(registration.leader_epoch),
        replica_nodes=tuple(BrokerId(replica) for replica in registration.replicas),
        isr_nodes=tuple(BrokerId(replica) for replica in sorted(registration.isr)),
        offline_replicas=offline,
    )


async def handle_create_topics(broker: Broker, request: CreateTopicsRequest, _: RequestContext) -> CreateTopicsResponse:
    """Forwarded to the controller."""
    try:
        response: CreateTopicsResponse = await broker.controller.forward(request)
    except (UnreachableError, NoAnswerError) as error:
        return CreateTopicsResponse(
            throttle_time=NO_WAIT,
            topics=tuple(
                create_response.CreatableTopicResult(
                    name=topic.name,
                    topic_id=None,
                    error_code=_forwarding_error(error),
                    error_message=str(error),
                    configs=(),
                )
                for topic in request.topics
            ),
        )
    return response


async def handle_elect_leaders(broker: Broker, request: ElectLeadersRequest, _: RequestContext) -> ElectLeadersResponse:
    """Forwarded to the controller."""
    try:
        response: ElectLeadersResponse = await broker.controller.forward(request)
    except (UnreachableError, NoAnswerError) as error:
        return ElectLeadersResponse(
            throttle_time=NO_WAIT, error_code=_forwarding_error(error), replica_election_results=()
        )
    return response


def _forwarding_error(error: Exception) -> ErrorCode:
    return ErrorCode.not_controller if isinstance(error, UnreachableError) else ErrorCode.request_timed_out
