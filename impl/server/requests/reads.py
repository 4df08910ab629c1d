"""One partition's part of a fetch: what is to be read, what came of it, and both as parts of messages on the wire.

A broker reads its logs, a controller its metadata log. Both take `PartitionRead`s out of a `FetchRequest`
(`partition_reads`) and put `ReadOutcome`s into a `FetchResponse` (`fetch_response`). A follower does the reverse:
`follower_request` and `partition_responses`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs

from tidegauge.impl.partition.messages import (
    NO_EPOCH,
    UNKNOWN_OFFSET,
    EpochEndOffset,
    FollowerFetch,
    PartitionFetchResponse,
)
from tidegauge.impl.wire.fetch_messages import (
    CONSUMER,
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionFetched,
    TopicFetched,
)

READ_COMMITTED = 1
"""The isolation level of consumers that read no transaction that may still be aborted (KIP-98)."""
NO_PREFERENCE = -1
"""The preferred read replica of a consumer that reads from the right one."""


@attrs.define(eq=False, repr=False)
class PartitionRead:
    """One partition to read from: for a follower or, without `follower`, for a consumer or for the broker itself."""

    topic: str
    """Its name; "" while only the topic's id is known."""
    partition: int
    offset: int
    max_bytes: int
    leader_epoch: int | None = None
    """The leader epoch that the reader knows; None when it does not say."""
    topic_id: str = ""
    """"" for a reader that knows the topic by its name."""
    follower: FollowerFetch | None = None
    last_fetched_epoch: int = -1
    """The leader epoch of the last record that a consumer has (KIP-595); -1 when it does not say."""


@attrs.define(eq=False, repr=False)
class ReadOutcome:
    """What came of one `PartitionRead`."""

    read: PartitionRead
    response: PartitionFetchResponse
    preferred_read_replica: int = NO_PREFERENCE
    """The broker that the consumer is to read from instead (KIP-392)."""


def partition_reads(request: FetchRequest) -> Iterator[PartitionRead]:
    """The partitions of a request, in its order."""
    for topic in request.topics:
        for asked in topic.partitions:
            yield _partition_read(request, topic, asked)


def _partition_read(request: FetchRequest, topic: FetchTopic, asked: FetchPartition) -> PartitionRead:
    follower = None
    if request.replica_id > CONSUMER:
        follower = FollowerFetch(
            replica_id=request.replica_id,
            broker_epoch=request.replica_epoch,
            leader_epoch=asked.current_leader_epoch,
            fetch_offset=asked.fetch_offset,
            last_fetched_epoch=asked.last_fetched_epoch,
            log_start_offset=asked.log_start_offset,
        )
    return PartitionRead(
        topic.name,
        asked.index,
        asked.fetch_offset,
        asked.max_bytes,
        None if asked.current_leader_epoch < 0 else asked.current_leader_epoch,
        topic.topic_id,
        follower,
        asked.last_fetched_epoch,
    )


def fetch_response(outcomes: Sequence[ReadOutcome]) -> FetchResponse:
    """The response with these outcomes."""
    topics: dict[tuple[str, str], TopicFetched] = {}
    for outcome in outcomes:
        read = outcome.read
        key = read.topic, read.topic_id
        if (topic := topics.get(key)) is None:
            topic = topics[key] = TopicFetched(read.topic, read.topic_id, [])
        topic.partitions.append(_partition_fetched(outcome))
    return FetchResponse(list(topics.values()))


def _partition_fetched(outcome: ReadOutcome) -> PartitionFetched:
    """One outcome as a message. Without undecided transactions the last stable offset is the high watermark."""
    response, stable, aborted = outcome.response, outcome.response.last_stable_offset, outcome.response.aborted
    message = PartitionFetched(
        outcome.read.partition,
        response.error,
        response.high_watermark,
        response.high_watermark if stable == UNKNOWN_OFFSET else stable,
        response.log_start_offset,
        None if aborted is None else [AbortedTransaction(one.producer_id, one.first_offset) for one in aborted],
        outcome.preferred_read_replica,
        response.records,
    )
    if response.log_start_epoch != NO_EPOCH:
        # A follower that starts over needs this epoch. A quorum's leader says it in the same field (KIP-630).
        message.snapshot_end_offset, message.snapshot_epoch = response.log_start_offset, response.log_start_epoch
    if response.diverging_epoch is not None:
        message.diverging_epoch = response.diverging_epoch.epoch
        message.diverging_end_offset = response.diverging_epoch.end_offset
    if response.error:
        message.leader_id, message.leader_epoch = response.leader, response.leader_epoch
    return message


def follower_request(
    fetches: Iterable[tuple[str, int, FollowerFetch]],
    *,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    partition_max_bytes: int,
) -> FetchRequest:
    """A follower's request for (topic id, partition, fetch) of one leader; all fetches name the same replica."""
    topics: dict[str, FetchTopic] = {}
    request = FetchRequest([], max_wait_ms, min_bytes, max_bytes)
    for topic_id, partition, fetch in fetches:
        request.replica_id, request.replica_epoch = fetch.replica_id, fetch.broker_epoch
        if topic_id not in topics:
            topics[topic_id] = FetchTopic("", topic_id, [])
        topics[topic_id].partitions.append(
            FetchPartition(
                partition,
                fetch.fetch_offset,
                partition_max_bytes,
                fetch.leader_epoch,
                fetch.last_fetched_epoch,
                fetch.log_start_offset,
            )
        )
    request.topics = list(topics.values())
    return request


def partition_responses(message: FetchResponse) -> dict[tuple[str, int], PartitionFetchResponse]:
    """The responses in a message, by (topic id, partition)."""
    return {
        (topic.topic_id, data.index): _partition_response(data) for topic in message.topics for data in topic.partitions
    }


def _partition_response(data: PartitionFetched) -> PartitionFetchResponse:
    return PartitionFetchResponse(
        error=data.error_code,
        leader=data.leader_id,
        leader_epoch=data.leader_epoch,
        diverging_epoch=(
            EpochEndOffset(data.diverging_epoch, data.diverging_end_offset) if data.diverging_end_offset >= 0 else None
        ),
        high_watermark=data.high_watermark,
        log_start_offset=data.log_start_offset,
        log_start_epoch=data.snapshot_epoch,
        records=data.records or b"",
    )
