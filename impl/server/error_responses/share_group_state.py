"""Error responses: the state of share groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.delete_share_group_state.v0.response import DeleteShareGroupStateResponse, DeleteStateResult
from kio.schema.delete_share_group_state.v0.response import PartitionResult as DeleteShareGroupStatePartitionResult
from kio.schema.errors import ErrorCode
from kio.schema.initialize_share_group_state.v0.response import (
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)
from kio.schema.read_share_group_state.v0.response import PartitionResult as ReadShareGroupStatePartitionResult
from kio.schema.read_share_group_state.v0.response import ReadShareGroupStateResponse, ReadStateResult
from kio.schema.read_share_group_state_summary.v1.response import (
    PartitionResult as ReadShareGroupStateSummaryPartitionResult,
)
from kio.schema.read_share_group_state_summary.v1.response import (
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)
from kio.schema.write_share_group_state.v1.response import PartitionResult as WriteShareGroupStatePartitionResult
from kio.schema.write_share_group_state.v1.response import WriteShareGroupStateResponse, WriteStateResult

from tidegauge.impl.server.error_responses.explanation import explained
from tidegauge.impl.wire.primitives import i32, i64

if TYPE_CHECKING:
    from kio.schema.delete_share_group_state.v0.request import DeleteShareGroupStateRequest
    from kio.schema.initialize_share_group_state.v0.request import InitializeShareGroupStateRequest
    from kio.schema.read_share_group_state.v0.request import ReadShareGroupStateRequest
    from kio.schema.read_share_group_state_summary.v1.request import ReadShareGroupStateSummaryRequest
    from kio.schema.write_share_group_state.v1.request import WriteShareGroupStateRequest


def initialize_share_group_state_error(
    request: InitializeShareGroupStateRequest, error: ErrorCode, message: str = ""
) -> InitializeShareGroupStateResponse:
    """Every partition of the request, with the error."""
    return InitializeShareGroupStateResponse(
        results=tuple(
            InitializeStateResult(
                topic_id=topic.topic_id,
                partitions=tuple(
                    PartitionResult(
                        partition=partition.partition, error_code=error, error_message=explained(error, message)
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def read_share_group_state_error(
    request: ReadShareGroupStateRequest, error: ErrorCode, message: str = ""
) -> ReadShareGroupStateResponse:
    """Every partition of the request, with the error."""
    return ReadShareGroupStateResponse(
        results=tuple(
            ReadStateResult(
                topic_id=topic.topic_id,
                partitions=tuple(
                    ReadShareGroupStatePartitionResult(
                        partition=partition.partition,
                        error_code=error,
                        error_message=explained(error, message),
                        state_epoch=i32(0),
                        start_offset=i64(0),
                        state_batches=(),
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def write_share_group_state_error(
    request: WriteShareGroupStateRequest, error: ErrorCode, message: str = ""
) -> WriteShareGroupStateResponse:
    """Every partition of the request, with the error."""
    return WriteShareGroupStateResponse(
        results=tuple(
            WriteStateResult(
                topic_id=topic.topic_id,
                partitions=tuple(
                    WriteShareGroupStatePartitionResult(
                        partition=partition.partition, error_code=error, error_message=explained(error, message)
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def delete_share_group_state_error(
    request: DeleteShareGroupStateRequest, error: ErrorCode, message: str = ""
) -> DeleteShareGroupStateResponse:
    """Every partition of the request, with the error."""
    return DeleteShareGroupStateResponse(
        results=tuple(
            DeleteStateResult(
                topic_id=topic.topic_id,
                partitions=tuple(
                    DeleteShareGroupStatePartitionResult(
                        partition=partition.partition, error_code=error, error_message=explained(error, message)
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def read_share_group_state_summary_error(
    request: ReadShareGroupStateSummaryRequest, error: ErrorCode, message: str = ""
) -> ReadShareGroupStateSummaryResponse:
    """Every partition of the request, with the error."""
    return ReadShareGroupStateSummaryResponse(
        results=tuple(
            ReadStateSummaryResult(
                topic_id=topic.topic_id,
                partitions=tuple(
                    ReadShareGroupStateSummaryPartitionResult(
                        partition=partition.partition,
                        error_code=error,
                        error_message=explained(error, message),
                        state_epoch=i32(0),
                        leader_epoch=partition.leader_epoch,
                        start_offset=i64(0),
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )
