"""Error responses: clients' quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.alter_client_quotas.v1.response import AlterClientQuotasResponse, EntityData, EntryData
from kio.schema.describe_client_quotas.v1.response import DescribeClientQuotasResponse
from kio.schema.errors import ErrorCode

from tidegauge.impl.records.slices import Sliced, done, mapped, mapped_in_slices
from tidegauge.impl.server.error_responses.explanation import explained
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest
    from kio.schema.alter_client_quotas.v1.request import EntryData as AlteredEntry
    from kio.schema.describe_client_quotas.v1.request import DescribeClientQuotasRequest


def describe_client_quotas_error(
    _: DescribeClientQuotasRequest, error: ErrorCode, message: str = ""
) -> Sliced[DescribeClientQuotasResponse]:
    """The error alone."""
    return done(
        DescribeClientQuotasResponse(
            throttle_time=NO_WAIT, error_code=error, error_message=explained(error, message), entries=None
        )
    )


def alter_client_quotas_error(
    request: AlterClientQuotasRequest, error: ErrorCode, message: str = ""
) -> Sliced[AlterClientQuotasResponse]:
    """Every entity of the request, with the error."""

    def of_entry(entry: AlteredEntry) -> Sliced[EntryData]:
        entity = yield from mapped(
            entry.entity, lambda part: EntityData(entity_type=part.entity_type, entity_name=part.entity_name)
        )
        return EntryData(error_code=error, error_message=explained(error, message), entity=entity)

    entries = yield from mapped_in_slices(request.entries, of_entry)
    return AlterClientQuotasResponse(throttle_time=NO_WAIT, entries=entries)
