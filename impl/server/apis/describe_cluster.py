"""DescribeCluster, DescribeTopicPartitions and ListConfigResources: what there is, from the broker's image."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kio.schema.describe_cluster.v2.response import DescribeClusterBroker, DescribeClusterResponse
from kio.schema.describe_topic_partitions.v0 import response as partitions_response
from kio.schema.describe_topic_partitions.v0.response import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kio.schema.errors import ErrorCode
from kio.schema.list_config_resources.v1.response import ConfigResource, ListConfigResourcesResponse

from tidegauge.impl.metadata.config_resources import ConfigResourceType
from tidegauge.impl.metadata.image import ClusterImage, TopicImage
from tidegauge.impl.metadata.topic_names import INTERNAL_TOPICS, is_topic_name
from tidegauge.impl.partition.registration import NO_LEADER, PartitionRegistration
from tidegauge.impl.server.error_responses.cluster import describe_cluster_error, describe_topic_partitions_error
from tidegauge.impl.server.error_responses.configs import list_config_resources_error
from tidegauge.impl.server.error_responses.refused import refused
from tidegauge.impl.server.requests.cluster_view import (
    a_live_broker,
    broker_ids,
    cluster_operations,
    offline_replicas,
    without_listener,
)
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.primitives import NO_WAIT, BrokerId, TopicName, i8, i32, topic_uuid
from tidegauge.impl.wire.unions import UNASKED

if TYPE_CHECKING:
    from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
    from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest
    from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest

    from tidegauge.impl.server.broker.dynamic_config import DynamicConfig
    from tidegauge.impl.server.broker.metadata_cache import MetadataCache
    from tidegauge.impl.server.broker.registration import Registration
    from tidegauge.impl.server.transport.context import RequestContext

BROKERS: Final = 1
CONTROLLERS: Final = 2
CLIENT_METRICS_ONLY: Final = 0
"""The version of ListConfigResources that lists nothing but client metrics' configurations."""


async def handle_describe_cluster(
    request: DescribeClusterRequest, context: RequestContext, *, metadata: MetadataCache, registration: Registration
) -> DescribeClusterResponse:
    """The brokers (KIP-700); a broker does not list controllers (KIP-919)."""
    if request.endpoint_type != BROKERS:
        controllers = request.endpoint_type == CONTROLLERS
        error = ErrorCode.mismatched_endpoint_type if controllers else ErrorCode.unsupported_endpoint_type
        return await refused(
            context.pace, request, describe_cluster_error, error, "a broker describes brokers: ask for type 1"
        )
    image = metadata.image
    described = [
        DescribeClusterBroker(
            broker_id=BrokerId(known),
            host=address.host,
            port=i32(address.port),
            rack=rack,
            is_fenced=not image.is_unfenced(known),
        )
        for known, address, rack in metadata.endpoints(context.listener, fenced=request.include_fenced_brokers)
    ]
    asked = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        throttle_time=NO_WAIT,
        error_code=ErrorCode.none,
        cluster_id=registration.cluster_id,
        controller_id=a_live_broker(image),
        brokers=tuple(described),
        cluster_authorized_operations=i32(cluster_operations(context) if asked else UNASKED),
    )


async def handle_describe_topic_partitions(
    request: DescribeTopicPartitionsRequest,
    context: RequestContext,
    *,
    metadata: MetadataCache,
    config: DynamicConfig,
) -> DescribeTopicPartitionsResponse:
    """Partitions with their eligible leaders, topic by topic in order of names, a page at a time (KIP-966)."""
    cursor = request.cursor
    if problem := _cursor_problem(request):
        error = ErrorCode.invalid_request
        return await refused(context.pace, request, describe_topic_partitions_error, error, problem)
    image = metadata.image
    named = {topic.name async for topic in context.pace.each(request.topics, units=1)}
    room = max(1, min(request.response_partition_limit, config.current.max_request_partition_size_limit))
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    next_cursor: partitions_response.Cursor | None = None
    unreachable = without_listener(image, context.listener)
    async for name in context.pace.each(sorted(named or image.topics)):
        if cursor is not None and name < cursor.topic_name:
            continue
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        if not context.allowed(Operation.DESCRIBE, ResourceType.TOPIC, name):
            if named:
                topics.append(_failed(name, ErrorCode.topic_authorization_failed))
            continue
        if room == 0:
            next_cursor = _cursor(name, first)
            break
        topic = image.topics.get(name)
        if topic is None:
            topics.append(_absent(name, context))
            continue
        page = await _page(image, topic, range(first, first + room), unreachable, context)
        topics.append(_described(topic, page, context))
        room -= len(page)
        if (after := first + len(page)) < len(topic.partitions):
            next_cursor = _cursor(name, after)
            break
    return DescribeTopicPartitionsResponse(throttle_time=NO_WAIT, topics=tuple(topics), next_cursor=next_cursor)


def _cursor_problem(request: DescribeTopicPartitionsRequest) -> str:
    """What is wrong with the place where a page is to begin; "" when nothing is."""
    cursor = request.cursor
    if cursor is None:
        return ""
    if cursor.partition_index < 0:
        return f"the cursor is at partition {cursor.partition_index}: the first one is 0"
    if request.topics and all(topic.name != cursor.topic_name for topic in request.topics):
        return f"the cursor is at topic {cursor.topic_name!r}, which is not among the topics named"
    return ""


def _cursor(name: str, partition: int) -> partitions_response.Cursor:
    return partitions_response.Cursor(topic_name=TopicName(name), partition_index=i32(partition))


def _failed(name: str, error: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=error,
        name=TopicName(name),
        topic_id=None,
        is_internal=False,
        partitions=(),
    )


def _absent(name: str, context: RequestContext) -> DescribeTopicPartitionsResponseTopic:
    """A topic that is not there, to somebody who may know it."""
    error = ErrorCode.unknown_topic_or_partition if is_topic_name(name) else ErrorCode.invalid_topic_exception
    return dataclasses.replace(
        _failed(name, error),
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=i32(context.operations(ResourceType.TOPIC, name)),
    )


def _described(
    topic: TopicImage, partitions: tuple[DescribeTopicPartitionsResponsePartition, ...], context: RequestContext
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.none,
        name=TopicName(topic.name),
        topic_id=topic_uuid(topic.topic_id),
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=i32(context.operations(ResourceType.TOPIC, topic.name)),
    )


async def _page(
    image: ClusterImage, topic: TopicImage, indexes: range, unreachable: frozenset[int], context: RequestContext
) -> tuple[DescribeTopicPartitionsResponsePartition, ...]:
    chosen = context.pace.each(sorted(topic.partitions.items())[indexes.start : indexes.stop])
    return tuple([_partition(image, index, registration, unreachable) async for index, registration in chosen])


def _partition(
    image: ClusterImage, index: int, registration: PartitionRegistration, unreachable: frozenset[int]
) -> DescribeTopicPartitionsResponsePartition:
    """One partition; that nobody leads it is no error: the leader is -1."""
    leader, last_known = registration.leader, registration.last_known_leader
    leads_again = not registration.isr and last_known != NO_LEADER
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.none,
        partition_index=i32(index),
        leader_id=BrokerId(NO_LEADER if leader in unreachable else leader),
        leader_epoch=i32(registration.leader_epoch),
        replica_nodes=broker_ids(registration.replicas),
        isr_nodes=broker_ids(sorted(registration.isr)),
        eligible_leader_replicas=broker_ids(sorted(registration.elr)),
        last_known_elr=broker_ids([last_known]) if leads_again else (),
        offline_replicas=offline_replicas(image, registration, unreachable),
    )


async def handle_list_config_resources(
    request: ListConfigResourcesRequest, context: RequestContext, *, metadata: MetadataCache
) -> ListConfigResourcesResponse:
    """The resources that can have configurations, of the types asked for, or of all (KIP-1142)."""
    if not context.allowed(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER):
        return await refused(context.pace, request, list_config_resources_error, ErrorCode.cluster_authorization_failed)
    asked = (
        [ConfigResourceType.CLIENT_METRICS] if context.api_version == CLIENT_METRICS_ONLY else request.resource_types
    )
    kinds = list(dict.fromkeys(asked)) or list(ConfigResourceType)
    if not set(kinds) <= set(ConfigResourceType):
        return await refused(context.pace, request, list_config_resources_error, ErrorCode.unsupported_version)
    resources = [
        ConfigResource(resource_name=name, resource_type=i8(kind))
        for kind in kinds
        async for name in context.pace.each(_resources(metadata.image, kind), units=2)
    ]
    return ListConfigResourcesResponse(
        throttle_time=NO_WAIT,
        error_code=ErrorCode.none,
        config_resources=tuple(resources),
    )


def _resources(image: ClusterImage, kind: int) -> Iterator[str]:
    if kind == ConfigResourceType.TOPIC:
        yield from sorted(image.topics)
    elif kind in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER):
        yield from (str(broker_id) for broker_id in sorted(image.brokers))
    elif kind == ConfigResourceType.GROUP:
        yield from sorted(image.group_configs)
