"""Error responses: elections of leaders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.elect_leaders.v2.response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from kio.schema.errors import ErrorCode

from tidegauge.impl.server.error_responses.explanation import explained
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.elect_leaders.v2.request import ElectLeadersRequest


def elect_leaders_error(request: ElectLeadersRequest, error: ErrorCode, message: str = "") -> ElectLeadersResponse:
    """The error, for the request and for every partition of it."""
    return ElectLeadersResponse(
        throttle_time=NO_WAIT,
        error_code=error,
        replica_election_results=tuple(
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=tuple(
                    PartitionResult(partition_id=index, error_code=error, error_message=explained(error, message))
                    for index in topic.partitions
                ),
            )
            for topic in request.topic_partitions or ()
        ),
    )
