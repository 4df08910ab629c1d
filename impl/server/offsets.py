"""ListOffsets and OffsetForLeaderEpoch: where things are in a log. Only the leader answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11 import response as list_response
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest
from kio.schema.list_offsets.v11.response import ListOffsetsResponse
from kio.schema.offset_for_leader_epoch.v4 import response as epoch_response
from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderEpochRequest, OffsetForLeaderPartition
from kio.schema.offset_for_leader_epoch.v4.response import OffsetForLeaderEpochResponse

from impl.partition.messages import EpochEndOffset
from impl.server.partitions import Partition
from impl.wire.primitives import NO_WAIT, i32, i64

if TYPE_CHECKING:
    from impl.server.broker import Broker
    from impl.server.context import RequestContext

LATEST: Final = -1
EARLIEST: Final = -2


class _Found(NamedTuple):
    offset: int
    timestamp: int = -1
    leader_epoch: int = -1


async def handle_list_offsets(broker: Broker, request: ListOffsetsRequest, _: RequestContext) -> ListOffsetsResponse:
    """Earliest (-2), latest (-1: the high watermark), or the first committed record at or after a timestamp in ms."""
    return ListOffsetsResponse(
        throttle_time=NO_WAIT,
        topics=tuple(
            list_response.ListOffsetsTopicResponse(
                name=topic.name, partitions=tuple(_list(broker, topic.name, asked) for asked in topic.partitions)
            )
            for topic in request.topics
        ),
    )


def _list(broker: Broker, topic: str, asked: ListOffsetsPartition) -> list_response.ListOffsetsPartitionResponse:
    partition = broker.partitions.get(topic, asked.partition_index)
    found = _missing(broker, topic, asked.partition_index) if partition is None else _find(partition, asked)
    if isinstance(found, ErrorCode):
        return list_response.ListOffsetsPartitionResponse(partition_index=i32(asked.partition_index), error_code=found)
    return list_response.ListOffsetsPartitionResponse(
        partition_index=i32(asked.partition_index),
        error_code=ErrorCode.none,
        timestamp=i64(found.timestamp),
        offset=i64(found.offset),
        leader_epoch=i32(found.leader_epoch),
    )


def _find(partition: Partition, asked: ListOffsetsPartition) -> _Found | ErrorCode:
    replica = partition.replica
    epoch = None if asked.current_leader_epoch < 0 else asked.current_leader_epoch
    if asked.timestamp == EARLIEST:
        return _at(replica.earliest_offset(epoch), replica.leader_epoch)
    latest = replica.latest_offset(epoch)
    if asked.timestamp == LATEST or isinstance(latest, ErrorCode):
        return _at(latest, replica.leader_epoch)
    if asked.timestamp < 0:
        return ErrorCode.unsupported_for_message_format
    found = partition.log.offset_for_timestamp(asked.timestamp)
    if found is None or found.offset >= latest:
        return _Found(-1)
    return _Found(found.offset, found.timestamp, found.leader_epoch)


def _at(offset: int | ErrorCode, leader_epoch: int) -> _Found | ErrorCode:
    return offset if isinstance(offset, ErrorCode) else _Found(offset, leader_epoch=leader_epoch)


def _missing(broker: Broker, topic: str, partition: int) -> ErrorCode:
    known = broker.metadata.image.partition(topic, partition) is not None
    return ErrorCode.not_leader_or_follower if known else ErrorCode.unknown_topic_or_partition


async def handle_offset_for_leader_epoch(
    broker: Broker, request: OffsetForLeaderEpochRequest, _: RequestContext
) -> OffsetForLeaderEpochResponse:
    """Where a leader epoch ends in the leader's log (KIP-101, KIP-320)."""
    return OffsetForLeaderEpochResponse(
        throttle_time=NO_WAIT,
        topics=tuple(
            epoch_response.OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=tuple(_end(broker, topic.topic, asked) for asked in topic.partitions)
            )
            for topic in request.topics
        ),
    )


def _end(broker: Broker, topic: str, asked: OffsetForLeaderPartition) -> epoch_response.EpochEndOffset:
    partition = broker.partitions.get(topic, asked.partition)
    epoch = None if asked.current_leader_epoch < 0 else asked.current_leader_epoch
    end: EpochEndOffset | ErrorCode
    if partition is None:
        end = _missing(broker, topic, asked.partition)
    else:
        end = partition.replica.end_offset_for_leader_epoch(asked.leader_epoch, epoch)
    if isinstance(end, ErrorCode):
        return epoch_response.EpochEndOffset(error_code=end, partition=asked.partition)
    return epoch_response.EpochEndOffset(
        error_code=ErrorCode.none,
        partition=asked.partition,
        leader_epoch=i32(end.epoch),
        end_offset=i64(end.end_offset),
    )
