"""Groups of the newer protocol (KIP-848), of which there are none here; `group_members` beside it has the others.

A broker responds as Kafka does where there is no such group, or where the feature is off:

- a consumer group of the newer protocol that is described is not there;
- a heartbeat, which is how a member joins, is refused with UNSUPPORTED_VERSION, Kafka's error where a feature is off.
  Clients give up at once and say so.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from kio.schema.consumer_group_describe.v1.response import ConsumerGroupDescribeResponse
from kio.schema.errors import ErrorCode

from tidegauge.impl.server.error_responses.groups import (
    consumer_group_describe_error,
    consumer_group_heartbeat_error,
)
from tidegauge.impl.server.rights import denied_topics, group_error
from tidegauge.impl.server.transport.authorization import Operation
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
    from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
    from kio.schema.consumer_group_heartbeat.v1.response import ConsumerGroupHeartbeatResponse

    from tidegauge.impl.server.transport.context import RequestContext

NO_GROUPS: Final = "groups of the newer protocol are not here yet: set group.protocol=classic"

# --- members ---------------------------------------------------------------------------------------------------------


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
