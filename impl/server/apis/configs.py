"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs at a broker, and what dynamic settings do to it.

A setting's value comes from the nearest of several places: the topic itself; then, under the broker's name for it, this
broker's dynamic setting, that of all brokers, and the file that the broker was started with; then Kafka's default. An
answer names the place (its source) and, if asked, every place with what it says (synonyms). Changes are the
controller's: this broker checks who asks, and forwards what is left.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import attrs
from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kio.schema.errors import ErrorCode

from tidegauge.impl.metadata.config_resources import ALL_BROKERS, ConfigResourceType
from tidegauge.impl.metadata.config_types import ConfigType, Setting, as_text
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.topic_configs import BROKER_SYNONYMS, TOPIC_CONFIGS
from tidegauge.impl.metadata.topic_names import is_topic_name
from tidegauge.impl.server.broker.forwarding import forward
from tidegauge.impl.server.config import BROKER_CONFIGS, DYNAMIC_CONFIGS, ServerConfig
from tidegauge.impl.server.error_responses.table import error_response
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.primitives import NO_WAIT, i8

if TYPE_CHECKING:
    from kio.schema.alter_configs.v2.request import AlterConfigsRequest
    from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
    from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest

    from tidegauge.impl.server.broker_server import Broker
    from tidegauge.impl.server.transport.context import RequestContext


class ConfigSource(IntEnum):
    """Where a value comes from, with Kafka's codes (KIP-226); the nearest first."""

    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    STATIC = 4
    DEFAULT = 5


@attrs.frozen
class _Place:
    """One place that says a setting's value."""

    name: str
    value: str | None
    source: ConfigSource


class Sources:
    """What all places say of the settings of one broker and its topics."""

    def __init__(
        self, image: ClusterImage, config: ServerConfig, broker_id: int, listening: Mapping[str, str] | None = None
    ) -> None:
        """`listening` says where the broker listens, in the settings that say so, as far as its file does not."""
        self._image = image
        self._layers: tuple[tuple[ConfigSource, Mapping[str, str]], ...] = (
            (ConfigSource.BROKER, image.broker_configs.get(str(broker_id), {})),
            (ConfigSource.ALL_BROKERS, image.broker_configs.get(ALL_BROKERS, {})),
            (ConfigSource.STATIC, {**(listening or {}), **config.properties}),
        )

    def of_broker(self, setting: Setting) -> Iterator[_Place]:
        """A broker's setting, from the nearest place on; the last one is Kafka's default."""
        for source, values in self._layers:
            if setting.name in values:
                yield _Place(setting.name, values[setting.name], source)
        yield _Place(setting.name, setting.default_text, ConfigSource.DEFAULT)

    def of_topic(self, topic: str, setting: Setting) -> Iterator[_Place]:
        """A topic's setting: its own, then what brokers say in its stead."""
        return self.of_configs(self._image.topics[topic].configs, setting)

    def of_configs(self, configs: Mapping[str, str], setting: Setting) -> Iterator[_Place]:
        """The setting of a topic that sets `configs` itself."""
        if setting.name in configs:
            yield _Place(setting.name, as_text(setting.parse(configs[setting.name])), ConfigSource.TOPIC)
        for source, values in self._layers:
            for synonym, _ in setting.synonyms:
                if synonym in values:
                    yield _Place(synonym, values[synonym], source)
            if source is ConfigSource.STATIC and setting.name in values and setting.name not in BROKER_SYNONYMS:
                yield _Place(setting.name, values[setting.name], source)
        name = setting.synonyms[0][0] if setting.synonyms else setting.name
        yield _Place(name, setting.default_text, ConfigSource.DEFAULT)


async def handle_describe_configs(
    request: DescribeConfigsRequest, context: RequestContext, *, broker: Broker
) -> DescribeConfigsResponse:
    """The settings of topics, of this broker, and of all brokers, resource by resource."""
    return DescribeConfigsResponse(
        throttle_time=NO_WAIT,
        results=tuple(_described(broker, resource, request, context) for resource in request.resources),
    )


def _described(
    broker: Broker, resource: DescribeConfigsResource, request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResult:
    kind, name = resource.resource_type, resource.resource_name
    error, message = _describe_error(broker, kind, name, context)
    entries: list[DescribeConfigsResourceResult] = []
    if error is ErrorCode.none:
        wanted = set(resource.configuration_keys or ())
        sources = Sources(broker.metadata.image, broker.config.current, broker.id, _listening(broker))
        for setting, places in _listed(sources, kind, name, broker.metadata.image):
            if not wanted or setting.name in wanted:
                entries.append(_entry(setting, list(places), kind, request))
    return DescribeConfigsResult(
        error_code=error,
        error_message=message or None,
        resource_type=i8(kind),
        resource_name=name,
        configs=tuple(entries),
    )


def _listening(broker: Broker) -> dict[str, str]:
    """Where the broker listens and what clients are told, in the form of the settings that would say so."""
    told = broker.listeners.advertised
    bound = {name: address for name, address in broker.listeners.bound.items() if name in told}
    settings = {"listeners": bound, "advertised.listeners": told}
    return {
        setting: ",".join(f"{name}://{address}" for name, address in addresses.items())
        for setting, addresses in settings.items()
    }


def _describe_error(broker: Broker, kind: int, name: str, context: RequestContext) -> tuple[ErrorCode, str]:
    if kind == ConfigResourceType.TOPIC:
        if not context.allowed(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name):
            return ErrorCode.topic_authorization_failed, ""
        if not is_topic_name(name):
            return ErrorCode.invalid_topic_exception, f"{name!r} is no topic name"
        known = name in broker.metadata.image.topics
        return (ErrorCode.none, "") if known else (ErrorCode.unknown_topic_or_partition, f"there is no topic {name!r}")
    if not context.allowed(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER):
        return ErrorCode.cluster_authorization_failed, ""
    if kind == ConfigResourceType.BROKER:
        if name in (ALL_BROKERS, str(broker.id)):
            return ErrorCode.none, ""
        return ErrorCode.invalid_request, f"this is broker {broker.id}: ask broker {name!r} itself, or for ''"
    return ErrorCode.invalid_request, f"resources of type {kind} have no configurations here"


def _listed(sources: Sources, kind: int, name: str, image: ClusterImage) -> Iterator[tuple[Setting, Iterator[_Place]]]:
    if kind == ConfigResourceType.TOPIC:
        for setting in TOPIC_CONFIGS.values():
            yield setting, sources.of_topic(name, setting)
    elif name == ALL_BROKERS:
        for key in sorted(image.broker_configs.get(ALL_BROKERS, {})):
            setting = DYNAMIC_CONFIGS[key]
            yield setting, (place for place in sources.of_broker(setting) if place.source >= ConfigSource.ALL_BROKERS)
    else:
        for setting in BROKER_CONFIGS.values():
            yield setting, sources.of_broker(setting)


def _entry(
    setting: Setting, places: Sequence[_Place], kind: int, request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    secret = setting.kind is ConfigType.PASSWORD
    nearest = places[0]
    return DescribeConfigsResourceResult(
        name=setting.name,
        value=None if secret else in_own_unit(setting, nearest),
        read_only=kind == ConfigResourceType.BROKER and setting.name not in DYNAMIC_CONFIGS,
        config_source=i8(nearest.source),
        is_sensitive=secret,
        synonyms=tuple(
            DescribeConfigsSynonym(name=place.name, value=None if secret else place.value, source=i8(place.source))
            for place in places
        )
        if request.include_synonyms
        else (),
        config_type=i8(setting.kind),
        documentation=setting.documentation if request.include_documentation else None,
    )


def in_own_unit(setting: Setting, place: _Place) -> str | None:
    """What a place says as it is understood: without blanks, and in the setting's unit (brokers may count hours)."""
    if place.value is None or place.source is ConfigSource.DEFAULT:
        return place.value
    scale = dict(setting.synonyms).get(place.name, 1)
    if scale == 1:
        return as_text(setting.parse(place.value))
    number = int(place.value)
    return str(number * scale if number >= 0 else -1)


async def handle_alter_configs(request: AlterConfigsRequest, context: RequestContext, *, broker: Broker) -> Any:
    """Each resource named gets the settings given and no others; decided by the controller."""
    return await _forward_allowed(broker, request, context)


async def handle_incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, context: RequestContext, *, broker: Broker
) -> Any:
    """Single settings are set, deleted, and lists appended to and subtracted from; decided by the controller."""
    return await _forward_allowed(broker, request, context)


async def _forward_allowed(broker: Broker, request: Any, context: RequestContext) -> Any:
    """The controller's answer for the resources that may be altered here, refusals of the others, in order."""
    repeated = _repeated(request.resources)
    refused: dict[int, Any] = {}
    for at, resource in enumerate(request.resources):
        error, message = _alter_error(broker, resource, context)
        if (resource.resource_type, resource.resource_name) in repeated:
            error, message = ErrorCode.invalid_request, "the resource is named twice: name each once"
        if error is not ErrorCode.none:
            one = dataclasses.replace(request, resources=(resource,))
            (refused[at],) = error_response(one, error, message).responses
    allowed = tuple(resource for at, resource in enumerate(request.resources) if at not in refused)
    part = dataclasses.replace(request, resources=allowed)
    answer = await forward(broker, part, context) if allowed else error_response(part, ErrorCode.none)
    altered = iter(answer.responses)
    responses = tuple(refused[at] if at in refused else next(altered) for at in range(len(request.resources)))
    return dataclasses.replace(answer, responses=responses)


def _repeated(resources: Sequence[Any]) -> set[tuple[int, str]]:
    named = [(resource.resource_type, resource.resource_name) for resource in resources]
    return {one for one in named if named.count(one) > 1}


def _alter_error(broker: Broker, resource: Any, context: RequestContext) -> tuple[ErrorCode, str]:
    if resource.resource_type == ConfigResourceType.TOPIC:
        if not context.allowed(Operation.ALTER_CONFIGS, ResourceType.TOPIC, resource.resource_name):
            return ErrorCode.topic_authorization_failed, ""
    elif not context.allowed(Operation.ALTER_CONFIGS, ResourceType.CLUSTER):
        return ErrorCode.cluster_authorization_failed, ""
    elif resource.resource_type == ConfigResourceType.BROKER and resource.resource_name not in (
        ALL_BROKERS,
        str(broker.id),
    ):
        name = resource.resource_name
        return ErrorCode.invalid_request, f"this is broker {broker.id}: have broker {name!r} alter its own settings"
    names = [config.name for config in resource.configs]
    if len(set(names)) < len(names):
        return ErrorCode.invalid_request, "a setting is named twice: name each once"
    return ErrorCode.none, ""
