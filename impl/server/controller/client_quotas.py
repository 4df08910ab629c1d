"""AlterClientQuotas at the controller (KIP-546)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.alter_client_quotas.v1 import response as quotas_response
from kio.schema.alter_client_quotas.v1.response import AlterClientQuotasResponse
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.client_quotas import QuotaAltered, QuotaChange
from tidegauge.impl.server.pace import DECISION_UNITS
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest
    from kio.schema.alter_client_quotas.v1.request import EntryData as QuotaEntry

    from tidegauge.impl.server.controller.decisions import Decisions
    from tidegauge.impl.server.transport.context import RequestContext


async def handle_alter_client_quotas(
    request: AlterClientQuotasRequest, context: RequestContext, *, decisions: Decisions
) -> AlterClientQuotasResponse:
    """Each entity's quotas are changed as asked, or none of them; the second entry of an entity is refused."""
    named: set[tuple[tuple[str, str], ...]] = set()
    altered = []
    async for entry in context.pace.each(request.entries, units=DECISION_UNITS):
        entity = tuple(sorted((part.entity_type, part.entity_name or "") for part in entry.entity))
        altered.append(await _alter_quotas(decisions, entry, request.validate_only, is_first=entity not in named))
        named.add(entity)
    return AlterClientQuotasResponse(throttle_time=NO_WAIT, entries=tuple(altered))


async def _alter_quotas(
    decisions: Decisions, entry: QuotaEntry, validate_only: bool, *, is_first: bool
) -> quotas_response.EntryData:
    altered = QuotaAltered(ErrorCode.invalid_request, "the entity is named twice: name each once")
    if is_first:
        async with decisions.turn() as turn:
            proposal = turn.controller.client_quotas.alter(
                [(part.entity_type, part.entity_name) for part in entry.entity],
                [QuotaChange(op.key, None if op.remove else op.value) for op in entry.ops],
                validate_only=validate_only,
            )
            altered = await turn.commit(proposal)
    return quotas_response.EntryData(
        error_code=altered.error,
        error_message=altered.message or None,
        entity=tuple(
            quotas_response.EntityData(entity_type=part.entity_type, entity_name=part.entity_name)
            for part in entry.entity
        ),
    )
