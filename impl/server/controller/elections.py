"""ElectLeaders at the controller (KIP-183, KIP-460)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kio.schema.elect_leaders.v2 import response as elect_response
from kio.schema.elect_leaders.v2.response import ElectLeadersResponse
from kio.schema.errors import ErrorCode

from tidegauge.impl.server.controller.held_elections import PREFERRED, UNCLEAN, elect
from tidegauge.impl.server.error_responses.elections import elect_leaders_error
from tidegauge.impl.server.error_responses.refused import refused
from tidegauge.impl.server.pace import DECISION_UNITS
from tidegauge.impl.wire.primitives import NO_WAIT, TopicName, i32

if TYPE_CHECKING:
    from kio.schema.elect_leaders.v2.request import ElectLeadersRequest

    from tidegauge.impl.controller.controller import Controller
    from tidegauge.impl.server.controller.decisions import Decisions
    from tidegauge.impl.server.transport.context import RequestContext

MESSAGES: Final = {
    ErrorCode.election_not_needed: "it has the leader that it is to have",
    ErrorCode.preferred_leader_not_available: "its preferred leader is not in sync",
    ErrorCode.eligible_leaders_not_available: "none of its replicas is live",
    ErrorCode.unknown_topic_or_partition: "there is no such partition",
}


async def handle_elect_leaders(
    request: ElectLeadersRequest, context: RequestContext, *, decisions: Decisions, controller: Controller
) -> ElectLeadersResponse:
    """Preferred (0) or unclean (1) elections in the partitions that the request names, or in all that need one."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        return await refused(
            context.pace,
            request,
            elect_leaders_error,
            ErrorCode.invalid_request,
            f"election type {request.election_type} is none: use 0 (preferred) or 1 (unclean)",
        )
    of_all = request.topic_partitions is None
    results: dict[str, list[elect_response.PartitionResult]] = {}
    for topic, partitions in _to_elect(controller, request):
        responses = results.setdefault(topic, [])
        async for partition in context.pace.each(partitions, units=DECISION_UNITS):
            error = await elect(decisions, topic, partition, request.election_type)
            if of_all and error is ErrorCode.election_not_needed:
                continue
            message = None if error is ErrorCode.none else f"{topic}-{partition}: {MESSAGES.get(error, error.name)}"
            responses.append(
                elect_response.PartitionResult(partition_id=i32(partition), error_code=error, error_message=message)
            )
    return ElectLeadersResponse(
        throttle_time=NO_WAIT,
        error_code=ErrorCode.none,
        replica_election_results=tuple(
            elect_response.ReplicaElectionResult(topic=TopicName(topic), partition_result=tuple(partitions))
            for topic, partitions in results.items()
        ),
    )


def _to_elect(controller: Controller, request: ElectLeadersRequest) -> list[tuple[str, Sequence[int]]]:
    if request.topic_partitions is None:
        return [(topic.name, sorted(topic.partitions)) for topic in controller.image.topics.values()]
    return [(named.topic, named.partitions) for named in request.topic_partitions]
