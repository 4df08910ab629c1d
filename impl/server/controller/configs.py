"""What brokers forward to the controller about configurations and client quotas: kio's messages in and out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.alter_client_quotas.v1 import response as quotas_response
from kio.schema.alter_client_quotas.v1.response import AlterClientQuotasResponse
from kio.schema.alter_configs.v2.response import AlterConfigsResourceResponse, AlterConfigsResponse
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse as IncrementalResponse,
)
from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse

from tidegauge.impl.controller.client_quotas import QuotaAltered, QuotaChange
from tidegauge.impl.controller.configs import ConfigChange
from tidegauge.impl.server import trace
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest
    from kio.schema.alter_client_quotas.v1.request import EntryData as QuotaEntry
    from kio.schema.alter_configs.v2.request import AlterConfigsRequest
    from kio.schema.incremental_alter_configs.v1.request import AlterConfigsResource, IncrementalAlterConfigsRequest

    from tidegauge.impl.server.controller.node import ControllerNode
    from tidegauge.impl.server.trace.events import ChangedPartition
    from tidegauge.impl.server.transport.context import RequestContext


async def handle_alter_configs(
    request: AlterConfigsRequest, _: RequestContext, *, node: ControllerNode
) -> AlterConfigsResponse:
    """Each resource's settings are replaced as a whole, or none of them."""
    responses = []
    for resource in request.resources:
        values = {config.name: config.value for config in resource.configs}
        with node.decision() as changed:
            altered = node.controller.replace_configs(
                resource.resource_type, resource.resource_name, values, validate_only=request.validate_only
            )
            _record(node, resource.resource_name, changed())
        responses.append(
            AlterConfigsResourceResponse(
                error_code=altered.error,
                error_message=altered.message or None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return AlterConfigsResponse(throttle_time=NO_WAIT, responses=tuple(responses))


async def handle_incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, _: RequestContext, *, node: ControllerNode
) -> IncrementalAlterConfigsResponse:
    """Each resource's settings are changed as asked, or none of them."""
    return IncrementalAlterConfigsResponse(
        throttle_time=NO_WAIT,
        responses=tuple(_alter(node, resource, request.validate_only) for resource in request.resources),
    )


def _alter(node: ControllerNode, resource: AlterConfigsResource, validate_only: bool) -> IncrementalResponse:
    changes = [ConfigChange(config.name, int(config.config_operation), config.value) for config in resource.configs]
    with node.decision() as changed:
        altered = node.controller.alter_configs(
            resource.resource_type, resource.resource_name, changes, validate_only=validate_only
        )
        _record(node, resource.resource_name, changed())
    return IncrementalResponse(
        error_code=altered.error,
        error_message=altered.message or None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _record(node: ControllerNode, resource: str, changed: tuple[ChangedPartition, ...]) -> None:
    """Of settings a trace has those by which the controller decides."""
    if node.tracer.trace is not None:
        core = node.controller
        kept = trace.events.TopicSettings
        settings = tuple(
            kept(topic, core.configured_min_insync_replicas(topic), core.unclean_leader_election(topic))
            for topic in core.image.topics
        )
        node.tracer.record(trace.events.AlterConfigs, resource=resource, settings=settings, changed=changed)


async def handle_alter_client_quotas(
    request: AlterClientQuotasRequest, _: RequestContext, *, node: ControllerNode
) -> AlterClientQuotasResponse:
    """Each entity's quotas are changed as asked, or none of them; of two entries about one entity the first counts."""
    entities = [tuple(sorted((part.entity_type, part.entity_name or "") for part in e.entity)) for e in request.entries]
    return AlterClientQuotasResponse(
        throttle_time=NO_WAIT,
        entries=tuple(
            _alter_quotas(node, entry, request.validate_only, is_first=entity not in entities[:at])
            for at, (entry, entity) in enumerate(zip(request.entries, entities, strict=True))
        ),
    )


def _alter_quotas(
    node: ControllerNode, entry: QuotaEntry, validate_only: bool, *, is_first: bool
) -> quotas_response.EntryData:
    altered = QuotaAltered(ErrorCode.invalid_request, "the entity is named twice: name each once")
    if is_first:
        with node.decision():
            altered = node.controller.alter_client_quota(
                [(part.entity_type, part.entity_name) for part in entry.entity],
                [QuotaChange(op.key, None if op.remove else op.value) for op in entry.ops],
                validate_only=validate_only,
            )
    return quotas_response.EntryData(
        error_code=altered.error,
        error_message=altered.message or None,
        entity=tuple(
            quotas_response.EntityData(entity_type=part.entity_type, entity_name=part.entity_name)
            for part in entry.entity
        ),
    )
