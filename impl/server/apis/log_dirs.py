"""DescribeLogDirs and AlterReplicaLogDirs: what is in a broker's log directories, and moving replicas between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kio.schema.alter_replica_log_dirs.v2 import response as alter_response
from kio.schema.alter_replica_log_dirs.v2.response import AlterReplicaLogDirsResponse
from kio.schema.describe_log_dirs.v5 import response as describe_response
from kio.schema.describe_log_dirs.v5.response import DescribeLogDirsResponse
from kio.schema.errors import ErrorCode

from tidegauge.impl.ports.disk import Disk
from tidegauge.impl.server.broker.directory_moves import DirectoryMoves
from tidegauge.impl.server.broker.metadata_cache import MetadataCache
from tidegauge.impl.server.broker.partition import TopicPartition
from tidegauge.impl.server.broker.replica_manager import ReplicaManager
from tidegauge.impl.server.pace import ELEMENT
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.log_directory import LogDirectory
from tidegauge.impl.wire.primitives import NO_WAIT, TopicName, i32, i64

if TYPE_CHECKING:
    from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDirsRequest
    from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest

    from tidegauge.impl.server.transport.context import RequestContext

MOVE_UNITS: Final = 250
"""Of work, as `impl.server.pace` counts it, to begin to move a replica: files are made."""


async def handle_describe_log_dirs(
    request: DescribeLogDirsRequest, context: RequestContext, *, replicas: ReplicaManager, disk: Disk
) -> DescribeLogDirsResponse:
    """Each directory with the logs in it: their sizes, and how far future logs are behind."""
    if not context.allowed(Operation.DESCRIBE, ResourceType.CLUSTER):
        return DescribeLogDirsResponse(
            throttle_time=NO_WAIT, error_code=ErrorCode.cluster_authorization_failed, results=()
        )
    asked = None
    if request.topics is not None:
        asked = set()
        async for topic in context.pace.each(request.topics):
            asked.update([(str(topic.topic), int(index)) async for index in context.pace.each(topic.partitions, 1)])
    directories = replicas.directories
    results = [await _described(replicas, disk, directory, asked, context) for directory in list(directories.online)]
    results += [_offline(path) for path in directories.offline if path not in {one.log_dir for one in results}]
    return DescribeLogDirsResponse(throttle_time=NO_WAIT, error_code=ErrorCode.none, results=tuple(results))


async def _described(
    replicas: ReplicaManager,
    disk: Disk,
    directory: LogDirectory,
    asked: set[TopicPartition] | None,
    context: RequestContext,
) -> describe_response.DescribeLogDirsResult:
    logs = [(key, log, False) for key, log in directory.logs.items()]
    logs += [(key, log, True) for key, log in directory.moving.futures.items()]
    topics: dict[str, list[describe_response.DescribeLogDirsPartition]] = {}
    async for key, log, is_future in context.pace.each(sorted(logs, key=lambda one: (one[0], one[2]))):
        if asked is None or key in asked:
            topics.setdefault(key[0], []).append(
                describe_response.DescribeLogDirsPartition(
                    partition_index=i32(key[1]),
                    partition_size=i64(log.size),
                    offset_lag=i64(_lag(replicas, key, log, is_future=is_future)),
                    is_future_key=is_future,
                )
            )
    try:
        total, usable = disk.space(directory.path)
    except OSError as error:
        replicas.directories.fail(directory, error)
        return _offline(directory.path)
    return describe_response.DescribeLogDirsResult(
        error_code=ErrorCode.none,
        log_dir=directory.path,
        topics=tuple(
            describe_response.DescribeLogDirsTopic(name=TopicName(name), partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
        total_bytes=i64(total),
        usable_bytes=i64(usable),
    )


def _offline(path: str) -> describe_response.DescribeLogDirsResult:
    return describe_response.DescribeLogDirsResult(
        error_code=ErrorCode.kafka_storage_error, log_dir=path, topics=(), total_bytes=i64(-1), usable_bytes=i64(-1)
    )


def _lag(replicas: ReplicaManager, key: TopicPartition, log: Log, *, is_future: bool) -> int:
    """How far a log is behind: the high watermark or, for a future log, the log that it is to replace; -1: unknown."""
    partition = replicas.get(*key)
    if partition is None:
        return -1
    if is_future:
        return partition.log.log_end_offset - log.log_end_offset
    return max(0, partition.replica.high_watermark - log.log_end_offset)


async def handle_alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest,
    context: RequestContext,
    *,
    replicas: ReplicaManager,
    metadata: MetadataCache,
    directory_moves: DirectoryMoves,
) -> AlterReplicaLogDirsResponse:
    """Move replicas to other directories; the response comes when the moves have begun."""
    is_allowed = context.allowed(Operation.ALTER, ResourceType.CLUSTER)
    units = MOVE_UNITS if is_allowed else ELEMENT
    results: dict[str, list[alter_response.AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            async for index in context.pace.each(topic.partitions, units=units):
                error = ErrorCode.cluster_authorization_failed
                if is_allowed:
                    error = _alter(replicas, metadata, directory_moves, (topic.name, index), directory.path)
                results.setdefault(topic.name, []).append(
                    alter_response.AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error)
                )
    return AlterReplicaLogDirsResponse(
        throttle_time=NO_WAIT,
        results=tuple(
            alter_response.AlterReplicaLogDirTopicResult(topic_name=TopicName(name), partitions=tuple(partitions))
            for name, partitions in results.items()
        ),
    )


def _alter(
    replicas: ReplicaManager, metadata: MetadataCache, moves: DirectoryMoves, key: TopicPartition, path: str
) -> ErrorCode:
    """Move one replica to a directory; one that is not here will be made there when it comes to this broker."""
    directories = replicas.directories
    target = directories.at(path)
    if target is None:
        return ErrorCode.kafka_storage_error if path in directories.offline else ErrorCode.log_dir_not_found
    partition = replicas.get(*key)
    if partition is None:
        if replicas.hosted.is_offline(*key):
            return ErrorCode.kafka_storage_error
        replicas.hosted.preferred_directories[key] = path
        known = metadata.image.partition(*key) is not None
        return ErrorCode.replica_not_available if known else ErrorCode.unknown_topic_or_partition
    try:
        moves.begin(partition, target)
    except OSError:
        return ErrorCode.kafka_storage_error
    return ErrorCode.none
