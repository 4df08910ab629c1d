"""CreateTopics, DeleteTopics and CreatePartitions at a broker: it checks who asks, and forwards to the controller.

Topics are allowed or refused one by one. The broker forwards those that are allowed. The response has the topics in the
order of the request.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kio.schema.create_topics.v7.response import CreatableTopicResult, CreateTopicsResponse
from kio.schema.errors import ErrorCode

from tidegauge.impl.metadata.topic_names import METADATA_TOPIC
from tidegauge.impl.server.error_responses.explanation import explain_error
from tidegauge.impl.server.error_responses.refused import refused
from tidegauge.impl.server.error_responses.topics import (
    create_partitions_error,
    create_topics_error,
    delete_topics_error,
)
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.primitives import NO_WAIT, TopicName, i16, i32

if TYPE_CHECKING:
    from kio.schema.create_partitions.v3.request import CreatePartitionsRequest
    from kio.schema.create_partitions.v3.response import CreatePartitionsResponse
    from kio.schema.create_topics.v7.request import CreateTopicsRequest
    from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
    from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse

    from tidegauge.impl.server.broker.dynamic_config import DynamicConfig
    from tidegauge.impl.server.broker.forwarding import Forwarder
    from tidegauge.impl.server.broker.metadata_cache import MetadataCache
    from tidegauge.impl.server.broker.metadata_loader import MetadataLoader
    from tidegauge.impl.server.transport.context import RequestContext

DELETION_DISABLED_FROM: Final = 3
"""The version of DeleteTopics from which TOPIC_DELETION_DISABLED is known."""

Refusal = tuple[ErrorCode, str]


async def handle_create_topics(
    request: CreateTopicsRequest, context: RequestContext, *, forwarder: Forwarder
) -> CreateTopicsResponse:
    """Topics are created one by one, each wholly or not at all."""
    create_all = context.allowed(Operation.CREATE, ResourceType.CLUSTER)
    counts = Counter(topic.name for topic in request.topics)

    def refusal(topic: Any) -> Refusal | None:
        if counts[topic.name] > 1:
            return ErrorCode.invalid_request, f"topic {topic.name!r} is named {counts[topic.name]} times: name it once"
        if topic.name == METADATA_TOPIC:
            return ErrorCode.invalid_request, f"topic {METADATA_TOPIC!r} is the controller's: take another name"
        if not create_all and not context.allowed(Operation.CREATE, ResourceType.TOPIC, topic.name):
            return ErrorCode.topic_authorization_failed, ""
        return None

    asked = list({topic.name: topic for topic in request.topics}.values())
    refusals, allowed = await _divide(asked, refusal, context)
    each = context.pace.each(refusals, units=2)
    results = {topic.name: _not_created(topic.name, *why) async for topic, why in each}
    if allowed:
        response = await forwarder.forward(
            dataclasses.replace(request, topics=tuple(allowed)), context, create_topics_error
        )
        each_created = context.pace.each(response.topics)
        results |= {result.name: _as_visible(result, context) async for result in each_created}
    return CreateTopicsResponse(throttle_time=NO_WAIT, topics=tuple(results[topic.name] for topic in asked))


async def _divide(
    items: Sequence[Any], refusal: Callable[[Any], Refusal | None], context: RequestContext
) -> tuple[list[tuple[Any, Refusal]], list[Any]]:
    """The items that are refused, with the reason, and those that are not."""
    refused: list[tuple[Any, Refusal]] = []
    allowed: list[Any] = []
    async for item in context.pace.each(items):
        if (why := refusal(item)) is None:
            allowed.append(item)
        else:
            refused.append((item, why))
    return refused, allowed


def _not_created(name: TopicName, error: ErrorCode, message: str) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name,
        topic_id=None,
        error_code=error,
        error_message=explain_error(error, message),
        num_partitions=i32(-1),
        replication_factor=i16(-1),
        configs=(),
    )


def _as_visible(result: CreatableTopicResult, context: RequestContext) -> CreatableTopicResult:
    """A topic's numbers and settings are for those that may describe its configurations (KIP-525)."""
    if result.error_code is not ErrorCode.none or context.allowed(
        Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, result.name
    ):
        return result
    return dataclasses.replace(
        result,
        topic_config_error_code=i16(ErrorCode.topic_authorization_failed.value),
        num_partitions=i32(-1),
        replication_factor=i16(-1),
        configs=(),
    )


async def handle_delete_topics(
    request: DeleteTopicsRequest,
    context: RequestContext,
    *,
    metadata: MetadataCache,
    config: DynamicConfig,
    forwarder: Forwarder,
    loader: MetadataLoader,
) -> DeleteTopicsResponse:
    """Topics are deleted by name or by id; their replicas go as soon as their brokers learn of it.

    Who may delete on the cluster may delete them all. A topic that is named in both ways is deleted in neither.
    """
    from kio.schema.delete_topics.v6.response import DeleteTopicsResponse

    if not config.current.delete_topic_enable:
        known = context.api_version >= DELETION_DISABLED_FROM
        error = ErrorCode.topic_deletion_disabled if known else ErrorCode.invalid_request
        return await refused(context.pace, request, delete_topics_error, error, "delete.topic.enable is false")
    await _learn_ids(metadata, loader, request, context)
    counts: Counter[tuple[str | None, UUID | None]] = Counter()
    once: dict[tuple[str | None, UUID | None], DeleteTopicState] = {}
    by_id: set[str | None] = set()
    async for topic in context.pace.each(request.topics, units=4):
        identity = _identity(topic)
        counts[identity] += 1
        once[identity] = topic
        if topic.name is None:
            by_id.add(_name_of(metadata, topic))
    delete_all = context.allowed(Operation.DELETE, ResourceType.CLUSTER)
    both_ways: set[str | None] = set()

    def refusal(topic: DeleteTopicState) -> Refusal | None:
        if (topic.name is None) == (topic.topic_id is None):
            return ErrorCode.invalid_request, "name each topic either by its name or by its id"
        if counts[_identity(topic)] > 1:
            return ErrorCode.invalid_request, f"{topic.name or topic.topic_id} is named more than once"
        name = _name_of(metadata, topic)
        if name is None:
            return ErrorCode.unknown_topic_id, f"there is no topic with the id {topic.topic_id}"
        if not delete_all and not context.allowed(Operation.DELETE, ResourceType.TOPIC, name):
            known = name in metadata.image.topics
            if not known and context.allowed(Operation.DESCRIBE, ResourceType.TOPIC, name):
                return ErrorCode.unknown_topic_or_partition, f"there is no topic {name!r}"
            return ErrorCode.topic_authorization_failed, ""
        if topic.name is not None and name in by_id:
            both_ways.add(name)
            return ErrorCode.invalid_request, f"topic {name!r} is named by its id as well: name it once"
        return None

    asked = list(once.values())
    once.clear()  # here and below: to free everything at the end would take long
    refusals, allowed = await _divide(asked, refusal, context)
    counts.clear()
    each = context.pace.each(refusals)
    results = {_identity(topic): _not_deleted(metadata, topic, *why) async for topic, why in each}
    each_allowed = context.pace.each(allowed, units=4)
    allowed = [topic async for topic in each_allowed if _name_of(metadata, topic) not in both_ways]
    if allowed:
        response = await forwarder.forward(
            dataclasses.replace(request, topics=tuple(allowed)), context, delete_topics_error
        )
        pairs = context.pace.each(zip(allowed, response.responses, strict=True), units=2)
        results |= {_identity(topic): result async for topic, result in pairs}
    responses = [
        _hidden(results.pop(_identity(topic)), topic, context)
        async for topic in context.pace.each(asked, units=4)
        if _identity(topic) in results
    ]
    return DeleteTopicsResponse(throttle_time=NO_WAIT, responses=tuple(responses))


def _identity(topic: DeleteTopicState) -> tuple[str | None, UUID | None]:
    """What the topic was given by: its name or its id."""
    return topic.name, topic.topic_id


def _name_of(metadata: MetadataCache, topic: DeleteTopicState) -> str | None:
    """The name that was given, or that of the id; None for an id of nothing."""
    return metadata.topic_name(str(topic.topic_id)) if topic.name is None else topic.name


def _not_deleted(
    metadata: MetadataCache, topic: DeleteTopicState, error: ErrorCode, message: str
) -> DeletableTopicResult:
    from kio.schema.delete_topics.v6.response import DeletableTopicResult

    name = _name_of(metadata, topic)
    return DeletableTopicResult(
        name=None if name is None else TopicName(name),
        topic_id=topic.topic_id,
        error_code=error,
        error_message=explain_error(error, message),
    )


async def _learn_ids(
    metadata: MetadataCache, loader: MetadataLoader, request: DeleteTopicsRequest, context: RequestContext
) -> None:
    """Read the newest metadata if there is an id that this broker does not know: the topic may be that new."""
    async for topic in context.pace.each(request.topics, units=2):
        if topic.topic_id is not None and not metadata.topic_name(str(topic.topic_id)):
            await context.while_connected(loader.learn, watched=False)
            return


def _hidden(result: DeletableTopicResult, asked: DeleteTopicState, context: RequestContext) -> DeletableTopicResult:
    """Who may not describe a topic does not learn the name behind its id."""
    if asked.name is not None or result.name is None:
        return result
    may_know = context.allowed(Operation.DESCRIBE, ResourceType.TOPIC, result.name)
    return result if may_know else dataclasses.replace(result, name=None)


async def handle_create_partitions(
    request: CreatePartitionsRequest, context: RequestContext, *, forwarder: Forwarder
) -> CreatePartitionsResponse:
    """Topics grow to the number of partitions that is asked for."""
    from kio.schema.create_partitions.v3.response import CreatePartitionsResponse, CreatePartitionsTopicResult

    counts = Counter(topic.name for topic in request.topics)

    def refusal(topic: Any) -> Refusal | None:
        if counts[topic.name] > 1:
            return ErrorCode.invalid_request, f"topic {topic.name!r} is named {counts[topic.name]} times: name it once"
        if not context.allowed(Operation.ALTER, ResourceType.TOPIC, topic.name):
            return ErrorCode.topic_authorization_failed, ""
        return None

    asked = list({topic.name: topic for topic in request.topics}.values())
    refusals, allowed = await _divide(asked, refusal, context)
    results = {
        topic.name: CreatePartitionsTopicResult(
            name=topic.name,
            error_code=error,
            error_message=explain_error(error, message),
        )
        for topic, (error, message) in refusals
    }
    if allowed:
        response = await forwarder.forward(
            dataclasses.replace(request, topics=tuple(allowed)), context, create_partitions_error
        )
        results |= {result.name: result for result in response.results}
    return CreatePartitionsResponse(throttle_time=NO_WAIT, results=tuple(results[topic.name] for topic in asked))
