"""Error responses: elections of leaders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.elect_leaders.v2.response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from kio.schema.errors import ErrorCode

from tidegauge.impl.records.slices import Sliced, mapped, mapped_in_slices
from tidegauge.impl.server.error_responses.explanation import explained
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions


def elect_leaders_error(
    request: ElectLeadersRequest, error: ErrorCode, message: str = ""
) -> Sliced[ElectLeadersResponse]:
    """The error, for the request and for every partition of it."""

    def of_topic(topic: TopicPartitions) -> Sliced[ReplicaElectionResult]:
        partition_result = yield from mapped(
            topic.partitions,
            lambda index: PartitionResult(
                partition_id=index, error_code=error, error_message=explained(error, message)
            ),
        )
        return ReplicaElectionResult(topic=topic.topic, partition_result=partition_result)

    replica_election_results = yield from mapped_in_slices(request.topic_partitions or (), of_topic)
    return ElectLeadersResponse(
        throttle_time=NO_WAIT, error_code=error, replica_election_results=replica_election_results
    )
