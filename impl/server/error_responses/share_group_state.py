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

from tidegauge.impl.records.slices import Sliced, mapped, mapped_in_slices
from tidegauge.impl.server.error_responses.explanation import explained
from tidegauge.impl.wire.primitives import i32, i64

if TYPE_CHECKING:
    from kio.schema.delete_share_group_state.v0.request import DeleteShareGroupStateRequest, DeleteStateData
    from kio.schema.initialize_share_group_state.v0.request import InitializeShareGroupStateRequest, InitializeStateData
    from kio.schema.read_share_group_state.v0.request import ReadShareGroupStateRequest, ReadStateData
    from kio.schema.read_share_group_state_summary.v1.request import (
        ReadShareGroupStateSummaryRequest,
        ReadStateSummaryData,
    )
    from kio.schema.write_share_group_state.v1.request import WriteShareGroupStateRequest, WriteStateData


def initialize_share_group_state_error(
    request: InitializeShareGroupStateRequest, error: ErrorCode, message: str = ""
) -> Sliced[InitializeShareGroupStateResponse]:
    """Every partition of the request, with the error."""

    def of_topic(topic: InitializeStateData) -> Sliced[InitializeStateResult]:
        partitions = yield from mapped(
            topic.partitions,
            lambda partition: PartitionResult(
                partition=partition.partition, error_code=error, error_message=explained(error, message)
            ),
        )
        return InitializeStateResult(topic_id=topic.topic_id, partitions=partitions)

    results = yield from mapped_in_slices(request.topics, of_topic)
    return InitializeShareGroupStateResponse(results=results)


def read_share_group_state_error(
    request: ReadShareGroupStateRequest, error: ErrorCode, message: str = ""
) -> Sliced[ReadShareGroupStateResponse]:
    """Every partition of the request, with the error."""

    def of_topic(topic: ReadStateData) -> Sliced[ReadStateResult]:
        partitions = yield from mapped(
            topic.partitions,
            lambda partition: ReadShareGroupStatePartitionResult(
                partition=partition.partition,
                error_code=error,
                error_message=explained(error, message),
                state_epoch=i32(0),
                start_offset=i64(0),
                state_batches=(),
            ),
        )
        return ReadStateResult(topic_id=topic.topic_id, partitions=partitions)

    results = yield from mapped_in_slices(request.topics, of_topic)
    return ReadShareGroupStateResponse(results=results)


def write_share_group_state_error(
    request: WriteShareGroupStateRequest, error: ErrorCode, message: str = ""
) -> Sliced[WriteShareGroupStateResponse]:
    """Every partition of the request, with the error."""

    def of_topic(topic: WriteStateData) -> Sliced[WriteStateResult]:
        partitions = yield from mapped(
            topic.partitions,
            lambda partition: WriteShareGroupStatePartitionResult(
                partition=partition.partition, error_code=error, error_message=explained(error, message)
            ),
        )
        return WriteStateResult(topic_id=topic.topic_id, partitions=partitions)

    results = yield from mapped_in_slices(request.topics, of_topic)
    return WriteShareGroupStateResponse(results=results)


def delete_share_group_state_error(
    request: DeleteShareGroupStateRequest, error: ErrorCode, message: str = ""
) -> Sliced[DeleteShareGroupStateResponse]:
    """Every partition of the request, with the error."""

    def of_topic(topic: DeleteStateData) -> Sliced[DeleteStateResult]:
        partitions = yield from mapped(
            topic.partitions,
            lambda partition: DeleteShareGroupStatePartitionResult(
                partition=partition.partition, error_code=error, error_message=explained(error, message)
            ),
        )
        return DeleteStateResult(topic_id=topic.topic_id, partitions=partitions)

    results = yield from mapped_in_slices(request.topics, of_topic)
    return DeleteShareGroupStateResponse(results=results)


def read_share_group_state_summary_error(
    request: ReadShareGroupStateSummaryRequest, error: ErrorCode, message: str = ""
) -> Sliced[ReadShareGroupStateSummaryResponse]:
    """Every partition of the request, with the error."""

    def of_topic(topic: ReadStateSummaryData) -> Sliced[ReadStateSummaryResult]:
        partitions = yield from mapped(
            topic.partitions,
            lambda partition: ReadShareGroupStateSummaryPartitionResult(
                partition=partition.partition,
                error_code=error,
                error_message=explained(error, message),
                state_epoch=i32(0),
                leader_epoch=partition.leader_epoch,
                start_offset=i64(0),
            ),
        )
        return ReadStateSummaryResult(topic_id=topic.topic_id, partitions=partitions)

    results = yield from mapped_in_slices(request.topics, of_topic)
    return ReadShareGroupStateSummaryResponse(results=results)
