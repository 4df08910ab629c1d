"""The partitions that a broker hosts: their logs and replicas, and what follows from each change of one.

Whoever calls a replica's core (a handler, a fetcher, a timer) calls `carry_out` right after it: the core's effects wake
waiting requests, send ISR proposals and re-aim fetchers. Between the two nothing is awaited, so that no other task sees
a replica whose effects are still to come.

Whoever meets an `OSError` of a log calls `storage_failed`: the log's directory goes offline with all its replicas
(KIP-112). They are not hosted any more, what waits for them is woken and told, and they stay away until the broker
starts again, wherever the metadata say that they belong.

A replica that the metadata take away, with its topic or by a reassignment, is deleted as soon as this broker reads it;
one that was taken away while the broker was down, before it does anything else. Nothing of it is left to count for a
later topic of the same name, or for the same partition when it comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Final
from uuid import UUID

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.metadata.image import ClusterImage, TopicImage
from tidegauge.impl.metadata.topic_configs import MIN_INSYNC_REPLICAS, TOPIC_CONFIGS, config_value
from tidegauge.impl.partition.messages import (
    FollowerLogStartMoved,
    HighWatermarkAdvanced,
    IsrChanged,
    LeadershipChanged,
    LogEndAdvanced,
    PartitionConfig,
    SendAlterPartition,
)
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.ports.clock import Clock
from tidegauge.impl.ports.disk import FEW, PendingSync
from tidegauge.impl.records.batches import RecordError
from tidegauge.impl.server import trace
from tidegauge.impl.server.broker.partition import Partition, TopicPartition
from tidegauge.impl.server.config import ServerConfig
from tidegauge.impl.server.purgatory import Purgatory
from tidegauge.impl.server.trace.tracer import Tracer
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.flushing import PendingFlush
from tidegauge.impl.storage.log_directories import CheckpointWrite, LogDirectories, NoLogDirectoryError
from tidegauge.impl.storage.log_directory import LogDirectory
from tidegauge.impl.wire.primitives import topic_uuid

LOGS_AT_ONCE: Final = 64
"""Logs that are opened in one go: some tens of ms."""
LOG_SETTINGS: Final = tuple(
    name for field in attrs.fields(LogConfig) if (name := field.name.replace("_", ".")) in TOPIC_CONFIGS
)
"""Topic settings that are a log's."""


@attrs.define(eq=False)
class NewPlace:
    """A directory that was made for a partition, and what its disk said when the topic's id was synced."""

    key: TopicPartition
    directory: LogDirectory
    _sync: PendingSync
    error: OSError | None = None

    def settle(self) -> None:
        """Bring the id to stable storage, in any thread."""
        try:
            self._sync.run()
        except OSError as error:
            self.error = error

    def settle_names(self) -> None:
        """And then the names of all directories beside it."""
        try:
            self.directory.sync_names()
        except OSError as error:
            self.error = error


def _one_by_one(works: Iterable[Callable[[], None]]) -> None:
    for work in works:
        work()


@attrs.define(eq=False)
class HighWatermarkCheckpoint:
    """High watermarks that are to be written, and those that were there before."""

    before: dict[TopicPartition, int]
    offsets: dict[TopicPartition, int]
    writes: list[CheckpointWrite]


class ReplicaManager:
    """All partitions of one broker: those that its disk has, and then those that it is given."""

    def __init__(
        self,
        broker_id: int,
        directories: LogDirectories,
        config: ServerConfig,
        clock: Clock,
        tracer: Tracer,
        replica_class: type[PartitionReplica] = PartitionReplica,
        all_at_once: Callable[[Iterable[Callable[[], None]]], None] = _one_by_one,
    ) -> None:
        """`all_at_once` does what waits for the disk (`Disk.all_at_once`)."""
        self.broker_id = broker_id
        self.produces: Purgatory[TopicPartition] = Purgatory(clock)
        """acks=all produces: woken when the high watermark, the ISR or the leader moves."""
        self.fetches: Purgatory[TopicPartition] = Purgatory(clock)
        """Consumers' fetches: woken when the high watermark or the leader moves."""
        self.follower_fetches: Purgatory[TopicPartition] = Purgatory(clock)
        """Followers' fetches: woken when the log grows, its start moves, or the ISR or the leader does."""
        self.deletions: Purgatory[TopicPartition] = Purgatory(clock)
        """DeleteRecords: woken when a follower's log start or the leader moves."""
        self.on_proposal: Callable[[Partition], None] = lambda partition: None
        self.on_leadership: Callable[[Partition], None] = lambda partition: None
        self.on_roll: Callable[[Partition], None] = lambda partition: None
        """Is called when a segment was closed: it may be flushed."""
        self.on_directory_failure: Callable[[LogDirectory, list[Partition]], None] = lambda directory, lost: None
        self.directories = directories
        self.preferred_directories: dict[TopicPartition, str] = {}
        """Where replicas that are not here yet are to go (AlterReplicaLogDirs)."""
        self._hosted: dict[TopicPartition, Partition] = {}
        self._offline: set[TopicPartition] = set()
        self._log_configs: dict[tuple[tuple[str, str], ...], LogConfig] = {}
        self._look_at_all = True
        self._config = config
        self._clock = clock
        self._tracer = tracer
        self._replica_class = replica_class
        self._all_at_once = all_at_once
        self._checkpointed = directories.high_watermarks()
        self._flushed: dict[TopicPartition, int] = {}
        directories.on_failure = self._directory_failed
        for topic, index in directories.partitions():
            topic_id = directories.topic_id(topic, index)
            partition = self._open(topic, index, "" if topic_id is None else str(topic_id), LogConfig(), None)
            if partition is not None and tracer.trace is not None:
                tracer.replica(trace.events.Restart, topic, index, partition.replica)

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._hosted.values()))

    def __len__(self) -> int:
        return len(self._hosted)

    def get(self, topic: str, index: int) -> Partition | None:
        """The partition, if this broker hosts it."""
        return self._hosted.get((topic, index))

    def absence(self, topic: str, index: int, *, known: bool) -> ErrorCode:
        """Why a partition is not hosted here; `known`: whether the metadata have it."""
        if (topic, index) in self._offline:
            return ErrorCode.kafka_storage_error
        return ErrorCode.not_leader_or_follower if known else ErrorCode.unknown_topic_or_partition

    @property
    def checkpointed_high_watermarks(self) -> Mapping[TopicPartition, int]:
        """What the high watermark checkpoint on disk says."""
        return self._checkpointed

    def reconfigure(self, config: ServerConfig) -> None:
        """From the next metadata on, these are the broker's settings."""
        self._config = config
        self._log_configs.clear()
        self.look_at_all()

    def look_at_all(self) -> None:
        """With the next metadata every topic is looked at, whatever has changed."""
        self._look_at_all = True

    # --- metadata ----------------------------------------------------------------------------------------------

    def apply_metadata(self, image: ClusterImage, changed: Set[str] | None = None) -> Iterator[Callable[[], None]]:
        """Host what the image newly puts here, delete what it takes away, and tell each replica the newest word on it.

        `changed` are the topics of which there is any; None is all of them. It is done when the iterator ends; each
        step is what a number of new logs need of the disk, to be done before the next one, in any thread.
        """
        if self._look_at_all:
            changed, self._look_at_all = None, False
        self._offline = {key for key in self._offline if self._belongs_here(key, image)}
        self.remove(self._departed(image, changed), image.offset)
        topics = image.topics.values() if changed is None else map(image.topics.get, sorted(changed))
        told: list[tuple[TopicImage, int]] = []
        made: list[NewPlace] = []
        for topic in topics:
            if topic is None:
                continue
            for index, registration in list(topic.partitions.items()):
                if self.broker_id not in registration.replicas or self._is_lost(topic, index):
                    continue
                told.append((topic, index))
                if (place := self._place(topic, index)) is not None:
                    made.append(place)
                if len(made) >= LOGS_AT_ONCE:
                    yield from self._settle(made)
                    self._host_all(told, image)
        yield from self._settle(made)
        self._host_all(told, image)

    def _place(self, topic: TopicImage, index: int) -> NewPlace | None:
        """A directory for a partition that is new here; None when there is one, or its disk fails."""
        key = topic.name, index
        if key in self._hosted:
            return None
        into = self.preferred_directories.get(key)
        try:
            sync = self.directories.claim(*key, topic_uuid(topic.topic_id), into=into)
        except (OSError, NoLogDirectoryError):
            self._offline.add(key)
            return None
        directory = self.directories.where(*key)
        return None if sync is None or directory is None else NewPlace(key, directory, sync)

    def _settle(self, made: list[NewPlace]) -> Iterator[Callable[[], None]]:
        """Bring the ids in new directories to stable storage."""
        if not made:
            return
        places = made.copy()
        made.clear()
        is_settled = False

        def settle() -> None:
            nonlocal is_settled
            if is_settled:
                return
            is_settled = True
            self._all_at_once(place.settle for place in places)
            for last in {place.directory: place for place in places}.values():
                last.settle_names()

        try:
            if len(places) > FEW:  # else nobody shall meet a leader that the metadata have and the broker does not
                yield settle
        finally:
            settle()  # whoever gives up in the middle leaves nothing half done
            for place in places:
                if place.error is not None:
                    self._offline.add(place.key)
                    self.directories.fail(place.directory, place.error)

    def _host_all(self, told: list[tuple[TopicImage, int]], image: ClusterImage) -> None:
        """Give each of these partitions its log, if it has none, and the newest word on it."""
        for topic, index in told:
            registration = topic.partitions.get(index)
            if (
                registration is None
                or image.topics.get(topic.name) is not topic
                or (topic.name, index) in self._offline
            ):
                continue
            partition = self._host(topic, index)
            if partition is not None:
                self._apply(partition, registration, image.controller_epoch)
        told.clear()

    def _departed(self, image: ClusterImage, changed: Set[str] | None) -> list[Partition]:
        """The partitions that the metadata do not put here any more."""
        return [partition for partition in self if self._is_departed(partition, image, changed)]

    def _belongs_here(self, key: TopicPartition, image: ClusterImage) -> bool:
        registration = image.partition(*key)
        return registration is not None and self.broker_id in registration.replicas

    def _is_departed(self, partition: Partition, image: ClusterImage, changed: Set[str] | None) -> bool:
        """Whether the metadata do not put this very partition here any more."""
        if changed is not None and partition.topic not in changed:
            return False
        topic = image.topics.get(partition.topic)
        registration = None if topic is None else topic.partitions.get(partition.index)
        if topic is None or registration is None or self.broker_id not in registration.replicas:
            return True
        return partition.topic_id not in ("", topic.topic_id)

    def remove(self, departed: Sequence[Partition], metadata_offset: int) -> None:
        """Delete partitions with all that is remembered of them, as of so much metadata; what waits for them is told.

        The high watermarks go first: without its log one would count for the next log of that name.
        """
        if not departed:
            return
        keys = {partition.key for partition in departed}
        self._checkpointed = {key: offset for key, offset in self._checkpointed.items() if key not in keys}
        self.directories.checkpoint_high_watermarks(self._checkpointed)
        now_ms = self._clock.now_ms()
        by_delay: dict[int, list[TopicPartition]] = {}
        for partition in departed:
            if partition.is_offline:  # its directory has failed at this very work: there is nothing left to delete
                continue
            del self._hosted[partition.key]
            self._flushed.pop(partition.key, None)
            partition.is_removed = True
            partition.replica.resign()
            if self._tracer.trace is not None:
                removal = trace.events.RemoveReplica
                self._tracer.record(removal, partition.topic, partition.index, metadata_offset=metadata_offset)
            by_delay.setdefault(partition.log.config.file_delete_delay_ms, []).append(partition.key)
        for delay_ms, doomed in by_delay.items():
            self.directories.delete_logs(doomed, now_ms, delay_ms)
        for partition in departed:
            self._wake_all(partition.key)

    def _is_lost(self, topic: TopicImage, index: int) -> bool:
        """Whether the replica is in a directory that has failed: it is not made anew in another one (KIP-858)."""
        key = topic.name, index
        if self.directories.offline and key not in self._hosted and key not in self._offline:
            assigned = topic.directories.get((index, self.broker_id))
            if assigned is not None and assigned not in (str(one.id) for one in self.directories.online):
                self._offline.add(key)
        return key in self._offline

    def _apply(self, partition: Partition, registration: PartitionRegistration, controller_epoch: int) -> None:
        applied = partition.replica.apply_metadata(registration, controller_epoch, self._clock.now_ms())
        if applied and self._tracer.trace is not None:
            self._tracer.replica(
                trace.events.ApplyMetadata,
                partition.topic,
                partition.index,
                partition.replica,
                controller_epoch=controller_epoch,
                replicas=registration.replicas,
                elr=tuple(sorted(registration.elr)),
            )
        self.carry_out(partition)

    def _host(self, topic: TopicImage, index: int) -> Partition | None:
        """The partition with the topic's settings, its log opened or created if need be; None when the disk fails."""
        log_config = self._log_config(topic)
        partition = self._hosted.get((topic.name, index))
        if partition is None or partition.topic_id != topic.topic_id:
            partition = self._open(topic.name, index, topic.topic_id, log_config, topic_uuid(topic.topic_id))
        if partition is None:
            return None
        if topic.succeeds:  # a producer that goes on from the deleted topic's sequences has done nothing wrong
            partition.log.producers.forgot = True
        partition.log.config = log_config
        partition.replica.config = attrs.evolve(
            partition.replica.config, min_insync_replicas=self._setting(topic, MIN_INSYNC_REPLICAS)
        )
        return partition

    def _log_config(self, topic: TopicImage) -> LogConfig:
        key = tuple(sorted(topic.configs.items()))
        if key not in self._log_configs:
            settings = {name: self._setting(topic, name) for name in LOG_SETTINGS}
            self._log_configs[key] = LogConfig.from_properties(settings)
        return self._log_configs[key]

    def _open(self, topic: str, index: int, topic_id: str, config: LogConfig, claim: UUID | None) -> Partition | None:
        key = topic, index
        into = self.preferred_directories.pop(key, None)
        try:
            log = self.directories.open_log(topic, index, config, self._clock.now_ms(), claim, into=into)
        except (OSError, NoLogDirectoryError):
            self._offline.add(key)
            return None
        log.producers.expire(self._clock.now_ms(), self._config.producer_id_expiration_ms)
        settings = PartitionConfig(replica_lag_time_max_ms=self._config.replica_lag_time_max_ms)
        replica = self._replica_class(self.broker_id, log, settings, self._checkpointed.get(key, 0))
        partition = self._hosted[key] = Partition(topic, index, topic_id, log, replica)
        log.on_roll = lambda: self.on_roll(partition)
        return partition

    def _setting(self, topic: TopicImage, name: str) -> Any:
        return config_value(topic.configs, name, self._config.topic_defaults)

    # --- effects -----------------------------------------------------------------------------------------------

    def carry_out(self, partition: Partition) -> None:
        """Do what the core asks for after a change."""
        if partition.is_gone:
            return
        key = partition.key
        for effect in partition.replica.take_effects():
            match effect:
                case HighWatermarkAdvanced():
                    self.produces.wake(key)
                    self.fetches.wake(key)
                case LogEndAdvanced():
                    self.follower_fetches.wake(key)
                case FollowerLogStartMoved():
                    self.deletions.wake(key)
                case IsrChanged():
                    self.produces.wake(key)
                    self.follower_fetches.wake(key)
                case LeadershipChanged():
                    self._wake_all(key)
                    self.on_leadership(partition)
                case SendAlterPartition():
                    self.on_proposal(partition)

    def _wake_all(self, key: TopicPartition) -> None:
        self.produces.wake(key)
        self.fetches.wake(key)
        self.follower_fetches.wake(key)
        self.deletions.wake(key)

    # --- disk --------------------------------------------------------------------------------------------------

    def storage_failed(self, partition: Partition, error: Exception) -> ErrorCode:
        """What a client is told when a log refuses an operation; a disk that fails takes its directory offline."""
        directory = self.directories.where(*partition.key)
        if isinstance(error, OSError) and directory is not None and not partition.is_gone:
            self.directories.fail(directory, error)
        return storage_error_code(error)

    def _directory_failed(self, directory: LogDirectory, _: OSError) -> None:
        """The replicas in the directory are gone for this broker; whoever waits for one is told."""
        lost = [partition for key, partition in self._hosted.items() if key in directory.logs]
        self._offline |= directory.logs.keys()
        for partition in lost:
            del self._hosted[partition.key]
            partition.is_offline = True
        for partition in lost:
            self._wake_all(partition.key)
        self.on_directory_failure(directory, lost)

    def begin_flush(self, partition: Partition, *, closed_only: bool = False) -> PendingFlush | None:
        """A flush of one log, whose work may be done in any thread before `finish_flush`; None when its disk fails."""
        try:
            return partition.log.begin_flush(closed_only=closed_only)
        except OSError as error:
            self.storage_failed(partition, error)
            return None

    def finish_flush(self, partition: Partition, flush: PendingFlush) -> bool:
        """Move the recovery point; False when the disk has failed, or the log is another by now."""
        if partition.is_gone:
            return False
        log = partition.log
        before = log.flushed_end_offset
        try:
            moved = log.finish_flush(flush)
        except OSError as error:
            self.storage_failed(partition, error)
            return False
        if before < log.flushed_end_offset == log.log_end_offset:
            self._trace_flush(partition)
        return moved

    def flush(self) -> None:
        """Bring every log to stable storage, and note how far each one is."""
        for partition in self:
            if not partition.is_gone and partition.log.flushed_end_offset < partition.log.log_end_offset:
                try:
                    partition.log.flush()
                except OSError as error:
                    self.storage_failed(partition, error)
                else:
                    self._trace_flush(partition)
        flushed = {partition.key: partition.log.flushed_end_offset for partition in self}
        if flushed != self._flushed:
            self.directories.checkpoint()
            self._flushed = flushed

    def _trace_flush(self, partition: Partition) -> None:
        if self._tracer.trace is not None:
            self._tracer.replica(trace.events.Flush, partition.topic, partition.index, partition.replica)

    def write_log_starts(self, partitions: Iterable[Partition]) -> None:
        """Make the log starts of these partitions durable, before anyone is told of them."""
        if not all(partition.is_gone or partition.log.log_start_is_durable for partition in partitions):
            self.directories.checkpoint_log_starts()

    def checkpoint_high_watermarks(self) -> None:
        """Write every high watermark to the disk, where a restart begins from it."""
        if (checkpoint := self.begin_checkpoint_high_watermarks()) is not None:
            for write in checkpoint.writes:
                write()
            self.finish_checkpoint_high_watermarks(checkpoint)

    def begin_checkpoint_high_watermarks(self) -> HighWatermarkCheckpoint | None:
        """What `checkpoint_high_watermarks` has to write, in any thread; None when nothing has changed."""
        current = {key: partition.replica.high_watermark for key, partition in self._hosted.items()}
        if current == self._checkpointed or not any(
            self._checkpointed.get(key, 0) != offset for key, offset in current.items()
        ):
            return None
        writes = self.directories.begin_checkpoint_high_watermarks(current)
        return HighWatermarkCheckpoint(self._checkpointed, current, writes)

    def moved(self, partition: Partition, target: LogDirectory) -> None:
        """The partition's log is in another directory now: what is written down of its high watermark goes with it."""
        self.directories.moved(*partition.key, target)
        self._checkpointed = dict(self._checkpointed)  # a checkpoint that is under way is not what is on the disk
        self.directories.checkpoint_high_watermarks(self._checkpointed)

    def finish_checkpoint_high_watermarks(self, checkpoint: HighWatermarkCheckpoint) -> None:
        """It is written, or a disk has failed."""
        self.directories.finish_checkpoint(checkpoint.writes)
        if self._checkpointed is not checkpoint.before:
            return  # partitions have gone meanwhile, and another one was written without them
        before, self._checkpointed = self._checkpointed, checkpoint.offsets
        if self._tracer.trace is None:
            return
        changed = {key for key, offset in checkpoint.offsets.items() if before.get(key, 0) != offset}
        for partition in (one for key, one in self._hosted.items() if key in changed):
            written = trace.events.CheckpointHighWatermark
            self._tracer.replica(written, partition.topic, partition.index, partition.replica)

    def close(self, broker_epoch: int) -> None:
        """A clean shutdown in this broker epoch: flush, checkpoint, and let go of the files."""
        self.checkpoint_high_watermarks()
        self.directories.close(broker_epoch)

    def abandon(self) -> None:
        """Let go of the files as they are."""
        self.directories.abandon()


def storage_error_code(error: Exception) -> ErrorCode:
    """What a client is told when a log refuses an operation."""
    return error.error_code if isinstance(error, RecordError) else ErrorCode.kafka_storage_error
