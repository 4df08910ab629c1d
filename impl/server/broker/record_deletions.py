"""DeleteRecords: the leader moves its log start up, and waits until every live replica has done so too (KIP-107).

The *low watermark* is the lowest log start of the live replicas: no record below it can be read any more. A follower
learns of the leader's log start from the response to its fetch, which is not held any longer for it. It tells its own
with the next fetch, after it has made it durable. The leader's own is durable before it moves: where the disk has no
room to say so, nothing is deleted. The leader does not wait for a replica whose broker is fenced; that
one learns when it comes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import attrs
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.server import trace
from tidegauge.impl.server.broker.hosted_partitions import HostedPartitions
from tidegauge.impl.server.broker.log_flushes import LogFlushes
from tidegauge.impl.server.broker.metadata_cache import MetadataCache
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.server.broker.replica_effects import ReplicaEffects
from tidegauge.impl.server.pace import ELEMENT, Pace
from tidegauge.impl.server.purgatory import Wait, wait_here
from tidegauge.impl.server.trace.tracer import Tracer

NO_LOW_WATERMARK = -1
AT_ONCE = 500
"""Partitions whose records are deleted without a pause, and whose log starts are written together."""


@attrs.define(eq=False, repr=False)
class PartitionDeletion:
    """One partition's records below `offset`; -1 stands for the high watermark."""

    topic: str
    partition: int
    offset: int


@attrs.define(eq=False, repr=False)
class DeletionOutcome:
    """What became of one `PartitionDeletion`."""

    error: ErrorCode = ErrorCode.none
    is_pending: bool = False
    """Whether some live replica still had the records when the wait ended. At the leader they are deleted."""
    low_watermark: int = NO_LOW_WATERMARK
    """-1 while the deletion is pending or was refused."""


@attrs.define(eq=False, repr=False)
class _Open:
    """A deletion whose replicas are waited for."""

    partition: Partition
    offset: int
    leader_epoch: int
    outcome: DeletionOutcome


class RecordDeletions:
    """Deletes records of one broker's partitions."""

    def __init__(
        self,
        hosted: HostedPartitions,
        effects: ReplicaEffects,
        flushes: LogFlushes,
        metadata: MetadataCache,
        tracer: Tracer,
    ) -> None:
        self._hosted = hosted
        self._effects = effects
        self._flushes = flushes
        self._metadata = metadata
        self._tracer = tracer

    async def delete(
        self, deletions: Sequence[PartitionDeletion], *, timeout_ms: float, wait: Wait = wait_here, pace: Pace
    ) -> list[DeletionOutcome]:
        """Delete, and wait up to `timeout_ms` until the live replicas have deleted too; outcomes in the given order."""
        open_ones: list[_Open] = []
        outcomes: list[DeletionOutcome] = []
        for first in range(0, len(deletions), AT_ONCE):
            some = deletions[first : first + AT_ONCE]
            outcomes += self._delete_some(some, open_ones)
            await pace.did(ELEMENT * len(some))
        if open_ones:
            await self._all_settled(open_ones, timeout_ms, wait, pace)
        return outcomes

    async def _all_settled(self, open_ones: list[_Open], timeout_ms: float, wait: Wait, pace: Pace) -> None:
        """Wait until no deletion is pending, or the time is over."""
        purgatory, deadline = self._effects.deletions, trio.current_time() + timeout_ms / 1000
        while True:
            seen = purgatory.wakes
            for first in range(0, len(open_ones), AT_ONCE):
                some = open_ones[first : first + AT_ONCE]
                self._settle(some)
                await pace.did(len(some))
            open_ones = [one for one in open_ones if one.outcome.is_pending]
            left_ms = (deadline - trio.current_time()) * 1000
            if not open_ones or left_ms <= 0:
                return
            keys = [one.partition.key for one in open_ones]
            await wait(partial(purgatory.until, keys, lambda: True, left_ms, since=seen))

    def _delete_some(self, deletions: Sequence[PartitionDeletion], open_ones: list[_Open]) -> list[DeletionOutcome]:
        """Delete durably, and tell followers; what is to be waited for joins `open_ones`."""
        new_ones: list[_Open] = []
        outcomes = [self._delete(deletion, new_ones) for deletion in deletions]
        self._move(new_ones)
        self._settle(new_ones)  # often nobody is waited for
        open_ones += [one for one in new_ones if one.outcome.is_pending]
        return outcomes

    def _delete(self, deletion: PartitionDeletion, open_ones: list[_Open]) -> DeletionOutcome:
        """Note what is to be deleted of a partition, or why nothing is."""
        topic, index = deletion.topic, deletion.partition
        partition = self._hosted.get(topic, index)
        if partition is None:
            known = self._metadata.image.partition(topic, index) is not None
            return DeletionOutcome(self._hosted.absence(topic, index, known=known))
        if partition.replica.is_leader and not partition.log.config.is_deleted:
            return DeletionOutcome(ErrorCode.policy_violation)
        meant = partition.replica.offset_to_delete(deletion.offset)
        if isinstance(meant, ErrorCode):
            return DeletionOutcome(meant)
        outcome = DeletionOutcome(is_pending=True)
        open_ones.append(_Open(partition, meant, partition.replica.leader_epoch, outcome))
        return outcome

    def _move(self, open_ones: Sequence[_Open]) -> None:
        """Move the log starts, each to the highest offset that was asked for, after that is durable."""
        starts: dict[Partition, int] = {}
        for one in open_ones:
            start = starts.get(one.partition, one.partition.log.log_start_offset)
            starts[one.partition] = max(start, one.offset)
        written = self._flushes.write_log_starts_ahead(starts)
        for one in open_ones:
            if one.partition not in written:
                one.outcome.error, one.outcome.is_pending = ErrorCode.kafka_storage_error, False
        for partition, offset in starts.items():
            if partition not in written:
                continue
            partition.replica.delete_records(offset)
            if self._tracer.trace is not None:
                deleted = trace.events.DeleteRecords
                self._tracer.replica(deleted, *partition.key, partition.replica, offset=offset)
            self._effects.follower_fetches.wake(partition.key)

    def _settle(self, open_ones: Sequence[_Open]) -> None:
        """Look at each of these deletions that is pending."""
        live = {broker for broker, registered in self._metadata.image.brokers.items() if not registered.fenced}
        for one in open_ones:
            partition, replica, outcome = one.partition, one.partition.replica, one.outcome
            if not outcome.is_pending:
                continue
            if partition.is_offline:
                outcome.error, outcome.is_pending = ErrorCode.kafka_storage_error, False
            elif partition.is_removed or not replica.is_leader or replica.leader_epoch != one.leader_epoch:
                outcome.error, outcome.is_pending = ErrorCode.not_leader_or_follower, False
            elif (low_watermark := replica.low_watermark(live)) >= one.offset:
                outcome.low_watermark, outcome.is_pending = low_watermark, False
