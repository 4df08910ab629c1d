"""Error responses: topics that are made, deleted and grown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.create_topics.v7.response import CreatableTopicResult, CreateTopicsResponse
from kio.schema.errors import ErrorCode

from tidegauge.impl.records.slices import Sliced, mapped
from tidegauge.impl.server.error_responses.explanation import explained
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.create_partitions.v3.request import CreatePartitionsRequest
    from kio.schema.create_partitions.v3.response import CreatePartitionsResponse
    from kio.schema.create_topics.v7.request import CreateTopicsRequest
    from kio.schema.delete_topics.v6.request import DeleteTopicsRequest
    from kio.schema.delete_topics.v6.response import DeleteTopicsResponse


def create_topics_error(
    request: CreateTopicsRequest, error: ErrorCode, message: str = ""
) -> Sliced[CreateTopicsResponse]:
    """Every topic of the request, with the error."""
    topics = yield from mapped(
        request.topics,
        lambda topic: CreatableTopicResult(
            name=topic.name, topic_id=None, error_code=error, error_message=explained(error, message), configs=()
        ),
    )
    return CreateTopicsResponse(throttle_time=NO_WAIT, topics=topics)


def delete_topics_error(
    request: DeleteTopicsRequest, error: ErrorCode, message: str = ""
) -> Sliced[DeleteTopicsResponse]:
    """Every topic of the request, with the error."""
    from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse

    responses = yield from mapped(
        request.topics,
        lambda topic: DeletableTopicResult(
            name=topic.name, topic_id=topic.topic_id, error_code=error, error_message=explained(error, message)
        ),
    )
    return DeleteTopicsResponse(throttle_time=NO_WAIT, responses=responses)


def create_partitions_error(
    request: CreatePartitionsRequest, error: ErrorCode, message: str = ""
) -> Sliced[CreatePartitionsResponse]:
    """Every topic of the request, with the error."""
    from kio.schema.create_partitions.v3.response import CreatePartitionsResponse, CreatePartitionsTopicResult

    results = yield from mapped(
        request.topics,
        lambda topic: CreatePartitionsTopicResult(
            name=topic.name, error_code=error, error_message=explained(error, message)
        ),
    )
    return CreatePartitionsResponse(throttle_time=NO_WAIT, results=results)
