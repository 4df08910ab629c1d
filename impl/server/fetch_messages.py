"""Fetch on the wire and in the core: kio's messages from and to `FollowerFetch` and `FetchAnswer`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v17 import request as wire_request
from kio.schema.fetch.v17 import response as wire_response

from impl.partition.messages import EpochEndOffset, FetchAnswer, FollowerFetch
from impl.wire.primitives import NO_WAIT, BrokerId, Records, i8, i32, i64, millis, topic_uuid

FetchRequest = wire_request.FetchRequest
FetchResponse = wire_response.FetchResponse

_NO_DIVERGENCE = wire_response.EpochEndOffset()
_NO_LEADER = wire_response.LeaderIdAndEpoch()
"""An answer without an error need not say who leads."""


@attrs.frozen
class AskedPartition:
    """One partition of a fetch: a follower's or, without `follower`, a consumer's."""

    topic_id: str
    partition: int
    fetch_offset: int
    leader_epoch: int | None
    max_bytes: int
    follower: FollowerFetch | None


@attrs.frozen
class AnsweredPartition:
    """What one partition of a fetch is answered."""

    topic_id: str
    partition: int
    answer: FetchAnswer


def follower_request(
    fetches: Iterable[tuple[str, int, FollowerFetch]],
    *,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    partition_max_bytes: int,
) -> FetchRequest:
    """A follower's request for (topic id, partition, fetch) of one leader; all fetches name the same replica."""
    topics: dict[str, list[wire_request.FetchPartition]] = {}
    state = wire_request.ReplicaState()
    for topic_id, partition, fetch in fetches:
        state = wire_request.ReplicaState(replica_id=BrokerId(fetch.replica_id), replica_epoch=i64(fetch.broker_epoch))
        topics.setdefault(topic_id, []).append(
            wire_request.FetchPartition(
                partition=i32(partition),
                current_leader_epoch=i32(fetch.leader_epoch),
                fetch_offset=i64(fetch.fetch_offset),
                last_fetched_epoch=i32(fetch.last_fetched_epoch),
                partition_max_bytes=i32(partition_max_bytes),
            )
        )
    return _request(topics, state, max_wait_ms, min_bytes, max_bytes)


def consumer_request(
    topic_id: str, partition: int, offset: int, *, leader_epoch: int, max_wait_ms: int, min_bytes: int, max_bytes: int
) -> FetchRequest:
    """A consumer's request for one partition."""
    asked = wire_request.FetchPartition(
        partition=i32(partition),
        current_leader_epoch=i32(leader_epoch),
        fetch_offset=i64(offset),
        partition_max_bytes=i32(max_bytes),
    )
    return _request({topic_id: [asked]}, wire_request.ReplicaState(), max_wait_ms, min_bytes, max_bytes)


def _request(
    topics: dict[str, list[wire_request.FetchPartition]],
    state: wire_request.ReplicaState,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
) -> FetchRequest:
    return FetchRequest(
        replica_state=state,
        max_wait=millis(max_wait_ms),
        min_bytes=i32(min_bytes),
        max_bytes=i32(max_bytes),
        isolation_level=i8(0),
        topics=tuple(
            wire_request.FetchTopic(topic_id=topic_uuid(topic_id), partitions=tuple(partitions))
            for topic_id, partitions in topics.items()
        ),
        forgotten_topics_data=(),
    )


def asked_partitions(request: FetchRequest) -> Iterator[AskedPartition]:
    """The partitions of a request, in its order."""
    state = request.replica_state
    is_follower = state.replica_id >= 0
    for topic in request.topics:
        for asked in topic.partitions:
            fetch = FollowerFetch(
                replica_id=state.replica_id,
                broker_epoch=state.replica_epoch,
                leader_epoch=asked.current_leader_epoch,
                fetch_offset=asked.fetch_offset,
                last_fetched_epoch=asked.last_fetched_epoch,
            )
            yield AskedPartition(
                topic_id=str(topic.topic_id),
                partition=asked.partition,
                fetch_offset=asked.fetch_offset,
                leader_epoch=None if asked.current_leader_epoch < 0 else asked.current_leader_epoch,
                max_bytes=asked.partition_max_bytes,
                follower=fetch if is_follower else None,
            )


def response(answers: Sequence[AnsweredPartition]) -> FetchResponse:
    """The response with these answers."""
    topics: dict[str, list[wire_response.PartitionData]] = {}
    for answered in answers:
        topics.setdefault(answered.topic_id, []).append(_partition_data(answered))
    return FetchResponse(
        throttle_time=NO_WAIT,
        error_code=ErrorCode.none,
        responses=tuple(
            wire_response.FetchableTopicResponse(topic_id=topic_uuid(topic_id), partitions=tuple(partitions))
            for topic_id, partitions in topics.items()
        ),
    )


def _partition_data(answered: AnsweredPartition) -> wire_response.PartitionData:
    answer = answered.answer
    diverging = answer.diverging_epoch
    return wire_response.PartitionData(
        partition_index=i32(answered.partition),
        error_code=answer.error,
        high_watermark=i64(answer.high_watermark),
        last_stable_offset=i64(answer.high_watermark),
        log_start_offset=i64(answer.log_start_offset),
        diverging_epoch=_NO_DIVERGENCE
        if diverging is None
        else wire_response.EpochEndOffset(epoch=i32(diverging.epoch), end_offset=i64(diverging.end_offset)),
        current_leader=_NO_LEADER
        if answer.error is ErrorCode.none
        else wire_response.LeaderIdAndEpoch(leader_id=BrokerId(answer.leader), leader_epoch=i32(answer.leader_epoch)),
        aborted_transactions=None,
        records=Records(answer.records),
    )


def answered_partitions(message: FetchResponse) -> dict[tuple[str, int], FetchAnswer]:
    """The answers of a response by (topic id, partition)."""
    return {
        (str(topic.topic_id), data.partition_index): _answer(data)
        for topic in message.responses
        for data in topic.partitions
    }


def _answer(data: wire_response.PartitionData) -> FetchAnswer:
    diverging = data.diverging_epoch
    return FetchAnswer(
        error=data.error_code,
        leader=data.current_leader.leader_id,
        leader_epoch=data.current_leader.leader_epoch,
        diverging_epoch=EpochEndOffset(diverging.epoch, diverging.end_offset) if diverging.end_offset >= 0 else None,
        high_watermark=data.high_watermark,
        log_start_offset=data.log_start_offset,
        records=data.records or b"",
    )
