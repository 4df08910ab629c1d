"""ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments at a broker: forwarded to the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.impl.server.error_responses.elections import elect_leaders_error
from tidegauge.impl.server.error_responses.reassignments import (
    alter_partition_reassignments_error,
    list_partition_reassignments_error,
)
from tidegauge.impl.server.transport.authorization import Operation

if TYPE_CHECKING:
    from kio.schema.alter_partition_reassignments.v1.request import AlterPartitionReassignmentsRequest
    from kio.schema.alter_partition_reassignments.v1.response import AlterPartitionReassignmentsResponse
    from kio.schema.elect_leaders.v2.request import ElectLeadersRequest
    from kio.schema.elect_leaders.v2.response import ElectLeadersResponse
    from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest
    from kio.schema.list_partition_reassignments.v0.response import ListPartitionReassignmentsResponse

    from tidegauge.impl.server.broker.forwarding import Forwarder
    from tidegauge.impl.server.transport.context import RequestContext


async def handle_elect_leaders(
    request: ElectLeadersRequest, context: RequestContext, *, forwarder: Forwarder
) -> ElectLeadersResponse:
    return await forwarder.forward_if_allowed(request, context, Operation.ALTER, elect_leaders_error)


async def handle_alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, context: RequestContext, *, forwarder: Forwarder
) -> AlterPartitionReassignmentsResponse:
    return await forwarder.forward_if_allowed(request, context, Operation.ALTER, alter_partition_reassignments_error)


async def handle_list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, context: RequestContext, *, forwarder: Forwarder
) -> ListPartitionReassignmentsResponse:
    return await forwarder.forward_if_allowed(request, context, Operation.DESCRIBE, list_partition_reassignments_error)
