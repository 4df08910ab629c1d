"""Topics at the controller: what brokers forward of CreateTopics, DeleteTopics and CreatePartitions.

Brokers have checked who asks, and that no topic is named twice.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
from kio.schema.create_topics.v7.response import CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.decision import Decision
from tidegauge.impl.controller.topics import CreatedTopic
from tidegauge.impl.metadata.config_resources import too_many_settings
from tidegauge.impl.server import trace
from tidegauge.impl.server.controller.topic_settings import settings_of
from tidegauge.impl.server.error_responses.explanation import explain_error
from tidegauge.impl.server.error_responses.refused import refused
from tidegauge.impl.server.error_responses.topics import create_topics_error
from tidegauge.impl.wire.primitives import NO_WAIT, TopicName, i8, i16, i32, topic_uuid

if TYPE_CHECKING:
    from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
    from kio.schema.create_partitions.v3.response import CreatePartitionsResponse, CreatePartitionsTopicResult
    from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
    from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
    from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse

    from tidegauge.impl.controller.controller import Controller
    from tidegauge.impl.controller.decision import Proposal
    from tidegauge.impl.controller.reassignments import Refusal
    from tidegauge.impl.server.controller.decisions import Decisions, Turn
    from tidegauge.impl.server.controller.draws import Draws
    from tidegauge.impl.server.settings.server_config import ServerConfig
    from tidegauge.impl.server.transport.context import RequestContext

MAX_PARTITIONS_AT_ONCE: Final = 10_000
"""Of all topics of a request together, as in Kafka: more would delay every other decision."""
DEFAULT: Final = -1
"""Stands for `num.partitions` and `default.replication.factor`."""


async def handle_create_topics(
    request: CreateTopicsRequest, context: RequestContext, *, decisions: Decisions, config: ServerConfig, draws: Draws
) -> CreateTopicsResponse:
    """Topics are created one by one, each wholly or not at all; with `validate_only` they are only checked."""
    partitions = sum(_partition_count(topic, config) for topic in request.topics)
    if partitions > MAX_PARTITIONS_AT_ONCE:
        return await refused(
            context.pace,
            request,
            create_topics_error,
            ErrorCode.policy_violation,
            f"{partitions} partitions in one request: ask for at most {MAX_PARTITIONS_AT_ONCE} at once",
        )
    told = ToldSettings(config)
    create = partial(_create, config=config, draws=draws, told=told, validate_only=request.validate_only)
    topics = await decisions.each(request.topics, create, context.pace)
    return CreateTopicsResponse(throttle_time=NO_WAIT, topics=tuple(topics))


def _partition_count(topic: CreatableTopic, config: ServerConfig) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return config.num_partitions if topic.num_partitions == DEFAULT else max(0, int(topic.num_partitions))


def _create(
    turn: Turn, topic: CreatableTopic, *, config: ServerConfig, draws: Draws, told: ToldSettings, validate_only: bool
) -> Generator[Proposal[CreatedTopic], CreatedTopic, CreatableTopicResult]:
    if problem := too_many_settings(len(topic.configs)):
        refusal = Decision(turn.controller.image).propose(CreatedTopic(ErrorCode.invalid_request, problem))
        return _created(topic, (yield refusal))
    configs = {setting.name: setting.value for setting in topic.configs if setting.value is not None}
    unset = [setting.name for setting in topic.configs if setting.value is None]
    topic_id = draws.topic_id(topic.name, turn.controller.image.offset)
    new = NewTopic(topic, topic_id, configs, validate_only or bool(unset))
    created = yield _proposal(turn.controller, config, draws, new)
    if unset and created.error is ErrorCode.none:
        created = CreatedTopic(ErrorCode.invalid_config, f"{unset[0]} has no value: leave it out to unset it")
    if created.error is ErrorCode.none and not validate_only and turn.is_traced:
        turn.tracer.record(trace.events.CreateTopic, topic=topic.name, changed=turn.changed(), topic_id=topic_id)
    if created.error is not ErrorCode.none:
        return _created(topic, created)
    return _created(topic, created, topic_id, told.of(turn, configs))


def _created(
    topic: CreatableTopic, created: CreatedTopic, topic_id: str = "", configs: Sequence[CreatableTopicConfigs] = ()
) -> CreatableTopicResult:
    ok = created.error is ErrorCode.none
    return CreatableTopicResult(
        name=TopicName(topic.name),
        topic_id=topic_uuid(topic_id) if ok else None,
        error_code=created.error,
        error_message=explain_error(created.error, created.message),
        num_partitions=i32(len(created.replicas) if ok else -1),
        replication_factor=i16(len(created.replicas[0]) if ok else -1),
        configs=tuple(configs),
    )


class ToldSettings:
    """What a response says of the settings of new topics, made once in each turn for those that set the same."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._turn: Turn | None = None
        self._made: dict[tuple[tuple[str, str], ...], tuple[CreatableTopicConfigs, ...]] = {}

    def of(self, turn: Turn, configs: Mapping[str, str]) -> Sequence[CreatableTopicConfigs]:
        """The settings of a topic that sets these itself, as they are in this turn."""
        if turn is not self._turn:
            self._turn = turn
            self._made.clear()
        key = tuple(sorted(configs.items()))
        if key not in self._made:
            self._made[key] = tuple(
                CreatableTopicConfigs(
                    name=setting.name,
                    value=setting.value,
                    read_only=False,
                    config_source=i8(setting.source),
                    is_sensitive=setting.is_sensitive,
                )
                for setting in settings_of(turn.controller.image, self._config, configs)
            )
        return self._made[key]


@attrs.frozen
class NewTopic:
    """A topic that a request wants."""

    wanted: CreatableTopic
    topic_id: str
    configs: Mapping[str, str]
    validate_only: bool


def _proposal(controller: Controller, config: ServerConfig, draws: Draws, new: NewTopic) -> Proposal[CreatedTopic]:
    """On the brokers that the request names, else by placement with random numbers from the cluster's seed."""
    wanted = new.wanted
    if wanted.assignments:
        replicas = _assigned_replicas(wanted)
        if isinstance(replicas, CreatedTopic):
            return Decision(controller.image).propose(replicas)
        return controller.topics.create_on(
            wanted.name, new.topic_id, replicas, new.configs, validate_only=new.validate_only
        )
    partitions, factor = wanted.num_partitions, wanted.replication_factor
    active = max(1, len(controller.image.active_brokers()))
    return controller.topics.create(
        wanted.name,
        new.topic_id,
        config.num_partitions if partitions == DEFAULT else partitions,
        config.default_replication_factor if factor == DEFAULT else factor,
        configs=new.configs,
        start=draws.draw("start", wanted.name) % active,
        shift=draws.draw("shift", wanted.name) % active,
        validate_only=new.validate_only,
    )


def _assigned_replicas(wanted: CreatableTopic) -> list[tuple[int, ...]] | CreatedTopic:
    """The replicas of each partition as the request names them, or what is wrong with them."""
    for name, number in (("num_partitions", wanted.num_partitions), ("replication_factor", wanted.replication_factor)):
        if number != DEFAULT:
            return CreatedTopic(
                ErrorCode.invalid_request, f"{name} is {number} beside assignments, which say it already: make it -1"
            )
    by_index = {int(a.partition_index): tuple(map(int, a.broker_ids)) for a in wanted.assignments}
    numbers = sorted(int(a.partition_index) for a in wanted.assignments)
    if numbers != list(range(len(numbers))):
        return CreatedTopic(
            ErrorCode.invalid_replica_assignment, f"partitions {numbers}: number them from 0, each once, without gaps"
        )
    return [by_index[index] for index in numbers]


async def handle_delete_topics(
    request: DeleteTopicsRequest, context: RequestContext, *, decisions: Decisions
) -> DeleteTopicsResponse:
    """Topics are deleted one by one, those with replicas on brokers that are down as well."""
    from kio.schema.delete_topics.v6.response import DeleteTopicsResponse

    responses = await decisions.each(request.topics, _delete, context.pace)
    return DeleteTopicsResponse(throttle_time=NO_WAIT, responses=tuple(responses))


def _delete(turn: Turn, wanted: DeleteTopicState) -> Generator[Proposal[ErrorCode], ErrorCode, DeletableTopicResult]:
    from kio.schema.delete_topics.v6.response import DeletableTopicResult

    image = turn.controller.image
    name = wanted.name if wanted.topic_id is None else image.topic_names.get(str(wanted.topic_id))
    if name is None:
        return DeletableTopicResult(
            name=None,
            topic_id=wanted.topic_id,
            error_code=ErrorCode.unknown_topic_id,
            error_message=f"there is no topic with the id {wanted.topic_id}",
        )
    topic = image.topics.get(name)
    topic_id = None if topic is None else topic_uuid(topic.topic_id)
    error = yield turn.controller.topics.delete(name)
    if error is ErrorCode.none and turn.is_traced:
        offset = turn.controller.image.offset
        turn.tracer.record(trace.events.DeleteTopic, topic=name, changed=turn.changed(), metadata_offset=offset)
    return DeletableTopicResult(
        name=TopicName(name),
        topic_id=topic_id,
        error_code=error,
        error_message=None if error is ErrorCode.none else f"there is no topic {name!r}",
    )


async def handle_create_partitions(
    request: CreatePartitionsRequest, context: RequestContext, *, decisions: Decisions
) -> CreatePartitionsResponse:
    """Topics grow one by one, each wholly or not at all."""
    from kio.schema.create_partitions.v3.response import CreatePartitionsResponse

    grow = partial(_grow, validate_only=request.validate_only)
    results = await decisions.each(request.topics, grow, context.pace)
    return CreatePartitionsResponse(throttle_time=NO_WAIT, results=tuple(results))


def _grow(
    turn: Turn, wanted: CreatePartitionsTopic, *, validate_only: bool
) -> Generator[Proposal[Refusal], Refusal, CreatePartitionsTopicResult]:
    from kio.schema.create_partitions.v3.response import CreatePartitionsTopicResult

    given = None if wanted.assignments is None else [tuple(map(int, one.broker_ids)) for one in wanted.assignments]
    present = turn.controller.image.topics.get(wanted.name)
    if present is not None and wanted.count - len(present.partitions) > MAX_PARTITIONS_AT_ONCE:
        return CreatePartitionsTopicResult(
            name=wanted.name,
            error_code=ErrorCode.policy_violation,
            error_message=f"{wanted.count} partitions: a topic may grow by {MAX_PARTITIONS_AT_ONCE} at once",
        )
    refusal = yield turn.controller.topics.grow(wanted.name, wanted.count, given, validate_only=validate_only)
    if refusal.error is ErrorCode.none and not validate_only and turn.is_traced:
        turn.tracer.record(trace.events.CreatePartitions, topic=wanted.name, changed=turn.changed())
    return CreatePartitionsTopicResult(
        name=wanted.name, error_code=refusal.error, error_message=explain_error(refusal.error, refusal.message)
    )
