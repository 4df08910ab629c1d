"""What goes into a replica's core and comes out of it: messages between brokers, results and effects.

Nobody changes one that is made. Requests and responses are NamedTuples, which cost half as much to make as a frozen
class; effects of every append are plain attrs classes, which cost a fifth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.log import Records
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.partition.transactions import AbortedTransaction

UNKNOWN_BROKER_EPOCH: Final = -1
UNKNOWN_OFFSET: Final = -1
NO_ERROR: Final = ErrorCode.none
"""By a name of its own, for code that runs for each request: to look a member up in its enum takes twice as long."""
NO_EPOCH: Final = -1
"""Of the last record, in a log that has never had one."""


@attrs.frozen
class PartitionConfig:
    """The settings that a replica acts on, under Kafka's names."""

    min_insync_replicas: int = 1
    replica_lag_time_max_ms: int = 30_000


class Appended(NamedTuple):
    """A batch is in the leader's log at offsets [base_offset, end_offset); acks=all waits for the high watermark."""

    base_offset: int
    end_offset: int
    leader_epoch: int
    repeated: bool = False
    """Whether an idempotent producer had appended it before, so that nothing was appended now."""
    timestamp: int = -1
    """Of a repeated batch the largest timestamp of its records, in ms since 1970."""


class FollowerFetch(NamedTuple):
    """A follower's request for records from its log end offset on; its last epoch shows a divergence (KIP-595)."""

    replica_id: int
    broker_epoch: int
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int = 0


class EpochEndOffset(NamedTuple):
    """Where a leader epoch ends in a log: at the first offset of a later epoch, or at the log end offset."""

    epoch: int
    end_offset: int


class PartitionFetchResponse(NamedTuple):
    """The response to a fetch: an error, or where the logs diverge, or records and the leader's high watermark."""

    error: ErrorCode = ErrorCode.none
    leader: int = -1
    leader_epoch: int = -1
    diverging_epoch: EpochEndOffset | None = None
    high_watermark: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    log_start_epoch: int = NO_EPOCH
    """The epoch of the last record below the leader's log start, for followers that may start over there."""
    records: Records = b""
    last_stable_offset: int = UNKNOWN_OFFSET
    """Where a reader with read_committed has to stop; -1: at the high watermark."""
    aborted: Sequence[AbortedTransaction] | None = None
    """For a reader with read_committed, the aborted transactions that reach into the records."""

    @property
    def has_news(self) -> bool:
        """False for an empty response, which is held while a fetch may wait."""
        return bool(self.records or self.error) or self.diverging_epoch is not None


class AlterPartitionRequest(NamedTuple):
    """The leader's request for a new ISR: pairs of broker id and broker epoch (KIP-497, KIP-903)."""

    broker_id: int
    broker_epoch: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]

    @property
    def members(self) -> frozenset[int]:
        return frozenset(dict(self.isr))


class AlterPartitionResponse(NamedTuple):
    """The controller's response, with the registration as it is now; None when it does not know the partition."""

    error: ErrorCode
    controller_epoch: int
    registration: PartitionRegistration | None = None


@attrs.frozen
class SendAlterPartition:
    """A new ISR is proposed: send what `alter_partition_request` returns, and send it again until a response comes."""


@attrs.define
class HighWatermarkAdvanced:
    """The high watermark moved up: look again at waiting produce and fetch requests."""

    high_watermark: int


@attrs.define
class LogEndAdvanced:
    """The leader's log grew: look again at followers' held fetches."""

    log_end_offset: int


@attrs.frozen
class FollowerLogStartMoved:
    """A follower has told a new log start: look again at waiting deletions (DeleteRecords)."""

    replica_id: int
    log_start_offset: int


@attrs.frozen
class LeadershipChanged:
    """A new leader epoch began: requests that wait for the former one complete, fetchers follow the new leader."""

    leader: int
    leader_epoch: int


@attrs.frozen
class IsrChanged:
    """The committed ISR is now this one: look again at waiting produce requests."""

    isr: frozenset[int]


Effect: TypeAlias = (
    SendAlterPartition | HighWatermarkAdvanced | LogEndAdvanced | FollowerLogStartMoved | LeadershipChanged | IsrChanged
)
