"""Consumer groups of KIP-848 at their coordinator: ConsumerGroupHeartbeat, ConsumerGroupDescribe.

The rules are the core's (`impl.coordinators.groups.consumer`); here are those of the requests. Regular expressions are
held against the topics that the member may describe whose heartbeat has begun that.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kio.schema.consumer_group_describe.v1.response import Assignment as DescribedAssignment
from kio.schema.consumer_group_describe.v1.response import ConsumerGroupDescribeResponse, DescribedGroup, Member
from kio.schema.consumer_group_describe.v1.response import TopicPartitions as DescribedPartitions
from kio.schema.consumer_group_heartbeat.v1.response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32Timedelta

from tidegauge.impl.coordinators.groups.consumer.state import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    ConsumerGroup,
    ConsumerHeartbeat,
    ConsumerMember,
    HeartbeatResponse,
    Place,
)
from tidegauge.impl.metadata.features import GROUP_VERSION
from tidegauge.impl.records.slices import at_once
from tidegauge.impl.server.broker.consumer_members import HEARTBEAT_INTERVAL
from tidegauge.impl.server.broker.groups import Groups
from tidegauge.impl.server.error_responses.groups import consumer_group_describe_error, consumer_group_heartbeat_error
from tidegauge.impl.server.error_responses.refused import refused
from tidegauge.impl.server.requests.rights import denied_topics, group_error
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.primitives import NO_WAIT, i32
from tidegauge.impl.wire.unions import UNASKED

if TYPE_CHECKING:
    from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
    from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest

    from tidegauge.impl.server.broker.metadata_cache import MetadataCache
    from tidegauge.impl.server.transport.context import RequestContext

NONE: Final = ErrorCode.none
MILLISECOND: Final = timedelta(milliseconds=1)
CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1
"""The protocol that a member speaks."""
OWN_IDS_FROM: Final = 1
"""The version of ConsumerGroupHeartbeat from which members make their ids themselves (KIP-1082)."""

# --- members ---------------------------------------------------------------------------------------------------------


async def handle_consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext, *, groups: Groups, metadata: MetadataCache
) -> ConsumerGroupHeartbeatResponse:
    """Join a group, go on as its member, or leave it; the response has what the member is to own where that is new.

    Errors: UNSUPPORTED_VERSION while group.version is 0, GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED,
    INVALID_REQUEST, UNSUPPORTED_ASSIGNOR, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, and the core's.
    """
    refuse = partial(refused, context.pace, request, consumer_group_heartbeat_error)
    if metadata.image.feature_level(GROUP_VERSION) == 0:
        return await refuse(ErrorCode.unsupported_version, f"{GROUP_VERSION} is 0")
    denied = group_error(Operation.READ, request.group_id, context)
    if denied is not NONE:
        return await refuse(denied)
    if denied_topics(Operation.DESCRIBE, request.subscribed_topic_names or (), context):
        return await refuse(ErrorCode.topic_authorization_failed)
    if wrong := _wrong(request, context.api_version):
        return await refuse(ErrorCode.invalid_request, wrong)
    led = groups.led(request.group_id)
    if isinstance(led, ErrorCode):
        return await refuse(led)
    known = led.state.limits.consumer.assignors
    if request.server_assignor is not None and request.server_assignor not in known:
        return await refuse(ErrorCode.unsupported_assignor, f"the assignors here are {', '.join(known)}")
    owned = None if request.topic_partitions is None else await _places(request.topic_partitions, context)
    beat = ConsumerHeartbeat(
        group=request.group_id,
        member_id=request.member_id or groups.members.unique_id(),
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout // MILLISECOND,
        topics=request.subscribed_topic_names,
        expression=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=owned,
        client_id=context.client_id or "",
        client_host=f"/{context.client_host}",
    )
    may_describe = partial(context.allowed, Operation.DESCRIBE, ResourceType.TOPIC)
    told = await context.wait_briefly(partial(groups.consumers.heartbeat, led, beat, may_describe))
    if told.error is not NONE:
        return await refuse(told.error, told.message)
    interval = timedelta(milliseconds=groups.consumers.setting(request.group_id, HEARTBEAT_INTERVAL))
    return await _response(told, interval, context)


def _wrong(request: ConsumerGroupHeartbeatRequest, version: int) -> str:
    """What no member says."""
    if not request.group_id.strip():
        return "a group has a name"
    if version >= OWN_IDS_FROM and not request.member_id.strip():
        return "a member makes its id itself"
    if request.instance_id is not None and not request.instance_id.strip():
        return "an instance id is not empty"
    if request.rack_id is not None and not request.rack_id.strip():
        return "a rack is not empty"
    if request.member_epoch < STATIC_LEAVING_EPOCH:
        return f"a member epoch is {STATIC_LEAVING_EPOCH} at least"
    if request.member_epoch == JOINING_EPOCH:
        if request.rebalance_timeout == -MILLISECOND:
            return "who joins says how long it takes to give partitions back"
        if request.topic_partitions is None or request.topic_partitions:
            return "who joins owns nothing"
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            return "who joins says to what it subscribes, if only to nothing"
    elif (request.member_epoch > 0 or request.member_epoch == LEAVING_EPOCH) and not request.member_id.strip():
        return "a member has an id"
    if request.member_epoch == STATIC_LEAVING_EPOCH and request.instance_id is None:
        return "only a static member leaves to come back"
    return ""


async def _places(named: Iterable[Any], context: RequestContext) -> frozenset[Place]:
    places = set[Place]()
    async for topic in context.pace.each(named):
        places.update((str(topic.topic_id), index) for index in topic.partitions)
    return frozenset(places)


async def _by_topic(places: Iterable[Place], context: RequestContext) -> dict[str, list[i32]]:
    found: dict[str, list[i32]] = defaultdict(list)
    async for topic_id, index in context.pace.each(sorted(places)):
        found[topic_id].append(i32(index))
    return found


async def _response(
    told: HeartbeatResponse, interval: timedelta, context: RequestContext
) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if told.assignment is not None:
        topics = await _by_topic(told.assignment, context)
        assignment = Assignment(
            topic_partitions=tuple(
                TopicPartitions(topic_id=UUID(topic_id), partitions=tuple(indexes))
                for topic_id, indexes in topics.items()
            )
        )
    return ConsumerGroupHeartbeatResponse(
        throttle_time=NO_WAIT,
        error_code=NONE,
        member_id=told.member_id,
        member_epoch=i32(told.epoch),
        heartbeat_interval=i32Timedelta.parse(interval),
        assignment=assignment,
    )


# --- questions -------------------------------------------------------------------------------------------------------


async def handle_consumer_group_describe(
    request: ConsumerGroupDescribeRequest, context: RequestContext, *, groups: Groups, metadata: MetadataCache
) -> ConsumerGroupDescribeResponse:
    """Each group as the log has it, once: GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID for one without a name,
    NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND, TOPIC_AUTHORIZATION_FAILED for one that wants or
    has a topic that may not be described.
    """
    described = [
        await _described(request, group_id, context, groups, metadata)
        async for group_id in context.pace.each(dict.fromkeys(request.group_ids))
    ]
    return ConsumerGroupDescribeResponse(throttle_time=NO_WAIT, groups=tuple(described))


async def _described(
    request: ConsumerGroupDescribeRequest,
    group_id: GroupId,
    context: RequestContext,
    groups: Groups,
    metadata: MetadataCache,
) -> DescribedGroup:
    def without(error: ErrorCode, message: str = "") -> DescribedGroup:
        one = dataclasses.replace(request, group_ids=(group_id,))
        return at_once(consumer_group_describe_error(one, error, message)).groups[0]

    denied = group_error(Operation.DESCRIBE, group_id, context)
    if denied is NONE and not group_id:
        denied = ErrorCode.invalid_group_id
    led = groups.led(group_id) if denied is NONE else denied
    if isinstance(led, ErrorCode):
        return without(led)
    is_classic = led.state.classic.get(group_id) is not None
    group = None if is_classic else led.state.consumers.committed.get(group_id)
    if group is None:
        return without(ErrorCode.group_id_not_found, f"there is no consumer group {group_id!r}")
    if denied_topics(Operation.DESCRIBE, _told_topics(group, metadata), context):
        return without(ErrorCode.topic_authorization_failed)
    members = [await _member(one, group, context, metadata) async for one in context.pace.each(group.members.values())]
    asked = context.operations(ResourceType.GROUP, group_id) if request.include_authorized_operations else UNASKED
    return DescribedGroup(
        error_code=NONE,
        group_id=group_id,
        group_state=group.state,
        group_epoch=i32(group.epoch),
        assignment_epoch=i32(group.target_epoch),
        assignor_name=led.state.consumers.rules.assignor(group, led.state.limits.consumer.assignors),
        members=tuple(members),
        authorized_operations=i32(asked),
    )


def _told_topics(group: ConsumerGroup, metadata: MetadataCache) -> set[str]:
    """What a description of the group names: what members want, and what they have still, or are to have."""
    names = {name for member in group.members.values() for name in group.wants(member)}
    told = (*(member.assigned for member in group.members.values()), *group.target.values())
    has = (metadata.topic_name(topic_id) for topic_id in {topic_id for places in told for topic_id, _ in places})
    return names.union(name for name in has if name is not None)


async def _member(
    member: ConsumerMember, group: ConsumerGroup, context: RequestContext, metadata: MetadataCache
) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=i32(member.epoch),
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(TopicName(name) for name in sorted(member.topics)),
        subscribed_topic_regex=member.expression or None,
        assignment=await _assignment(member.assigned, context, metadata),
        target_assignment=await _assignment(group.target.get(member.member_id, ()), context, metadata),
        member_type=i8(CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER),
    )


async def _assignment(places: Iterable[Place], context: RequestContext, metadata: MetadataCache) -> DescribedAssignment:
    topics = await _by_topic(places, context)
    named = [(topic_id, metadata.topic_name(topic_id), indexes) for topic_id, indexes in topics.items()]
    return DescribedAssignment(
        topic_partitions=tuple(
            DescribedPartitions(topic_id=UUID(topic_id), topic_name=TopicName(name), partitions=tuple(indexes))
            for topic_id, name, indexes in named
            if name is not None
        )
    )
