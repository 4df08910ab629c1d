"""Error codes are found in a response wherever it has them, in slices."""

from __future__ import annotations

import pytest
from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName

from tidegauge.impl.records.slices import at_once
from tidegauge.impl.wire.error_codes import finding_error
from tidegauge.impl.wire.primitives import NO_WAIT, i32, i64

TOPICS, PARTITIONS = 20, 50


def response_with(error: ErrorCode) -> DeleteRecordsResponse:
    """Only its last partition has the error."""
    return DeleteRecordsResponse(
        throttle_time=NO_WAIT,
        topics=tuple(
            DeleteRecordsTopicResult(
                name=TopicName(f"topic-{topic}"),
                partitions=tuple(
                    DeleteRecordsPartitionResult(
                        partition_index=i32(index),
                        low_watermark=i64(0),
                        error_code=error if (topic, index) == (TOPICS - 1, PARTITIONS - 1) else ErrorCode.none,
                    )
                    for index in range(PARTITIONS)
                ),
            )
            for topic in range(TOPICS)
        ),
    )


@pytest.mark.parametrize("error", [ErrorCode.none, ErrorCode.not_controller])
def test_the_error_of_one_item_is_found(error: ErrorCode) -> None:
    assert at_once(finding_error(response_with(error), ErrorCode.not_controller)) is (error is not ErrorCode.none)


def test_each_message_that_is_looked_at_counts_as_work() -> None:
    search = finding_error(response_with(ErrorCode.none), ErrorCode.not_controller)
    assert sum(step for step in search if isinstance(step, int)) == TOPICS * (PARTITIONS + 1)
