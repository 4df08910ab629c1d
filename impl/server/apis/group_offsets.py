"""The offsets of groups at their coordinator: OffsetCommit, OffsetFetch, OffsetDelete.

Rights come first, then whether there is such a topic, then the coordinator. A client without a membership names no
generation: its group is simple, and is there as long as it has an offset.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode
from kio.schema.offset_commit.v10.response import OffsetCommitResponsePartition
from kio.schema.offset_delete.v0.response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kio.schema.offset_fetch.v10.response import OffsetFetchResponsePartitions

from tidegauge.impl.coordinators.groups.offsets import CommittedOffset
from tidegauge.impl.coordinators.groups.record_formats import NO_LEADER_EPOCH, OffsetKey
from tidegauge.impl.coordinators.groups.requests import Commit, NewOffset, Ruling
from tidegauge.impl.server.broker.groups import Groups
from tidegauge.impl.server.error_responses.group_offsets import offset_commit_error, offset_delete_error
from tidegauge.impl.server.error_responses.refused import refused
from tidegauge.impl.server.requests.deleted_topics import of_topics_there
from tidegauge.impl.server.requests.rights import group_error, topic_error
from tidegauge.impl.server.transport.authorization import Operation
from tidegauge.impl.wire.offset_unions import (
    AnyOffsetCommitRequest,
    AnyOffsetCommitResponse,
    AnyOffsetFetchRequest,
    AnyOffsetFetchResponse,
    CommittedTopic,
    CommittedTopicResponse,
    FetchedGroup,
    FetchedGroupResponse,
    FetchedTopic,
    FetchedTopicResponse,
)
from tidegauge.impl.wire.primitives import NO_WAIT, TopicName, i32, i64, topic_uuid

if TYPE_CHECKING:
    from uuid import UUID

    from kio.schema.offset_delete.v0.request import OffsetDeleteRequest

    from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator
    from tidegauge.impl.server.broker.metadata_cache import MetadataCache
    from tidegauge.impl.server.transport.context import RequestContext

NONE: Final = ErrorCode.none
MILLISECOND: Final = timedelta(milliseconds=1)
NOWHERE: Final = -1
IDS_FROM: Final = 10
"""The version of OffsetCommit from which topics have ids and no names."""
ERROR_OF_GROUP_FROM: Final = 2
"""The version of OffsetFetch from which a group has an error of its own; before, each of its partitions has it."""

# --- OffsetCommit ----------------------------------------------------------------------------------------------------


async def handle_offset_commit(
    request: AnyOffsetCommitRequest, context: RequestContext, *, groups: Groups, metadata: MetadataCache
) -> AnyOffsetCommitResponse:
    """Commit what may be committed; each partition has an error of its own.

    Errors: GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, those
    of the core (`impl.coordinators.groups.coordinator`), and of the coordinator: NOT_COORDINATOR,
    COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE.
    """
    denied = group_error(Operation.READ, request.group_id, context)
    if denied is not NONE:
        return await refused(context.pace, request, offset_commit_error, denied)
    named = [(topic, _name(topic, metadata)) async for topic in context.pace.each(request.topics)]
    offsets: list[NewOffset] = []
    errors: dict[tuple[str, int], ErrorCode] = {}
    for topic, name in named:
        refusal = _topic_error(name, Operation.READ, context)
        async for one in context.pace.each(topic.partitions if name is not None else ()):
            assert name is not None, "a topic without a name has no partition here"
            error = refusal
            if error is NONE and metadata.image.partition(name, one.partition_index) is None:
                error = ErrorCode.unknown_topic_or_partition
            if error is not NONE:
                errors[name, one.partition_index] = error
            else:
                epoch, text = one.committed_leader_epoch, one.committed_metadata or ""
                offsets.append(NewOffset(name, one.partition_index, one.committed_offset, epoch, text))
    if offsets:
        commit = Commit(
            request.group_id,
            offsets,
            generation=request.generation_id_or_member_epoch,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            retention_ms=request.retention_time // MILLISECOND,
            version=context.api_version,
            topic_ids={name: metadata.image.topics[name].topic_id for name in {one.topic for one in offsets}},
        )
        for part in commit.parts():
            errors |= await _committed(part, context, groups, metadata)
    topics = [await _committed_topic(topic, name, errors, context) async for topic, name in context.pace.each(named)]
    return AnyOffsetCommitResponse(throttle_time=NO_WAIT, topics=tuple(topics))


async def _committed(
    commit: Commit, context: RequestContext, groups: Groups, metadata: MetadataCache
) -> Mapping[tuple[str, int], ErrorCode]:
    """The errors of a commit, by topic and partition."""
    unknown = ErrorCode.unknown_topic_id if context.api_version >= IDS_FROM else ErrorCode.unknown_topic_or_partition
    commit, gone = of_topics_there(commit, metadata.image)
    led = groups.led(commit.group)
    if isinstance(led, ErrorCode):
        error, ruling = led, Ruling(led)
    else:
        ruling = led.state.commit(commit, groups.now_ms)
        if ruling.error is NONE:
            led.state.classic.committed_by(commit.group, commit.member_id, groups.moment)
        error = await context.wait_briefly(partial(groups.carry_out, led, ruling))
    whole = {} if error is NONE else {(one.topic, one.partition): error for one in commit.offsets}
    return {**dict.fromkeys(gone, unknown), **whole, **ruling.refused}


async def _committed_topic(
    topic: CommittedTopic, name: str | None, errors: Mapping[tuple[str, int], ErrorCode], context: RequestContext
) -> CommittedTopicResponse:
    unknown = ErrorCode.unknown_topic_id
    partitions = [
        OffsetCommitResponsePartition(
            partition_index=one.partition_index,
            error_code=unknown if name is None else errors.get((name, one.partition_index), NONE),
        )
        async for one in context.pace.each(topic.partitions)
    ]
    return CommittedTopicResponse(topic_id=topic.topic_id, name=topic.name, partitions=tuple(partitions))


def _name(topic: CommittedTopic | FetchedTopic, metadata: MetadataCache) -> str | None:
    """The topic's name; None for an id that no topic has."""
    return topic.name if topic.topic_id is None else metadata.topic_name(str(topic.topic_id))


def _topic_error(name: str | None, operation: Operation, context: RequestContext) -> ErrorCode:
    return ErrorCode.unknown_topic_id if name is None else topic_error(operation, name, context)


# --- OffsetFetch -----------------------------------------------------------------------------------------------------


async def handle_offset_fetch(
    request: AnyOffsetFetchRequest, context: RequestContext, *, groups: Groups, metadata: MetadataCache
) -> AnyOffsetFetchResponse:
    """What groups have committed; -1 and no error where there is nothing.

    Errors of a group: GROUP_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS. Of a partition:
    TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_ID, and UNSTABLE_OFFSET_COMMIT to who asks for stable offsets (KIP-447).
    What is asked for again is left out.
    """
    stable = request.require_stable
    found = [
        await _fetched_group(group, context, groups, metadata, require_stable=stable)
        for group in await _asked_once(request.groups, context)
    ]
    return AnyOffsetFetchResponse(throttle_time=NO_WAIT, groups=tuple(found))


async def _asked_once(asked: Iterable[FetchedGroup], context: RequestContext) -> list[FetchedGroup]:
    """The groups with each partition the first time that the request names it for the group."""
    seen: set[tuple[object, ...]] = set()

    def is_first(*what: object) -> bool:
        known = len(seen)
        seen.add(what)
        return len(seen) > known

    groups: list[FetchedGroup] = []
    async for group in context.pace.each(asked):
        if group.topics is None:
            if is_first(group.group_id):
                groups.append(group)
            continue
        topics = []
        async for topic in context.pace.each(group.topics):
            which = group.group_id, topic.topic_id, topic.name
            indexes = [one async for one in context.pace.each(topic.partition_indexes) if is_first(*which, one)]
            if indexes or is_first(*which):
                topics.append(dataclasses.replace(topic, partition_indexes=tuple(indexes)))
        if topics or is_first(group.group_id, None):
            groups.append(dataclasses.replace(group, topics=tuple(topics)))
    return groups


async def _fetched_group(
    group: FetchedGroup, context: RequestContext, groups: Groups, metadata: MetadataCache, *, require_stable: bool
) -> FetchedGroupResponse:
    error = group_error(Operation.DESCRIBE, group.group_id, context)
    rights = [
        (topic, name := _name(topic, metadata), _topic_error(name, Operation.DESCRIBE, context))
        async for topic in context.pace.each(group.topics or ())
    ]
    led = groups.led(group.group_id) if error is NONE else error
    if not isinstance(led, ErrorCode) and (stale := _member_error(led.state, group)) is not NONE:
        led = stale
    if isinstance(led, ErrorCode):
        if error is not NONE or not rights or any(refusal is NONE for _, _, refusal in rights):
            return await _refused_group(group, led, context)
        return await _refused_topics(group, rights, context)
    if group.topics is None:
        topics = await _everything(led.state, group.group_id, context, metadata, require_stable=require_stable)
    else:
        topics = []
        for topic, name, refusal in rights:
            partitions = [
                _fetched(index, refusal)
                if name is None or refusal is not NONE
                else _fetched(
                    index,
                    led.state.fetch(OffsetKey(group.group_id, name, index), require_stable=require_stable),
                )
                async for index in context.pace.each(topic.partition_indexes)
            ]
            topics.append(FetchedTopicResponse(name=topic.name, topic_id=topic.topic_id, partitions=tuple(partitions)))
    return FetchedGroupResponse(group_id=group.group_id, error_code=NONE, topics=tuple(topics))


def _member_error(core: GroupCoordinator, group: FetchedGroup) -> ErrorCode:
    """Why a member of a consumer group (KIP-848) is told nothing: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH."""
    consumers = core.migration.consumer_group(group.group_id)
    if consumers is None:
        return NONE
    return core.consumers.rules.fetch_error(consumers, group.member_id, group.member_epoch)


async def _refused_topics(
    group: FetchedGroup, rights: Iterable[tuple[FetchedTopic, str | None, ErrorCode]], context: RequestContext
) -> FetchedGroupResponse:
    """Of a group without a coordinator here: none of the topics may be described, and no more is told."""
    topics = [await _refused_topic(topic, refusal, context) for topic, _, refusal in rights]
    return FetchedGroupResponse(group_id=group.group_id, error_code=NONE, topics=tuple(topics))


async def _refused_group(group: FetchedGroup, error: ErrorCode, context: RequestContext) -> FetchedGroupResponse:
    topics = group.topics or () if context.api_version < ERROR_OF_GROUP_FROM else ()
    refused = [await _refused_topic(topic, error, context) for topic in topics]
    return FetchedGroupResponse(group_id=group.group_id, error_code=error, topics=tuple(refused))


async def _refused_topic(topic: FetchedTopic, error: ErrorCode, context: RequestContext) -> FetchedTopicResponse:
    partitions = [_fetched(index, error) async for index in context.pace.each(topic.partition_indexes)]
    return FetchedTopicResponse(name=topic.name, topic_id=topic.topic_id, partitions=tuple(partitions))


async def _everything(
    core: GroupCoordinator,
    group: str,
    context: RequestContext,
    metadata: MetadataCache,
    *,
    require_stable: bool,
) -> list[FetchedTopicResponse]:
    """All that the group has committed, in topics that the client may describe."""
    topics: dict[str, list[OffsetFetchResponsePartitions]] = defaultdict(list)
    offsets = core.fetch_all(group, require_stable=require_stable)
    async for (name, index), found in context.pace.each(offsets.items()):
        topics[name].append(_fetched(index, found))
    return [
        FetchedTopicResponse(name=name, topic_id=_id(name, metadata), partitions=tuple(partitions))
        for name, partitions in topics.items()
        if topic_error(Operation.DESCRIBE, name, context) is NONE
    ]


def _id(name: str, metadata: MetadataCache) -> UUID | None:
    topic = metadata.image.topics.get(name)
    return None if topic is None else topic_uuid(topic.topic_id)


def _fetched(index: int, found: CommittedOffset | ErrorCode | None) -> OffsetFetchResponsePartitions:
    known = found.value if isinstance(found, CommittedOffset) else None
    return OffsetFetchResponsePartitions(
        partition_index=i32(index),
        committed_offset=i64(NOWHERE if known is None else known.offset),
        committed_leader_epoch=i32(NO_LEADER_EPOCH if known is None else known.leader_epoch),
        metadata="" if known is None else known.metadata,
        error_code=found if isinstance(found, ErrorCode) else NONE,
    )


# --- OffsetDelete ----------------------------------------------------------------------------------------------------


async def handle_offset_delete(
    request: OffsetDeleteRequest, context: RequestContext, *, groups: Groups, metadata: MetadataCache
) -> OffsetDeleteResponse:
    """Delete offsets of a group (KIP-496).

    Errors of the request: GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, and the
    coordinator's. Of a partition: TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, GROUP_SUBSCRIBED_TO_TOPIC.
    """
    denied = group_error(Operation.DELETE, request.group_id, context)
    if denied is not NONE:
        return await refused(context.pace, request, offset_delete_error, denied)
    errors: dict[tuple[str, int], ErrorCode] = {}
    wanted: list[tuple[str, int]] = []
    for topic in request.topics:
        refusal = topic_error(Operation.READ, topic.name, context)
        for one in topic.partitions:
            error = refusal
            if error is NONE and metadata.image.partition(topic.name, one.partition_index) is None:
                error = ErrorCode.unknown_topic_or_partition
            if error is NONE:
                wanted.append((topic.name, one.partition_index))
            else:
                errors[topic.name, one.partition_index] = error
    if wanted or not errors:
        error, refused_places = await _deleted(request.group_id, wanted, context, groups)
        errors |= refused_places
        if error is not NONE:
            response = await refused(context.pace, request, offset_delete_error, error)
            return dataclasses.replace(response, topics=())
    return OffsetDeleteResponse(
        error_code=NONE,
        throttle_time=NO_WAIT,
        topics=tuple(
            OffsetDeleteResponseTopic(
                name=TopicName(topic.name),
                partitions=tuple(
                    OffsetDeleteResponsePartition(
                        partition_index=one.partition_index,
                        error_code=errors.get((topic.name, one.partition_index), NONE),
                    )
                    for one in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


async def _deleted(
    group: str, places: Iterable[tuple[str, int]], context: RequestContext, groups: Groups
) -> tuple[ErrorCode, Mapping[tuple[str, int], ErrorCode]]:
    """The error of the request, and those of partitions."""
    led = groups.led(group) if group else ErrorCode.invalid_group_id
    if isinstance(led, ErrorCode):
        return led, {}
    ruling = led.state.delete_offsets(group, places)
    return await context.wait_briefly(partial(groups.carry_out, led, ruling)), ruling.refused
