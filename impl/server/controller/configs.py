"""AlterConfigs and IncrementalAlterConfigs at the controller (KIP-133, KIP-339)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.alter_configs.v2.response import AlterConfigsResourceResponse, AlterConfigsResponse
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse as IncrementalResponse,
)
from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse

from tidegauge.impl.controller.configs import ConfigChange
from tidegauge.impl.server import trace
from tidegauge.impl.server.pace import DECISION_UNITS
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.alter_configs.v2.request import AlterConfigsRequest
    from kio.schema.incremental_alter_configs.v1.request import AlterConfigsResource, IncrementalAlterConfigsRequest

    from tidegauge.impl.server.controller.decisions import Decisions, Turn
    from tidegauge.impl.server.transport.context import RequestContext


async def handle_alter_configs(
    request: AlterConfigsRequest, context: RequestContext, *, decisions: Decisions
) -> AlterConfigsResponse:
    """Each resource's settings are replaced as a whole, or none of them."""
    responses = []
    async for resource in context.pace.each(request.resources, units=DECISION_UNITS):
        values = {config.name: config.value for config in resource.configs}
        async with decisions.turn() as turn:
            proposal = turn.controller.configs.replace(
                resource.resource_type, resource.resource_name, values, validate_only=request.validate_only
            )
            altered = await turn.commit(proposal)
            _record(turn, resource.resource_name)
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
    request: IncrementalAlterConfigsRequest, context: RequestContext, *, decisions: Decisions
) -> IncrementalAlterConfigsResponse:
    """Each resource's settings are changed as asked, or none of them."""
    each = context.pace.each(request.resources, units=DECISION_UNITS)
    responses = [await _alter(decisions, resource, request.validate_only) async for resource in each]
    return IncrementalAlterConfigsResponse(throttle_time=NO_WAIT, responses=tuple(responses))


async def _alter(decisions: Decisions, resource: AlterConfigsResource, validate_only: bool) -> IncrementalResponse:
    changes = [ConfigChange(config.name, int(config.config_operation), config.value) for config in resource.configs]
    async with decisions.turn() as turn:
        proposal = turn.controller.configs.alter(
            resource.resource_type, resource.resource_name, changes, validate_only=validate_only
        )
        altered = await turn.commit(proposal)
        _record(turn, resource.resource_name)
    return IncrementalResponse(
        error_code=altered.error,
        error_message=altered.message or None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _record(turn: Turn, resource: str) -> None:
    """A trace has those settings by which the controller decides."""
    if turn.is_traced:
        config, image = turn.controller.config, turn.controller.image
        settings = tuple(
            trace.events.TopicSettings(
                topic, config.min_insync_replicas(image, topic), config.unclean_leader_election(image, topic)
            )
            for topic in image.topics
        )
        turn.tracer.record(trace.events.AlterConfigs, resource=resource, settings=settings, changed=turn.changed())
