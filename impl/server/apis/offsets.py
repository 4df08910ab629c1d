"""ListOffsets and OffsetForLeaderEpoch: places in a log. Only the leader tells them to clients and followers.

ListOffsets takes a timestamp in ms, or a negative one that stands for a place in the log: the latest offset (-1), the
log start (-2), the record with the largest timestamp (-3), and three for a log whose older part was moved to remote
storage: where its local part begins (-4), where the remote part ends (-5), where the part begins that is yet to be
moved (-6). Without remote storage the local log is all of it, and the last two are nowhere (offset -1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11 import response as list_response
from kio.schema.list_offsets.v11.response import ListOffsetsResponse
from kio.schema.offset_for_leader_epoch.v4 import response as epoch_response
from kio.schema.offset_for_leader_epoch.v4.response import OffsetForLeaderEpochResponse

from tidegauge.impl.partition.messages import EpochEndOffset
from tidegauge.impl.records.batches import RecordError
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.server.broker.replica_manager import ReplicaManager
from tidegauge.impl.server.pace import ELEMENT
from tidegauge.impl.server.requests.reads import READ_COMMITTED
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.primitives import NO_WAIT, i32, i64

if TYPE_CHECKING:
    from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest
    from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderEpochRequest, OffsetForLeaderPartition

    from tidegauge.impl.server.transport.context import RequestContext

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
_ASKED_FROM: Final[Mapping[int, int]] = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The version from which on each may be named (KIP-734, KIP-405, KIP-1005, KIP-1023)."""
OFFSET_NOT_AVAILABLE_FROM: Final = 5
"""The version of ListOffsets that knows OFFSET_NOT_AVAILABLE; before it there is LEADER_NOT_AVAILABLE (KIP-207)."""
CONSUMER: Final = -1
DEBUGGING_CONSUMER: Final = -2
"""A replica id to which followers respond too."""
UNKNOWN_EPOCH: Final = -1


class _Found(NamedTuple):
    offset: int
    timestamp: int = -1
    leader_epoch: int = -1


_NOTHING: Final = _Found(-1)
_DENIED: Final = ErrorCode.topic_authorization_failed


async def handle_list_offsets(
    request: ListOffsetsRequest, context: RequestContext, *, replicas: ReplicaManager
) -> ListOffsetsResponse:
    """Find an offset in each partition."""
    twice = _named_twice(request)
    topics = []
    for topic in request.topics:
        await context.pace.did(ELEMENT)
        allowed = context.allowed(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
        partitions = []
        for asked in topic.partitions:
            await context.pace.did(ELEMENT)
            found: _Found | ErrorCode = _DENIED
            if allowed and (topic.name, asked.partition_index) in twice:
                found = ErrorCode.invalid_request
            elif allowed:
                found = await _look_up(replicas, topic.name, asked, request, context)
            partitions.append(_listed(asked, found))
        topics.append(list_response.ListOffsetsTopicResponse(name=topic.name, partitions=tuple(partitions)))
    return ListOffsetsResponse(throttle_time=NO_WAIT, topics=tuple(topics))


def _named_twice(request: ListOffsetsRequest) -> set[tuple[str, int]]:
    """The partitions that a request names more than once."""
    once: set[tuple[str, int]] = set()
    twice: set[tuple[str, int]] = set()
    for topic in request.topics:
        for asked in topic.partitions:
            key = topic.name, asked.partition_index
            (twice if key in once else once).add(key)
    return twice


async def _look_up(
    replicas: ReplicaManager,
    topic: str,
    asked: ListOffsetsPartition,
    request: ListOffsetsRequest,
    context: RequestContext,
) -> _Found | ErrorCode:
    version = context.api_version
    if asked.timestamp < 0 and version < _ASKED_FROM.get(asked.timestamp, version + 1):
        return ErrorCode.unsupported_version
    partition = replicas.get(topic, asked.partition_index)
    if partition is None:
        return replicas.absence(topic, asked.partition_index)
    try:
        found = await _find(replicas, partition, asked, request, context)
    except (RecordError, OSError) as error:
        if partition.is_gone:  # it went while it was searched
            return replicas.absence(topic, asked.partition_index)
        return replicas.storage_failed(partition, error)
    if found is ErrorCode.offset_not_available and version < OFFSET_NOT_AVAILABLE_FROM:
        return ErrorCode.leader_not_available
    return found


async def _find(
    replicas: ReplicaManager,
    partition: Partition,
    asked: ListOffsetsPartition,
    request: ListOffsetsRequest,
    context: RequestContext,
) -> _Found | ErrorCode:
    replica, log = partition.replica, partition.log
    epoch = None if asked.current_leader_epoch < 0 else asked.current_leader_epoch
    only_leader = request.replica_id != DEBUGGING_CONSUMER
    read_committed = request.isolation_level == READ_COMMITTED
    start = replica.earliest_offset(epoch, only_leader=only_leader)
    if isinstance(start, ErrorCode):
        return start
    if asked.timestamp in (EARLIEST, EARLIEST_LOCAL):
        start_epoch = log.epochs.epoch_for_offset(start)
        return _Found(start, leader_epoch=UNKNOWN_EPOCH if start_epoch is None else start_epoch)
    if asked.timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOTHING
    latest: int | ErrorCode = replica.log_end_offset
    if request.replica_id <= CONSUMER:
        latest = replica.latest_offset(epoch, only_leader=only_leader, read_committed=read_committed)
    if asked.timestamp == LATEST:
        return latest if isinstance(latest, ErrorCode) else _Found(latest, leader_epoch=replica.leader_epoch)
    end_offset = latest
    if isinstance(end_offset, ErrorCode):
        end_offset = replica.last_stable_offset if read_committed else replica.high_watermark
    timestamp = None if asked.timestamp == MAX_TIMESTAMP else asked.timestamp
    found = await replicas.find_timestamp(partition, timestamp, context.pace)
    if found is not None and found.offset < end_offset:
        return _Found(found.offset, found.timestamp, found.leader_epoch)
    return latest if isinstance(latest, ErrorCode) else _NOTHING


def _listed(asked: ListOffsetsPartition, found: _Found | ErrorCode) -> list_response.ListOffsetsPartitionResponse:
    if isinstance(found, ErrorCode):
        return list_response.ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=found)
    return list_response.ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        error_code=ErrorCode.none,
        timestamp=i64(found.timestamp),
        offset=i64(found.offset),
        leader_epoch=i32(found.leader_epoch),
    )


async def handle_offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, context: RequestContext, *, replicas: ReplicaManager
) -> OffsetForLeaderEpochResponse:
    """Where a leader epoch ends in the leader's log (KIP-101, KIP-320)."""
    trusted = context.allowed(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    topics = []
    for topic in request.topics:
        await context.pace.did(ELEMENT)
        allowed = trusted or context.allowed(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic)
        ends = []
        for asked in topic.partitions:
            await context.pace.did(ELEMENT)
            ends.append(_end(replicas, topic.topic, asked) if allowed else _ended(asked, _DENIED))
        topics.append(epoch_response.OffsetForLeaderTopicResult(topic=topic.topic, partitions=tuple(ends)))
    return OffsetForLeaderEpochResponse(throttle_time=NO_WAIT, topics=tuple(topics))


def _end(replicas: ReplicaManager, topic: str, asked: OffsetForLeaderPartition) -> epoch_response.EpochEndOffset:
    partition = replicas.get(topic, asked.partition)
    if partition is None:
        return _ended(asked, replicas.absence(topic, asked.partition))
    epoch = None if asked.current_leader_epoch < 0 else asked.current_leader_epoch
    end = partition.replica.end_offset_for_leader_epoch(asked.leader_epoch, epoch)
    if not isinstance(end, ErrorCode):
        if asked.leader_epoch < 0 or asked.leader_epoch > partition.log.latest_epoch:
            end = EpochEndOffset(UNKNOWN_EPOCH, -1)
        elif end.epoch == UNKNOWN_EPOCH:  # the log begins after that epoch: read on at its start
            end = EpochEndOffset(asked.leader_epoch, end.end_offset)
    return _ended(asked, end)


def _ended(asked: OffsetForLeaderPartition, end: EpochEndOffset | ErrorCode) -> epoch_response.EpochEndOffset:
    if isinstance(end, ErrorCode):
        return epoch_response.EpochEndOffset(error_code=end, partition=asked.partition)
    return epoch_response.EpochEndOffset(
        error_code=ErrorCode.none,
        partition=asked.partition,
        leader_epoch=i32(end.epoch),
        end_offset=i64(end.end_offset),
    )
