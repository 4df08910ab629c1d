"""Metadata: the brokers, and the topics asked for. Any broker responds from its image of the metadata log.

A client asks for topics by name or by id, or for all. A topic that it may not describe is left out of all topics, and
is an error where it was named. An unknown name creates a topic, where the request and `auto.create.topics.enable`
allow it: the broker has the controller create it, and responds with the topic when it has learned of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.response import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

from tidegauge.impl.metadata.image import ClusterImage, TopicImage
from tidegauge.impl.metadata.topic_names import INTERNAL_TOPICS, is_topic_name
from tidegauge.impl.partition.registration import NO_LEADER, PartitionRegistration
from tidegauge.impl.server.broker.internal_topics import creatable
from tidegauge.impl.server.error_responses.metadata import metadata_error
from tidegauge.impl.server.error_responses.refused import refused
from tidegauge.impl.server.requests.cluster_view import (
    a_live_broker,
    broker_ids,
    cluster_operations,
    offline_replicas,
    without_listener,
)
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.primitives import NO_WAIT, BrokerId, TopicName, i32, millis, topic_uuid
from tidegauge.impl.wire.unions import UNASKED, AnyMetadataRequest, AnyMetadataResponse

if TYPE_CHECKING:
    from kio.schema.metadata.v13.request import MetadataRequestTopic

    from tidegauge.impl.server.broker.dynamic_config import DynamicConfig
    from tidegauge.impl.server.broker.forwarding import Forwarder
    from tidegauge.impl.server.broker.metadata_cache import MetadataCache
    from tidegauge.impl.server.broker.metadata_loader import MetadataLoader
    from tidegauge.impl.server.broker.registration import Registration
    from tidegauge.impl.server.settings.server_config import ServerConfig
    from tidegauge.impl.server.transport.context import RequestContext

TOPIC_IDS_FROM: Final = 12
"""The version of Metadata from which topics can be asked for by id; 10 and 11 have the field and no use for it."""
LISTENER_NOT_FOUND_FROM: Final = 6
"""The version that tells a leader without the client's listener from one that is not there."""


async def handle_metadata(
    request: AnyMetadataRequest,
    context: RequestContext,
    *,
    metadata: MetadataCache,
    registration: Registration,
    config: DynamicConfig,
    forwarder: Forwarder,
    loader: MetadataLoader,
) -> AnyMetadataResponse:
    """Brokers that are up, and the topics that the request names; version 0 asks for all topics by naming none."""
    if not metadata.has_known_of_a_broker():
        await context.while_connected(metadata.until_a_broker_is_known)
    asked = request.topics
    if asked is None or (context.api_version == 0 and not asked):
        topics = await _every_topic(metadata.image, request, context)
    else:
        named, all_by_name = await _once_each(asked, context)
        if context.api_version < TOPIC_IDS_FROM and not all_by_name:
            message = f"topics are asked for by id from version {TOPIC_IDS_FROM} on"
            return await refused(context.pace, request, metadata_error, ErrorCode.invalid_request, message)
        creates = request.allow_auto_topic_creation and config.current.auto_create_topics_enable
        if creates and (missing := await _missing(metadata.image, named, context)):
            await _create(missing, config.current, context, forwarder, loader)
        unreachable = without_listener(metadata.image, context.listener)
        topics = [
            await _asked_topic(metadata, topic, request, context, unreachable, creates=creates)
            async for topic in context.pace.each(named)
        ]
    image = metadata.image
    return AnyMetadataResponse(
        throttle_time=NO_WAIT,
        brokers=tuple(
            MetadataResponseBroker(node_id=BrokerId(known), host=address.host, port=i32(address.port), rack=rack)
            for known, address, rack in metadata.endpoints_to_ask(context.listener, registration.broker_id)
        ),
        cluster_id=registration.cluster_id,
        controller_id=a_live_broker(image),
        topics=tuple(topics),
        error_code=ErrorCode.none,
        cluster_authorized_operations=(
            cluster_operations(context) if request.include_cluster_authorized_operations else UNASKED
        ),
    )


async def _once_each(
    asked: Sequence[MetadataRequestTopic], context: RequestContext
) -> tuple[list[MetadataRequestTopic], bool]:
    """Each topic once; where some are named by their ids, those alone. And whether all are named by their names."""
    by_id: dict[UUID, MetadataRequestTopic] = {}
    by_name: dict[str | None, MetadataRequestTopic] = {}
    async for topic in context.pace.each(asked, units=1):
        if topic.topic_id is not None:
            by_id[topic.topic_id] = topic
        else:
            by_name[topic.name] = topic
    all_by_name = not by_id and None not in by_name
    return list(by_id.values()) or list(by_name.values()), all_by_name


async def _every_topic(
    image: ClusterImage, request: AnyMetadataRequest, context: RequestContext
) -> list[MetadataResponseTopic]:
    unreachable = without_listener(image, context.listener)
    return [
        await _topic(image, topic, request, context, unreachable)
        async for topic in context.pace.each(list(image.topics.values()))
        if context.allowed(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
    ]


async def _asked_topic(
    metadata: MetadataCache,
    asked: MetadataRequestTopic,
    request: AnyMetadataRequest,
    context: RequestContext,
    unreachable: frozenset[int],
    *,
    creates: bool,
) -> MetadataResponseTopic:
    image = metadata.image
    by_id = asked.topic_id is not None
    name = metadata.topic_name(str(asked.topic_id)) if by_id else asked.name
    topic = None if name is None else image.topics.get(name)
    hidden = name is not None and not context.allowed(Operation.DESCRIBE, ResourceType.TOPIC, name)
    if hidden:
        error = ErrorCode.topic_authorization_failed
    elif topic is not None:
        return await _topic(image, topic, request, context, unreachable)
    elif by_id:
        error = ErrorCode.unknown_topic_id
    elif not is_topic_name(name or ""):
        error = ErrorCode.invalid_topic_exception
    elif creates and not _may_create(name or "", context):
        error = ErrorCode.topic_authorization_failed
    else:
        error = ErrorCode.unknown_topic_or_partition
    absent = error in (ErrorCode.invalid_topic_exception, ErrorCode.unknown_topic_or_partition)
    return MetadataResponseTopic(
        error_code=error,
        name=None if by_id else asked.name,
        topic_id=asked.topic_id,
        partitions=(),
        is_internal=not hidden and not by_id and asked.name in INTERNAL_TOPICS,
        topic_authorized_operations=_operations(name or "", request, context) if absent else i32(UNASKED),
    )


def _operations(name: str, request: AnyMetadataRequest, context: RequestContext) -> i32:
    asked = request.include_topic_authorized_operations
    return i32(context.operations(ResourceType.TOPIC, name) if asked else UNASKED)


async def _topic(
    image: ClusterImage,
    topic: TopicImage,
    request: AnyMetadataRequest,
    context: RequestContext,
    unreachable: frozenset[int],
) -> MetadataResponseTopic:
    partitions = [
        _partition(image, index, registration, context.api_version, unreachable)
        async for index, registration in context.pace.each(sorted(topic.partitions.items()))
    ]
    return MetadataResponseTopic(
        error_code=ErrorCode.none,
        name=TopicName(topic.name),
        topic_id=topic_uuid(topic.topic_id),
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=tuple(partitions),
        topic_authorized_operations=_operations(topic.name, request, context),
    )


def _partition(
    image: ClusterImage, index: int, registration: PartitionRegistration, version: int, unreachable: frozenset[int]
) -> MetadataResponsePartition:
    leader, error = registration.leader, ErrorCode.none
    if leader in unreachable:
        leader = NO_LEADER
        known = version >= LISTENER_NOT_FOUND_FROM
        error = ErrorCode.listener_not_found if known else ErrorCode.leader_not_available
    elif leader == NO_LEADER:
        error = ErrorCode.leader_not_available
    replicas, isr = registration.replicas, sorted(registration.isr)
    if version == 0:
        replicas = tuple(one for one in replicas if image.is_unfenced(one) and one not in unreachable)
        isr = [one for one in isr if one in replicas]
        if error is ErrorCode.none and len(replicas) < len(registration.replicas):
            error = ErrorCode.replica_not_available
    return MetadataResponsePartition(
        error_code=error,
        partition_index=i32(index),
        leader_id=BrokerId(leader),
        leader_epoch=i32(registration.leader_epoch),
        replica_nodes=broker_ids(replicas),
        isr_nodes=broker_ids(isr),
        offline_replicas=offline_replicas(image, registration, unreachable),
    )


def _may_create(name: str, context: RequestContext) -> bool:
    return context.allowed(Operation.CREATE, ResourceType.CLUSTER) or context.allowed(
        Operation.CREATE, ResourceType.TOPIC, name
    )


async def _missing(
    image: ClusterImage, asked: Sequence[MetadataRequestTopic], context: RequestContext
) -> list[TopicName]:
    """The names that are unknown and that the client may create topics of, each once."""
    names = {
        topic.name: None
        async for topic in context.pace.each(asked)
        if topic.name is not None
        and topic.name not in image.topics
        and is_topic_name(topic.name)
        and context.allowed(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
        and _may_create(topic.name, context)
    }
    return list(names)


async def _create(
    names: Sequence[TopicName],
    config: ServerConfig,
    context: RequestContext,
    forwarder: Forwarder,
    loader: MetadataLoader,
) -> None:
    """Have the controller create topics, and learn of them; what fails stays unknown."""
    from kio.schema.create_topics.v7.request import CreateTopicsRequest

    from tidegauge.impl.server.error_responses.topics import create_topics_error

    request = CreateTopicsRequest(
        topics=tuple(creatable(name, config) for name in names),
        timeout=millis(config.controller_quorum_request_timeout_ms),
    )
    response = await forwarder.forward(request, context, create_topics_error)
    if any(topic.error_code is ErrorCode.none for topic in response.topics):
        await context.while_connected(loader.learn, watched=False)
