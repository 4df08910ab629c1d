"""Error responses: Metadata, which every client asks for."""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.response import MetadataResponseTopic

from tidegauge.impl.wire.primitives import NO_WAIT, TopicName
from tidegauge.impl.wire.unions import AnyMetadataRequest, AnyMetadataResponse


def metadata_error(request: AnyMetadataRequest, error: ErrorCode, _: str = "") -> AnyMetadataResponse:
    """The error, for the request and for every topic of it."""
    return AnyMetadataResponse(
        throttle_time=NO_WAIT,
        brokers=(),
        topics=tuple(
            MetadataResponseTopic(
                error_code=error,
                name=topic.name or TopicName(""),  # versions before 10 have no null
                topic_id=topic.topic_id,
                partitions=(),
            )
            for topic in request.topics or ()
        ),
        error_code=error,
    )
