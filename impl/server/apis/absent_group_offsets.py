"""The offsets that groups keep at their coordinator: there are no groups here yet.

Each broker says of itself that it is the coordinator of a group (`impl.server.apis.coordinators`), so that a consumer
that was assigned partitions by hand can ask for its offsets, learn that there are none, and go on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode
from kio.schema.offset_fetch.v10.response import OffsetFetchResponsePartitions

from tidegauge.impl.server.error_responses.group_offsets import offset_commit_error, offset_delete_error
from tidegauge.impl.server.rights import denied_topics, group_error, topic_error
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
from tidegauge.impl.wire.primitives import NO_WAIT, i32, i64

if TYPE_CHECKING:
    from kio.schema.offset_delete.v0.request import OffsetDeleteRequest
    from kio.schema.offset_delete.v0.response import OffsetDeleteResponse

    from tidegauge.impl.server.broker.metadata_cache import MetadataCache
    from tidegauge.impl.server.transport.context import RequestContext

NOWHERE: Final = -1

# --- offsets ---------------------------------------------------------------------------------------------------------


async def handle_offset_fetch(
    request: AnyOffsetFetchRequest, context: RequestContext, *, metadata: MetadataCache
) -> AnyOffsetFetchResponse:
    """A group that is not there has no offsets: -1 for each partition asked for, and no error."""
    groups = [_fetched_group(metadata, group, context) async for group in context.pace.each(request.groups)]
    return AnyOffsetFetchResponse(throttle_time=NO_WAIT, groups=tuple(groups))


def _fetched_group(metadata: MetadataCache, group: FetchedGroup, context: RequestContext) -> FetchedGroupResponse:
    error = group_error(Operation.DESCRIBE, group.group_id, context)
    return FetchedGroupResponse(
        group_id=group.group_id,
        error_code=error,
        topics=tuple(
            FetchedTopicResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=_no_offsets(
                    topic.partition_indexes,
                    error
                    if error is not ErrorCode.none
                    else _topic_error(metadata, topic, Operation.DESCRIBE, context),
                ),
            )
            for topic in group.topics or ()
        ),
    )


def _no_offsets(partitions: Sequence[int], error: ErrorCode) -> tuple[OffsetFetchResponsePartitions, ...]:
    return tuple(
        OffsetFetchResponsePartitions(
            partition_index=i32(index),
            committed_offset=i64(NOWHERE),
            committed_leader_epoch=i32(NOWHERE),
            metadata="",
            error_code=error,
        )
        for index in partitions
    )


def _topic_error(
    metadata: MetadataCache, topic: FetchedTopic | CommittedTopic, operation: Operation, context: RequestContext
) -> ErrorCode:
    name = metadata.topic_name(str(topic.topic_id)) if topic.topic_id is not None else topic.name
    if name is None:
        return ErrorCode.unknown_topic_id
    return topic_error(operation, name, context)


async def handle_offset_commit(
    request: AnyOffsetCommitRequest, context: RequestContext, *, metadata: MetadataCache
) -> AnyOffsetCommitResponse:
    """Nothing keeps offsets yet: UNSUPPORTED_VERSION for each topic, unless the client may not read it or the group."""
    denied = group_error(Operation.READ, request.group_id, context)
    topics: list[CommittedTopicResponse] = []
    async for topic in context.pace.each(request.topics):
        error = denied if denied is not ErrorCode.none else _topic_error(metadata, topic, Operation.READ, context)
        error = ErrorCode.unsupported_version if error is ErrorCode.none else error
        topics += offset_commit_error(dataclasses.replace(request, topics=(topic,)), error).topics
    return AnyOffsetCommitResponse(throttle_time=NO_WAIT, topics=tuple(topics))


async def handle_offset_delete(request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse:
    """GROUP_AUTHORIZATION_FAILED, or TOPIC_AUTHORIZATION_FAILED where no topic may be read, or GROUP_ID_NOT_FOUND."""
    denied = group_error(Operation.DELETE, request.group_id, context)
    if denied is not ErrorCode.none:
        return offset_delete_error(request, denied)
    forbidden = denied_topics(Operation.READ, (topic.name for topic in request.topics), context)
    if request.topics and len(forbidden) == len(request.topics):
        refused = offset_delete_error(request, ErrorCode.topic_authorization_failed)
        return dataclasses.replace(refused, error_code=ErrorCode.none)
    return offset_delete_error(request, ErrorCode.group_id_not_found)
