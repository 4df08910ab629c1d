"""The coordinator of groups at one broker: the shell around its core.

The core rules on requests and says what to write (`impl.coordinators.groups`). This shell appends that to
`__consumer_offsets` (`CoordinatorLog`) and tells the core when it is committed. Markers of transactions come into the
same log by here too, so that they are replayed in its order. Expired offsets are looked for while the broker leads a
partition of the topic, and no longer. Members have a shell of their own (`group_members`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.classic.messages import Moment
from tidegauge.impl.coordinators.groups.classic.turn import ClassicLimits
from tidegauge.impl.coordinators.groups.consumer.coordinator import ConsumerLimits
from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator, Limits
from tidegauge.impl.coordinators.groups.log_entries import TransactionEnded, log_entries
from tidegauge.impl.coordinators.groups.migration.policy import Policy
from tidegauge.impl.coordinators.groups.requests import Ruling
from tidegauge.impl.coordinators.hashing import partition_for
from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS
from tidegauge.impl.records.payload import NO_PRODUCER, ProducerIdentity
from tidegauge.impl.server.broker.consumer_members import ASSIGNMENT_INTERVAL, ConsumerMembers, Queued
from tidegauge.impl.server.broker.coordinator_log import CoordinatorLog, Led, LoggedBatch
from tidegauge.impl.server.broker.group_members import GroupMembers
from tidegauge.impl.server.broker.write_line import WriteLine

if TYPE_CHECKING:
    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.ports.randomness import Randomness
    from tidegauge.impl.server.broker.appends import PartitionMarker
    from tidegauge.impl.server.broker.dynamic_config import DynamicConfig
    from tidegauge.impl.server.broker.group_offsets_trace import GroupOffsetsTrace
    from tidegauge.impl.server.broker.groups_trace import GroupsTrace
    from tidegauge.impl.server.broker.metadata_cache import MetadataCache
    from tidegauge.impl.server.broker.partition import Partition
    from tidegauge.impl.server.broker.replica_manager import ReplicaManager
    from tidegauge.impl.server.broker.tasks import BrokerTasks
    from tidegauge.impl.server.pace import Pace
    from tidegauge.impl.server.trace.tracer import Tracer

DROP_AGAIN_S: Final = 1
"""Before the tombstones of a deleted topic's offsets are written again that could not be written."""
RECORDS_AT_ONCE: Final = 1_000
"""Tombstones in one batch, of those that nobody has asked for."""


class Groups:
    """The groups whose partition of `__consumer_offsets` this broker leads."""

    def __init__(
        self,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        tasks: BrokerTasks,
        config: DynamicConfig,
        randomness: Randomness,
        *,
        clock: Clock,
        timers: bool,
        tracer: Tracer,
    ) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._tasks = tasks
        self._config = config
        self._clock = clock
        self._timers = timers
        self._tracer = tracer
        self._traces: dict[int, GroupsTrace] = {}
        """By partition; none where the trace is not of groups."""
        self._offset_traces: dict[int, GroupOffsetsTrace] = {}
        self._is_sweeping = False
        self.log: CoordinatorLog[GroupCoordinator] = CoordinatorLog(
            CONSUMER_OFFSETS, self, replicas, tasks, clock, lambda: config.initial.offsets_load_buffer_size
        )
        self.line = WriteLine(tasks)
        self.members = GroupMembers(
            self.log,
            tasks,
            self.line,
            randomness,
            clock=clock,
            now=lambda: self.moment,
            append_timeout_ms=lambda: config.initial.offsets_commit_timeout_ms,
            max_bytes=self._max_bytes,
            timers=timers,
        )
        self.consumers = ConsumerMembers(
            self.log,
            tasks,
            self.line,
            metadata,
            config,
            clock=clock,
            now=lambda: self.moment,
            carry_out=self.members.carry_out,
            timers=timers,
        )
        metadata.on_topic_removed(self.topic_removed)

    @property
    def now_ms(self) -> int:
        """The broker's time."""
        return self._clock.now_ms()

    @property
    def moment(self) -> Moment:
        """The same, and the time of timers."""
        return Moment(math.ceil(trio.current_time() * 1000), self.now_ms)

    def partition_of(self, group: str) -> int:
        """The partition of `__consumer_offsets` that has a group; by the settings, while there is no such topic."""
        topic = self._metadata.image.topics.get(CONSUMER_OFFSETS)
        configured = self._config.initial.offsets_topic_num_partitions
        return partition_for(group, configured if topic is None else len(topic.partitions))

    def led(self, group: str) -> Led[GroupCoordinator] | ErrorCode:
        """What coordinates a group here: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.

        The latter also while the broker knows that it leads the partition, and has not taken it over yet.
        """
        index = self.partition_of(group)
        found = self.log.led(index)
        if found is ErrorCode.not_coordinator:
            known = self._metadata.image.partition(CONSUMER_OFFSETS, index)
            if known is not None and known.leader == self._replicas.hosted.broker_id:
                return ErrorCode.coordinator_load_in_progress
        return found

    def hosted(self, led: Led[GroupCoordinator]) -> Partition | None:
        """The partition itself; None if it has gone."""
        return self._replicas.get(CONSUMER_OFFSETS, led.index)

    def _max_bytes(self, led: Led[GroupCoordinator]) -> float:
        partition = self.hosted(led)
        return math.inf if partition is None else partition.log.config.max_message_bytes

    # --- the log -----------------------------------------------------------------------------------------------------

    async def carry_out(
        self,
        led: Led[GroupCoordinator],
        ruling: Ruling,
        producer: ProducerIdentity = NO_PRODUCER,
        *,
        timeout_ms: float | None = None,
    ) -> ErrorCode:
        """Have in the log what a ruling writes; returns its error, or that of the append.

        Errors: COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, and with a `producer` those of a transaction that is not its
        own or not open.
        """
        if ruling.error is not ErrorCode.none or not (ruling.offsets or ruling.ended):
            return ruling.error
        core = led.state

        def apply(base_offset: int) -> None:
            core.committed(ruling, base_offset, producer.producer_id)

        core.appended(ruling)
        timeout_ms = self._config.initial.offsets_commit_timeout_ms if timeout_ms is None else timeout_ms
        error = await self.log.append(
            led,
            ruling.records,
            apply,
            timeout_ms=timeout_ms,
            producer=producer,
            drop=partial(core.failed, ruling),
        )
        if error is ErrorCode.none:
            core.acknowledged(ruling)
        return error

    async def append_marker(self, marker: PartitionMarker, timeout_ms: float) -> ErrorCode:
        """End a transaction in a partition of `__consumer_offsets`: its offsets count from now on, or never.

        Errors: NOT_LEADER_OR_FOLLOWER also while the partition is loaded, REQUEST_TIMED_OUT, those of the marker.
        """
        led = self.log.led(marker.partition)
        if isinstance(led, ErrorCode):
            return ErrorCode.not_leader_or_follower
        core, end, place = led.state, marker.marker, None

        def apply(base_offset: int) -> None:
            nonlocal place
            place = base_offset
            core.transaction_ended(TransactionEnded(base_offset, end.producer_id, end.is_commit))

        error = await self.log.append_marker(led, marker, apply, timeout_ms=timeout_ms)
        if error is ErrorCode.none and led.is_led:
            core.marker_acknowledged(end.producer_id, is_commit=end.is_commit, place=place)
        return error

    # --- loading (`Coordinator`) -------------------------------------------------------------------------------------

    def new_state(self, index: int, leader_epoch: int) -> GroupCoordinator:
        """A partition is about to be loaded."""
        config = self._config.initial
        classic = ClassicLimits(
            config.group_max_size,
            config.group_initial_rebalance_delay_ms,
            config.group_min_session_timeout_ms,
            config.group_max_session_timeout_ms,
        )
        retention_ms = config.offsets_retention_minutes * 60_000
        consumer = ConsumerLimits(
            config.group_consumer_max_size,
            config.group_consumer_assignors,
            config.group_consumer_regex_refresh_interval_ms,
            partial(self.consumers.setting, name=ASSIGNMENT_INTERVAL),
        )
        policy = Policy(config.group_consumer_migration_policy.lower())
        core = GroupCoordinator(Limits(config.offset_metadata_max_bytes, retention_ms, classic, consumer, policy))
        if self._tracer.trace is not None and self._tracer.trace.of_groups:
            from tidegauge.impl.server.broker.consumer_groups_trace import ConsumerGroupsTrace
            from tidegauge.impl.server.broker.group_offsets_trace import GroupOffsetsTrace
            from tidegauge.impl.server.broker.groups_trace import GroupsTrace

            following = self._traces[index] = GroupsTrace(self._tracer, index, leader_epoch)
            core.classic.watch = following.decided
            consumers = ConsumerGroupsTrace(self._tracer, core.consumers, index, leader_epoch)
            core.consumers.watching = consumers.decided
            offsets = self._offset_traces[index] = GroupOffsetsTrace(self._tracer, core, index, leader_epoch)
            core.watching = offsets.decided
        return core

    def replay(self, state: GroupCoordinator, batch: LoggedBatch) -> int:
        """Take in a batch of the log. Raises RecordError."""
        entries = list(log_entries(batch.header, batch.records, batch.marker))
        state.replay(entries)
        return max(0, len(batch.records) - len(entries))

    async def load(self, led: Led[GroupCoordinator], pace: Pace) -> int:
        """The members that the log tells of are taken over."""
        await self.members.load(led, pace)
        await self.consumers.load(led, pace)
        return 0

    def loaded(self, led: Led[GroupCoordinator]) -> None:
        """Look for what expires, from now on."""
        if led.index in self._traces:
            self._offset_traces.pop(led.index).loaded()
            self._traces[led.index].loaded()
        self.members.loaded(led)
        self.consumers.loaded(led)
        if self._timers and not self._is_sweeping:
            self._is_sweeping = True
            self._tasks.start_soon(self._sweep)

    def resigned(self, led: Led[GroupCoordinator]) -> None:
        """What is known goes with `led`."""
        if led.index in self._traces:
            self._traces.pop(led.index).resigned()
        self.members.resigned(led)
        self.consumers.resigned(led)

    # --- what the coordinator does by itself -------------------------------------------------------------------------

    def expire_offsets(self) -> None:
        """Let the offsets go that nobody has committed for offsets.retention.minutes."""
        for led in self.log:
            self._tasks.start_soon(self._write, led, lambda core: core.expire(self.now_ms, RECORDS_AT_ONCE))
            for group in led.state.idle_consumers():
                self.delete_consumers(led, group)

    def delete_consumers(self, led: Led[GroupCoordinator], group: str) -> Queued | None:
        """The records of a consumer group without members go; nothing is awaited. None if there is no such group."""
        write = led.state.consumers.delete(group)
        return None if isinstance(write, ErrorCode) else self.consumers.queue(led, write)

    def topic_removed(self, topic: str) -> None:
        """The offsets of a topic that was deleted go too; also those that the log has by now and the core has not."""
        for led in self.log.every:
            if (partition := self.hosted(led)) is not None:
                self._tasks.start_soon(self._drop_topic, led, topic, partition.log.log_end_offset)

    async def _drop_topic(self, led: Led[GroupCoordinator], topic: str, end: int) -> None:
        await self.log.until_applied(led, end)
        while not await self._write(led, lambda core: core.topic_deleted(topic, end, RECORDS_AT_ONCE)):
            await trio.sleep(DROP_AGAIN_S)
            await self._clock.until_running()

    async def _write(self, led: Led[GroupCoordinator], decide: Callable[[GroupCoordinator], Ruling]) -> bool:
        """Have in the log what the core decides by itself, some records at a time, until there is nothing more.

        A decision is in the log before anything else is: nothing is awaited between the two. False where nothing can be
        written now, as with too few replicas in sync.
        """
        await self.line.settled()
        while led.is_led and (ruling := decide(led.state)) != Ruling():
            if await self.carry_out(led, ruling, timeout_ms=math.inf) is not ErrorCode.none:
                return not led.is_led
            await self.line.settled()
        return True

    async def _sweep(self) -> None:
        while self.log.is_leading:
            await trio.sleep(self._config.initial.offsets_retention_check_interval_ms / 1000)
            await self._clock.until_running()
            self.expire_offsets()
        self._is_sweeping = False
