"""Error responses: clients' quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.alter_client_quotas.v1.response import AlterClientQuotasResponse, EntityData, EntryData
from kio.schema.describe_client_quotas.v1.response import DescribeClientQuotasResponse
from kio.schema.errors import ErrorCode

from tidegauge.impl.server.error_responses.explanation import explained
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest
    from kio.schema.describe_client_quotas.v1.request import DescribeClientQuotasRequest


def describe_client_quotas_error(
    _: DescribeClientQuotasRequest, error: ErrorCode, message: str = ""
) -> DescribeClientQuotasResponse:
    """The error alone."""
    return DescribeClientQuotasResponse(
        throttle_time=NO_WAIT, error_code=error, error_message=explained(error, message), entries=None
    )


def alter_client_quotas_error(
    request: AlterClientQuotasRequest, error: ErrorCode, message: str = ""
) -> AlterClientQuotasResponse:
    """Every entity of the request, with the error."""
    return AlterClientQuotasResponse(
        throttle_time=NO_WAIT,
        entries=tuple(
            EntryData(
                error_code=error,
                error_message=explained(error, message),
                entity=tuple(
                    EntityData(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity
                ),
            )
            for entry in request.entries
        ),
    )
