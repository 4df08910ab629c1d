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

from tidegauge.impl.records.slices import Sliced, done, mapped, mapped_in_slices
from tidegauge.impl.server.error_responses.explanation import explained
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.alter_partition_reassignments.v1.request import (
        AlterPartitionReassignmentsRequest,
        ReassignableTopic,
    )
    from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest


def alter_partition_reassignments_error(
    request: AlterPartitionReassignmentsRequest, error: ErrorCode, message: str = ""
) -> Sliced[AlterPartitionReassignmentsResponse]:
    """The error, for the request and for every partition of it."""

    def of_topic(topic: ReassignableTopic) -> Sliced[ReassignableTopicResponse]:
        partitions = yield from mapped(
            topic.partitions,
            lambda partition: ReassignablePartitionResponse(
                partition_index=partition.partition_index, error_code=error, error_message=explained(error, message)
            ),
        )
        return ReassignableTopicResponse(name=topic.name, partitions=partitions)

    responses = yield from mapped_in_slices(request.topics, of_topic)
    return AlterPartitionReassignmentsResponse(
        throttle_time=NO_WAIT, error_code=error, error_message=explained(error, message), responses=responses
    )


def list_partition_reassignments_error(
    _: ListPartitionReassignmentsRequest, error: ErrorCode, message: str = ""
) -> Sliced[ListPartitionReassignmentsResponse]:
    """The error alone."""
    return done(
        ListPartitionReassignmentsResponse(
            throttle_time=NO_WAIT, error_code=error, error_message=explained(error, message), topics=()
        )
    )
