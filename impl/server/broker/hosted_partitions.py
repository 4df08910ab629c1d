"""The partitions that a broker hosts: made, told of the metadata, and removed.

At its start a broker hosts what its disk has. After that the metadata log says which replicas belong here. A replica
that the metadata take away, with its topic or by a reassignment, is deleted as soon as this broker reads it; one that
was taken away while the broker was down, before the broker does anything else. Nothing of it is left that could count
for a later topic of the same name, or for the same partition when it comes back. A replica of which the metadata say
nothing is not deleted: it becomes a stray (`departures`).

A disk that fails takes its log directory offline with all replicas in it (KIP-112): `storage_failed`. They are not
hosted any more until the broker starts again, wherever the metadata put them. Requests that wait for them are woken. A
name that cannot be used takes its replica offline and nothing else. A disk without room, or a process without
descriptors, fails what was tried; a replica whose log cannot be opened then, or is in doubt after a failed sync, is
opened again when there is room: that is tried with every pull of the metadata.

A log with damage concerns its replica alone (`damaged_replicas`). One that is met while the broker runs is repaired
when nobody counts on the replica any more (`withdrawn_replicas`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence, Set
from typing import Any, Final
from uuid import UUID

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.metadata.image import ClusterImage, TopicImage
from tidegauge.impl.metadata.topic_configs import MIN_INSYNC_REPLICAS, TOPIC_CONFIGS, config_value
from tidegauge.impl.partition.messages import PartitionConfig
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.ports.clock import Clock
from tidegauge.impl.ports.disk import PendingSync
from tidegauge.impl.ports.disk_errors import Extent, extent_of
from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.ports.side_by_side import FEW
from tidegauge.impl.records.batches import RecordError
from tidegauge.impl.server import trace
from tidegauge.impl.server.broker.damaged_replicas import DamagedReplicas
from tidegauge.impl.server.broker.departures import departure
from tidegauge.impl.server.broker.doubled_replicas import DoubledReplicas
from tidegauge.impl.server.broker.high_watermark_checkpoint import HighWatermarkCheckpoint
from tidegauge.impl.server.broker.partition import Partition, TopicPartition
from tidegauge.impl.server.broker.replica_effects import HostedLogUpkeep, ReplicaEffects
from tidegauge.impl.server.broker.replica_lines import tell_leader_epoch
from tidegauge.impl.server.broker.replicas_without_room import ReplicasWithoutRoom
from tidegauge.impl.server.broker.withdrawn_replicas import WithdrawnReplicas
from tidegauge.impl.server.settings.server_config import ServerConfig
from tidegauge.impl.server.trace.tracer import Tracer
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.errors import CorruptLogError
from tidegauge.impl.storage.log_directories import LogDirectories, NoLogDirectoryError
from tidegauge.impl.storage.log_directory import LogDirectory
from tidegauge.impl.wire.primitives import topic_uuid

LOGGER: Final = logging.getLogger(__name__)
OFFLINE: Final = "the replica is offline, the others are served"
NOWHERE: Final = "", None
"""What the metadata know a replica as that they do not put here."""

LOGS_AT_ONCE: Final = 64
"""Places for new logs that are brought to stable storage together."""
REMOVED_AT_ONCE: Final = 250
"""Replicas that are deleted without a pause, and with one write of each checkpoint."""
HOSTED_UNITS: Final = 200
"""Registrations that are applied without a pause: some ms."""
NEW_LOG_UNITS: Final = 10
"""The same of one whose log is opened."""
LOG_SETTINGS: Final = tuple(
    name for field in attrs.fields(LogConfig) if (name := field.name.replace("_", ".")) in TOPIC_CONFIGS
)
"""The topic settings that belong to a log."""


@attrs.define(eq=False, repr=False)
class NewPlace:
    """A directory that was made for a new log, and the error of its disk if the topic's id could not be synced."""

    key: TopicPartition
    directory: LogDirectory
    _sync: PendingSync
    error: OSError | None = None

    def settle(self) -> None:
        """Sync the topic's id, in any thread."""
        try:
            self._sync.run()
        except OSError as error:
            self.error = error

    def settle_names(self) -> None:
        """Sync the names of all logs in the log directory. After `settle`."""
        try:
            self.directory.sync_names()
        except OSError as error:
            self.error = error


def _one_by_one(works: Iterable[Callable[[], None]]) -> None:
    for work in works:
        work()


class HostedPartitions:
    """All partitions of one broker: at first those that its disk has."""

    def __init__(
        self,
        broker_id: int,
        directories: LogDirectories,
        config: ServerConfig,
        clock: Clock,
        tracer: Tracer,
        effects: ReplicaEffects,
        high_watermarks: HighWatermarkCheckpoint,
        replica_class: type[PartitionReplica] = PartitionReplica,
        all_at_once: Callable[[Iterable[Callable[[], None]]], None] = _one_by_one,
    ) -> None:
        """`all_at_once` runs work that waits for the disk (`Disk.all_at_once`)."""
        self.broker_id = broker_id
        self.directories = directories
        self._without_room = ReplicasWithoutRoom(tracer)
        self.preferred_directories: dict[TopicPartition, str] = {}
        """Where to make replicas that are not here yet (AlterReplicaLogDirs): paths."""
        self._hosted: dict[TopicPartition, Partition] = {}
        self._offline: set[TopicPartition] = set()
        self._offline_as: dict[TopicPartition, tuple[str, str | None]] = {}
        """Offline replica -> its topic's id, and its directory as the metadata have it; absent if nobody can tell."""
        self._image: ClusterImage | None = None
        """The metadata that were applied last."""
        self._log_configs: dict[tuple[tuple[str, str], ...], LogConfig] = {}
        self._look_at_all = True
        self._config = config
        self._clock = clock
        self._tracer = tracer
        self._effects = effects
        self._high_watermarks = high_watermarks
        self._replica_class = replica_class
        self._all_at_once = all_at_once
        directories.on_failure = self._directory_failed
        self.damaged = DamagedReplicas(broker_id, tracer, self._withdraw, self._give_up)
        self.withdrawn = WithdrawnReplicas(broker_id)
        self._doubled = DoubledReplicas(broker_id, directories, high_watermarks, self._give_up_doubled)
        for topic, index in directories.partitions():
            topic_id = directories.topic_id(topic, index)
            self._open(topic, index, "" if topic_id is None else str(topic_id), LogConfig(), None)
        self.damaged.trace_start(self, directories.missing)
        if self._offline and not self._hosted:
            raise NoLogDirectoryError(
                f"none of this broker's {len(self._offline)} replicas can be opened: see the lines before this one for "
                "the errors of the disk, make room or mend it, and start the broker again"
            )

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._hosted.values()))

    def __len__(self) -> int:
        return len(self._hosted)

    def get(self, topic: str, index: int) -> Partition | None:
        """The partition, if this broker hosts it."""
        return self._hosted.get((topic, index))

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether the replica was lost with its log directory."""
        return (topic, index) in self._offline

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """The high watermark of each replica; of one that was given up what is written down."""
        written = self._high_watermarks.offsets
        left = {key: written[key] for key in self._offline if key in written}
        left |= {partition.key: partition.replica.high_watermark for partition in self.withdrawn}
        return {**left, **{key: partition.replica.high_watermark for key, partition in self._hosted.items()}}

    def absence(self, topic: str, index: int, *, known: bool) -> ErrorCode:
        """The error for a partition that is not hosted here; `known`: whether the metadata have it."""
        if self.is_offline(topic, index):
            return ErrorCode.kafka_storage_error
        return ErrorCode.not_leader_or_follower if known else ErrorCode.unknown_topic_or_partition

    def reconfigure(self, config: ServerConfig) -> None:
        """Apply these settings of the broker, from the next metadata on."""
        self._config = config
        self._log_configs.clear()
        self.look_at_all()

    def look_at_all(self) -> None:
        """Look at every topic with the next metadata, not only at those that have changed."""
        self._look_at_all = True

    # --- metadata ----------------------------------------------------------------------------------------------

    def apply_metadata(
        self, image: ClusterImage, changed: Set[str] | None = None, removed_topics: Container[str] = ()
    ) -> Iterator[Callable[[], None] | None]:
        """Host what the image newly puts here, delete what it takes away, and give each replica its registration.

        `changed` names the topics that have changed; None means all. `removed_topics` are the ids of those that were
        deleted since the last time. The work is done when the iterator ends. Each step is what some new logs need of
        the disk; run it before the next step, in any thread. None: let others have their turn.
        """
        if self._look_at_all:
            changed, self._look_at_all = None, False
        if waiting := self._without_room.waiting:
            self._offline -= waiting
            changed = None if changed is None else {*changed, *(topic for topic, _ in waiting)}
            waiting.clear()
        self._take_back(image, changed)
        self._forget_former(image)
        self._doubled.settle(image)
        departed = self._departed(image, changed)
        for first in range(0, len(departed), REMOVED_AT_ONCE):
            some = departed[first : first + REMOVED_AT_ONCE]
            self.remove(some, image.offset, self._strays_among(some, image, removed_topics))
            if len(some) == REMOVED_AT_ONCE:
                yield None
        topics = image.topics.values() if changed is None else map(image.topics.get, sorted(changed))
        placed: list[tuple[TopicImage, int]] = []
        made: list[NewPlace] = []
        for topic in topics:
            if topic is None:
                continue
            for index, registration in list(topic.partitions.items()):
                if self.broker_id not in registration.replicas or self._is_lost(topic, index, registration):
                    continue
                placed.append((topic, index))
                if (place := self._place(topic, index)) is not None:
                    made.append(place)
                if len(made) >= LOGS_AT_ONCE:
                    yield from self._settle(made)
                    yield from self._host_all(placed, image)
        yield from self._settle(made)
        yield from self._host_all(placed, image)

    def _strays_among(
        self, departed: Sequence[Partition], image: ClusterImage, removed_topics: Container[str]
    ) -> set[TopicPartition]:
        """Those that no decision has taken away; the others are about to be deleted, which is logged."""
        strays = set()
        for one in departed:
            why = departure(image, removed_topics, one.topic, one.topic_id, one.index, broker_id=self.broker_id)
            if why.is_decided:
                log_event(LOGGER, logging.INFO, "replica deleted", partition=f"{one.topic}-{one.index}", why=why.value)
            else:
                strays.add(one.key)
        return strays

    def _place(self, topic: TopicImage, index: int) -> NewPlace | None:
        """A directory for a partition that is new here; None when there is one, or its disk fails."""
        key = topic.name, index
        if key in self._hosted:
            return None
        into = self.preferred_directories.get(key)
        try:
            sync = self.directories.claim(*key, topic_uuid(topic.topic_id), into=into)
        except (OSError, NoLogDirectoryError) as error:
            self._without_log(key, error)
            return None
        directory = self.directories.where(*key)
        if sync is None or directory is None:
            return None
        self._doubled.made(key)
        return NewPlace(key, directory, sync)

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
            if len(places) > FEW:  # a few are made at once: no request then meets a leader that is not hosted yet
                yield settle
        finally:
            settle()  # also when the caller gives up here: nothing stays half done
            for place in places:
                if place.error is not None:
                    self._without_log(place.key, place.error)
                    self.directories.bounded(place.key, place.directory, place.error)

    def _host_all(self, placed: list[tuple[TopicImage, int]], image: ClusterImage) -> Iterator[None]:
        """Give each of these partitions its log, if it has none, and its registration; some at a time."""
        units = 0
        for topic, index in placed:
            units += 1 if (topic.name, index) in self._hosted else NEW_LOG_UNITS
            if units > HOSTED_UNITS:
                yield None
                units = 0
            registration = topic.partitions.get(index)
            if (
                registration is None
                or image.topics.get(topic.name) is not topic
                or (topic.name, index) in self._offline
            ):
                continue
            partition = self._host(topic, index)
            if partition is None:
                continue
            if not self._doubled.may_act(partition.key, topic):
                self._effects.replica_held_back()
            elif self.damaged.may_apply(partition, registration):
                self._apply(partition, topic.topic_id, registration, image.controller_epoch)
        placed.clear()

    def _departed(self, image: ClusterImage, changed: Set[str] | None) -> list[Partition]:
        """The partitions that the metadata do not put here any more."""
        if changed is not None and not changed:
            return []
        return [partition for partition in self if self._is_departed(partition, image, changed)]

    def _take_back(self, image: ClusterImage, changed: Set[str] | None) -> None:
        """Withdrawn replicas that the metadata take away: they have their logs, and are deleted like others."""
        for partition in self.withdrawn:
            if self._is_departed(partition, image, changed):
                self.withdrawn.forget([partition.key])
                self._offline.discard(partition.key)
                self._offline_as.pop(partition.key, None)
                partition.is_offline = False
                self._hosted[partition.key] = partition

    def _forget_former(self, image: ClusterImage) -> None:
        """Offline replicas that were taken away are offline no more, be they given back since.

        Who is given a replica back has it in no directory, or in a topic of another id.
        """
        if self._offline:
            now = {key: self._known_as(key, image) for key in self._offline}
            another = [key for key, known in now.items() if is_another(self._offline_as.get(key), known)]
            self._let_go_of_withdrawn(another)
            self._high_watermarks.forget_offline(another)
            self._without_room.forget(another)
            self._offline.difference_update(another)
            self._offline_as = {key: known for key in self._offline if (known := now[key]) is not None}
        self._image = image

    def _known_as(self, key: TopicPartition, image: ClusterImage) -> tuple[str, str | None] | None:
        """A replica's topic id and directory; None for one that is not placed here."""
        topic, index = image.topics.get(key[0]), key[1]
        registration = None if topic is None else topic.partitions.get(index)
        if topic is None or registration is None or self.broker_id not in registration.replicas:
            return None
        return topic.topic_id, topic.directories.get((index, self.broker_id))

    def _note_offline(self, keys: Iterable[TopicPartition], topic_id: str = "") -> None:
        """These replicas are offline, as what the metadata know them now.

        Before any metadata were read they are as the disk knows them, of the topic with this id.
        """
        for key in keys:
            self._offline.add(key)
            if self._image is not None:
                self._offline_as[key] = self._known_as(key, self._image) or NOWHERE
            elif topic_id:
                self._offline_as[key] = topic_id, None

    def _is_departed(self, partition: Partition, image: ClusterImage, changed: Set[str] | None) -> bool:
        """Whether the metadata do not put this very partition here any more."""
        if changed is not None and partition.topic not in changed:
            return False
        topic = image.topics.get(partition.topic)
        registration = None if topic is None else topic.partitions.get(partition.index)
        if topic is None or registration is None or self.broker_id not in registration.replicas:
            return True
        return partition.topic_id not in ("", topic.topic_id)

    def remove(
        self, departed: Sequence[Partition], metadata_offset: int, strays: Container[TopicPartition] = ()
    ) -> None:
        """Delete partitions with all that is remembered of them, as of this metadata offset; wake who waits for them.

        Those that are strays keep their records, under another name.

        The checkpointed high watermarks go first: without its log one would count for the next log of that name.
        """
        if not departed:
            return
        keys = {partition.key for partition in departed}
        self._high_watermarks.forget(keys)
        now_ms = self._clock.steady_ms()
        by_delay: dict[int, list[TopicPartition]] = {}
        kept: list[TopicPartition] = []
        for partition in departed:
            if partition.is_offline:  # its directory has failed during this work: nothing is left to delete
                continue
            del self._hosted[partition.key]
            partition.is_removed = True
            partition.replica.resign()
            if partition.key in strays:
                kept.append(partition.key)
            else:
                by_delay.setdefault(partition.log.config.file_delete_delay_ms, []).append(partition.key)
        self.directories.keep_as_strays(kept)
        left = {key for ms, doomed in by_delay.items() for key in self.directories.delete_logs(doomed, now_ms, ms)}
        for partition in departed:
            if partition.is_removed and self._tracer.trace is not None:
                removal, is_left = trace.events.RemoveReplica, partition.key in left
                self._tracer.record(removal, *partition.key, metadata_offset, partition.topic_id, is_left)
            self._effects.gone(partition)

    def _is_lost(self, topic: TopicImage, index: int, registration: PartitionRegistration) -> bool:
        """Whether the replica is in a failed directory: it is not made again in another one (KIP-858)."""
        key = topic.name, index
        if (returned := self.withdrawn.returned(key, registration)) is not None:
            self._offline.discard(key)
            self._offline_as.pop(key, None)
            self._hosting(Partition(*key, returned.topic_id, returned.log, returned.replica))
        if self.directories.offline and key not in self._hosted and key not in self._offline:
            assigned = topic.directories.get((index, self.broker_id))
            is_elsewhere = assigned is not None and assigned not in (str(one.id) for one in self.directories.online)
            if is_elsewhere or self.directories.may_have_moved(*key, topic_uuid(topic.topic_id)):
                self._note_offline([key])
        return key in self._offline

    def _apply(
        self, partition: Partition, topic_id: str, registration: PartitionRegistration, controller_epoch: int
    ) -> None:
        epoch = partition.replica.leader_epoch
        applied = partition.replica.apply_metadata(registration, controller_epoch, self._clock.steady_ms())
        tell_leader_epoch(partition, epoch)
        if applied and self._tracer.trace is not None:
            self._tracer.replica(
                trace.events.ApplyMetadata,
                partition.topic,
                partition.index,
                partition.replica,
                controller_epoch=controller_epoch,
                replicas=registration.replicas,
                elr=tuple(sorted(registration.elr)),
                topic_id=topic_id,
            )
        self._effects.carry_out(partition)

    def _host(self, topic: TopicImage, index: int) -> Partition | None:
        """The partition with the topic's settings, its log opened or made if it has none; None when the disk fails."""
        log_config = self._log_config(topic)
        partition = self._hosted.get((topic.name, index))
        if partition is None or partition.topic_id != topic.topic_id:
            partition = self._open(topic.name, index, topic.topic_id, log_config, topic_uuid(topic.topic_id))
        if partition is None:
            return None
        if topic.succeeds:  # a producer may go on from the deleted topic's sequences
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
            high_watermark = self._without_room.recall(key, topic_id, log, self._high_watermarks.offsets.get(key, 0))
        except (OSError, NoLogDirectoryError, RecordError) as error:
            self._without_log(key, error, topic_id=topic_id)
            if key not in self._without_room.waiting:
                log_event(
                    LOGGER, logging.ERROR, "log not opened", partition=f"{topic}-{index}", why=str(error), next=OFFLINE
                )
            return None
        log.producers.expire(self._clock.now_ms(), self._config.producer_id_expiration_ms)
        settings = PartitionConfig(replica_lag_time_max_ms=self._config.replica_lag_time_max_ms)
        replica = self._replica_class(self.broker_id, log, settings, high_watermark)
        self._without_room.note_opened(key, replica)
        return self._hosting(Partition(topic, index, topic_id, log, replica))

    def _hosting(self, partition: Partition) -> Partition:
        self._hosted[partition.key] = partition
        partition.log.upkeep = HostedLogUpkeep(self._effects, partition)
        return partition

    def _setting(self, topic: TopicImage, name: str) -> Any:
        return config_value(topic.configs, name, self._config.topic_defaults)

    # --- disk --------------------------------------------------------------------------------------------------

    def storage_failed(self, partition: Partition, error: Exception) -> ErrorCode:
        """The error code for an operation that a log has refused; a disk that fails takes its directory offline.

        A replica that meets damage is given up, unless it leads and nobody else is in sync.
        """
        directory = self.directories.where(*partition.key)
        if isinstance(error, CorruptLogError):
            return self.damaged.met_damage(partition, error)
        if isinstance(error, OSError) and directory is not None and not partition.is_gone:
            cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
            is_bounded = self.directories.bounded(partition.key, directory, cause)
            if is_bounded and (partition.log.has_failed or extent_of(cause) is Extent.NAME):
                self._take_offline(partition, directory, cause)
        return storage_error_code(error)

    def _give_up_doubled(self, key: TopicPartition) -> None:
        self._note_offline([key])
        self._effects.replica_without_log(key, None)

    def _withdraw(self, partition: Partition, reason: str) -> None:
        """Host a replica no more until it may be repaired; give it up where that cannot be."""
        if partition.is_gone or self.directories.where(*partition.key) is None:
            return
        if not self.withdrawn.may_withdraw(partition):
            self._give_up(partition, reason)
            return
        del self._hosted[partition.key]
        partition.is_offline = True
        self._note_offline([partition.key])
        self.withdrawn.withdraw(partition)
        self._effects.replica_withdrawn(partition, reason)

    def _let_go_of_withdrawn(self, keys: Collection[TopicPartition]) -> None:
        """Withdrawn replicas that were taken away: nothing is repaired."""
        for partition in self.withdrawn.forget(keys):
            if (directory := self.directories.where(*partition.key)) is not None:
                self._close_damaged(partition, directory)

    def _close_damaged(self, partition: Partition, directory: LogDirectory) -> None:
        try:
            directory.give_up(partition.key)
        except OSError as error:
            self.directories.fail(directory, error)

    def _give_up(self, partition: Partition, reason: str) -> None:
        """Host a replica no more until the broker starts again, though its directory works."""
        directory = self.directories.where(*partition.key)
        if partition.is_gone or directory is None:
            return
        del self._hosted[partition.key]
        partition.is_offline = True
        self._note_offline([partition.key])
        self._close_damaged(partition, directory)
        self._effects.replica_damaged(partition, reason)

    def lost_while_moving(self, partition: Partition, target: LogDirectory, error: Exception) -> None:
        """The replica is in `target`, which cannot open its log."""
        self._take_offline(partition, target, error)
        if isinstance(error, OSError):
            self.directories.fail(target, error)

    def _take_offline(self, partition: Partition, directory: LogDirectory, error: Exception) -> None:
        """Let go of one replica, until there is room or the broker starts again."""
        directory.let_go(partition.key)
        del self._hosted[partition.key]
        partition.is_offline = True
        self._without_log(partition.key, error, partition)
        self._effects.taken_offline(partition)

    def _without_log(
        self, key: TopicPartition, error: Exception, partition: Partition | None = None, topic_id: str = ""
    ) -> None:
        """A replica whose log cannot be had now. Unless that passes, another one has to lead."""
        is_known = key in self._offline
        self._note_offline([key], topic_id)
        if isinstance(error, OSError) and extent_of(error) is Extent.PASSING:
            self._without_room.wait(key, partition)
        elif not is_known:
            self._effects.replica_without_log(key, partition)

    def _directory_failed(self, directory: LogDirectory, _: OSError) -> None:
        """The replicas in the directory are gone for this broker."""
        lost = [partition for key, partition in self._hosted.items() if key in directory.logs]
        self._note_offline(directory.logs)
        for partition in lost:
            del self._hosted[partition.key]
            partition.is_offline = True
        lost += self.withdrawn.forget(directory.logs)
        self._effects.directory_failed(directory, lost)


def is_another(before: tuple[str, str | None] | None, now: tuple[str, str | None] | None) -> bool:
    """Whether a replica was taken away since the metadata had it so."""
    if before is None or now is None:
        return now is None
    return now[0] != before[0] or (now[1] is None and before[1] is not None)


def storage_error_code(error: Exception) -> ErrorCode:
    """The error code for an operation that a log has refused."""
    return error.error_code if isinstance(error, RecordError) else ErrorCode.kafka_storage_error
