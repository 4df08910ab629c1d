"""Elections at the controller: ElectLeaders by request, and leaders that are put back by time (KIP-183, KIP-460)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kio.schema.elect_leaders.v2 import response as elect_response
from kio.schema.elect_leaders.v2.response import ElectLeadersResponse
from kio.schema.errors import ErrorCode

from tidegauge.impl.server import trace
from tidegauge.impl.server.error_responses.reassignments import elect_leaders_error
from tidegauge.impl.wire.primitives import NO_WAIT, TopicName, i32

if TYPE_CHECKING:
    from kio.schema.elect_leaders.v2.request import ElectLeadersRequest

    from tidegauge.impl.server.controller.node import ControllerNode
    from tidegauge.impl.server.transport.context import RequestContext

PREFERRED: Final = 0
UNCLEAN: Final = 1

MESSAGES: Final = {
    ErrorCode.election_not_needed: "it has the leader that it is to have",
    ErrorCode.preferred_leader_not_available: "its preferred leader is not in sync",
    ErrorCode.eligible_leaders_not_available: "none of its replicas is live",
    ErrorCode.unknown_topic_or_partition: "there is no such partition",
}


async def handle_elect_leaders(
    request: ElectLeadersRequest, _: RequestContext, *, node: ControllerNode
) -> ElectLeadersResponse:
    """Preferred (0) or unclean (1) election of the partitions named, or of all that need one."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        return elect_leaders_error(
            request,
            ErrorCode.invalid_request,
            f"election type {request.election_type} is none: use 0 (preferred) or 1 (unclean)",
        )
    of_all = request.topic_partitions is None
    results: dict[str, list[elect_response.PartitionResult]] = {}
    for topic, partitions in _to_elect(node, request):
        told = results.setdefault(topic, [])
        for partition in partitions:
            error = elect(node, topic, partition, request.election_type)
            if of_all and error is ErrorCode.election_not_needed:
                continue
            message = None if error is ErrorCode.none else f"{topic}-{partition}: {MESSAGES.get(error, error.name)}"
            told.append(
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


def _to_elect(node: ControllerNode, request: ElectLeadersRequest) -> list[tuple[str, Sequence[int]]]:
    if request.topic_partitions is None:
        return [(topic.name, sorted(topic.partitions)) for topic in node.controller.image.topics.values()]
    return [(named.topic, named.partitions) for named in request.topic_partitions]


def elect(node: ControllerNode, topic: str, partition: int, election_type: int) -> ErrorCode:
    """Hold one election."""
    preferred = election_type == PREFERRED
    with node.decision() as changed:
        election = node.controller.elect_preferred if preferred else node.controller.elect_uncleanly
        error = election(topic, partition)
        if error is ErrorCode.none and node.tracer.trace is not None:
            kind = trace.events.PreferredElection if preferred else trace.events.UncleanElection
            node.tracer.record(kind, topic=topic, partition=partition, changed=changed())
    return error


def rebalance_leaders(node: ControllerNode) -> int:
    """Put preferred leaders back where too many are not in place; returns how many elections succeeded.

    A broker counts as out of balance when it does not lead more than leader.imbalance.per.broker.percentage of the
    partitions of which it is the preferred leader.
    """
    preferring: dict[int, list[tuple[str, int]]] = {}
    elsewhere: dict[int, list[tuple[str, int]]] = {}
    for topic, partition, registration in node.controller.image.partitions():
        preferred = registration.replicas[0]
        preferring.setdefault(preferred, []).append((topic, partition))
        if registration.leader != preferred:
            elsewhere.setdefault(preferred, []).append((topic, partition))
    limit = node.config.leader_imbalance_per_broker_percentage
    moved = 0
    for broker, partitions in elsewhere.items():
        if len(partitions) * 100 > limit * len(preferring[broker]):
            outcomes = [elect(node, topic, partition, PREFERRED) for topic, partition in partitions]
            moved += outcomes.count(ErrorCode.none)
    return moved
