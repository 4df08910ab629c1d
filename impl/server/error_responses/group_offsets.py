"""Error responses: coordinators and the offsets that groups keep there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse
from kio.schema.offset_commit.v10.response import OffsetCommitResponsePartition
from kio.schema.offset_delete.v0.response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kio.schema.offset_fetch.v10.response import OffsetFetchResponsePartitions

from tidegauge.impl.server.error_responses.explanation import explained
from tidegauge.impl.wire.offset_unions import (
    AnyOffsetCommitRequest,
    AnyOffsetCommitResponse,
    AnyOffsetFetchRequest,
    AnyOffsetFetchResponse,
    CommittedTopicResponse,
    FetchedGroupResponse,
    FetchedTopicResponse,
)
from tidegauge.impl.wire.primitives import NO_WAIT, BrokerId, i32, i64

if TYPE_CHECKING:
    from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
    from kio.schema.offset_delete.v0.request import OffsetDeleteRequest


def find_coordinator_error(
    request: FindCoordinatorRequest, error: ErrorCode, message: str = ""
) -> FindCoordinatorResponse:
    """Every key of the request, with the error."""
    return FindCoordinatorResponse(
        throttle_time=NO_WAIT,
        coordinators=tuple(
            Coordinator(
                key=key,
                node_id=BrokerId(-1),
                host="",
                port=i32(-1),
                error_code=error,
                error_message=explained(error, message),
            )
            for key in request.coordinator_keys
        ),
    )


def offset_commit_error(request: AnyOffsetCommitRequest, error: ErrorCode, _: str = "") -> AnyOffsetCommitResponse:
    """Every partition of the request, with the error."""
    return AnyOffsetCommitResponse(
        throttle_time=NO_WAIT,
        topics=tuple(
            CommittedTopicResponse(
                topic_id=topic.topic_id,
                partitions=tuple(
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
                    for partition in topic.partitions
                ),
                name=topic.name,
            )
            for topic in request.topics
        ),
    )


def offset_fetch_error(request: AnyOffsetFetchRequest, error: ErrorCode, _: str = "") -> AnyOffsetFetchResponse:
    """Every partition of the request, with the error."""
    return AnyOffsetFetchResponse(
        throttle_time=NO_WAIT,
        groups=tuple(
            FetchedGroupResponse(
                group_id=group.group_id,
                topics=tuple(
                    FetchedTopicResponse(
                        topic_id=topic.topic_id,
                        partitions=tuple(
                            OffsetFetchResponsePartitions(
                                partition_index=index, committed_offset=i64(-1), metadata="", error_code=error
                            )
                            for index in topic.partition_indexes
                        ),
                        name=topic.name,
                    )
                    for topic in group.topics or ()
                ),
                error_code=error,
            )
            for group in request.groups
        ),
    )


def offset_delete_error(request: OffsetDeleteRequest, error: ErrorCode, _: str = "") -> OffsetDeleteResponse:
    """The error, for the request and for every partition of it."""
    return OffsetDeleteResponse(
        error_code=error,
        throttle_time=NO_WAIT,
        topics=tuple(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=error)
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )
