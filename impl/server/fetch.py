"""Fetch at a broker: followers replicate, consumers read what is committed; both may wait for news.

A request is answered as a whole: when one of its partitions has news (records, an error, a divergence) or enough bytes
are there, else it waits. Each time it is looked at again every partition of it is handled anew, as if the request had
just come: a held fetch is the same request handled twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from kio.schema.errors import ErrorCode

from impl.partition.messages import FetchAnswer
from impl.server.fetch_messages import (
    AnsweredPartition,
    AskedPartition,
    FetchRequest,
    FetchResponse,
    asked_partitions,
    response,
)
from impl.server.partitions import Partition, TopicPartition, storage_error_code
from impl.server.trace import answer_fields, fetch_fields
from impl.wire.primitives import to_millis
from impl.wire.records import RecordError

if TYPE_CHECKING:
    from impl.server.broker import Broker
    from impl.server.context import RequestContext


async def handle_fetch(broker: Broker, request: FetchRequest, context: RequestContext) -> FetchResponse:
    """Answer a fetch, at once or when there is news."""
    fetch = _Fetch(broker, tuple(asked_partitions(request)), request.min_bytes, request.max_bytes)
    wait_ms = to_millis(request.max_wait)
    if (answer := fetch.attempt(may_wait=wait_ms > 0)) is not None:
        return answer
    purgatory = (
        broker.partitions.follower_fetches if request.replica_state.replica_id >= 0 else broker.partitions.fetches
    )
    answer = await context.while_connected(
        lambda: purgatory.until(fetch.keys, lambda: fetch.attempt(may_wait=True), wait_ms)
    )
    return answer if answer is not None else fetch.answer_now()


@attrs.define
class _Fetch:
    """One request, which may be looked at several times."""

    broker: Broker
    asked: tuple[AskedPartition, ...]
    min_bytes: int
    max_bytes: int

    @property
    def keys(self) -> list[TopicPartition]:
        return [partition.key for asked in self.asked if (partition := self._partition(asked)) is not None]

    def _partition(self, asked: AskedPartition) -> Partition | None:
        topic = self.broker.metadata.topic_name(asked.topic_id)
        return None if topic is None else self.broker.partitions.get(topic, asked.partition)

    def answer_now(self) -> FetchResponse:
        """The answer when the wait is over."""
        answer = self.attempt(may_wait=False)
        assert answer is not None, "an attempt that may not wait answers"
        return answer

    def attempt(self, *, may_wait: bool) -> FetchResponse | None:
        """Handle every partition; None when the request is to wait."""
        answers: list[AnsweredPartition] = []
        handled: list[tuple[Partition, AskedPartition, FetchAnswer, bool]] = []
        size, news = 0, False
        for asked in self.asked:
            partition = self._partition(asked)
            if partition is None:
                answer = FetchAnswer(self._missing(asked))
            else:
                before = _noted(partition, asked)
                answer = self._handle(partition, asked, max(0, self.max_bytes - size))
                handled.append((partition, asked, answer, _noted(partition, asked) != before))
            answers.append(AnsweredPartition(asked.topic_id, asked.partition, answer))
            size += len(answer.records)
            news = news or answer.error is not ErrorCode.none or answer.diverging_epoch is not None
        waits = may_wait and not news and size < self.min_bytes
        for partition, asked, answer, noted in handled:
            self._trace(partition, asked, answer, held=waits, noted=noted)
            self.broker.partitions.carry_out(partition)
        return None if waits else response(answers)

    def _missing(self, asked: AskedPartition) -> ErrorCode:
        """Why there is no such partition here."""
        topic = self.broker.metadata.topic_name(asked.topic_id)
        if topic is None:
            return ErrorCode.unknown_topic_id
        if self.broker.metadata.image.partition(topic, asked.partition) is None:
            return ErrorCode.unknown_topic_or_partition
        return ErrorCode.not_leader_or_follower

    def _handle(self, partition: Partition, asked: AskedPartition, room: int) -> FetchAnswer:
        max_bytes = min(asked.max_bytes, room)
        try:
            if asked.follower is not None:
                return partition.replica.receive_fetch(asked.follower, max_bytes, self.broker.clock.now_ms())
            return partition.replica.read(asked.fetch_offset, max_bytes, asked.leader_epoch)
        except (RecordError, OSError) as error:
            return FetchAnswer(storage_error_code(error))

    def _trace(
        self, partition: Partition, asked: AskedPartition, answer: FetchAnswer, *, held: bool, noted: bool
    ) -> None:
        if asked.follower is None or (held and not noted):
            return
        self.broker.tracer.replica(
            "HoldFetch" if held else "ReceiveFetch",
            partition.topic,
            partition.index,
            partition.replica,
            **fetch_fields(asked.follower),
            **answer_fields(answer, asked.follower),
        )


def _noted(partition: Partition, asked: AskedPartition) -> object:
    """What a leader may note when it handles a follower's fetch."""
    if asked.follower is None:
        return None
    replica = partition.replica
    remote = replica.remote_replicas.get(asked.follower.replica_id)
    known = None if remote is None else (remote.log_end_offset, remote.broker_epoch)
    return known, replica.pending_isr, replica.high_watermark
