"""Error responses: log directories."""

from __future__ import annotations

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

from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDirsRequest
    from kio.schema.assign_replicas_to_dirs.v0.request import AssignReplicasToDirsRequest
    from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest


def alter_replica_log_dirs_error(
    request: AlterReplicaLogDirsRequest, error: ErrorCode, _: str = ""
) -> AlterReplicaLogDirsResponse:
    """Every partition of the request, with the error."""
    return AlterReplicaLogDirsResponse(
        throttle_time=NO_WAIT,
        results=tuple(
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=tuple(
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error)
                    for index in topic.partitions
                ),
            )
            for directory in request.dirs
            for topic in directory.topics
        ),
    )


def describe_log_dirs_error(_: DescribeLogDirsRequest, error: ErrorCode, _message: str = "") -> DescribeLogDirsResponse:
    """The error alone."""
    return DescribeLogDirsResponse(throttle_time=NO_WAIT, error_code=error, results=())


def assign_replicas_to_dirs_error(
    request: AssignReplicasToDirsRequest, error: ErrorCode, _: str = ""
) -> AssignReplicasToDirsResponse:
    """The error, for the request and for every partition of it."""
    return AssignReplicasToDirsResponse(
        throttle_time=NO_WAIT,
        error_code=error,
        directories=tuple(
            DirectoryData(
                id_=directory.id_,
                topics=tuple(
                    TopicData(
                        topic_id=topic.topic_id,
                        partitions=tuple(
                            PartitionData(partition_index=partition.partition_index, error_code=error)
                            for partition in topic.partitions
                        ),
                    )
                    for topic in directory.topics
                ),
            )
            for directory in request.directories
        ),
    )
