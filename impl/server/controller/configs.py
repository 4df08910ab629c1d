"""AlterConfigs and IncrementalAlterConfigs at the controller (KIP-133, KIP-339)."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING

from kio.schema.alter_configs.v2.response import AlterConfigsResourceResponse, AlterConfigsResponse
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse as IncrementalResponse,
)
from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse

from tidegauge.impl.controller.configs import Altered, ConfigChange
from tidegauge.impl.server import trace
from tidegauge.impl.server.error_responses.explanation import explain_error
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.alter_configs.v2.request import AlterConfigsRequest
    from kio.schema.alter_configs.v2.request import AlterConfigsResource as ReplacedResource
    from kio.schema.incremental_alter_configs.v1.request import AlterConfigsResource, IncrementalAlterConfigsRequest

    from tidegauge.impl.controller.decision import Proposal
    from tidegauge.impl.server.controller.decisions import Decisions, Turn
    from tidegauge.impl.server.transport.context import RequestContext


async def handle_alter_configs(
    request: AlterConfigsRequest, context: RequestContext, *, decisions: Decisions
) -> AlterConfigsResponse:
    """Each resource's settings are replaced as a whole, or none of them."""
    replace = partial(_replace, validate_only=request.validate_only)
    responses = await decisions.each(request.resources, replace, context.pace)
    return AlterConfigsResponse(throttle_time=NO_WAIT, responses=tuple(responses))


def _replace(
    turn: Turn, resource: ReplacedResource, *, validate_only: bool
) -> Generator[Proposal[Altered], Altered, AlterConfigsResourceResponse]:
    values = {config.name: config.value for config in resource.configs}
    altered = yield turn.controller.configs.replace(
        resource.resource_type, resource.resource_name, values, validate_only=validate_only
    )
    _record(turn, resource.resource_name)
    return AlterConfigsResourceResponse(
        error_code=altered.error,
        error_message=explain_error(altered.error, altered.message),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


async def handle_incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, context: RequestContext, *, decisions: Decisions
) -> IncrementalAlterConfigsResponse:
    """Each resource's settings are changed as asked, or none of them."""
    alter = partial(_alter, validate_only=request.validate_only)
    responses = await decisions.each(request.resources, alter, context.pace)
    return IncrementalAlterConfigsResponse(throttle_time=NO_WAIT, responses=tuple(responses))


def _alter(
    turn: Turn, resource: AlterConfigsResource, *, validate_only: bool
) -> Generator[Proposal[Altered], Altered, IncrementalResponse]:
    changes = [ConfigChange(config.name, int(config.config_operation), config.value) for config in resource.configs]
    altered = yield turn.controller.configs.alter(
        resource.resource_type, resource.resource_name, changes, validate_only=validate_only
    )
    _record(turn, resource.resource_name)
    return IncrementalResponse(
        error_code=altered.error,
        error_message=explain_error(altered.error, altered.message),
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
