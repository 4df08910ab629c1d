"""Error responses: share groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.alter_share_group_offsets.v0.response import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kio.schema.delete_share_group_offsets.v0.response import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from kio.schema.describe_share_group_offsets.v1.response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)
from kio.schema.errors import ErrorCode
from kio.schema.share_acknowledge.v2.response import ShareAcknowledgeResponse
from kio.schema.share_fetch.v2.response import ShareFetchResponse
from kio.schema.share_group_describe.v1.response import DescribedGroup, ShareGroupDescribeResponse
from kio.schema.share_group_heartbeat.v1.response import ShareGroupHeartbeatResponse

from tidegauge.impl.records.slices import Sliced, done, mapped, mapped_in_slices
from tidegauge.impl.server.error_responses.explanation import explained
from tidegauge.impl.wire.primitives import NO_WAIT, i32

if TYPE_CHECKING:
    from kio.schema.alter_share_group_offsets.v0.request import (
        AlterShareGroupOffsetsRequest,
        AlterShareGroupOffsetsRequestTopic,
    )
    from kio.schema.delete_share_group_offsets.v0.request import DeleteShareGroupOffsetsRequest
    from kio.schema.describe_share_group_offsets.v1.request import DescribeShareGroupOffsetsRequest
    from kio.schema.share_acknowledge.v2.request import ShareAcknowledgeRequest
    from kio.schema.share_fetch.v2.request import ShareFetchRequest
    from kio.schema.share_group_describe.v1.request import ShareGroupDescribeRequest
    from kio.schema.share_group_heartbeat.v1.request import ShareGroupHeartbeatRequest


def share_group_heartbeat_error(
    _: ShareGroupHeartbeatRequest, error: ErrorCode, message: str = ""
) -> Sliced[ShareGroupHeartbeatResponse]:
    """The error alone."""
    return done(
        ShareGroupHeartbeatResponse(
            throttle_time=NO_WAIT,
            error_code=error,
            error_message=explained(error, message),
            member_epoch=i32(0),
            heartbeat_interval=NO_WAIT,
        )
    )


def share_group_describe_error(
    request: ShareGroupDescribeRequest, error: ErrorCode, message: str = ""
) -> Sliced[ShareGroupDescribeResponse]:
    """Every group of the request, with the error."""
    groups = yield from mapped(
        request.group_ids,
        lambda group_id: DescribedGroup(
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
    return ShareGroupDescribeResponse(throttle_time=NO_WAIT, groups=groups)


def share_fetch_error(_: ShareFetchRequest, error: ErrorCode, message: str = "") -> Sliced[ShareFetchResponse]:
    """The error alone."""
    return done(
        ShareFetchResponse(
            throttle_time=NO_WAIT,
            error_code=error,
            error_message=explained(error, message),
            acquisition_lock_timeout=NO_WAIT,
            responses=(),
            node_endpoints=(),
        )
    )


def share_acknowledge_error(
    _: ShareAcknowledgeRequest, error: ErrorCode, message: str = ""
) -> Sliced[ShareAcknowledgeResponse]:
    """The error alone."""
    return done(
        ShareAcknowledgeResponse(
            throttle_time=NO_WAIT,
            error_code=error,
            error_message=explained(error, message),
            acquisition_lock_timeout=NO_WAIT,
            responses=(),
            node_endpoints=(),
        )
    )


def describe_share_group_offsets_error(
    request: DescribeShareGroupOffsetsRequest, error: ErrorCode, message: str = ""
) -> Sliced[DescribeShareGroupOffsetsResponse]:
    """Every group of the request, with the error."""
    groups = yield from mapped(
        request.groups,
        lambda group: DescribeShareGroupOffsetsResponseGroup(
            group_id=group.group_id, topics=(), error_code=error, error_message=explained(error, message)
        ),
    )
    return DescribeShareGroupOffsetsResponse(throttle_time=NO_WAIT, groups=groups)


def alter_share_group_offsets_error(
    request: AlterShareGroupOffsetsRequest, error: ErrorCode, message: str = ""
) -> Sliced[AlterShareGroupOffsetsResponse]:
    """The error, for the request and for every partition of it."""

    def of_topic(topic: AlterShareGroupOffsetsRequestTopic) -> Sliced[AlterShareGroupOffsetsResponseTopic]:
        partitions = yield from mapped(
            topic.partitions,
            lambda partition: AlterShareGroupOffsetsResponsePartition(
                partition_index=partition.partition_index, error_code=error, error_message=explained(error, message)
            ),
        )
        return AlterShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, topic_id=None, partitions=partitions)

    responses = yield from mapped_in_slices(request.topics, of_topic)
    return AlterShareGroupOffsetsResponse(
        throttle_time=NO_WAIT, error_code=error, error_message=explained(error, message), responses=responses
    )


def delete_share_group_offsets_error(
    request: DeleteShareGroupOffsetsRequest, error: ErrorCode, message: str = ""
) -> Sliced[DeleteShareGroupOffsetsResponse]:
    """The error, for the request and for every topic of it."""
    responses = yield from mapped(
        request.topics,
        lambda topic: DeleteShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name, topic_id=None, error_code=error, error_message=explained(error, message)
        ),
    )
    return DeleteShareGroupOffsetsResponse(
        throttle_time=NO_WAIT, error_code=error, error_message=explained(error, message), responses=responses
    )
