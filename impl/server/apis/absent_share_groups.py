"""Share groups (KIP-932), of which there are none here: UNSUPPORTED_VERSION, as from a Kafka where they are off."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from kio.schema.describe_share_group_offsets.v1.response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)
from kio.schema.errors import ErrorCode
from kio.schema.share_group_describe.v1.response import DescribedGroup, ShareGroupDescribeResponse

from tidegauge.impl.records.slices import at_once
from tidegauge.impl.server.error_responses.share_groups import (
    alter_share_group_offsets_error,
    delete_share_group_offsets_error,
    describe_share_group_offsets_error,
    share_acknowledge_error,
    share_fetch_error,
    share_group_describe_error,
    share_group_heartbeat_error,
)
from tidegauge.impl.server.requests.refusals import on_group, refuse
from tidegauge.impl.server.requests.rights import group_error
from tidegauge.impl.server.transport.authorization import Operation
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.describe_share_group_offsets.v1.request import DescribeShareGroupOffsetsRequest
    from kio.schema.share_group_describe.v1.request import ShareGroupDescribeRequest

    from tidegauge.impl.server.transport.context import RequestContext

NO_SHARE_GROUPS: Final = "there are no share groups here"
OFF: Final = ErrorCode.unsupported_version
_MAY_READ: Final = on_group(Operation.READ)
_MAY_DELETE: Final = on_group(Operation.DELETE)

handle_share_group_heartbeat: Final = refuse(share_group_heartbeat_error, _MAY_READ, OFF, NO_SHARE_GROUPS)
handle_share_fetch: Final = refuse(share_fetch_error, _MAY_READ, OFF, NO_SHARE_GROUPS)
handle_share_acknowledge: Final = refuse(share_acknowledge_error, _MAY_READ, OFF, NO_SHARE_GROUPS)
handle_alter_share_group_offsets: Final = refuse(alter_share_group_offsets_error, _MAY_READ, OFF, NO_SHARE_GROUPS)
handle_delete_share_group_offsets: Final = refuse(delete_share_group_offsets_error, _MAY_DELETE, OFF, NO_SHARE_GROUPS)


async def handle_share_group_describe(
    request: ShareGroupDescribeRequest, context: RequestContext
) -> ShareGroupDescribeResponse:
    """GROUP_AUTHORIZATION_FAILED or UNSUPPORTED_VERSION, group by group."""
    groups: list[DescribedGroup] = []
    async for group_id in context.pace.each(request.group_ids):
        one = dataclasses.replace(request, group_ids=(group_id,))
        groups += at_once(share_group_describe_error(one, *_refusal(group_id, context))).groups
    return ShareGroupDescribeResponse(throttle_time=NO_WAIT, groups=tuple(groups))


async def handle_describe_share_group_offsets(
    request: DescribeShareGroupOffsetsRequest, context: RequestContext
) -> DescribeShareGroupOffsetsResponse:
    """GROUP_AUTHORIZATION_FAILED or UNSUPPORTED_VERSION, group by group."""
    groups: list[DescribeShareGroupOffsetsResponseGroup] = []
    async for group in context.pace.each(request.groups):
        one = dataclasses.replace(request, groups=(group,))
        groups += at_once(describe_share_group_offsets_error(one, *_refusal(group.group_id, context))).groups
    return DescribeShareGroupOffsetsResponse(throttle_time=NO_WAIT, groups=tuple(groups))


def _refusal(group_id: str, context: RequestContext) -> tuple[ErrorCode, str]:
    denied = group_error(Operation.DESCRIBE, group_id, context)
    return (OFF, NO_SHARE_GROUPS) if denied is ErrorCode.none else (denied, "")
