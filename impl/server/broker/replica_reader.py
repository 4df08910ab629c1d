"""Reading hosted partitions for one fetch, which may be held until there is news.

A fetch completes as a whole: at once when one of its partitions has news (an error, a divergence, another replica to
read from) or when enough bytes are there; else it is held. A held fetch is the same fetch handled twice: each time it
is looked at again, every partition of it is read anew, as if the request had just come.

The first partition that has records gets a whole batch, however small the limits. No other goes beyond them (KIP-74).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import EpochEndOffset, PartitionFetchResponse
from tidegauge.impl.ports.clock import Clock
from tidegauge.impl.records.batches import RecordError
from tidegauge.impl.server import trace
from tidegauge.impl.server.broker.dynamic_config import DynamicConfig
from tidegauge.impl.server.broker.hosted_partitions import HostedPartitions
from tidegauge.impl.server.broker.leaders import known_leader
from tidegauge.impl.server.broker.metadata_cache import MetadataCache
from tidegauge.impl.server.broker.partition import Partition, TopicPartition
from tidegauge.impl.server.broker.replica_effects import ReplicaEffects
from tidegauge.impl.server.broker.replica_selection import ReplicaSelector
from tidegauge.impl.server.broker.unfed_followers import RepeatedFetches
from tidegauge.impl.server.pace import Pace
from tidegauge.impl.server.requests.reads import NO_PREFERENCE, PartitionRead, ReadOutcome
from tidegauge.impl.server.trace.tracer import Tracer

READS_AT_ONCE: Final = 64
"""Partitions that are read in less than a slice of work."""
READ_UNITS: Final = 12
MOST_REMEMBERED: Final = 64
"""Partitions of which is remembered what a consumer was sent."""
LEADER_MOVED: Final = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch})
"""Errors that come with the leader and its epoch (KIP-951)."""


class ReadLimits(NamedTuple):
    """What holds for all partitions of a fetch."""

    min_bytes: int
    """The fetch is held until so many bytes are there."""
    max_bytes: int
    only_leader: bool
    """Whether a follower must refuse a consumer (before KIP-392)."""
    rack: str
    """The consumer's rack; "" when it does not say."""
    read_committed: bool = False
    """Whether the consumer wants no record of a transaction that may still be aborted (KIP-98)."""
    sent: dict[TopicPartition, int] | None = None
    """From where the consumer was last sent records, over its connection; None for a follower and the broker itself."""


class ReplicaReader:
    """Reads the partitions of one broker."""

    def __init__(
        self,
        hosted: HostedPartitions,
        effects: ReplicaEffects,
        metadata: MetadataCache,
        config: DynamicConfig,
        clock: Clock,
        tracer: Tracer,
        selector: ReplicaSelector,
    ) -> None:
        self._hosted = hosted
        self._effects = effects
        self._metadata = metadata
        self._config = config
        self._clock = clock
        self._tracer = tracer
        self._selector = selector
        self._repeated = RepeatedFetches()

    async def read_in_slices(
        self, reads: Sequence[PartitionRead], limits: ReadLimits, pace: Pace
    ) -> tuple[list[ReadOutcome], bool]:
        """Read every partition of a consumer once, some at a time; and whether that is enough to respond with."""
        outcomes: list[ReadOutcome] = []
        size, has_news = 0, False
        for start in range(0, len(reads), READS_AT_ONCE):
            found = self.read(reads[start : start + READS_AT_ONCE], limits, may_hold=False, taken=size)
            assert found is not None, "a read that may not be held has an outcome"
            outcomes += found
            size += sum(len(outcome.response.records) for outcome in found)
            has_news = has_news or any(map(_is_news, found))
            await pace.did(READ_UNITS * len(found))
        return outcomes, has_news or size >= min(limits.min_bytes, limits.max_bytes)

    def read(
        self, reads: Sequence[PartitionRead], limits: ReadLimits, *, may_hold: bool, taken: int = 0
    ) -> list[ReadOutcome] | None:
        """Read every partition once; None when the fetch is to be held. So many bytes are `taken` already."""
        most = min(limits.max_bytes, self._config.current.fetch_max_bytes)
        outcomes: list[ReadOutcome] = []
        handled: list[tuple[Partition, ReadOutcome, bool]] = []
        size, has_news = taken, not reads
        traces = self._tracer.trace is not None
        for read in reads:
            partition = self._hosted.get(read.topic, read.partition)
            if partition is None or (read.topic_id and partition.topic_id != read.topic_id):
                outcome = ReadOutcome(read, self._missing(read, partition))
                has_news = True
            else:
                before = self._follower_state(partition, read) if traces else None
                outcome = self._read(partition, read, limits, max(0, most - size), is_first=size == 0)
                changed = traces and self._follower_state(partition, read) != before
                handled.append((partition, outcome, changed))
                size += len(outcome.response.records)
                has_news = has_news or _is_news(outcome)
            outcomes.append(outcome)
        holds = may_hold and not has_news and size < min(limits.min_bytes, most)
        for partition, outcome, changed in handled:
            if traces:
                self._trace(partition, outcome, held=holds, changed=changed)
            self._effects.carry_out(partition)
        return None if holds else outcomes

    def _read(
        self, partition: Partition, read: PartitionRead, limits: ReadLimits, room: int, *, is_first: bool
    ) -> ReadOutcome:
        """Read one partition, into what is left of the fetch's bytes."""
        replica, follower = partition.replica, read.follower
        max_bytes = min(read.max_bytes, room)
        try:
            if follower is not None:
                if self._repeated.is_repeated(partition, follower):
                    partition.log.distrust(follower.fetch_offset)
                now_ms = self._clock.steady_ms()
                response = replica.receive_fetch(follower, max_bytes, now_ms, at_least_one=is_first)
                if response.records:
                    self._repeated.sent(partition, follower)
                return ReadOutcome(read, response)
            if (preferred := self._preferred(partition, read, limits)) != NO_PREFERENCE:
                max_bytes, is_first = 0, False
            if limits.sent is not None and limits.sent.get(partition.key) == read.offset:
                _look_again(partition, read, limits)
            response = replica.read(
                read.offset,
                max_bytes,
                read.leader_epoch,
                at_least_one=is_first,
                only_leader=limits.only_leader,
                read_committed=limits.read_committed,
            )
            if limits.sent is not None and response.records:
                _note_sent(limits.sent, partition, read)
            if read.last_fetched_epoch >= 0:
                response = _checked_divergence(partition, read, response)
            return ReadOutcome(read, response, preferred)
        except (RecordError, OSError) as error:
            return ReadOutcome(read, PartitionFetchResponse(self._hosted.storage_failed(partition, error)))

    def _missing(self, read: PartitionRead, partition: Partition | None) -> PartitionFetchResponse:
        """The response where this broker does not have the partition, or has one of another topic id by its name."""
        error = ErrorCode.inconsistent_topic_id
        if partition is None:
            known = self._metadata.image.partition(read.topic, read.partition) is not None
            error = self._hosted.absence(read.topic, read.partition, known=known)
            if read.follower is not None and self._tracer.trace is not None:
                refusal, fetch = trace.events.RefuseFetch, read.follower
                self._tracer.record(refusal, read.topic, read.partition, fetch, error, read.topic_id)
        if error not in LEADER_MOVED:
            return PartitionFetchResponse(error)
        return PartitionFetchResponse(error, *known_leader(self._hosted, self._metadata, read.topic, read.partition))

    def _preferred(self, partition: Partition, read: PartitionRead, limits: ReadLimits) -> int:
        """The replica that a consumer is to read from instead; an error comes first."""
        if not limits.rack or limits.only_leader:
            return NO_PREFERENCE
        if partition.replica.read_error(read.offset, read.leader_epoch) is not ErrorCode.none:
            return NO_PREFERENCE
        return self._selector.preferred(partition, limits.rack, read.offset)

    def _follower_state(self, partition: Partition, read: PartitionRead) -> object:
        """What a follower's fetch may change at its leader; only the trace needs it."""
        if read.follower is None:
            return None
        replica = partition.replica
        remote = replica.remote_replicas.get(read.follower.replica_id)
        known = None if remote is None else (remote.log_end_offset, remote.log_start_offset, remote.broker_epoch)
        return known, replica.pending_isr, replica.high_watermark

    def _trace(self, partition: Partition, outcome: ReadOutcome, *, held: bool, changed: bool) -> None:
        """Record a follower's fetch, unless it is held and has changed nothing."""
        follower = outcome.read.follower
        if follower is None or partition.is_gone or (held and not changed):
            return
        self._tracer.replica(
            trace.events.HoldFetch if held else trace.events.ReceiveFetch,
            partition.topic,
            partition.index,
            partition.replica,
            fetch=follower,
            outcome=trace.events.FetchOutcome.of(outcome.response, follower),
        )


def _is_news(outcome: ReadOutcome) -> bool:
    """Whether a fetch with this outcome must not be held, however few bytes there are."""
    response, follower = outcome.response, outcome.read.follower
    if response.error or response.diverging_epoch is not None:
        return True
    if follower is not None:  # is to move its log start
        return 0 <= follower.log_start_offset < response.log_start_offset
    return outcome.preferred_read_replica != NO_PREFERENCE


def _look_again(partition: Partition, read: PartitionRead, limits: ReadLimits) -> None:
    """A consumer that asks twice may have refused what it was sent: one that looks at checksums says nothing of it."""
    error = partition.replica.read_error(read.offset, read.leader_epoch, only_leader=limits.only_leader)
    if error is ErrorCode.none:
        partition.log.look_again(read.offset)


def _note_sent(sent: dict[TopicPartition, int], partition: Partition, read: PartitionRead) -> None:
    if len(sent) >= MOST_REMEMBERED:
        sent.clear()
    sent[partition.key] = read.offset


def _checked_divergence(
    partition: Partition, read: PartitionRead, response: PartitionFetchResponse
) -> PartitionFetchResponse:
    """The response to a consumer that names the epoch of its last record (KIP-595).

    It is told where what it has read and this log diverge, if they do; OFFSET_OUT_OF_RANGE when that cannot be known.
    """
    if response.error not in (ErrorCode.none, ErrorCode.offset_out_of_range):
        return response
    replica, log = partition.replica, partition.log
    epoch, end_offset = log.epochs.end_offset_for(read.last_fetched_epoch, log.log_end_offset)
    if end_offset < 0 or read.offset < log.log_start_offset:
        return PartitionFetchResponse(ErrorCode.offset_out_of_range, replica.leader, replica.leader_epoch)
    if epoch == read.last_fetched_epoch and read.offset <= end_offset:
        return response
    return PartitionFetchResponse(
        leader=replica.leader,
        leader_epoch=replica.leader_epoch,
        diverging_epoch=EpochEndOffset(epoch, end_offset),
        high_watermark=replica.high_watermark,
        log_start_offset=log.log_start_offset,
    )
