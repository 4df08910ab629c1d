"""Members of groups of the classic protocol at their coordinator: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

The rules are the core's (`impl.coordinators.groups.classic`); here are those of the requests' versions.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4.response import HeartbeatResponse
from kio.schema.join_group.v9.response import JoinGroupResponse, JoinGroupResponseMember
from kio.schema.leave_group.v5.response import LeaveGroupResponse, MemberResponse
from kio.schema.sync_group.v5.response import SyncGroupResponse

from tidegauge.impl.coordinators.groups.classic.messages import (
    Heartbeat,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    LeaveResponse,
    Leaving,
    Left,
    SyncGroup,
    SyncResponse,
)
from tidegauge.impl.coordinators.groups.classic.state import Protocol
from tidegauge.impl.server.broker.groups import Groups
from tidegauge.impl.server.requests.rights import group_error
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.primitives import NO_WAIT, i32

if TYPE_CHECKING:
    from kio.schema.heartbeat.v4.request import HeartbeatRequest
    from kio.schema.join_group.v9.request import JoinGroupRequest
    from kio.schema.leave_group.v5.request import LeaveGroupRequest
    from kio.schema.sync_group.v5.request import SyncGroupRequest

    from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator
    from tidegauge.impl.server.broker.coordinator_log import Led
    from tidegauge.impl.server.transport.context import RequestContext

NONE: Final = ErrorCode.none
MILLISECOND: Final = timedelta(milliseconds=1)
REBALANCE_TIMEOUT_FROM: Final = 1
"""The version of JoinGroup from which a rebalance has a time-out of its own; before, it is the session's."""
NULL_PROTOCOL_FROM: Final = 7
"""The version from which there may be no protocol; before, it is the empty one."""
PROTOCOL_TOLD_FROM: Final = 5
"""The version of SyncGroup from which a member has to say which protocol it has in mind."""
MEMBERS_AT_ONCE: Final = 40
"""Of a LeaveGroup that names more, so many leave at once."""


def _led(group: str, context: RequestContext, groups: Groups) -> Led[GroupCoordinator] | ErrorCode:
    """What coordinates the group: GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID, and the coordinator's errors."""
    denied = group_error(Operation.READ, group, context)
    if denied is not NONE:
        return denied
    return groups.led(group) if group else ErrorCode.invalid_group_id


# --- JoinGroup -------------------------------------------------------------------------------------------------------


async def handle_join_group(request: JoinGroupRequest, context: RequestContext, *, groups: Groups) -> JoinGroupResponse:
    """Be in the next generation of a group; the response waits until that begins.

    Errors: GROUP_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, and the core's.
    """
    led = _led(request.group_id, context, groups)
    if isinstance(led, ErrorCode):
        return await _joined(JoinResponse(led, request.member_id), context)
    protocols = [Protocol(one.name, one.metadata) async for one in context.pace.each(request.protocols)]
    session_ms = request.session_timeout // MILLISECOND
    rebalance_ms = request.rebalance_timeout // MILLISECOND
    asked = JoinGroup(
        group=request.group_id,
        protocol_type=request.protocol_type,
        protocols=tuple(protocols),
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms if context.api_version >= REBALANCE_TIMEOUT_FROM else session_ms,
        client_id=context.client_id or "",
        client_host=f"/{context.client_host}",
        version=context.api_version,
        unique=groups.members.unique_id(),
        reason=request.reason or "",
    )
    if led.state.migration.mixed_group(request.group_id) is not None:
        may_describe = partial(context.allowed, Operation.DESCRIBE, ResourceType.TOPIC)
        joined = await context.wait_briefly(partial(groups.consumers.join, led, asked, may_describe))
        if joined is not None:
            return await _joined(joined, context)
    # Nothing is awaited from here until the core has decided: else a member of the other protocol comes in between.
    told = await groups.members.ask(led, lambda core, *when: core.join(asked, *when), context, JoinResponse)
    return await _joined(told, context)


async def _joined(told: JoinResponse, context: RequestContext) -> JoinGroupResponse:
    members = [
        JoinGroupResponseMember(member_id=one.member_id, group_instance_id=one.instance_id, metadata=one.metadata)
        async for one in context.pace.each(told.members)
    ]
    no_protocol = None if context.api_version >= NULL_PROTOCOL_FROM else ""
    return JoinGroupResponse(
        throttle_time=NO_WAIT,
        error_code=told.error,
        generation_id=i32(told.generation),
        protocol_type=told.protocol_type,
        protocol_name=told.protocol or no_protocol,
        leader=told.leader,
        skip_assignment=told.skip_assignment,
        member_id=told.member_id,
        members=tuple(members),
    )


# --- SyncGroup -------------------------------------------------------------------------------------------------------


async def handle_sync_group(request: SyncGroupRequest, context: RequestContext, *, groups: Groups) -> SyncGroupResponse:
    """Have the assignment; the response waits until the leader's is in the log.

    A coordinator that is loading has lost the rebalance, and clients know no other error that says so: they join again.

    Errors: INCONSISTENT_GROUP_PROTOCOL without a protocol, GROUP_AUTHORIZATION_FAILED, NOT_COORDINATOR,
    REBALANCE_IN_PROGRESS while the group is loaded, and the core's.
    """
    led = _led(request.group_id, context, groups)
    tells_protocol = request.protocol_type is not None and request.protocol_name is not None
    if context.api_version >= PROTOCOL_TOLD_FROM and not tells_protocol:
        led = ErrorCode.inconsistent_group_protocol
    if isinstance(led, ErrorCode):
        is_loading = led is ErrorCode.coordinator_load_in_progress
        return _synced(SyncResponse(ErrorCode.rebalance_in_progress if is_loading else led))
    assignments = [(one.member_id, one.assignment) async for one in context.pace.each(request.assignments)]
    asked = SyncGroup(
        group=request.group_id,
        generation=request.generation_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments=tuple(assignments),
    )
    if led.state.migration.mixed_group(request.group_id) is not None:
        return _synced(await context.wait_briefly(partial(groups.consumers.sync, led, asked)))
    return _synced(await groups.members.ask(led, lambda core, *when: core.sync(asked, *when), context, SyncResponse))


def _synced(told: SyncResponse) -> SyncGroupResponse:
    return SyncGroupResponse(
        throttle_time=NO_WAIT,
        error_code=told.error,
        protocol_type=told.protocol_type,
        protocol_name=told.protocol,
        assignment=told.assignment,
    )


# --- Heartbeat -------------------------------------------------------------------------------------------------------


async def handle_heartbeat(request: HeartbeatRequest, context: RequestContext, *, groups: Groups) -> HeartbeatResponse:
    """Keep a session; of a group that is loaded nothing is known yet, and nothing is wrong.

    Errors: GROUP_AUTHORIZATION_FAILED, NOT_COORDINATOR, and the core's.
    """
    led = _led(request.group_id, context, groups)
    if isinstance(led, ErrorCode):
        error: ErrorCode = NONE if led is ErrorCode.coordinator_load_in_progress else led
    else:
        asked = Heartbeat(request.group_id, request.generation_id, request.member_id, request.group_instance_id)
        if led.state.migration.mixed_group(request.group_id) is not None:
            error = groups.consumers.beat(led, asked)
        else:
            error = led.state.classic.heartbeat(asked, groups.moment)
    return HeartbeatResponse(throttle_time=NO_WAIT, error_code=error)


# --- LeaveGroup ------------------------------------------------------------------------------------------------------


async def handle_leave_group(
    request: LeaveGroupRequest, context: RequestContext, *, groups: Groups
) -> LeaveGroupResponse:
    """Members leave; from version 3 on an operator may remove many, static ones by their instance ids.

    A few at a time: what a member costs depends on what it has joined with.

    Errors: GROUP_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, and the core's.
    """
    leaving = [
        Leaving(one.member_id, one.group_instance_id, one.reason or "")
        async for one in context.pace.each(request.members)
    ]
    left: list[MemberResponse] = []
    for first in range(0, max(len(leaving), 1), MEMBERS_AT_ONCE):
        if first:
            await context.pace.pause()
        led = _led(request.group_id, context, groups)
        if isinstance(led, ErrorCode):
            return LeaveGroupResponse(throttle_time=NO_WAIT, error_code=led, members=())
        told = await _left(led, tuple(leaving[first : first + MEMBERS_AT_ONCE]), request.group_id, context, groups)
        if told.error is not NONE:
            return LeaveGroupResponse(throttle_time=NO_WAIT, error_code=told.error, members=())
        left += [
            MemberResponse(member_id=one.member_id, group_instance_id=one.instance_id, error_code=one.error)
            for one in told.members
        ]
    return LeaveGroupResponse(throttle_time=NO_WAIT, error_code=NONE, members=tuple(left))


async def _left(
    led: Led[GroupCoordinator], leaving: tuple[Leaving, ...], group: str, context: RequestContext, groups: Groups
) -> LeaveResponse:
    left: list[Left] = []
    core = led.state
    while leaving and group not in core.classic.groups and core.migration.mixed_group(group) is not None:
        left.append(await context.wait_briefly(partial(groups.consumers.leave, led, group, leaving[0])))
        leaving = leaving[1:]
    if left and not leaving:
        return LeaveResponse(NONE, tuple(left))
    asked = LeaveGroup(group, leaving)
    told = await groups.members.ask(led, lambda core, *when: core.leave(asked, *when), context, LeaveResponse)
    return LeaveResponse(told.error, (*left, *told.members)) if left else told
