"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs at a broker, and what dynamic settings do to it.

A description has the place where each value comes from (its source) and, if asked, every place with its value
(synonyms): `impl.server.settings.sources`. The controller makes changes: this broker checks who asks, and forwards the
resources that the client may change.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kio.schema.errors import ErrorCode

from tidegauge.impl.metadata.broker_configs import name_without_listener
from tidegauge.impl.metadata.config_resources import ALL_BROKERS, AlterOperation, ConfigResourceType, too_many_settings
from tidegauge.impl.metadata.config_types import ConfigType, Setting
from tidegauge.impl.metadata.group_configs import GROUP_CONFIGS
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.topic_configs import TOPIC_CONFIGS
from tidegauge.impl.metadata.topic_names import is_topic_name
from tidegauge.impl.records.slices import at_once
from tidegauge.impl.server.broker.config_changes import ConfigChanges
from tidegauge.impl.server.error_responses.configs import alter_configs_error, incremental_alter_configs_error
from tidegauge.impl.server.error_responses.explanation import explain_error
from tidegauge.impl.server.settings.server_config import BROKER_CONFIGS, DYNAMIC_CONFIGS
from tidegauge.impl.server.settings.sources import ConfigSource, Place, Sources, in_own_unit
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.primitives import NO_WAIT, i8

if TYPE_CHECKING:
    from kio.schema.alter_configs.v2.request import AlterConfigsRequest, AlterConfigsResource
    from kio.schema.alter_configs.v2.response import AlterConfigsResponse
    from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
    from kio.schema.incremental_alter_configs.v1.request import AlterConfigsResource as IncrementalResource
    from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest
    from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse

    from tidegauge.impl.server.broker.dynamic_config import DynamicConfig
    from tidegauge.impl.server.broker.forwarding import Forwarder
    from tidegauge.impl.server.broker.listeners import BrokerListeners
    from tidegauge.impl.server.broker.metadata_cache import MetadataCache
    from tidegauge.impl.server.broker.registration import Registration
    from tidegauge.impl.server.transport.context import RequestContext

T = TypeVar("T")
Refusal: TypeAlias = tuple[ErrorCode, str]
NOT_REFUSED: Refusal = (ErrorCode.none, "")

MOST_GROUPS: Final = 100
"""Groups that one request describes: none of them need exist, and a name of a byte has kilobytes in the response."""


async def handle_describe_configs(
    request: DescribeConfigsRequest,
    context: RequestContext,
    *,
    metadata: MetadataCache,
    config: DynamicConfig,
    registration: Registration,
    listeners: BrokerListeners,
) -> DescribeConfigsResponse:
    """The settings of topics, groups, this broker and all brokers, resource by resource, each once."""
    sources = Sources(metadata.image, config.initial, registration.broker_id, _listening(listeners))
    results, groups = [], 0
    once = {(resource.resource_type, resource.resource_name): resource for resource in request.resources}
    async for resource in context.pace.each(once.values()):
        kind, name = resource.resource_type, resource.resource_name
        error, message = _describe_error(metadata.image, registration.broker_id, kind, name, context)
        groups += int(kind) == ConfigResourceType.GROUP
        if int(kind) == ConfigResourceType.GROUP and groups > MOST_GROUPS and error is ErrorCode.none:
            error, message = ErrorCode.invalid_request, f"one request describes {MOST_GROUPS} groups: send another one"
        described = _entries(sources, metadata.image, resource, request) if error is ErrorCode.none else ()
        entries = [entry async for entry in context.pace.each(described)]
        results.append(
            DescribeConfigsResult(
                error_code=error,
                error_message=explain_error(error, message),
                resource_type=i8(kind),
                resource_name=name,
                configs=tuple(entries),
            )
        )
    return DescribeConfigsResponse(throttle_time=NO_WAIT, results=tuple(results))


def _entries(
    sources: Sources, image: ClusterImage, resource: DescribeConfigsResource, request: DescribeConfigsRequest
) -> Iterator[DescribeConfigsResourceResult]:
    wanted = set(resource.configuration_keys or ())
    for setting, places in _listed(sources, resource.resource_type, resource.resource_name, image):
        if not wanted or setting.name in wanted:
            yield _entry(setting, list(places), resource.resource_type, request)


def _listening(listeners: BrokerListeners) -> Mapping[str, str]:
    """The settings that say where the broker listens and where clients are told to connect."""
    told = listeners.advertised
    bound = {name: address for name, address in listeners.bound.items() if name in told}
    settings = {"listeners": bound, "advertised.listeners": told}
    return {
        setting: ",".join(f"{name}://{address}" for name, address in addresses.items())
        for setting, addresses in settings.items()
    }


def _describe_error(image: ClusterImage, broker_id: int, kind: int, name: str, context: RequestContext) -> Refusal:
    if kind == ConfigResourceType.TOPIC:
        if not context.allowed(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name):
            return ErrorCode.topic_authorization_failed, ""
        if not is_topic_name(name):
            return ErrorCode.invalid_topic_exception, f"{name!r} is no topic name"
        known = name in image.topics
        return NOT_REFUSED if known else (ErrorCode.unknown_topic_or_partition, f"there is no topic {name!r}")
    if kind == ConfigResourceType.GROUP:
        if not context.allowed(Operation.DESCRIBE_CONFIGS, ResourceType.GROUP, name):
            return ErrorCode.group_authorization_failed, ""
        return NOT_REFUSED if name else (ErrorCode.invalid_request, "a group's name is empty: name the group")
    if not context.allowed(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER):
        return ErrorCode.cluster_authorization_failed, ""
    if kind == ConfigResourceType.BROKER:
        if name in (ALL_BROKERS, str(broker_id)):
            return NOT_REFUSED
        return ErrorCode.invalid_request, f"this is broker {broker_id}: ask broker {name!r} itself, or for ''"
    return ErrorCode.invalid_request, f"resources of type {kind} have no configurations here"


def _listed(sources: Sources, kind: int, name: str, image: ClusterImage) -> Iterator[tuple[Setting, Iterator[Place]]]:
    if kind == ConfigResourceType.TOPIC:
        for setting in TOPIC_CONFIGS.values():
            yield setting, sources.of_topic(name, setting)
    elif kind == ConfigResourceType.GROUP:
        for one in GROUP_CONFIGS.values():
            yield one.setting, sources.of_group(name, one)
    elif name == ALL_BROKERS:
        for key in sorted(image.broker_configs.get(ALL_BROKERS, {})):
            if (known := DYNAMIC_CONFIGS.find(key)) is not None:
                places = sources.of_broker(known)
                yield known, (place for place in places if place.source >= ConfigSource.ALL_BROKERS)
    else:
        for setting in (*BROKER_CONFIGS.values(), *sources.of_listeners()):
            yield setting, sources.of_broker(setting)


def _entry(
    setting: Setting, places: Sequence[Place], kind: int, request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    secret = setting.kind is ConfigType.PASSWORD
    nearest = places[0]
    return DescribeConfigsResourceResult(
        name=setting.name,
        value=None if secret else in_own_unit(setting, nearest),
        read_only=kind == ConfigResourceType.BROKER
        and name_without_listener(setting.name) not in DYNAMIC_CONFIGS.settings,
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


async def handle_alter_configs(
    request: AlterConfigsRequest,
    context: RequestContext,
    *,
    metadata: MetadataCache,
    config: DynamicConfig,
    registration: Registration,
    listeners: BrokerListeners,
    forwarder: Forwarder,
) -> AlterConfigsResponse:
    """Each resource named gets the settings given and no others; decided by the controller."""
    refusals = await _alter_errors(request.resources, registration.broker_id, context)
    for index, resource in enumerate(request.resources):
        if resource.resource_type == ConfigResourceType.BROKER.value and refusals[index] == NOT_REFUSED:
            now = metadata.image.broker_configs.get(resource.resource_name, {})
            values = {**dict.fromkeys(now), **{one.name: one.value for one in resource.configs}}
            refusals[index] = _change_error(resource.resource_name, values, metadata, config, registration, listeners)
    response = at_once(alter_configs_error(dataclasses.replace(request, resources=()), ErrorCode.none))
    if allowed := _allowed(request.resources, refusals):
        part = dataclasses.replace(request, resources=allowed)
        response = await forwarder.forward(part, context, alter_configs_error)
    refused = [
        at_once(alter_configs_error(dataclasses.replace(request, resources=(resource,)), error, message)).responses[0]
        async for resource, (error, message) in context.pace.each(zip(request.resources, refusals, strict=True))
        if error is not ErrorCode.none
    ]
    return dataclasses.replace(response, responses=_in_order(refusals, refused, response.responses))


async def handle_incremental_alter_configs(
    request: IncrementalAlterConfigsRequest,
    context: RequestContext,
    *,
    metadata: MetadataCache,
    config: DynamicConfig,
    registration: Registration,
    listeners: BrokerListeners,
    forwarder: Forwarder,
) -> IncrementalAlterConfigsResponse:
    """Single settings are set, deleted, and lists appended to and subtracted from; decided by the controller."""
    refusals = await _alter_errors(request.resources, registration.broker_id, context)
    for index, resource in enumerate(request.resources):
        if resource.resource_type == ConfigResourceType.BROKER.value and refusals[index] == NOT_REFUSED:
            values = {
                one.name: one.value if one.config_operation == AlterOperation.SET.value else None
                for one in resource.configs
                if one.config_operation in (AlterOperation.SET.value, AlterOperation.DELETE.value)
            }
            refusals[index] = _change_error(resource.resource_name, values, metadata, config, registration, listeners)
    response = at_once(incremental_alter_configs_error(dataclasses.replace(request, resources=()), ErrorCode.none))
    if allowed := _allowed(request.resources, refusals):
        part = dataclasses.replace(request, resources=allowed)
        response = await forwarder.forward(part, context, incremental_alter_configs_error)
    refused = [
        at_once(
            incremental_alter_configs_error(dataclasses.replace(request, resources=(resource,)), error, message)
        ).responses[0]
        async for resource, (error, message) in context.pace.each(zip(request.resources, refusals, strict=True))
        if error is not ErrorCode.none
    ]
    return dataclasses.replace(response, responses=_in_order(refusals, refused, response.responses))


def _change_error(
    resource: str,
    values: Mapping[str, str | None],
    metadata: MetadataCache,
    config: DynamicConfig,
    registration: Registration,
    listeners: BrokerListeners,
) -> Refusal:
    """What this broker has against a change of brokers' settings."""
    sources = Sources(metadata.image, config.initial, registration.broker_id, _listening(listeners))
    problem = ConfigChanges(sources, resource, values).error(listeners.tls_error, config.of_listeners)
    return (ErrorCode.invalid_request, problem) if problem else NOT_REFUSED


def _allowed(resources: Sequence[T], refusals: Sequence[Refusal]) -> tuple[T, ...]:
    """The resources that are not refused."""
    pairs = zip(resources, refusals, strict=True)
    return tuple(resource for resource, (error, _) in pairs if error is ErrorCode.none)


def _in_order(refusals: Sequence[Refusal], refused: Sequence[T], altered: Sequence[T]) -> tuple[T, ...]:
    """This broker's results and the controller's, in the order of the request."""
    own, theirs = iter(refused), iter(altered)
    return tuple(next(theirs) if error is ErrorCode.none else next(own) for error, _ in refusals)


async def _alter_errors(
    resources: Sequence[AlterConfigsResource | IncrementalResource], broker_id: int, context: RequestContext
) -> list[Refusal]:
    """Of each resource: NONE, or why it is refused here."""
    named = [(resource.resource_type, resource.resource_name) for resource in resources]
    often = Counter(named)
    twice = ErrorCode.invalid_request, "the resource is named twice: name each once"
    return [
        twice if often[name] > 1 else _alter_error(resource, broker_id, context)
        async for name, resource in context.pace.each(zip(named, resources, strict=True))
    ]


def _alter_error(
    resource: AlterConfigsResource | IncrementalResource, broker_id: int, context: RequestContext
) -> Refusal:
    kind, name = int(resource.resource_type), resource.resource_name
    if kind == ConfigResourceType.TOPIC:
        if not context.allowed(Operation.ALTER_CONFIGS, ResourceType.TOPIC, name):
            return ErrorCode.topic_authorization_failed, ""
    elif kind == ConfigResourceType.GROUP:
        if not context.allowed(Operation.ALTER_CONFIGS, ResourceType.GROUP, name):
            return ErrorCode.group_authorization_failed, ""
    elif not context.allowed(Operation.ALTER_CONFIGS, ResourceType.CLUSTER):
        return ErrorCode.cluster_authorization_failed, ""
    elif kind == ConfigResourceType.BROKER and name not in (ALL_BROKERS, str(broker_id)):
        return ErrorCode.invalid_request, f"this is broker {broker_id}: have broker {name!r} alter its own settings"
    if problem := too_many_settings(len(resource.configs)):
        return ErrorCode.invalid_request, problem
    names = [config.name for config in resource.configs]
    if len(set(names)) < len(names):
        return ErrorCode.invalid_request, "a setting is named twice: name each once"
    return NOT_REFUSED
