"""Error responses: log directories."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from kio.schema.alter_replica_log_dirs.v2.response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kio.schema.assign_replicas_to_dirs.v0.response import (
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)
from kio.schema.describe_log_dirs.v5.response import DescribeLogDirsResponse
from kio.schema.errors import ErrorCode

from tidegauge.impl.records.slices import Sliced, done, mapped, mapped_in_slices
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDirsRequest, AlterReplicaLogDirTopic
    from kio.schema.assign_replicas_to_dirs.v0.request import AssignReplicasToDirsRequest
    from kio.schema.assign_replicas_to_dirs.v0.request import DirectoryData as AskedDirectoryData
    from kio.schema.assign_replicas_to_dirs.v0.request import TopicData as AskedTopicData
    from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest


def alter_replica_log_dirs_error(
    request: AlterReplicaLogDirsRequest, error: ErrorCode, _: str = ""
) -> Sliced[AlterReplicaLogDirsResponse]:
    """Every partition of the request, with the error: the topics of all directories together."""

    def of_topic(topic: AlterReplicaLogDirTopic) -> Sliced[AlterReplicaLogDirTopicResult]:
        partitions = yield from mapped(
            topic.partitions, lambda index: AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error)
        )
        return AlterReplicaLogDirTopicResult(topic_name=topic.name, partitions=partitions)

    directories = yield from mapped_in_slices(
        request.dirs, lambda directory: mapped_in_slices(directory.topics, of_topic)
    )
    return AlterReplicaLogDirsResponse(throttle_time=NO_WAIT, results=tuple(chain.from_iterable(directories)))


def describe_log_dirs_error(
    _: DescribeLogDirsRequest, error: ErrorCode, _message: str = ""
) -> Sliced[DescribeLogDirsResponse]:
    """The error alone."""
    return done(DescribeLogDirsResponse(throttle_time=NO_WAIT, error_code=error, results=()))


def assign_replicas_to_dirs_error(
    request: AssignReplicasToDirsRequest, error: ErrorCode, _: str = ""
) -> Sliced[AssignReplicasToDirsResponse]:
    """The error, for the request and for every partition of it."""

    def of_directory(directory: AskedDirectoryData) -> Sliced[DirectoryData]:
        def of_topic(topic: AskedTopicData) -> Sliced[TopicData]:
            partitions = yield from mapped(
                topic.partitions,
                lambda partition: PartitionData(partition_index=partition.partition_index, error_code=error),
            )
            return TopicData(topic_id=topic.topic_id, partitions=partitions)

        topics = yield from mapped_in_slices(directory.topics, of_topic)
        return DirectoryData(id_=directory.id_, topics=topics)

    directories = yield from mapped_in_slices(request.directories, of_directory)
    return AssignReplicasToDirsResponse(throttle_time=NO_WAIT, error_code=error, directories=directories)
