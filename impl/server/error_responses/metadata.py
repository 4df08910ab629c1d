"""Error responses: Metadata, which every client asks for."""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.response import MetadataResponseTopic

from tidegauge.impl.records.slices import Sliced, mapped
from tidegauge.impl.wire.primitives import NO_WAIT, TopicName
from tidegauge.impl.wire.unions import AnyMetadataRequest, AnyMetadataResponse


def metadata_error(request: AnyMetadataRequest, error: ErrorCode, _: str = "") -> Sliced[AnyMetadataResponse]:
    """The error, for the request and for every topic of it."""
    topics = yield from mapped(
        request.topics or (),
        lambda topic: MetadataResponseTopic(
            error_code=error,
            name=topic.name or TopicName(""),  # versions before 10 have no null
            topic_id=topic.topic_id,
            partitions=(),
        ),
    )
    return AnyMetadataResponse(throttle_time=NO_WAIT, brokers=(), topics=topics, error_code=error)
