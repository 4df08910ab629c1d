"""Error responses: offsets of partitions, and of the records that a producer has in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kio.schema.describe_producers.v0.response import DescribeProducersResponse, PartitionResponse, TopicResponse
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kio.schema.offset_for_leader_epoch.v4.response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

from tidegauge.impl.server.error_responses.explanation import explained
from tidegauge.impl.wire.primitives import NO_WAIT, i64

if TYPE_CHECKING:
    from kio.schema.delete_records.v2.request import DeleteRecordsRequest
    from kio.schema.describe_producers.v0.request import DescribeProducersRequest
    from kio.schema.list_offsets.v11.request import ListOffsetsRequest
    from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderEpochRequest


def list_offsets_error(request: ListOffsetsRequest, error: ErrorCode, _: str = "") -> ListOffsetsResponse:
    """Every partition of the request, with the error."""
    return ListOffsetsResponse(
        throttle_time=NO_WAIT,
        topics=tuple(
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(
                    ListOffsetsPartitionResponse(
                        partition_index=partition.partition_index, error_code=error, timestamp=partition.timestamp
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def offset_for_leader_epoch_error(
    request: OffsetForLeaderEpochRequest, error: ErrorCode, _: str = ""
) -> OffsetForLeaderEpochResponse:
    """Every partition of the request, with the error."""
    return OffsetForLeaderEpochResponse(
        throttle_time=NO_WAIT,
        topics=tuple(
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(
                    EpochEndOffset(error_code=error, partition=partition.partition, leader_epoch=partition.leader_epoch)
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def delete_records_error(request: DeleteRecordsRequest, error: ErrorCode, _: str = "") -> DeleteRecordsResponse:
    """Every partition of the request, with the error."""
    return DeleteRecordsResponse(
        throttle_time=NO_WAIT,
        topics=tuple(
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=tuple(
                    DeleteRecordsPartitionResult(
                        partition_index=partition.partition_index, low_watermark=i64(-1), error_code=error
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def describe_producers_error(
    request: DescribeProducersRequest, error: ErrorCode, message: str = ""
) -> DescribeProducersResponse:
    """Every partition of the request, with the error."""
    return DescribeProducersResponse(
        throttle_time=NO_WAIT,
        topics=tuple(
            TopicResponse(
                name=topic.name,
                partitions=tuple(
                    PartitionResponse(
                        partition_index=index,
                        error_code=error,
                        error_message=explained(error, message),
                        active_producers=(),
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in request.topics
        ),
    )
