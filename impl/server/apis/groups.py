"""Groups at their coordinator, as operators see them: DescribeGroups, ListGroups, DeleteGroups.

A group that has offsets and has never had members is simple: it is told as an empty one without a protocol type.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from kio.schema.delete_groups.v2.response import DeleteGroupsResponse
from kio.schema.describe_groups.v6.response import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v5.response import ListedGroup, ListGroupsResponse
from kio.schema.types import GroupId

from tidegauge.impl.coordinators.groups.classic.state import ClassicState
from tidegauge.impl.records.slices import at_once
from tidegauge.impl.server.broker.groups import Groups
from tidegauge.impl.server.error_responses.explanation import explain_error
from tidegauge.impl.server.error_responses.groups import delete_groups_error
from tidegauge.impl.server.requests.rights import cluster_error, group_error
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.primitives import NO_WAIT, i32
from tidegauge.impl.wire.unions import UNASKED

if TYPE_CHECKING:
    from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
    from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
    from kio.schema.list_groups.v5.request import ListGroupsRequest

    from tidegauge.impl.coordinators.groups.classic.state import ClassicGroup, ClassicMember
    from tidegauge.impl.server.transport.context import RequestContext

NONE: Final = ErrorCode.none
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
"""The type of a group of KIP-848, and the protocol type of every group of consumers."""
NOT_FOUND_FROM: Final = 6
"""The version of DescribeGroups from which a group that is not there is an error, and not a dead group."""


# --- questions -------------------------------------------------------------------------------------------------------


async def handle_describe_groups(
    request: DescribeGroupsRequest, context: RequestContext, *, groups: Groups
) -> DescribeGroupsResponse:
    """Each group: GROUP_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND.

    One that is named twice is described once.
    """
    described = [
        await _described(group, context, groups, tells_operations=request.include_authorized_operations)
        async for group in context.pace.each(dict.fromkeys(request.groups))
    ]
    return DescribeGroupsResponse(throttle_time=NO_WAIT, groups=tuple(described))


async def _described(
    group: GroupId, context: RequestContext, groups: Groups, *, tells_operations: bool
) -> DescribedGroup:
    error = group_error(Operation.DESCRIBE, group, context)
    is_allowed = error is NONE
    state, known, message = "", None, None
    if is_allowed:
        led = groups.led(group)
        if isinstance(led, ErrorCode):
            error = led
        else:
            known = led.state.classic.get(group)
            is_here = led.state.is_known(group) and led.state.migration.consumer_group(group) is None
            state = _state(known) if is_here else ClassicState.DEAD.value
            if state == ClassicState.DEAD.value and context.api_version >= NOT_FOUND_FROM:
                error, message = ErrorCode.group_id_not_found, f"there is no classic group {group!r}"
    is_stable = known is not None and known.state is ClassicState.STABLE
    protocol_type = "" if known is None else known.protocol_type or ""
    protocol = "" if known is None or not is_stable else known.protocol or ""
    members = () if known is None else [_told(one, known) for one in known.members.values()]  # at one instant
    return DescribedGroup(
        error_code=error,
        error_message=explain_error(error, message),
        group_id=group,
        group_state=state,
        protocol_type=protocol_type,
        protocol_data=protocol,
        members=tuple([_described_member(one) async for one in context.pace.each(members)]),
        authorized_operations=i32(
            context.operations(ResourceType.GROUP, group) if tells_operations and is_allowed else UNASKED
        ),
    )


def _state(group: ClassicGroup | None) -> str:
    return ClassicState.EMPTY.value if group is None else group.state.value


class ToldMember(NamedTuple):
    """What is told of a member."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


def _told(member: ClassicMember, group: ClassicGroup) -> ToldMember:
    """What a member says of itself belongs to the protocol of a stable group."""
    metadata = member.metadata_for(group.protocol) if group.state is ClassicState.STABLE else b""
    return ToldMember(
        member.member_id, member.instance_id, member.client_id, member.client_host, metadata, member.assignment
    )


def _described_member(member: ToldMember) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata,
        member_assignment=member.assignment,
    )


async def handle_list_groups(
    request: ListGroupsRequest, context: RequestContext, *, groups: Groups
) -> ListGroupsResponse:
    """The groups that this broker coordinates, as far as the filters and the client's rights let through."""
    may_see_all = cluster_error(Operation.DESCRIBE, context) is NONE
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    found: list[ListedGroup] = []
    for led in groups.log:
        async for group in context.pace.each(sorted(led.state.groups)):
            known, consumers = led.state.classic.get(group), led.state.migration.consumer_group(group)
            state = _state(known) if consumers is None else consumers.state
            kind = CLASSIC if consumers is None else CONSUMER
            if (states and state.lower() not in states) or (types and kind not in types):
                continue
            classic_type = "" if known is None else known.protocol_type or ""
            if may_see_all or group_error(Operation.DESCRIBE, group, context) is NONE:
                found.append(
                    ListedGroup(
                        group_id=GroupId(group),
                        protocol_type=classic_type if consumers is None else CONSUMER,
                        group_state=state,
                        group_type=kind,
                    )
                )
    error = ErrorCode.coordinator_load_in_progress if groups.log.is_loading else NONE
    return ListGroupsResponse(throttle_time=NO_WAIT, error_code=error, groups=tuple(found))


# --- deletions -------------------------------------------------------------------------------------------------------


async def handle_delete_groups(
    request: DeleteGroupsRequest, context: RequestContext, *, groups: Groups
) -> DeleteGroupsResponse:
    """Delete groups with their offsets (KIP-229).

    Errors, group by group: GROUP_AUTHORIZATION_FAILED, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, and the coordinator's.
    """
    results = [
        result
        async for group in context.pace.each(request.groups_names)
        for result in at_once(
            delete_groups_error(
                dataclasses.replace(request, groups_names=(group,)), await _deleted(group, context, groups)
            )
        ).results
    ]
    return DeleteGroupsResponse(throttle_time=NO_WAIT, results=tuple(results))


async def _deleted(group: str, context: RequestContext, groups: Groups) -> ErrorCode:
    denied = group_error(Operation.DELETE, group, context)
    await groups.line.settled()
    led = groups.led(group) if denied is NONE else denied
    if isinstance(led, ErrorCode):
        return led
    ruling = led.state.delete_group(group)
    gone = groups.delete_consumers(led, group) if ruling.error is NONE else None
    error = await context.wait_briefly(partial(groups.carry_out, led, ruling))
    return error if gone is None or error is not NONE else await context.wait_briefly(gone.ended)
