"""The replicas of one broker: the one owner of append and read.

Theory of operation
-------------------
Handlers, coordinators and all other tasks that append or read call

    append          a batch for each of some partitions; returns when acks are met, or the wait has ended
    read            what a follower fetches or a consumer may see; returns when there is news, or the wait has ended
    delete_records  moves log starts up; returns when the live replicas have followed, or the wait has ended

Each takes partitions and returns one outcome for each, in the same order, errors included; it raises nothing for them.
None knows who asks: rights, and which topics clients may not write to, are the handlers' matter. A caller with a peer
brings the way to wait for as long as that peer is connected (`Wait`); any other waits as it is.

A waiting call is woken by effects (`replica_effects`) and then looks again at the replica itself, so that the rule for
when it is complete stands in the core alone.

The other parts of a broker that change replicas (fetchers, ISR proposals, timers) call a core and then `carry_out`;
when a log raises an `OSError` they call `storage_failed`.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Final, Protocol, TypeAlias

import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.leader import ACKS_ALL
from tidegauge.impl.partition.messages import NO_ERROR, Appended
from tidegauge.impl.partition.producer_state import InvalidProducerEpochError, OutOfOrderSequenceError
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.ports.clock import Clock
from tidegauge.impl.ports.disk import Disk
from tidegauge.impl.records.batches import Buffer, InvalidRecordError, RecordError
from tidegauge.impl.records.checked import Batches, CheckedBatch
from tidegauge.impl.records.origin import Origin
from tidegauge.impl.server import trace
from tidegauge.impl.server.broker.appends import (
    APPENDED,
    COMMITTED,
    PENDING,
    UNKNOWN,
    AppendOutcome,
    PartitionAppend,
    PartitionMarker,
)
from tidegauge.impl.server.broker.dynamic_config import DynamicConfig
from tidegauge.impl.server.broker.high_watermark_checkpoint import HighWatermarkCheckpoint, PendingCheckpoint
from tidegauge.impl.server.broker.hosted_partitions import HostedPartitions
from tidegauge.impl.server.broker.leaders import known_leader
from tidegauge.impl.server.broker.log_flushes import LogFlushes
from tidegauge.impl.server.broker.metadata_cache import MetadataCache
from tidegauge.impl.server.broker.partition import Partition, TopicPartition
from tidegauge.impl.server.broker.record_deletions import DeletionOutcome, PartitionDeletion, RecordDeletions
from tidegauge.impl.server.broker.replica_effects import ReplicaEffects
from tidegauge.impl.server.broker.replica_reader import READS_AT_ONCE, ReadLimits, ReplicaReader
from tidegauge.impl.server.broker.replica_selection import ReplicaSelector
from tidegauge.impl.server.pace import SLICE, Pace
from tidegauge.impl.server.purgatory import Wait, Watch, wait_here
from tidegauge.impl.server.requests.reads import PartitionRead, ReadOutcome
from tidegauge.impl.server.trace.tracer import Tracer
from tidegauge.impl.storage.log_directories import LogDirectories
from tidegauge.impl.storage.timestamp_search import KnownPoints, TimestampOffset
from tidegauge.impl.storage.validation import RecordsRefusedError, checked_quickly, checking, may_take_long, takes_long

Check: TypeAlias = Callable[[Buffer | None], Buffer]
"""Checks what is to be appended, before its replica does; raises RecordError."""

_APPEND_UNITS: Final = 20
"""Of work, as `impl.server.pace` counts it, for one batch that takes no time to check."""
FEW: Final = 500
"""Appends whose commit is looked at without a pause."""

_Pending: TypeAlias = tuple[Partition, Appended, AppendOutcome]
"""An append with acks=all whose commit is waited for."""


class WatchedReads(Protocol):
    """Reads of a fetch session: which ones they are may change while the fetch waits."""

    @property
    def reads(self) -> Sequence[PartitionRead]: ...

    @property
    def watch(self) -> Watch[TopicPartition] | None: ...


class ReplicaManager:
    """Appends to and reads from the partitions of one broker."""

    def __init__(
        self,
        broker_id: int,
        directories: LogDirectories,
        metadata: MetadataCache,
        config: DynamicConfig,
        *,
        clock: Clock,
        disk: Disk,
        tracer: Tracer,
        selector: ReplicaSelector,
        replica_class: type[PartitionReplica] = PartitionReplica,
    ) -> None:
        self.directories = directories
        self.effects = ReplicaEffects(clock)
        self.high_watermark_checkpoint = HighWatermarkCheckpoint(directories)
        self.hosted = HostedPartitions(
            broker_id,
            directories,
            config.current,
            clock,
            tracer,
            self.effects,
            self.high_watermark_checkpoint,
            replica_class,
            disk.all_at_once,
        )
        self.flushes = LogFlushes(self.hosted, directories, tracer)
        self.known_points = KnownPoints()
        self._metadata = metadata
        self._clock = clock
        self._tracer = tracer
        self._reader = ReplicaReader(self.hosted, self.effects, metadata, config, clock, tracer, selector)
        self._deletions = RecordDeletions(self.hosted, self.effects, self.flushes, metadata, tracer)

    def __iter__(self) -> Iterator[Partition]:
        return iter(self.hosted)

    def __len__(self) -> int:
        return len(self.hosted)

    def get(self, topic: str, index: int) -> Partition | None:
        """The partition, if this broker hosts it."""
        return self.hosted.get(topic, index)

    def absence(self, topic: str, index: int) -> ErrorCode:
        """The error for a partition that is not hosted here."""
        known = self._metadata.image.partition(topic, index) is not None
        return self.hosted.absence(topic, index, known=known)

    def known_leader(self, topic: str, index: int) -> tuple[int, int]:
        """(leader, leader epoch) of a partition, as far as this broker knows; -1 each when it does not."""
        return known_leader(self.hosted, self._metadata, topic, index)

    # --- append ------------------------------------------------------------------------------------------------

    async def append(
        self,
        appends: Sequence[PartitionAppend],
        *,
        acks: int,
        timeout_ms: float,
        origin: Origin = Origin.CLIENT,
        check: Check | None = None,
        wait: Wait = wait_here,
        pace: Pace | None = None,
    ) -> list[AppendOutcome]:
        """Append at the leaders that are here; with acks=all (-1) wait for the commit, up to `timeout_ms`.

        Outcomes come in the order of `appends`; what has not been committed by then is PENDING. Batches of a
        coordinator, transaction markers among them, have `Origin.BROKER`. `check` is what the caller holds against the
        bytes of each append, once its partition is known to be here. With a `pace` producers' batches that take long to
        check are checked in slices, before they come to their replicas.
        """
        pending: list[_Pending] = []
        outcomes = []
        for append in appends:
            if pace is not None:
                pace.spent += _APPEND_UNITS
                if pace.spent >= SLICE:
                    await pace.pause()
                if may_take_long(append.records) and self._takes_long(append, acks):
                    refused = await self._check_ahead(append, check, pace)
                    if refused is not None:
                        outcomes.append(refused)
                        continue
            outcomes.append(self._append(append, acks, origin, check, pending))
        if len(pending) > FEW and pace is not None:
            await self._all_settled(pending, timeout_ms, wait, pace)
        elif pending and not _settle(pending):
            await self._until_settled(pending, timeout_ms, wait)
        return outcomes

    async def append_markers(
        self, markers: Sequence[PartitionMarker], *, timeout_ms: float, pace: Pace
    ) -> list[AppendOutcome]:
        """Append a coordinator's markers at the leaders that are here, and wait for the commit up to `timeout_ms`.

        Outcomes come in the order of `markers`; what has not been committed by then is PENDING.
        """
        pending: list[_Pending] = []
        outcomes = []
        async for marker in pace.each(markers, _APPEND_UNITS):
            outcomes.append(self._append_marker(marker, pending))
        await self._all_settled(pending, timeout_ms, wait_here, pace)
        return outcomes

    async def _all_settled(self, pending: list[_Pending], timeout_ms: float, wait: Wait, pace: Pace) -> None:
        """The same as `_until_settled` for many appends, which are looked at in slices."""
        purgatory, deadline = self.effects.produces, trio.current_time() + timeout_ms / 1000
        while True:
            seen = purgatory.wakes
            for first in range(0, len(pending), FEW):
                _settle(pending[first : first + FEW])
                await pace.did(FEW)
            pending = [one for one in pending if one[2].state is PENDING]
            left_ms = (deadline - trio.current_time()) * 1000
            if not pending or left_ms <= 0:
                return
            keys = [partition.key for partition, _, _ in pending]
            await wait(partial(purgatory.until, keys, lambda: True, left_ms, since=seen))

    async def _until_settled(self, pending: Sequence[_Pending], timeout_ms: float, wait: Wait) -> None:
        """Wait until no append is pending any more, or the time is over."""
        keys = [partition.key for partition, _, outcome in pending if outcome.state is PENDING]
        purgatory = self.effects.produces
        seen = purgatory.wakes
        await wait(lambda: purgatory.until(keys, lambda: _settle(pending) or None, timeout_ms, since=seen))

    def _takes_long(self, append: PartitionAppend, acks: int) -> bool:
        """Whether to check a batch that its replica may take needs more than a slice of work."""
        partition, records = self.hosted.get(append.topic, append.partition), append.records
        return (
            partition is not None
            and records is not None
            and not isinstance(records, CheckedBatch)
            and takes_long(records, partition.log.config, self._clock.now_ms())
            and partition.replica.append_error(acks) is ErrorCode.none
        )

    async def _check_ahead(self, append: PartitionAppend, check: Check | None, pace: Pace) -> AppendOutcome | None:
        """Check a batch in slices, and put what is to be stored in its place; the outcome if it is refused."""
        partition, records = self.hosted.get(append.topic, append.partition), append.records
        assert partition is not None, "somebody has looked"
        assert not isinstance(records, CheckedBatch), "a batch is checked once"
        log = partition.log
        try:
            if check is not None:
                records = check(records)
            assert records is not None, "somebody has looked"
            now_ms = self._clock.now_ms()
            append.records = checked_quickly(records, log.config, now_ms)
            if append.records is None:
                append.records = await pace.finish(checking(records, log.config, now_ms))
        except RecordError as error:
            return self._failed(partition, error, log.log_start_offset, log.log_end_offset)
        return None

    def _append(
        self, append: PartitionAppend, acks: int, origin: Origin, check: Check | None, pending: list[_Pending]
    ) -> AppendOutcome:
        partition = self.hosted.get(append.topic, append.partition)
        if partition is None:
            return AppendOutcome(error=self.absence(append.topic, append.partition))
        if append.topic_id and partition.topic_id != append.topic_id:
            return AppendOutcome(error=ErrorCode.unknown_topic_id)
        replica, log, now_ms = partition.replica, partition.log, self._clock.now_ms()
        log_start, log_end = log.log_start_offset, log.log_end_offset
        try:
            records = append.records
            if check is not None and not isinstance(records, CheckedBatch):
                records = check(records)
            if records is None:
                raise InvalidRecordError("no record batch")
            appended = replica.append(records, acks, now_ms, origin)
        except (RecordError, OSError) as error:
            self._trace_refusal(partition, append.records, error)
            return self._failed(partition, error, log_start, log_end, acks, append.records or b"")
        if self._tracer.trace is not None and isinstance(appended, Appended) and appended.repeated:
            known, repeated = trace.events.AcknowledgeRepeat, trace.events.batches_in(records)
            place = appended.base_offset
            self._tracer.log(known, *partition.key, replica, base_offset=place, batches=repeated)
        return self._outcome(partition, appended, acks, now_ms, log_start, pending, records)

    def _append_marker(self, append: PartitionMarker, pending: list[_Pending]) -> AppendOutcome:
        partition = self.hosted.get(append.topic, append.partition)
        if partition is None:
            return AppendOutcome(error=self.absence(append.topic, append.partition))
        log_start, log_end = partition.log.log_start_offset, partition.log.log_end_offset
        now_ms = self._clock.now_ms()
        try:
            appended = partition.replica.append_marker(append.marker, append.transaction_version, now_ms)
        except (RecordError, OSError) as error:
            return self._failed(partition, error, log_start, log_end)
        return self._outcome(partition, appended, ACKS_ALL, now_ms, log_start, pending)

    def _outcome(
        self,
        partition: Partition,
        appended: Appended | ErrorCode,
        acks: int,
        now_ms: int,
        log_start: int,
        pending: list[_Pending],
        records: Batches = b"",
    ) -> AppendOutcome:
        """The outcome of an append; with acks=all it is `pending`."""
        if not isinstance(appended, Appended):
            self.effects.carry_out(partition)
            return AppendOutcome(error=appended, log_start_offset=log_start)
        outcome = AppendOutcome(
            APPENDED,
            NO_ERROR,
            appended.base_offset,
            appended.end_offset,
            appended.timestamp if appended.repeated else partition.log.append_time_ms(now_ms),
            log_start,
        )
        if self._tracer.trace is not None and not appended.repeated:
            self._trace_append(partition, appended, acks, records)
        self.effects.carry_out(partition)
        if acks == ACKS_ALL:
            outcome.state = PENDING
            pending.append((partition, appended, outcome))
        return outcome

    def _failed(
        self,
        partition: Partition,
        error: RecordError | OSError,
        log_start: int,
        log_end: int,
        acks: int = ACKS_ALL,
        records: Batches = b"",
    ) -> AppendOutcome:
        """The outcome of an append at which the log raised; it started and ended there before."""
        outcome = AppendOutcome(log_start_offset=log_start, message=str(error))
        is_written = isinstance(error, OSError) and partition.log.log_end_offset > log_end
        if is_written:
            # Written and not synced: a restart may find the records.
            outcome.state, outcome.base_offset = UNKNOWN, log_end
        if isinstance(error, RecordsRefusedError):
            outcome.record_errors = error.record_errors
        if is_written and not partition.is_gone:
            # Said before the replica is taken offline: what waits for room has these records when it is opened again.
            appended = partition.replica.appended_from(log_end)
            if self._tracer.trace is not None:
                self._trace_append(partition, appended, acks, records)
        outcome.error = self.hosted.storage_failed(partition, error)
        if is_written and not partition.is_gone and not partition.log.has_failed:
            self.effects.carry_out(partition)
        return outcome

    def _trace_append(self, partition: Partition, appended: Appended, acks: int, records: Batches) -> None:
        log, base_offset, epoch = partition.log, appended.base_offset, partition.replica.leader_epoch
        self._tracer.log(
            trace.events.Append,
            *partition.key,
            partition.replica,
            acks=acks,
            base_offset=base_offset,
            records=appended.end_offset - base_offset,
            batches=trace.events.batches_appended(log, records, base_offset, epoch),
        )

    def _trace_refusal(self, partition: Partition, records: Batches | None, error: RecordError | OSError) -> None:
        """Record that batches are not the next ones of their producer; other refusals say nothing of it."""
        if self._tracer.trace is None or records is None:
            return
        if isinstance(error, OutOfOrderSequenceError | InvalidProducerEpochError):
            batches, code = trace.events.batches_in(records), error.error_code
            refused = trace.events.RefuseSequence
            self._tracer.log(refused, *partition.key, partition.replica, batches=batches, error=code)

    # --- read and delete ---------------------------------------------------------------------------------------

    async def read(
        self,
        reads: Sequence[PartitionRead],
        *,
        max_bytes: int,
        min_bytes: int = 1,
        timeout_ms: float = 0,
        only_leader: bool = True,
        rack: str = "",
        read_committed: bool = False,
        wait: Wait = wait_here,
        session: WatchedReads | None = None,
        pace: Pace | None = None,
        sent: dict[TopicPartition, int] | None = None,
    ) -> list[ReadOutcome]:
        """Read at the replicas that are here; wait for news or for `min_bytes`, up to `timeout_ms`.

        Outcomes come in the order of `reads`; where the wait has ended without records theirs are empty. All reads are
        followers' or none is. Unless `only_leader`, a follower serves what it knows to be committed (KIP-392); `rack`
        is the consumer's then. With `session`, a follower's, what wakes from its rest while the fetch waits is read
        too. With a `pace`, a consumer's, many partitions are read in slices. With `read_committed` a consumer gets no
        record of a transaction that is not decided. What is asked for again that was `sent` is looked at again.
        """
        limits = ReadLimits(min_bytes, max_bytes, only_leader, rack, read_committed, sent)
        if pace is not None and len(reads) > READS_AT_ONCE:
            return await self._read_many(reads, limits, timeout_ms, wait, pace)
        watch = None if session is None else session.watch

        def look(*, may_hold: bool) -> list[ReadOutcome] | None:
            now = reads if session is None else session.reads
            if not now and watch is not None and may_hold:
                return None
            return self._reader.read(now, limits, may_hold=may_hold)

        outcomes = look(may_hold=timeout_ms > 0)
        if outcomes is None:
            keys = [(read.topic, read.partition) for read in reads]
            is_follower = watch is not None or reads[0].follower is not None
            purgatory = self.effects.follower_fetches if is_follower else self.effects.fetches
            seen, held_ms = purgatory.wakes, self._clock.held_ms(timeout_ms) if is_follower else timeout_ms
            outcomes = await wait(
                lambda: purgatory.until(keys, lambda: look(may_hold=True), held_ms, since=seen, watch=watch)
            )
            if outcomes is None:
                outcomes = look(may_hold=False)
        assert outcomes is not None, "a read that may not be held has an outcome"
        return outcomes

    async def _read_many(
        self, reads: Sequence[PartitionRead], limits: ReadLimits, timeout_ms: float, wait: Wait, pace: Pace
    ) -> list[ReadOutcome]:
        """The same for a consumer of many partitions, which are read some at a time."""
        keys, purgatory = [(read.topic, read.partition) for read in reads], self.effects.fetches
        deadline = trio.current_time() + timeout_ms / 1000
        while True:
            seen = purgatory.wakes
            outcomes, is_enough = await self._reader.read_in_slices(reads, limits, pace)
            left_ms = (deadline - trio.current_time()) * 1000
            if is_enough or left_ms <= 0:
                return outcomes
            until = partial(purgatory.until, keys, lambda: True, left_ms, since=seen)
            await wait(until)

    async def find_timestamp(self, partition: Partition, timestamp: int | None, pace: Pace) -> TimestampOffset | None:
        """The first record of a partition at or after a timestamp (ms since 1970; None: the newest); or None.

        Raises RecordError and OSError; the partition may be gone then.
        """
        while True:
            log = partition.log
            try:
                return await pace.finish(log.offset_for_timestamp(timestamp, self.known_points))
            except (RecordError, OSError, ValueError) as error:
                if not partition.is_gone and partition.log is log:
                    raise
                if partition.is_gone:  # its files are closed
                    raise OSError(errno.EBADF, str(error)) from error
            # The replica has moved to another directory: its former log is searched no further.

    async def delete_records(
        self,
        deletions: Sequence[PartitionDeletion],
        *,
        timeout_ms: float,
        wait: Wait = wait_here,
        pace: Pace | None = None,
    ) -> list[DeletionOutcome]:
        """Delete records at the leaders that are here; wait up to `timeout_ms` until live followers have done so too.

        Outcomes come in the order of `deletions`.
        """
        return await self._deletions.delete(deletions, timeout_ms=timeout_ms, wait=wait, pace=pace or Pace())

    # --- for those who change replicas ---------------------------------------------------------------------------

    def carry_out(self, partition: Partition) -> None:
        """Do what the replica's core asks for; call it right after the core, with nothing awaited between."""
        self.effects.carry_out(partition)

    def storage_failed(self, partition: Partition, error: Exception) -> ErrorCode:
        """The error code for an operation that a log has refused; a disk that fails takes its directory offline."""
        return self.hosted.storage_failed(partition, error)

    def checkpoint_high_watermarks(self) -> None:
        """Write every high watermark to the disk, here and now."""
        checkpoint = self.high_watermark_checkpoint.begin(self.hosted.high_watermarks())
        if checkpoint is not None:
            for write in checkpoint.writes:
                write()
            self.finish_checkpoint(checkpoint)

    def finish_checkpoint(self, checkpoint: PendingCheckpoint) -> None:
        """Note a checkpoint of the high watermarks that is written, or whose disk has failed."""
        changed = self.high_watermark_checkpoint.finish(checkpoint)
        if self._tracer.trace is not None:
            for partition in chain(self.hosted, self.hosted.withdrawn):
                if (key := partition.key) in changed:
                    self._tracer.replica(
                        trace.events.CheckpointHighWatermark,
                        *key,
                        partition.replica,
                        offset=self.high_watermark_checkpoint.written(*key),
                    )

    def close(self, broker_epoch: int) -> None:
        """A clean shutdown in this broker epoch: flush, checkpoint, and close the files."""
        self.checkpoint_high_watermarks()
        self.directories.close(broker_epoch)

    def abandon(self) -> None:
        """Close the files as they are."""
        self.directories.abandon()


def _settle(pending: Sequence[_Pending]) -> bool:
    """Look at every append that is pending; True when none is left."""
    settled = True
    for partition, appended, outcome in pending:
        if outcome.state is not PENDING:
            continue
        if partition.is_offline:
            outcome.state, outcome.error = UNKNOWN, ErrorCode.kafka_storage_error
        elif (error := partition.replica.append_outcome(appended)) is None:
            settled = False
        elif error is NO_ERROR:
            outcome.state = COMMITTED
        else:
            outcome.state, outcome.error = UNKNOWN, error
    return settled
