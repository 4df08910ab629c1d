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

from tidegauge.impl.records.slices import Sliced, mapped, mapped_in_slices
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
    from kio.schema.offset_delete.v0.request import OffsetDeleteRequest, OffsetDeleteRequestTopic

    from tidegauge.impl.wire.offset_unions import CommittedTopic, FetchedGroup, FetchedTopic


def find_coordinator_error(
    request: FindCoordinatorRequest, error: ErrorCode, message: str = ""
) -> Sliced[FindCoordinatorResponse]:
    """Every key of the request, with the error."""
    coordinators = yield from mapped(
        request.coordinator_keys,
        lambda key: Coordinator(
            key=key,
            node_id=BrokerId(-1),
            host="",
            port=i32(-1),
            error_code=error,
            error_message=explained(error, message),
        ),
    )
    return FindCoordinatorResponse(throttle_time=NO_WAIT, coordinators=coordinators)


def offset_commit_error(
    request: AnyOffsetCommitRequest, error: ErrorCode, _: str = ""
) -> Sliced[AnyOffsetCommitResponse]:
    """Every partition of the request, with the error."""

    def of_topic(topic: CommittedTopic) -> Sliced[CommittedTopicResponse]:
        partitions = yield from mapped(
            topic.partitions,
            lambda partition: OffsetCommitResponsePartition(
                partition_index=partition.partition_index, error_code=error
            ),
        )
        return CommittedTopicResponse(topic_id=topic.topic_id, partitions=partitions, name=topic.name)

    topics = yield from mapped_in_slices(request.topics, of_topic)
    return AnyOffsetCommitResponse(throttle_time=NO_WAIT, topics=topics)


def offset_fetch_error(request: AnyOffsetFetchRequest, error: ErrorCode, _: str = "") -> Sliced[AnyOffsetFetchResponse]:
    """Every partition of the request, with the error."""

    def of_group(group: FetchedGroup) -> Sliced[FetchedGroupResponse]:
        def of_topic(topic: FetchedTopic) -> Sliced[FetchedTopicResponse]:
            partitions = yield from mapped(
                topic.partition_indexes,
                lambda index: OffsetFetchResponsePartitions(
                    partition_index=index, committed_offset=i64(-1), metadata="", error_code=error
                ),
            )
            return FetchedTopicResponse(topic_id=topic.topic_id, partitions=partitions, name=topic.name)

        topics = yield from mapped_in_slices(group.topics or (), of_topic)
        return FetchedGroupResponse(group_id=group.group_id, topics=topics, error_code=error)

    groups = yield from mapped_in_slices(request.groups, of_group)
    return AnyOffsetFetchResponse(throttle_time=NO_WAIT, groups=groups)


def offset_delete_error(request: OffsetDeleteRequest, error: ErrorCode, _: str = "") -> Sliced[OffsetDeleteResponse]:
    """The error, for the request and for every partition of it."""

    def of_topic(topic: OffsetDeleteRequestTopic) -> Sliced[OffsetDeleteResponseTopic]:
        partitions = yield from mapped(
            topic.partitions,
            lambda partition: OffsetDeleteResponsePartition(
                partition_index=partition.partition_index, error_code=error
            ),
        )
        return OffsetDeleteResponseTopic(name=topic.name, partitions=partitions)

    topics = yield from mapped_in_slices(request.topics, of_topic)
    return OffsetDeleteResponse(error_code=error, throttle_time=NO_WAIT, topics=topics)
