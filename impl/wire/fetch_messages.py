"""Fetch as this project handles it: one pair of messages for all versions.

A topic is known by its name or, from version 13 on, by its id; the other one is empty in a message that came over the
wire. What a version does not carry has its default. Records are views: of the log's bytes in a response that is
sent, of the frame in one that was received.
"""

from __future__ import annotations

from typing import ClassVar, Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.wire.fields import NO_ID, Part
from tidegauge.impl.wire.produce_messages import NodeEndpoint

CONSUMER: Final = -1
NO_SESSION: Final = 0
SESSIONLESS_EPOCH: Final = -1
"""Session epoch of a fetch that wants none, or ends the one that it has (KIP-227)."""
INITIAL_EPOCH: Final = 0
"""Session epoch of a full fetch that asks for a session."""
UNTOLD_HIGH_WATERMARK: Final = (1 << 63) - 1
"""Of a replica that does not say which high watermark it knows (KIP-1166)."""


@attrs.define
class FetchPartition:
    """From where on one partition is fetched."""

    index: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    """The epoch that the asker believes in; -1: it does not say."""
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    """A follower's own."""
    directory_id: str = NO_ID
    """A follower's log directory (KIP-853)."""
    high_watermark: int = UNTOLD_HIGH_WATERMARK
    """What a follower knows."""


@attrs.define
class FetchTopic:
    """What is fetched of one topic."""

    name: str
    topic_id: str
    partitions: list[FetchPartition]


@attrs.define
class ForgottenTopic:
    """Partitions that an incremental fetch takes out of its session."""

    name: str
    topic_id: str
    partitions: list[int]


@attrs.define
class FetchRequest:
    """Partitions to read, and how long to wait for how much."""

    __api_key__: ClassVar = 1
    __version__: ClassVar = 18

    topics: list[FetchTopic]
    max_wait_ms: int
    min_bytes: int
    max_bytes: int = (1 << 31) - 1
    isolation_level: int = 0
    """0: read uncommitted; 1: read committed."""
    session_id: int = NO_SESSION
    session_epoch: int = SESSIONLESS_EPOCH
    forgotten: list[ForgottenTopic] = attrs.field(factory=list)
    rack_id: str = ""
    replica_id: int = CONSUMER
    replica_epoch: int = -1
    cluster_id: str | None = None


@attrs.define
class AbortedTransaction:
    """A producer's aborted transaction that reaches into the records."""

    producer_id: int
    first_offset: int


@attrs.define
class PartitionFetched:
    """One partition of a fetch response."""

    index: int
    error_code: ErrorCode = ErrorCode.none
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted_transactions: list[AbortedTransaction] | None = None
    preferred_read_replica: int = -1
    records: Part | None = None
    diverging_epoch: int = -1
    diverging_end_offset: int = -1
    leader_id: int = -1
    leader_epoch: int = -1
    snapshot_end_offset: int = -1
    snapshot_epoch: int = -1


@attrs.define
class TopicFetched:
    """One topic of a fetch response."""

    name: str
    topic_id: str
    partitions: list[PartitionFetched]


@attrs.define
class FetchResponse:
    """The response to a `FetchRequest`."""

    __api_key__: ClassVar = 1
    __version__: ClassVar = 18

    topics: list[TopicFetched]
    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    session_id: int = NO_SESSION
    node_endpoints: list[NodeEndpoint] = attrs.field(factory=list)
    """Of the leaders named beside NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH."""


def fetch_error(request: FetchRequest, error: ErrorCode) -> FetchResponse:
    """The response that refuses a request as a whole, and gives every partition named in it this error.

    No partition has null in the place of its records: librdkafka takes that for a broken response, and disconnects.
    """
    return FetchResponse(
        [
            TopicFetched(
                topic.name,
                topic.topic_id,
                [PartitionFetched(asked.index, error, records=b"") for asked in topic.partitions],
            )
            for topic in request.topics
        ],
        error_code=error,
        session_id=request.session_id,
    )
