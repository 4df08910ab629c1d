"""Fetch at a broker: followers replicate, consumers read what is committed; both may wait for news.

A request is answered as a whole: when one of its partitions has news (an error, a divergence) or enough bytes are
there, else it waits. Each time it is looked at again every partition of it is handled anew, as if the request had just
come: a held fetch is the same request handled twice.

What a session (`fetch_sessions`) leaves out of the answer was handled all the same.

The first partition that has records gets a whole batch, however small the limits; no other goes beyond them (KIP-74).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import EpochEndOffset, PartitionFetchResponse
from tidegauge.impl.records.batches import Compression, RecordError
from tidegauge.impl.server import trace
from tidegauge.impl.server.apis.produce import known_leader, node_endpoints
from tidegauge.impl.server.broker.partition import Partition, TopicPartition
from tidegauge.impl.server.broker.replica_selection import NO_PREFERENCE
from tidegauge.impl.server.reads import PartitionRead, ReadOutcome, fetch_response
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.fetch_messages import CONSUMER, FetchRequest, FetchResponse

if TYPE_CHECKING:
    from tidegauge.impl.server.broker_server import Broker
    from tidegauge.impl.server.transport.context import RequestContext

STORAGE_ERROR_FROM: Final = 6
"""The version that knows KAFKA_STORAGE_ERROR (KIP-112); clients of older ones look for the leader anew by another."""
ZSTD_FROM: Final = 10
"""KIP-110."""
RACKS_FROM: Final = 11
TOPIC_IDS_FROM: Final = 13
LEADERS_FROM: Final = 16
"""KIP-951; versions from 12 on have a place for it, which is Raft's."""
LEADER_MOVED: Final = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch})
"""Errors beside which the answer says who leads and where (KIP-951)."""


async def handle_fetch(request: FetchRequest, context: RequestContext, *, broker: Broker) -> FetchResponse:
    """Answer a fetch, at once or when there is news."""
    begun = broker.fetch_sessions.begin(
        request, uses_topic_ids=context.api_version >= TOPIC_IDS_FROM, now_ms=broker.clock.now_ms()
    )
    if isinstance(begun, ErrorCode):
        return FetchResponse([], error_code=begun)
    only_leader = request.replica_id > CONSUMER or context.api_version < RACKS_FROM
    fetch = _Fetch(broker, request, resolved(broker, begun.reads, context), only_leader)
    if (answers := fetch.attempt(may_wait=request.max_wait_ms > 0)) is None:
        is_follower = request.replica_id > CONSUMER
        purgatory = broker.replicas.follower_fetches if is_follower else broker.replicas.fetches
        answers = await context.while_connected(
            lambda: purgatory.until(fetch.keys, lambda: fetch.attempt(may_wait=True), request.max_wait_ms)
        )
    to_send = begun.to_send(fetch.answer_now() if answers is None else answers)
    if context.api_version < ZSTD_FROM:
        to_send = [_understood(broker, one, context.api_version) for one in to_send]
    message = fetch_response(to_send)
    message.session_id = begun.session_id
    _tell_leaders(broker, message, context, is_follower=request.replica_id > CONSUMER)
    return message


def _tell_leaders(broker: Broker, message: FetchResponse, context: RequestContext, *, is_follower: bool) -> None:
    """Say where the leaders are that partitions have moved to; older versions learn it from Metadata.

    Clients are told it beside the errors that mean this, other brokers beside all.
    """
    known = context.api_version >= LEADERS_FROM
    leaders: set[int] = set()
    for topic in message.topics:
        for partition in topic.partitions:
            if known and partition.error_code in LEADER_MOVED:
                leaders.add(partition.leader_id)
            elif not (known and is_follower):
                partition.leader_id = partition.leader_epoch = -1
    message.node_endpoints = node_endpoints(broker, leaders, context)


def _understood(broker: Broker, answered: ReadOutcome, version: int) -> ReadOutcome:
    """An answer without what its version does not know: the error of a failed directory, topics that are zstd."""
    partition = broker.replicas.get(answered.read.topic, answered.read.partition)
    if partition is not None and partition.log.config.compression_type == Compression.ZSTD.name.lower():
        return attrs.evolve(answered, response=PartitionFetchResponse(ErrorCode.unsupported_compression_type))
    if answered.response.error is ErrorCode.kafka_storage_error and version < STORAGE_ERROR_FROM:
        return attrs.evolve(answered, response=PartitionFetchResponse(ErrorCode.not_leader_or_follower))
    return answered


@attrs.define(eq=False)
class Resolved:
    """A partition that is asked for, under its name, and why it is refused before anybody looks for it."""

    asked: PartitionRead
    topic: str
    refusal: ErrorCode | None


def resolved(broker: Broker, asked: Iterable[PartitionRead], context: RequestContext) -> list[Resolved]:
    """Find the topics' names, and check what the peer may read."""
    names: dict[tuple[str, str], tuple[str, ErrorCode | None]] = {}
    result = []
    for one in asked:
        key = one.topic, one.topic_id
        if key not in names:
            names[key] = _topic(broker, one, context)
        result.append(Resolved(one, *names[key]))
    return result


def _topic(broker: Broker, asked: PartitionRead, context: RequestContext) -> tuple[str, ErrorCode | None]:
    name = asked.topic
    if asked.topic_id:
        name = broker.metadata.topic_name(asked.topic_id) or ""
    if not name:
        named_by_id = context.api_version >= TOPIC_IDS_FROM
        return "", ErrorCode.unknown_topic_id if named_by_id else ErrorCode.unknown_topic_or_partition
    if asked.follower is not None:
        may_read = context.allowed(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    else:
        may_read = context.allowed(Operation.READ, ResourceType.TOPIC, name)
    return name, None if may_read else ErrorCode.topic_authorization_failed


@attrs.define(eq=False)
class _Fetch:
    """One request, which may be looked at several times."""

    broker: Broker
    request: FetchRequest
    partitions: list[Resolved]
    only_leader: bool
    """Whether a follower may not answer, which it may to consumers that know of racks."""

    @property
    def keys(self) -> list[TopicPartition]:
        return [
            (one.topic, one.asked.partition)
            for one in self.partitions
            if one.refusal is None and self.broker.replicas.get(one.topic, one.asked.partition) is not None
        ]

    def answer_now(self) -> list[ReadOutcome]:
        """The answer when the wait is over."""
        answers = self.attempt(may_wait=False)
        assert answers is not None, "an attempt that may not wait answers"
        return answers

    def attempt(self, *, may_wait: bool) -> list[ReadOutcome] | None:
        """Handle every partition; None when the request is to wait."""
        answers: list[ReadOutcome] = []
        handled: list[tuple[Partition, PartitionRead, PartitionFetchResponse, bool]] = []
        size, news = 0, not self.partitions
        for one in self.partitions:
            preferred = NO_PREFERENCE
            asked = one.asked
            partition = None if one.refusal is not None else self.broker.replicas.get(one.topic, asked.partition)
            if partition is None or (asked.topic_id and partition.topic_id != asked.topic_id):
                answer = PartitionFetchResponse(one.refusal or self._missing(one, partition))
                if partition is None and one.refusal is None and self.broker.tracer.trace is not None:
                    self._trace_refusal(one, answer.error)
                if answer.error in LEADER_MOVED:
                    leader, epoch = known_leader(self.broker, one.topic, asked.partition)
                    answer = PartitionFetchResponse(answer.error, leader, epoch)
            else:
                before = _noted(partition, asked)
                preferred = self._preferred(partition, asked)
                answer = self._handle(partition, asked, size, read=preferred == NO_PREFERENCE)
                handled.append((partition, asked, answer, _noted(partition, asked) != before))
            answers.append(ReadOutcome(asked, answer, preferred))
            size += len(answer.records)
            news = news or preferred != NO_PREFERENCE or answer.error is not ErrorCode.none
            news = news or answer.diverging_epoch is not None or _starts_later(asked, answer)
        is_full = size >= min(
            self.request.min_bytes, self.request.max_bytes, self.broker.config.current.fetch_max_bytes
        )
        waits = may_wait and not news and not is_full
        for partition, asked, answer, noted in handled:
            is_traced = self.broker.tracer.trace is not None and asked.follower is not None
            if is_traced and not partition.is_gone:
                self._trace(partition, asked, answer, held=waits, noted=noted)
            self.broker.replicas.carry_out(partition)
        return None if waits else answers

    def _missing(self, one: Resolved, partition: Partition | None) -> ErrorCode:
        """Why there is no such partition here."""
        if partition is not None:
            return ErrorCode.inconsistent_topic_id
        known = self.broker.metadata.image.partition(one.topic, one.asked.partition) is not None
        return self.broker.replicas.absence(one.topic, one.asked.partition, known=known)

    def _preferred(self, partition: Partition, asked: PartitionRead) -> int:
        """The replica that a consumer is sent to; an error is told before that."""
        if not self.request.rack_id or self.only_leader:
            return NO_PREFERENCE
        if partition.replica.read_error(asked.offset, asked.leader_epoch) is not ErrorCode.none:
            return NO_PREFERENCE
        return self.broker.replica_selector.preferred(partition, self.request.rack_id, asked.offset)

    def _handle(self, partition: Partition, asked: PartitionRead, size: int, *, read: bool) -> PartitionFetchResponse:
        """Read one partition, or without `read` only where it stands; the ones before it had `size` bytes."""
        most = min(self.request.max_bytes, self.broker.config.current.fetch_max_bytes)
        max_bytes = min(asked.max_bytes, max(0, most - size)) if read else 0
        at_least_one = size == 0 and read
        try:
            if asked.follower is not None:
                now_ms = self.broker.clock.now_ms()
                return partition.replica.receive_fetch(asked.follower, max_bytes, now_ms, at_least_one=at_least_one)
            answer = partition.replica.read(
                asked.offset,
                max_bytes,
                asked.leader_epoch,
                at_least_one=at_least_one,
                only_leader=self.only_leader,
            )
            return answer if asked.last_fetched_epoch < 0 else _compared(partition, asked, answer)
        except (RecordError, OSError) as error:
            return PartitionFetchResponse(self.broker.replicas.storage_failed(partition, error))

    def _trace_refusal(self, one: Resolved, error: ErrorCode) -> None:
        if one.asked.follower is not None:
            refusal, fetch = trace.events.RefuseFetch, one.asked.follower
            self.broker.tracer.record(refusal, one.topic, one.asked.partition, fetch=fetch, error=error)

    def _trace(
        self, partition: Partition, asked: PartitionRead, answer: PartitionFetchResponse, *, held: bool, noted: bool
    ) -> None:
        assert asked.follower is not None, "only followers' fetches are traced"
        if held and not noted:
            return
        self.broker.tracer.replica(
            trace.events.HoldFetch if held else trace.events.ReceiveFetch,
            partition.topic,
            partition.index,
            partition.replica,
            fetch=asked.follower,
            outcome=trace.events.FetchOutcome.of(answer, asked.follower),
        )


def _compared(partition: Partition, asked: PartitionRead, answer: PartitionFetchResponse) -> PartitionFetchResponse:
    """The answer to a consumer that says of which epoch its last record is (KIP-595).

    It is told where what it has read and this log part, if they do; OFFSET_OUT_OF_RANGE when that cannot be known.
    """
    if answer.error not in (ErrorCode.none, ErrorCode.offset_out_of_range):
        return answer
    replica, log = partition.replica, partition.log
    epoch, end_offset = log.epochs.end_offset_for(asked.last_fetched_epoch, log.log_end_offset)
    if end_offset < 0 or asked.offset < log.log_start_offset:
        return PartitionFetchResponse(ErrorCode.offset_out_of_range, replica.leader, replica.leader_epoch)
    if epoch == asked.last_fetched_epoch and asked.offset <= end_offset:
        return answer
    return PartitionFetchResponse(
        leader=replica.leader,
        leader_epoch=replica.leader_epoch,
        diverging_epoch=EpochEndOffset(epoch, end_offset),
        high_watermark=replica.high_watermark,
        log_start_offset=log.log_start_offset,
    )


def _starts_later(asked: PartitionRead, answer: PartitionFetchResponse) -> bool:
    """Whether a follower is to move its log start."""
    return asked.follower is not None and 0 <= asked.follower.log_start_offset < answer.log_start_offset


def _noted(partition: Partition, asked: PartitionRead) -> object:
    """What a leader may note when it handles a follower's fetch."""
    if asked.follower is None:
        return None
    replica = partition.replica
    remote = replica.remote_replicas.get(asked.follower.replica_id)
    known = None if remote is None else (remote.log_end_offset, remote.log_start_offset, remote.broker_epoch)
    return known, replica.pending_isr, replica.high_watermark
