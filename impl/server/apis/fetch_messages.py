"""Fetch on the wire and in the core: messages from and to `FollowerFetch` and `FetchAnswer`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import NO_EPOCH, EpochEndOffset, FetchAnswer, FollowerFetch
from tidegauge.impl.wire.fetch_messages import (
    CONSUMER,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionFetched,
    TopicFetched,
)

__all__ = [
    "AnsweredPartition",
    "AskedPartition",
    "FetchRequest",
    "FetchResponse",
    "answered_partitions",
    "asked_partition",
    "asked_partitions",
    "consumer_request",
    "fetched",
    "follower_request",
    "response",
]


@attrs.define
class AskedPartition:
    """One partition of a fetch: a follower's or, without `follower`, a consumer's."""

    topic_id: str
    partition: int
    fetch_offset: int
    leader_epoch: int | None
    max_bytes: int
    follower: FollowerFetch | None
    topic: str = ""
    """Its name, where the request names topics and not their ids."""
    last_fetched_epoch: int = -1
    """Of the last record that a consumer has; -1: it does not say."""


@attrs.define
class AnsweredPartition:
    """What one partition of a fetch is answered."""

    topic_id: str
    partition: int
    answer: FetchAnswer
    topic: str = ""
    preferred_read_replica: int = -1


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


def consumer_request(
    topic_id: str, partition: int, offset: int, *, leader_epoch: int, max_wait_ms: int, min_bytes: int, max_bytes: int
) -> FetchRequest:
    """A consumer's request for one partition."""
    asked = FetchPartition(partition, offset, max_bytes, leader_epoch)
    return FetchRequest([FetchTopic("", topic_id, [asked])], max_wait_ms, min_bytes, max_bytes)


def asked_partitions(request: FetchRequest) -> Iterator[AskedPartition]:
    """The partitions of a request, in its order."""
    for topic in request.topics:
        for asked in topic.partitions:
            yield asked_partition(request, topic.name, topic.topic_id, asked)


def asked_partition(request: FetchRequest, topic: str, topic_id: str, asked: FetchPartition) -> AskedPartition:
    """One partition of a request."""
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
    leader_epoch = None if asked.current_leader_epoch < 0 else asked.current_leader_epoch
    return AskedPartition(
        topic_id,
        asked.index,
        asked.fetch_offset,
        leader_epoch,
        asked.max_bytes,
        follower,
        topic,
        asked.last_fetched_epoch,
    )


def response(answers: Sequence[AnsweredPartition]) -> FetchResponse:
    """The response with these answers."""
    topics: dict[tuple[str, str], TopicFetched] = {}
    for answered in answers:
        key = answered.topic, answered.topic_id
        if key not in topics:
            topics[key] = TopicFetched(answered.topic, answered.topic_id, [])
        topics[key].partitions.append(fetched(answered))
    return FetchResponse(list(topics.values()))


def fetched(answered: AnsweredPartition) -> PartitionFetched:
    """An answer as a message; without transactions the last stable offset is the high watermark."""
    answer = answered.answer
    message = PartitionFetched(
        answered.partition,
        answer.error,
        answer.high_watermark,
        answer.high_watermark,
        answer.log_start_offset,
        None,
        answered.preferred_read_replica,
        answer.records,
    )
    if answer.log_start_epoch != NO_EPOCH:
        # As a quorum's leader tells where to begin anew (KIP-630), for which Kafka has this field.
        message.snapshot_end_offset, message.snapshot_epoch = answer.log_start_offset, answer.log_start_epoch
    if answer.diverging_epoch is not None:
        message.diverging_epoch = answer.diverging_epoch.epoch
        message.diverging_end_offset = answer.diverging_epoch.end_offset
    if answer.error is not ErrorCode.none:
        message.leader_id, message.leader_epoch = answer.leader, answer.leader_epoch
    return message


def answered_partitions(message: FetchResponse) -> dict[tuple[str, int], FetchAnswer]:
    """The answers of a response by (topic id, partition)."""
    return {(topic.topic_id, data.index): _answer(data) for topic in message.topics for data in topic.partitions}


def _answer(data: PartitionFetched) -> FetchAnswer:
    return FetchAnswer(
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
