"""Streams groups (KIP-1071), of which there are none here: UNSUPPORTED_VERSION, as from a Kafka where they are off."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode
from kio.schema.streams_group_describe.v0.response import DescribedGroup, StreamsGroupDescribeResponse

from tidegauge.impl.records.slices import at_once
from tidegauge.impl.server.error_responses.groups import streams_group_describe_error, streams_group_heartbeat_error
from tidegauge.impl.server.requests.refusals import on_group, refuse
from tidegauge.impl.server.requests.rights import group_error
from tidegauge.impl.server.transport.authorization import Operation
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.streams_group_describe.v0.request import StreamsGroupDescribeRequest

    from tidegauge.impl.server.transport.context import RequestContext

NO_STREAMS_GROUPS: Final = "there are no streams groups here"

handle_streams_group_heartbeat: Final = refuse(
    streams_group_heartbeat_error, on_group(Operation.READ), ErrorCode.unsupported_version, NO_STREAMS_GROUPS
)


async def handle_streams_group_describe(
    request: StreamsGroupDescribeRequest, context: RequestContext
) -> StreamsGroupDescribeResponse:
    """GROUP_AUTHORIZATION_FAILED or UNSUPPORTED_VERSION, group by group."""
    groups: list[DescribedGroup] = []
    async for group_id in context.pace.each(request.group_ids):
        one = dataclasses.replace(request, group_ids=(group_id,))
        denied = group_error(Operation.DESCRIBE, group_id, context)
        if denied is ErrorCode.none:
            response = streams_group_describe_error(one, ErrorCode.unsupported_version, NO_STREAMS_GROUPS)
        else:
            response = streams_group_describe_error(one, denied)
        groups += at_once(response).groups
    return StreamsGroupDescribeResponse(throttle_time=NO_WAIT, groups=tuple(groups))
