"""Consumer groups and streams groups, of which there are none here yet.

A broker responds as Kafka does where there is no group, or where the feature is off:

- a question finds nothing: no group is listed, and a group that is described is not there;
- a request to join is refused with UNSUPPORTED_VERSION, Kafka's error where a feature is off. Clients give up at once
  and say so; COORDINATOR_NOT_AVAILABLE would have them try again for ever;
- a member's request gets UNKNOWN_MEMBER_ID.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from kio.schema.consumer_group_describe.v1.response import ConsumerGroupDescribeResponse
from kio.schema.delete_groups.v2.response import DeleteGroupsResponse
from kio.schema.describe_groups.v6.response import DescribedGroup, DescribeGroupsResponse
from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v5.response import ListGroupsResponse

from tidegauge.impl.server.error_responses.groups import (
    consumer_group_describe_error,
    consumer_group_heartbeat_error,
    delete_groups_error,
    heartbeat_error,
    join_group_error,
    leave_group_error,
    sync_group_error,
)
from tidegauge.impl.server.refusals import on_group, refuse
from tidegauge.impl.server.rights import denied_topics, group_error
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.primitives import NO_WAIT, i32
from tidegauge.impl.wire.unions import UNASKED

if TYPE_CHECKING:
    from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
    from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
    from kio.schema.consumer_group_heartbeat.v1.response import ConsumerGroupHeartbeatResponse
    from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
    from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
    from kio.schema.list_groups.v5.request import ListGroupsRequest
    from kio.schema.types import GroupId

    from tidegauge.impl.server.transport.context import RequestContext

NO_GROUPS: Final = "there are no consumer groups here yet: assign partitions by hand, and keep offsets yourself"
NOT_FOUND_FROM: Final = 6
"""The version of DescribeGroups from which a group that is not there is an error, and not a dead group."""

# --- members ---------------------------------------------------------------------------------------------------------

_MAY_READ: Final = on_group(Operation.READ)

handle_join_group: Final = refuse(join_group_error, _MAY_READ, ErrorCode.unsupported_version)
handle_heartbeat: Final = refuse(heartbeat_error, _MAY_READ, ErrorCode.unknown_member_id)
handle_leave_group: Final = refuse(leave_group_error, _MAY_READ, ErrorCode.unknown_member_id)
handle_sync_group: Final = refuse(sync_group_error, _MAY_READ, ErrorCode.unknown_member_id)


async def handle_consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerGroupHeartbeatResponse:
    """GROUP_AUTHORIZATION_FAILED, or TOPIC_AUTHORIZATION_FAILED for a topic that may not be described, or
    UNSUPPORTED_VERSION.
    """
    denied = group_error(Operation.READ, request.group_id, context)
    if denied is not ErrorCode.none:
        return consumer_group_heartbeat_error(request, denied)
    if denied_topics(Operation.DESCRIBE, request.subscribed_topic_names or (), context):
        return consumer_group_heartbeat_error(request, ErrorCode.topic_authorization_failed)
    return consumer_group_heartbeat_error(request, ErrorCode.unsupported_version, NO_GROUPS)


# --- questions -------------------------------------------------------------------------------------------------------


async def handle_describe_groups(request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    """No group is there: an error, or a dead group to older clients."""
    return DescribeGroupsResponse(
        throttle_time=NO_WAIT,
        groups=tuple(
            [
                _described(group, request.include_authorized_operations, context)
                async for group in context.pace.each(request.groups)
            ]
        ),
    )


def _described(group: GroupId, include_operations: bool, context: RequestContext) -> DescribedGroup:
    error = group_error(Operation.DESCRIBE, group, context)
    allowed = error is ErrorCode.none
    missing = allowed and context.api_version >= NOT_FOUND_FROM
    return DescribedGroup(
        error_code=ErrorCode.group_id_not_found if missing else error,
        error_message=f"there is no group {group!r}" if missing else None,
        group_id=group,
        group_state="Dead" if allowed else "",
        protocol_type="",
        protocol_data="",
        members=(),
        authorized_operations=i32(
            context.operations(ResourceType.GROUP, group) if include_operations and allowed else UNASKED
        ),
    )


async def handle_list_groups(request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    """There are none."""
    return ListGroupsResponse(throttle_time=NO_WAIT, error_code=ErrorCode.none, groups=())


async def handle_delete_groups(request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
    """GROUP_AUTHORIZATION_FAILED or GROUP_ID_NOT_FOUND, group by group."""
    results = [
        result
        async for group_id in context.pace.each(request.groups_names)
        for result in delete_groups_error(
            dataclasses.replace(request, groups_names=(group_id,)), _missing(Operation.DELETE, group_id, context)
        ).results
    ]
    return DeleteGroupsResponse(throttle_time=NO_WAIT, results=tuple(results))


async def handle_consumer_group_describe(
    request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    """GROUP_AUTHORIZATION_FAILED or GROUP_ID_NOT_FOUND, group by group."""
    groups = [
        group
        async for group_id in context.pace.each(request.group_ids)
        for group in consumer_group_describe_error(
            dataclasses.replace(request, group_ids=(group_id,)), _missing(Operation.DESCRIBE, group_id, context)
        ).groups
    ]
    return ConsumerGroupDescribeResponse(throttle_time=NO_WAIT, groups=tuple(groups))


def _missing(operation: Operation, group_id: str, context: RequestContext) -> ErrorCode:
    denied = group_error(operation, group_id, context)
    return ErrorCode.group_id_not_found if denied is ErrorCode.none else denied
