"""Error responses: what the cluster is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.describe_cluster.v2.response import DescribeClusterResponse
from kio.schema.describe_quorum.v2.response import DescribeQuorumResponse
from kio.schema.describe_topic_partitions.v0.response import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)
from kio.schema.errors import ErrorCode

from tidegauge.impl.records.slices import Sliced, done, mapped
from tidegauge.impl.server.error_responses.explanation import explained
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
    from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest
    from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest


def describe_cluster_error(
    _: DescribeClusterRequest, error: ErrorCode, message: str = ""
) -> Sliced[DescribeClusterResponse]:
    """The error alone."""
    return done(
        DescribeClusterResponse(
            throttle_time=NO_WAIT, error_code=error, error_message=explained(error, message), cluster_id="", brokers=()
        )
    )


def describe_topic_partitions_error(
    request: DescribeTopicPartitionsRequest, error: ErrorCode, message: str = ""
) -> Sliced[DescribeTopicPartitionsResponse]:
    """Every topic of the request, with the error; there is no room for the message."""
    topics = yield from mapped(
        request.topics,
        lambda topic: DescribeTopicPartitionsResponseTopic(
            error_code=error, name=topic.name, topic_id=None, partitions=()
        ),
    )
    return DescribeTopicPartitionsResponse(throttle_time=NO_WAIT, topics=topics)


def describe_quorum_error(
    _: DescribeQuorumRequest, error: ErrorCode, message: str = ""
) -> Sliced[DescribeQuorumResponse]:
    """The error alone."""
    return done(DescribeQuorumResponse(error_code=error, error_message=explained(error, message), topics=(), nodes=()))
