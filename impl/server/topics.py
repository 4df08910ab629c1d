"""CreateTopics, DeleteTopics and CreatePartitions at a broker: who may, and on to the controller.

Topics are allowed or refused one by one. What is left of a request is forwarded, and the answers are given in the order
in which the topics were named.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kio.schema.create_partitions.v3.response import CreatePartitionsResponse, CreatePartitionsTopicResult
from kio.schema.create_topics.v7.response import CreatableTopicResult, CreateTopicsResponse
from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse
from kio.schema.errors import ErrorCode

from impl.server.authorization import Operation, ResourceType
from impl.server.error_answers import error_answer
from impl.server.forwarding import forward
from impl.wire.channel import NoAnswerError, UnreachableError
from impl.wire.primitives import NO_WAIT, i16, i32

if TYPE_CHECKING:
    from kio.schema.create_partitions.v3.request import CreatePartitionsRequest
    from kio.schema.create_topics.v7.request import CreateTopicsRequest
    from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
    from kio.schema.types import TopicName

    from impl.server.broker import Broker
    from impl.server.context import RequestContext

DELETION_DISABLED_FROM: Final = 3
"""The version of DeleteTopics from which TOPIC_DELETION_DISABLED is known."""

Refusal = tuple[ErrorCode, str]


async def handle_create_topics(
    broker: Broker, request: CreateTopicsRequest, context: RequestContext
) -> CreateTopicsResponse:
    """Topics are created one by one, each wholly or not at all; a settings' reader is told their settings."""
    create_all = context.allowed(Operation.CREATE, ResourceType.CLUSTER)
    counts = Counter(topic.name for topic in request.topics)

    def refusal(topic: Any) -> Refusal | None:
        if counts[topic.name] > 1:
            return ErrorCode.invalid_request, f"topic {topic.name!r} is named {counts[topic.name]} times: name it once"
        if not create_all and not context.allowed(Operation.CREATE, ResourceType.TOPIC, topic.name):
            return ErrorCode.topic_authorization_failed, ""
        return None

    asked = list({topic.name: topic for topic in request.topics}.values())
    refusals, allowed = _sorted_out(asked, refusal)
    results = {topic.name: _not_created(topic.name, *why) for topic, why in refusals}
    if allowed:
        answer = await forward(broker, dataclasses.replace(request, topics=tuple(allowed)))
        results |= {result.name: _as_visible(result, context) for result in answer.topics}
    return CreateTopicsResponse(throttle_time=NO_WAIT, topics=tuple(results[topic.name] for topic in asked))


def _sorted_out(
    items: Sequence[Any], refusal: Callable[[Any], Refusal | None]
) -> tuple[list[tuple[Any, Refusal]], list[Any]]:
    """What is refused, with the reason, and what is left."""
    reasons = [(item, refusal(item)) for item in items]
    return [(item, why) for item, why in reasons if why is not None], [item for item, why in reasons if why is None]


def _not_created(name: TopicName, error: ErrorCode, message: str) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name,
        topic_id=None,
        error_code=error,
        error_message=message or None,
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
    broker: Broker, request: DeleteTopicsRequest, context: RequestContext
) -> DeleteTopicsResponse:
    """Topics are deleted by name or by id; their replicas go as soon as their brokers learn of it."""
    if not broker.config.delete_topic_enable:
        known = context.api_version >= DELETION_DISABLED_FROM
        error = ErrorCode.topic_deletion_disabled if known else ErrorCode.invalid_request
        disabled: DeleteTopicsResponse = error_answer(request, error, "delete.topic.enable is false")
        return disabled
    if any((topic.name is None) == (topic.topic_id is None) for topic in request.topics):
        malformed: DeleteTopicsResponse = error_answer(
            request, ErrorCode.invalid_request, "name each topic either by its name or by its id"
        )
        return malformed
    await _learn_ids(broker, request)
    counts = Counter(map(_identity, request.topics))
    asked = list({_identity(topic): topic for topic in request.topics}.values())

    def refusal(topic: DeleteTopicState) -> Refusal | None:
        if counts[_identity(topic)] > 1:
            return ErrorCode.invalid_request, f"{_identity(topic)} is named more than once"
        name = topic.name or broker.metadata.topic_name(str(topic.topic_id))
        if name is None:
            return ErrorCode.unknown_topic_id, f"there is no topic with the id {topic.topic_id}"
        if not context.allowed(Operation.DELETE, ResourceType.TOPIC, name):
            return ErrorCode.topic_authorization_failed, ""
        return None

    refusals, allowed = _sorted_out(asked, refusal)
    results = {
        _identity(topic): DeletableTopicResult(
            name=topic.name, topic_id=topic.topic_id, error_code=error, error_message=message or None
        )
        for topic, (error, message) in refusals
    }
    if allowed:
        answer = await forward(broker, dataclasses.replace(request, topics=tuple(allowed)))
        results |= {_identity(topic): result for topic, result in zip(allowed, answer.responses, strict=True)}
    responses = tuple(_hidden(results[_identity(topic)], topic, context) for topic in asked)
    return DeleteTopicsResponse(throttle_time=NO_WAIT, responses=responses)


def _identity(topic: DeleteTopicState) -> str | UUID:
    """The name or the id, whichever the topic was given by."""
    identity = topic.name if topic.topic_id is None else topic.topic_id
    assert identity is not None, "a topic without both is refused before"
    return identity


async def _learn_ids(broker: Broker, request: DeleteTopicsRequest) -> None:
    """Read the newest metadata if there is an id that this broker does not know: the topic may be that new."""
    if all(topic.topic_id is None or broker.metadata.topic_name(str(topic.topic_id)) for topic in request.topics):
        return
    try:
        await broker.actions.apply_metadata()
    except (UnreachableError, NoAnswerError):
        return


def _hidden(result: DeletableTopicResult, asked: DeleteTopicState, context: RequestContext) -> DeletableTopicResult:
    """Who may not describe a topic does not learn the name behind its id."""
    if asked.name is not None or result.name is None:
        return result
    may_know = context.allowed(Operation.DESCRIBE, ResourceType.TOPIC, result.name)
    return result if may_know else dataclasses.replace(result, name=None)


async def handle_create_partitions(
    broker: Broker, request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse:
    """Topics grow to the number of partitions that is asked for."""
    counts = Counter(topic.name for topic in request.topics)

    def refusal(topic: Any) -> Refusal | None:
        if counts[topic.name] > 1:
            return ErrorCode.invalid_request, f"topic {topic.name!r} is named {counts[topic.name]} times: name it once"
        if not context.allowed(Operation.ALTER, ResourceType.TOPIC, topic.name):
            return ErrorCode.topic_authorization_failed, ""
        return None

    asked = list({topic.name: topic for topic in request.topics}.values())
    refusals, allowed = _sorted_out(asked, refusal)
    results = {
        topic.name: CreatePartitionsTopicResult(name=topic.name, error_code=error, error_message=message or None)
        for topic, (error, message) in refusals
    }
    if allowed:
        answer = await forward(broker, dataclasses.replace(request, topics=tuple(allowed)))
        results |= {result.name: result for result in answer.results}
    return CreatePartitionsResponse(throttle_time=NO_WAIT, results=tuple(results[topic.name] for topic in asked))
