"""Error responses: replicas that move."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.alter_partition_reassignments.v1.response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0.response import ListPartitionReassignmentsResponse

from tidegauge.impl.server.error_responses.explanation import explained
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.alter_partition_reassignments.v1.request import AlterPartitionReassignmentsRequest
    from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest


def alter_partition_reassignments_error(
    request: AlterPartitionReassignmentsRequest, error: ErrorCode, message: str = ""
) -> AlterPartitionReassignmentsResponse:
    """The error, for the request and for every partition of it."""
    return AlterPartitionReassignmentsResponse(
        throttle_time=NO_WAIT,
        error_code=error,
        error_message=explained(error, message),
        responses=tuple(
            ReassignableTopicResponse(
                name=topic.name,
                partitions=tuple(
                    ReassignablePartitionResponse(
                        partition_index=partition.partition_index,
                        error_code=error,
                        error_message=explained(error, message),
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def list_partition_reassignments_error(
    _: ListPartitionReassignmentsRequest, error: ErrorCode, message: str = ""
) -> ListPartitionReassignmentsResponse:
    """The error alone."""
    return ListPartitionReassignmentsResponse(
        throttle_time=NO_WAIT, error_code=error, error_message=explained(error, message), topics=()
    )
