"""AlterClientQuotas at the controller (KIP-546)."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from kio.schema.alter_client_quotas.v1 import response as quotas_response
from kio.schema.alter_client_quotas.v1.response import AlterClientQuotasResponse
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.client_quotas import QUOTAS, Entity, QuotaAltered, QuotaChange
from tidegauge.impl.metadata.client_quotas import ENTITY_TYPES
from tidegauge.impl.server.error_responses.explanation import explain_error
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest
    from kio.schema.alter_client_quotas.v1.request import EntryData as QuotaEntry

    from tidegauge.impl.controller.decision import Proposal
    from tidegauge.impl.server.controller.decisions import Decisions, Turn
    from tidegauge.impl.server.pace import Pace
    from tidegauge.impl.server.transport.context import RequestContext

NAMED_TWICE: Final = QuotaAltered(ErrorCode.invalid_request, "the entity is named twice: name each once")


async def handle_alter_client_quotas(
    request: AlterClientQuotasRequest, context: RequestContext, *, decisions: Decisions
) -> AlterClientQuotasResponse:
    """Each entity's quotas are changed as asked, or none of them; the second entry of an entity is refused."""
    pace = context.pace
    named: set[tuple[tuple[str, str], ...]] = set()
    asked: list[tuple[Entity, Sequence[QuotaChange]] | QuotaAltered] = []
    async for entry in pace.each(request.entries):
        parts = _parts(entry)
        identity = tuple(sorted((kind, name or "") for kind, name in parts))
        asked.append(NAMED_TWICE if identity in named else (parts, await _changes(entry, pace)))
        named.add(identity)
    altered = await decisions.each(asked, partial(_alter, validate_only=request.validate_only), pace)
    entries = []
    for entry, outcome in zip(request.entries, altered, strict=True):
        entity = [
            quotas_response.EntityData(entity_type=part.entity_type, entity_name=part.entity_name)
            async for part in pace.each(entry.entity, units=2)
        ]
        message = explain_error(outcome.error, outcome.message)
        entries.append(quotas_response.EntryData(error_code=outcome.error, error_message=message, entity=tuple(entity)))
        await pace.did(2)
    return AlterClientQuotasResponse(throttle_time=NO_WAIT, entries=tuple(entries))


def _parts(entry: QuotaEntry) -> Entity:
    """The parts of an entity. Among more than there are types some has no type, or one that another has."""
    return [(part.entity_type, part.entity_name) for part in entry.entity[: len(ENTITY_TYPES) + 1]]


async def _changes(entry: QuotaEntry, pace: Pace) -> Sequence[QuotaChange]:
    """What an entry changes, without removals of what no entity has."""
    keys: set[str] = set()
    changes = []
    async for op in pace.each(entry.ops, units=1):
        change = QuotaChange(op.key, None if op.remove else op.value)
        if op.key in keys:
            return [change, change]
        keys.add(op.key)
        if not op.remove or op.key in QUOTAS:
            changes.append(change)
        if len(changes) > len(QUOTAS):  # some key is none
            break
    return changes


def _alter(
    turn: Turn, asked: tuple[Entity, Sequence[QuotaChange]] | QuotaAltered, *, validate_only: bool
) -> Generator[Proposal[QuotaAltered], QuotaAltered, QuotaAltered]:
    if isinstance(asked, QuotaAltered):
        return asked
    return (yield turn.controller.client_quotas.alter(*asked, validate_only=validate_only))
