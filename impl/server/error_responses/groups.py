"""Error responses: consumer groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.consumer_group_describe.v1.response import ConsumerGroupDescribeResponse
from kio.schema.consumer_group_describe.v1.response import DescribedGroup as ConsumerGroupDescribeDescribedGroup
from kio.schema.consumer_group_heartbeat.v1.response import ConsumerGroupHeartbeatResponse
from kio.schema.delete_groups.v2.response import DeletableGroupResult, DeleteGroupsResponse
from kio.schema.describe_groups.v6.response import DescribedGroup, DescribeGroupsResponse
from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4.response import HeartbeatResponse
from kio.schema.join_group.v9.response import JoinGroupResponse
from kio.schema.leave_group.v5.response import LeaveGroupResponse, MemberResponse
from kio.schema.list_groups.v5.response import ListGroupsResponse
from kio.schema.streams_group_describe.v0.response import DescribedGroup as StreamsGroupDescribeDescribedGroup
from kio.schema.streams_group_describe.v0.response import StreamsGroupDescribeResponse
from kio.schema.streams_group_heartbeat.v0.response import StreamsGroupHeartbeatResponse
from kio.schema.sync_group.v5.response import SyncGroupResponse

from tidegauge.impl.records.slices import Sliced, done, mapped
from tidegauge.impl.server.error_responses.explanation import explained
from tidegauge.impl.wire.primitives import NO_WAIT, i32

if TYPE_CHECKING:
    from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
    from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
    from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
    from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
    from kio.schema.heartbeat.v4.request import HeartbeatRequest
    from kio.schema.join_group.v9.request import JoinGroupRequest
    from kio.schema.leave_group.v5.request import LeaveGroupRequest
    from kio.schema.list_groups.v5.request import ListGroupsRequest
    from kio.schema.streams_group_describe.v0.request import StreamsGroupDescribeRequest
    from kio.schema.streams_group_heartbeat.v0.request import StreamsGroupHeartbeatRequest
    from kio.schema.sync_group.v5.request import SyncGroupRequest


def join_group_error(_: JoinGroupRequest, error: ErrorCode, _message: str = "") -> Sliced[JoinGroupResponse]:
    """The error alone."""
    return done(
        JoinGroupResponse(
            throttle_time=NO_WAIT, error_code=error, protocol_name="", leader="", member_id="", members=()
        )
    )


def heartbeat_error(_: HeartbeatRequest, error: ErrorCode, _message: str = "") -> Sliced[HeartbeatResponse]:
    """The error alone."""
    return done(HeartbeatResponse(throttle_time=NO_WAIT, error_code=error))


def leave_group_error(request: LeaveGroupRequest, error: ErrorCode, _: str = "") -> Sliced[LeaveGroupResponse]:
    """The error, for the request and for every member of it."""
    members = yield from mapped(
        request.members,
        lambda member: MemberResponse(
            member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=error
        ),
    )
    return LeaveGroupResponse(throttle_time=NO_WAIT, error_code=error, members=members)


def sync_group_error(_: SyncGroupRequest, error: ErrorCode, _message: str = "") -> Sliced[SyncGroupResponse]:
    """The error alone."""
    return done(SyncGroupResponse(throttle_time=NO_WAIT, error_code=error, assignment=b""))


def describe_groups_error(
    request: DescribeGroupsRequest, error: ErrorCode, message: str = ""
) -> Sliced[DescribeGroupsResponse]:
    """Every group of the request, with the error."""
    groups = yield from mapped(
        request.groups,
        lambda group: DescribedGroup(
            error_code=error,
            error_message=explained(error, message),
            group_id=group,
            group_state="",
            protocol_type="",
            protocol_data="",
            members=(),
        ),
    )
    return DescribeGroupsResponse(throttle_time=NO_WAIT, groups=groups)


def list_groups_error(_: ListGroupsRequest, error: ErrorCode, _message: str = "") -> Sliced[ListGroupsResponse]:
    """The error alone."""
    return done(ListGroupsResponse(throttle_time=NO_WAIT, error_code=error, groups=()))


def delete_groups_error(request: DeleteGroupsRequest, error: ErrorCode, _: str = "") -> Sliced[DeleteGroupsResponse]:
    """Every group of the request, with the error."""
    results = yield from mapped(
        request.groups_names, lambda group: DeletableGroupResult(group_id=group, error_code=error)
    )
    return DeleteGroupsResponse(throttle_time=NO_WAIT, results=results)


def consumer_group_heartbeat_error(
    _: ConsumerGroupHeartbeatRequest, error: ErrorCode, message: str = ""
) -> Sliced[ConsumerGroupHeartbeatResponse]:
    """The error alone."""
    return done(
        ConsumerGroupHeartbeatResponse(
            throttle_time=NO_WAIT,
            error_code=error,
            error_message=explained(error, message),
            member_epoch=i32(0),
            heartbeat_interval=NO_WAIT,
        )
    )


def consumer_group_describe_error(
    request: ConsumerGroupDescribeRequest, error: ErrorCode, message: str = ""
) -> Sliced[ConsumerGroupDescribeResponse]:
    """Every group of the request, with the error."""
    groups = yield from mapped(
        request.group_ids,
        lambda group_id: ConsumerGroupDescribeDescribedGroup(
            error_code=error,
            error_message=explained(error, message),
            group_id=group_id,
            group_state="",
            group_epoch=i32(0),
            assignment_epoch=i32(0),
            assignor_name="",
            members=(),
        ),
    )
    return ConsumerGroupDescribeResponse(throttle_time=NO_WAIT, groups=groups)


def streams_group_heartbeat_error(
    _: StreamsGroupHeartbeatRequest, error: ErrorCode, message: str = ""
) -> Sliced[StreamsGroupHeartbeatResponse]:
    """The error alone."""
    return done(
        StreamsGroupHeartbeatResponse(
            throttle_time=NO_WAIT,
            error_code=error,
            error_message=explained(error, message),
            member_id="",
            member_epoch=i32(0),
            heartbeat_interval=NO_WAIT,
            acceptable_recovery_lag=i32(0),
            task_offset_interval=NO_WAIT,
            status=(),
            active_tasks=(),
            standby_tasks=(),
            warmup_tasks=(),
            endpoint_information_epoch=i32(0),
            partitions_by_user_endpoint=(),
        )
    )


def streams_group_describe_error(
    request: StreamsGroupDescribeRequest, error: ErrorCode, message: str = ""
) -> Sliced[StreamsGroupDescribeResponse]:
    """Every group of the request, with the error."""
    groups = yield from mapped(
        request.group_ids,
        lambda group_id: StreamsGroupDescribeDescribedGroup(
            error_code=error,
            error_message=explained(error, message),
            group_id=group_id,
            group_state="",
            group_epoch=i32(0),
            assignment_epoch=i32(0),
            members=(),
        ),
    )
    return StreamsGroupDescribeResponse(throttle_time=NO_WAIT, groups=groups)
