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

from tidegauge.impl.records.slices import Sliced, mapped, mapped_in_slices
from tidegauge.impl.server.error_responses.explanation import explained
from tidegauge.impl.wire.primitives import NO_WAIT, i64

if TYPE_CHECKING:
    from kio.schema.delete_records.v2.request import DeleteRecordsRequest, DeleteRecordsTopic
    from kio.schema.describe_producers.v0.request import DescribeProducersRequest
    from kio.schema.describe_producers.v0.request import TopicRequest as AskedTopicRequest
    from kio.schema.list_offsets.v11.request import ListOffsetsRequest, ListOffsetsTopic
    from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderEpochRequest, OffsetForLeaderTopic


def list_offsets_error(request: ListOffsetsRequest, error: ErrorCode, _: str = "") -> Sliced[ListOffsetsResponse]:
    """Every partition of the request, with the error."""

    def of_topic(topic: ListOffsetsTopic) -> Sliced[ListOffsetsTopicResponse]:
        partitions = yield from mapped(
            topic.partitions,
            lambda partition: ListOffsetsPartitionResponse(
                partition_index=partition.partition_index, error_code=error, timestamp=partition.timestamp
            ),
        )
        return ListOffsetsTopicResponse(name=topic.name, partitions=partitions)

    topics = yield from mapped_in_slices(request.topics, of_topic)
    return ListOffsetsResponse(throttle_time=NO_WAIT, topics=topics)


def offset_for_leader_epoch_error(
    request: OffsetForLeaderEpochRequest, error: ErrorCode, _: str = ""
) -> Sliced[OffsetForLeaderEpochResponse]:
    """Every partition of the request, with the error."""

    def of_topic(topic: OffsetForLeaderTopic) -> Sliced[OffsetForLeaderTopicResult]:
        partitions = yield from mapped(
            topic.partitions,
            lambda partition: EpochEndOffset(
                error_code=error, partition=partition.partition, leader_epoch=partition.leader_epoch
            ),
        )
        return OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions)

    topics = yield from mapped_in_slices(request.topics, of_topic)
    return OffsetForLeaderEpochResponse(throttle_time=NO_WAIT, topics=topics)


def delete_records_error(request: DeleteRecordsRequest, error: ErrorCode, _: str = "") -> Sliced[DeleteRecordsResponse]:
    """Every partition of the request, with the error."""

    def of_topic(topic: DeleteRecordsTopic) -> Sliced[DeleteRecordsTopicResult]:
        partitions = yield from mapped(
            topic.partitions,
            lambda partition: DeleteRecordsPartitionResult(
                partition_index=partition.partition_index, low_watermark=i64(-1), error_code=error
            ),
        )
        return DeleteRecordsTopicResult(name=topic.name, partitions=partitions)

    topics = yield from mapped_in_slices(request.topics, of_topic)
    return DeleteRecordsResponse(throttle_time=NO_WAIT, topics=topics)


def describe_producers_error(
    request: DescribeProducersRequest, error: ErrorCode, message: str = ""
) -> Sliced[DescribeProducersResponse]:
    """Every partition of the request, with the error."""

    def of_topic(topic: AskedTopicRequest) -> Sliced[TopicResponse]:
        partitions = yield from mapped(
            topic.partition_indexes,
            lambda index: PartitionResponse(
                partition_index=index, error_code=error, error_message=explained(error, message), active_producers=()
            ),
        )
        return TopicResponse(name=topic.name, partitions=partitions)

    topics = yield from mapped_in_slices(request.topics, of_topic)
    return DescribeProducersResponse(throttle_time=NO_WAIT, topics=topics)
