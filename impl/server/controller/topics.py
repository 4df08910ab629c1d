"""Topics at the controller: what brokers forward of CreateTopics, DeleteTopics and CreatePartitions.

Brokers have checked who asks, and that no topic is named twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kio.schema.create_partitions.v3.response import CreatePartitionsResponse, CreatePartitionsTopicResult
from kio.schema.create_topics.v7.response import CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse
from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.topics import CreatedTopic
from tidegauge.impl.server import trace
from tidegauge.impl.server.apis.topic_settings import settings_of
from tidegauge.impl.server.error_responses.topics import create_topics_error
from tidegauge.impl.wire.primitives import NO_WAIT, TopicName, i8, i16, i32, topic_uuid

if TYPE_CHECKING:
    from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
    from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
    from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState

    from tidegauge.impl.server.controller.node import ControllerNode
    from tidegauge.impl.server.transport.context import RequestContext

MAX_PARTITIONS_AT_ONCE: Final = 10_000
"""Of all topics of a request together, as at Kafka: more would keep the controller from everything else."""
DEFAULT: Final = -1
"""Stands for `num.partitions` and `default.replication.factor`."""


async def handle_create_topics(
    request: CreateTopicsRequest, _: RequestContext, *, node: ControllerNode
) -> CreateTopicsResponse:
    """Topics are created one by one, each wholly or not at all; with `validate_only` they are only looked at."""
    partitions = sum(_partitions_asked(node, topic) for topic in request.topics)
    if partitions > MAX_PARTITIONS_AT_ONCE:
        return create_topics_error(
            request,
            ErrorCode.policy_violation,
            f"{partitions} partitions in one request: ask for at most {MAX_PARTITIONS_AT_ONCE} at once",
        )
    topics = tuple(_create(node, topic, request.validate_only) for topic in request.topics)
    return CreateTopicsResponse(throttle_time=NO_WAIT, topics=topics)


def _partitions_asked(node: ControllerNode, asked: CreatableTopic) -> int:
    if asked.assignments:
        return len(asked.assignments)
    return node.config.num_partitions if asked.num_partitions == DEFAULT else max(0, int(asked.num_partitions))


def _create(node: ControllerNode, asked: CreatableTopic, validate_only: bool) -> CreatableTopicResult:
    topic_id = _new_topic_id(node, asked.name)
    configs = {config.name: config.value for config in asked.configs if config.value is not None}
    unset = [config.name for config in asked.configs if config.value is None]
    with node.decision() as changed:
        created = _place(node, asked, topic_id, configs, validate_only or bool(unset))
        if unset and created.error is ErrorCode.none:
            created = CreatedTopic(ErrorCode.invalid_config, f"{unset[0]} has no value: leave it out to unset it")
        if created.error is ErrorCode.none and not validate_only and node.tracer.trace is not None:
            node.tracer.record(trace.events.CreateTopic, topic=asked.name, changed=changed())
    ok = created.error is ErrorCode.none
    return CreatableTopicResult(
        name=TopicName(asked.name),
        topic_id=topic_uuid(topic_id) if ok else None,
        error_code=created.error,
        error_message=created.message or None,
        num_partitions=i32(len(created.replicas) if ok else -1),
        replication_factor=i16(len(created.replicas[0]) if ok else -1),
        configs=tuple(
            CreatableTopicConfigs(
                name=setting.name,
                value=setting.value,
                read_only=False,
                config_source=i8(setting.source),
                is_sensitive=setting.is_sensitive,
            )
            for setting in (settings_of(node.controller.image, node.config, configs) if ok else ())
        ),
    )


def _place(
    node: ControllerNode, asked: CreatableTopic, topic_id: str, configs: dict[str, str], validate_only: bool
) -> CreatedTopic:
    """By hand where the request says so, else by the core's placement with random numbers from the cluster's seed."""
    if asked.assignments:
        return _place_by_hand(node, asked, topic_id, configs, validate_only)
    partitions, factor = asked.num_partitions, asked.replication_factor
    live = max(1, len(node.controller.image.active_brokers()))
    return node.controller.create_topic(
        asked.name,
        topic_id,
        node.config.num_partitions if partitions == DEFAULT else partitions,
        node.config.default_replication_factor if factor == DEFAULT else factor,
        configs=configs,
        start=node.draw("start", asked.name) % live,
        shift=node.draw("shift", asked.name) % live,
        validate_only=validate_only,
    )


def _place_by_hand(
    node: ControllerNode, asked: CreatableTopic, topic_id: str, configs: dict[str, str], validate_only: bool
) -> CreatedTopic:
    for name, number in (("num_partitions", asked.num_partitions), ("replication_factor", asked.replication_factor)):
        if number != DEFAULT:
            return CreatedTopic(
                ErrorCode.invalid_request, f"{name} is {number} beside assignments, which say it already: make it -1"
            )
    by_index = {int(a.partition_index): tuple(map(int, a.broker_ids)) for a in asked.assignments}
    numbers = sorted(int(a.partition_index) for a in asked.assignments)
    if numbers != list(range(len(numbers))):
        return CreatedTopic(
            ErrorCode.invalid_replica_assignment, f"partitions {numbers}: number them from 0, each once, without gaps"
        )
    replicas = [by_index[index] for index in numbers]
    return node.controller.create_topic_on(asked.name, topic_id, replicas, configs, validate_only=validate_only)


def _new_topic_id(node: ControllerNode, name: str) -> str:
    """A topic id in the form of a random UUID (version 4)."""
    number = node.draw("topic id", name, str(node.log.end_offset))
    text = f"{number & ~(0xF << 76) & ~(0x3 << 62) | 0x4 << 76 | 0x2 << 62:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


async def handle_delete_topics(
    request: DeleteTopicsRequest, _: RequestContext, *, node: ControllerNode
) -> DeleteTopicsResponse:
    """Topics are deleted one by one, those with replicas on brokers that are down as well."""
    return DeleteTopicsResponse(
        throttle_time=NO_WAIT, responses=tuple(_delete(node, topic) for topic in request.topics)
    )


def _delete(node: ControllerNode, asked: DeleteTopicState) -> DeletableTopicResult:
    image = node.controller.image
    name = asked.name if asked.topic_id is None else image.topic_names.get(str(asked.topic_id))
    if name is None:
        return DeletableTopicResult(
            name=None,
            topic_id=asked.topic_id,
            error_code=ErrorCode.unknown_topic_id,
            error_message=f"there is no topic with the id {asked.topic_id}",
        )
    topic = image.topics.get(name)
    with node.decision() as changed:
        error = node.controller.delete_topic(name)
        if error is ErrorCode.none and node.tracer.trace is not None:
            node.tracer.record(trace.events.DeleteTopic, topic=name, changed=changed())
    return DeletableTopicResult(
        name=TopicName(name),
        topic_id=None if topic is None else topic_uuid(topic.topic_id),
        error_code=error,
        error_message=None if error is ErrorCode.none else f"there is no topic {name!r}",
    )


async def handle_create_partitions(
    request: CreatePartitionsRequest, _: RequestContext, *, node: ControllerNode
) -> CreatePartitionsResponse:
    """Topics grow one by one, each wholly or not at all."""
    results = tuple(_grow(node, topic, request.validate_only) for topic in request.topics)
    return CreatePartitionsResponse(throttle_time=NO_WAIT, results=results)


def _grow(node: ControllerNode, asked: CreatePartitionsTopic, validate_only: bool) -> CreatePartitionsTopicResult:
    given = None if asked.assignments is None else [tuple(map(int, one.broker_ids)) for one in asked.assignments]
    present = node.controller.image.topics.get(asked.name)
    if present is not None and asked.count - len(present.partitions) > MAX_PARTITIONS_AT_ONCE:
        return CreatePartitionsTopicResult(
            name=asked.name,
            error_code=ErrorCode.policy_violation,
            error_message=f"{asked.count} partitions: a topic may grow by {MAX_PARTITIONS_AT_ONCE} at once",
        )
    with node.decision() as changed:
        refusal = node.controller.create_partitions(asked.name, asked.count, given, validate_only=validate_only)
        if refusal.error is ErrorCode.none and not validate_only and node.tracer.trace is not None:
            node.tracer.record(trace.events.CreatePartitions, topic=asked.name, changed=changed())
    return CreatePartitionsTopicResult(name=asked.name, error_code=refusal.error, error_message=refusal.message or None)
