"""DescribeClientQuotas and AlterClientQuotas at a broker (KIP-546)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kio.schema.describe_client_quotas.v1.response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from kio.schema.errors import ErrorCode

from tidegauge.impl.metadata.client_quotas import CLIENT_ID, ENTITY_TYPES, IP, USER, QuotaEntity
from tidegauge.impl.server.error_responses.client_quotas import alter_client_quotas_error, describe_client_quotas_error
from tidegauge.impl.server.error_responses.refused import refused
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.primitives import NO_WAIT, f64

if TYPE_CHECKING:
    from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest
    from kio.schema.alter_client_quotas.v1.response import AlterClientQuotasResponse
    from kio.schema.describe_client_quotas.v1.request import ComponentData, DescribeClientQuotasRequest

    from tidegauge.impl.server.broker.forwarding import Forwarder
    from tidegauge.impl.server.broker.metadata_cache import MetadataCache
    from tidegauge.impl.server.transport.context import RequestContext

EXACT: Final = 0
DEFAULT: Final = 1
ANY: Final = 2


async def handle_describe_client_quotas(
    request: DescribeClientQuotasRequest, context: RequestContext, *, metadata: MetadataCache
) -> DescribeClientQuotasResponse:
    """The quotas of the entities that have each part asked for; with `strict` of those that have no other part."""
    if not context.allowed(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER):
        return await refused(
            context.pace, request, describe_client_quotas_error, ErrorCode.cluster_authorization_failed
        )
    if problem := _filter_problem(request.components):
        return await refused(context.pace, request, describe_client_quotas_error, *problem)
    entries = [
        EntryData(
            entity=tuple(
                EntityData(entity_type=kind, entity_name=name or None) for kind, name in _parts(entity).items()
            ),
            values=tuple(ValueData(key=key, value=f64(value)) for key, value in sorted(quotas.items())),
        )
        async for entity, quotas in context.pace.each(list(metadata.image.client_quotas.items()))
        if _matches(_parts(entity), request)
    ]
    return DescribeClientQuotasResponse(
        throttle_time=NO_WAIT, error_code=ErrorCode.none, error_message=None, entries=tuple(entries)
    )


def _filter_problem(components: Sequence[ComponentData]) -> tuple[ErrorCode, str] | None:
    """What is wrong with a filter; a type that is unknown here may be known to newer brokers."""
    types = [component.entity_type for component in components]
    if "" in types:
        return ErrorCode.invalid_request, "an entity type is empty: name it"
    if unknown := [kind for kind in types if kind not in ENTITY_TYPES]:
        return (
            ErrorCode.unsupported_version,
            f"{unknown[0]!r} is no type of entity; there are {', '.join(ENTITY_TYPES)}",
        )
    if len(set(types)) < len(types):
        return ErrorCode.invalid_request, "the filter names a type twice: name each once"
    for component in components:
        if component.match_type not in (EXACT, DEFAULT, ANY):
            return ErrorCode.invalid_request, f"match type {component.match_type} is none: use 0, 1 or 2"
        if (component.match_type == EXACT) != (component.match is not None):
            return ErrorCode.invalid_request, "a name goes with match type 0, and with no other"
    if IP in types and len(types) > 1:
        return ErrorCode.invalid_request, "an ip is an entity by itself: ask for it without user and client-id"
    return None


def _parts(entity: QuotaEntity) -> dict[str, str]:
    """An entity's parts by type; "" is the default."""
    named = ((USER, entity.user), (CLIENT_ID, entity.client_id), (IP, entity.ip))
    return {kind: name for kind, name in named if name is not None}


def _matches(parts: dict[str, str], request: DescribeClientQuotasRequest) -> bool:
    asked = {component.entity_type for component in request.components}
    if request.strict and parts.keys() - asked:
        return False
    return all(_part_matches(parts.get(component.entity_type), component) for component in request.components)


def _part_matches(name: str | None, component: ComponentData) -> bool:
    if name is None:
        return False
    if component.match_type == ANY:
        return True
    return name == ("" if component.match_type == DEFAULT else component.match)


async def handle_alter_client_quotas(
    request: AlterClientQuotasRequest, context: RequestContext, *, forwarder: Forwarder
) -> AlterClientQuotasResponse:
    """Each entity's quotas are changed, or none of them; of two entries about one entity the first counts. Decided by
    the controller. ALTER_CONFIGS on the cluster.
    """
    return await forwarder.forward_if_allowed(request, context, Operation.ALTER_CONFIGS, alter_client_quotas_error)
