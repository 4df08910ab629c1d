"""Log directories on a cluster: the disk of one fails, and its broker lives on with the others.

Every broker has several directories, and its replica in one. What a process has of a failed directory is not hosted:
it is remembered here as it was. Every heartbeat of a process names its failed directories; so that its report comes
apart from the failure, as in the specification, the process is told of it by `ReplicaOffline` only. If the controller
takes the replica for offline, the next process has the directory under another id, as on a disk that was replaced: so
its report comes apart from its registration. Two things are left out on both sides. A directory does not fail before
its process has registered, for what a registration does not name is offline at once. And a process whose log is empty
where nobody leads says that it is lost, which is `LostLogs`, and not that it is there.

The pages of a failed directory are kept when its process stops, and what the disk has lost of them is cut then
(`LoseTail`).
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable
from types import MappingProxyType
from typing import Final
from uuid import UUID

import attrs
from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest
from kio.schema.errors import ErrorCode

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.names import broker_name
from tidegauge.impl.partition.registration import NO_LEADER
from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.server.broker.assign_replicas import assignment_request
from tidegauge.impl.storage.identity import Identity, write_identity
from tidegauge.impl.storage.log_directory import CLEAN_SHUTDOWN
from tidegauge.impl.storage.segment_names import LOG_SUFFIX
from tidegauge.impl.wire.primitives import BrokerId, i64
from tidegauge.model_tests.harness.cluster import steps
from tidegauge.model_tests.harness.cluster.binding import (
    PARTITION,
    RECORD_SIZE,
    TOPIC,
    ClusterBinding,
    ClusterExtension,
)
from tidegauge.model_tests.harness.cluster.extensions import shutdown
from tidegauge.model_tests.harness.cluster.extensions.shutdown import ShutdownOnCluster
from tidegauge.model_tests.harness.cluster.refusals import to_controller
from tidegauge.model_tests.harness.cores import abstraction
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.replication import faults
from tidegauge.spec.replication.control import ApplyMetadata
from tidegauge.spec.replication.extensions.directories import (
    Directories,
    FailDirectory,
    FailedDirectory,
    LeftLog,
    LoseNote,
    LoseTail,
    OfflineReplicas,
    ReplicaOffline,
    ReplicaOnline,
    is_registered,
)
from tidegauge.spec.replication.extensions.shutdown import Stop, StopUnasked
from tidegauge.spec.replication.state import NONE, Controller, Error, Replica, State

NAMES: Final = ("one", "two", "three")


@attrs.frozen
class Lost:
    """A replica that went with its directory, as it was."""

    replica: Replica
    flushed: int
    """Where the log was on stable storage."""


def medium_of(cluster: Cluster, number: int) -> SimulatedDisk:
    """The disk behind a broker's."""
    return cluster.host.simulated("a failed directory").medium(broker_name(number))


async def fail_directory(binding: ClusterBinding, action: FailDirectory, before: State) -> None:
    number, mine = action.broker, binding.extension(DirectoriesOnCluster)
    hosted, directories = binding.hosted(number), binding.broker(number).replicas.directories
    directory = directories.where(TOPIC, PARTITION)
    assert hosted is not None, "nothing fails where nothing is"
    assert directory is not None, "it is in a directory"
    as_it_was = attrs.evolve(mine.seen[number], log=binding.memory[number].log)
    mine.lost[number] = Lost(as_it_was, hosted.log.flushed_end_offset)
    mine.failed.add(number)
    binding.memory[number].cut.clear()
    binding.cluster.fail_disk(number, directory=directory.path)
    directories.fail(directory, OSError(errno.EIO, "the disk has failed", directory.path))
    directories.offline_ids.remove(directory.id)


@attrs.frozen
class Place:
    """A directory."""

    path: str
    id: UUID


async def report_offline(binding: ClusterBinding, number: int) -> ErrorCode:
    """A heartbeat that names the directory: of the process, or of one that has sent it before it stopped or stalled."""
    failed = binding.extension(DirectoriesOnCluster).places[number].id
    memory, broker = binding.memory[number], binding.broker(number)
    if memory.running and failed not in broker.replicas.directories.offline_ids:
        broker.replicas.directories.offline_ids.append(failed)
    if memory.acts:
        return (await broker.controller.heartbeat(0)).error_code
    known = binding.cluster.controller.controller.image.brokers[number]
    request = BrokerHeartbeatRequest(
        broker_id=BrokerId(number),
        broker_epoch=i64(known.broker_epoch),
        current_metadata_offset=i64(0),
        want_fence=False,
        want_shut_down=False,
        offline_log_dirs=(failed,),
    )
    error: ErrorCode = (await to_controller(binding, request)).error_code
    return error


async def replica_offline(binding: ClusterBinding, action: ReplicaOffline, before: State) -> None:
    error = await report_offline(binding, action.broker)
    assert error is ErrorCode.none, error.name


async def refuse_replica_offline(binding: ClusterBinding, action: ReplicaOffline, before: State) -> ErrorCode | None:
    """The same report again. One of a new process is news of its directory, though none of its replica."""
    known = binding.cluster.controller.controller.image.brokers[action.broker]
    failed = binding.extension(DirectoriesOnCluster).places[action.broker].id
    return None if str(failed) in known.directories else await report_offline(binding, action.broker)


async def replica_online(binding: ClusterBinding, action: ReplicaOnline, before: State) -> None:
    told = await binding.broker(action.broker).directory_failures.assign()
    assert told == 1, "the broker tells where its replica is"


async def refuse_replica_online(binding: ClusterBinding, action: ReplicaOnline, before: State) -> ErrorCode | None:
    """A report of what the controller knows."""
    number, image = action.broker, binding.cluster.controller.controller.image
    topic = image.topics.get(TOPIC)
    known = None if topic is None else topic.directories.get((PARTITION, number))
    if known is None:
        return None
    told = {(TOPIC, PARTITION): (binding.topic_id, UUID(known))}
    request = assignment_request(number, image.brokers[number].broker_epoch, told)
    response = await to_controller(binding, request)
    error: ErrorCode = response.error_code or response.directories[0].topics[0].partitions[0].error_code
    return error


async def apply_metadata(binding: ClusterBinding, action: ApplyMetadata, before: State) -> None:
    """A replica that is made anew may be in another directory than the one before it, and the broker says so.

    Beside a failed directory it does nothing before the controller knows: then its broker reads the metadata again.
    """
    number, mine = action.broker, binding.extension(DirectoriesOnCluster)
    await steps.apply_metadata(binding, action, before)
    hosted = binding.hosted(number)
    is_held_back = hosted is not None and hosted.replica.leader_epoch == NONE
    if mine.is_news(number) and (is_held_back or mine.has_something(number)):
        await binding.broker(number).directory_failures.assign()
    if is_held_back:
        await steps.apply_metadata(binding, action, before)


async def lose_tail(binding: ClusterBinding, action: LoseTail, before: State) -> None:
    """Every record is a batch of its own, and all are of one size."""
    medium, memory = medium_of(binding.cluster, action.broker), binding.memory[action.broker]
    path = f"{binding.extension(DirectoriesOnCluster).places[action.broker].path}/{TOPIC}-{PARTITION}"
    for name in medium.list_directory(path):
        if name.endswith(LOG_SUFFIX):
            kept = max(0, action.kept - int(name.removesuffix(LOG_SUFFIX))) * RECORD_SIZE
            segment = medium.open(f"{path}/{name}")
            segment.truncate(min(kept, segment.size))
            segment.sync()
            segment.close()
    memory.log, memory.flushed = memory.log[: action.kept], action.kept


async def lose_note(binding: ClusterBinding, action: LoseNote, before: State) -> None:
    """Another directory has failed meanwhile, and nothing of this machine is in it."""
    medium, places = medium_of(binding.cluster, action.broker), binding.extension(DirectoriesOnCluster).places
    paths = binding.broker(action.broker).replicas.directories.paths
    path = next(path for path in paths if action.broker not in places or path != places[action.broker].path)
    medium.remove(f"{path}/{CLEAN_SHUTDOWN}")
    medium.sync_directory(path)
    binding.extension(ShutdownOnCluster).notes[action.broker] = NONE


async def stop(binding: ClusterBinding, action: Stop | StopUnasked, before: State) -> None:
    """A directory that has failed is not closed: neither flushed nor noted, and nobody knows yet what it kept."""
    number, mine, memory = action.broker, binding.extension(DirectoriesOnCluster), binding.memory[action.broker]
    lost = mine.lost.pop(number, None) or mine.left.pop(number, None)
    if lost is not None:
        mine.failed.add(number)
        memory.log = lost.replica.log
        keep_pages(binding.cluster, number, mine.places[number].path)
    await shutdown.STEPS.perform(binding, action, before)
    if lost is not None:
        memory.log, memory.flushed, memory.checkpoint = lost.replica.log, lost.replica.flushed, lost.replica.checkpoint
        binding.extension(ShutdownOnCluster).notes[number] = NONE


def keep_pages(cluster: Cluster, number: int, path: str) -> None:
    """Whatever was written below a path is there when the process has ended."""
    medium = medium_of(cluster, number)
    for name in medium.files():
        if name.startswith(f"{path}/"):
            file = medium.open(name)
            file.sync()
            file.close()
            medium.sync_directory(name.rpartition("/")[0])
    medium.sync_directory(path)


async def restart(binding: ClusterBinding, action: faults.Restart, before: State) -> None:
    """A new process has its directory back, with what the disk kept."""
    number, mine, cluster = action.broker, binding.extension(DirectoriesOnCluster), binding.cluster
    cluster.heal_disk(number)
    if number in binding.registration.offline_replicas:
        where = Place(mine.places[number].path, UUID(int=mine.places[number].id.int + 1))
        cluster_id = binding.broker(number).registration.cluster_id
        write_identity(cluster.host.disk(broker_name(number)), where.path, Identity(cluster_id, number, where.id))
        mine.places[number] = where
    mine.failed.discard(number)
    await steps.restart(binding, action, before)


async def crash(binding: ClusterBinding, action: faults.Crash, before: State) -> None:
    """What could not be deleted is on the disk."""
    left = binding.extension(DirectoriesOnCluster).left.get(action.broker)
    if left is not None:
        memory = binding.memory[action.broker]
        memory.log, memory.checkpoint = left.replica.log, left.replica.checkpoint
    await steps.crash(binding, action, before)


STEPS: Final = Steps[ClusterBinding, [State], Awaitable[None]](
    on(FailDirectory, fail_directory),
    on(ReplicaOffline, replica_offline),
    on(ReplicaOnline, replica_online),
    on(ApplyMetadata, apply_metadata),
    on(LoseTail, lose_tail),
    on(LoseNote, lose_note),
    on(Stop, stop),
    on(StopUnasked, stop),
    on(faults.Crash, crash),
    on(faults.Restart, restart),
)


class DirectoriesOnCluster(ClusterExtension):
    """Replicas that go with their directories, and what the controller knows of that."""

    extends = Directories
    config = MappingProxyType({"log.dirs": ",".join(NAMES)})
    steps = STEPS
    refusals = Steps(on(ReplicaOffline, refuse_replica_offline), on(ReplicaOnline, refuse_replica_online))

    def __init__(self, binding: ClusterBinding) -> None:
        super().__init__(binding)
        self.lost: dict[int, Lost] = {}
        """The replicas of running brokers that went with their directories."""
        self.left: dict[int, Lost] = {}
        """Those that were taken away since: a failed directory still has the log."""
        self.failed: set[int] = set()
        """The brokers whose directory has failed in the life of their last process."""
        self.places: dict[int, Place] = {}
        """Where each broker has its replica, or had it last."""
        self.seen: dict[int, Replica] = {}
        """Each broker as it was last."""

    async def prepared(self, cluster: Cluster) -> None:
        """Every broker tells where its replica is."""
        for broker in cluster.brokers:
            await broker.directory_failures.assign()

    def can_perform(self, action: Action, before: State) -> bool:
        if isinstance(action, FailDirectory):
            others = len(self.binding.broker(action.broker).replicas.directories.online) > 1
            return others and is_registered(before, action.broker) and self.binding.hosted(action.broker) is not None
        if isinstance(action, ReplicaOffline):
            return self.is_known(action.broker)
        if isinstance(action, ApplyMetadata) and action.broker in self.lost:
            return self.known_as(action.broker) is not None or action.broker not in self.binding.registration.replicas
        if isinstance(action, ReplicaOnline) and not action.guard(self.binding.machine, before):
            return self.has_something(action.broker)
        if isinstance(action, faults.Crash) and (lost := self.lost.get(action.broker) or self.left.get(action.broker)):
            return action.kept >= lost.flushed
        return True

    def known_as(self, number: int) -> str | None:
        """The directory of a broker's replica, as the controller knows it."""
        topic = self.binding.cluster.controller.controller.image.topics.get(TOPIC)
        return None if topic is None else topic.directories.get((PARTITION, number))

    def is_known(self, number: int) -> bool:
        """Whether the controller has a broker's replica where it was last."""
        return number in self.places and self.known_as(number) == str(self.places[number].id)

    def is_news(self, number: int) -> bool:
        """Whether a broker has to say that its replica is elsewhere than the controller knows, or that it has one."""
        where, known = self.binding.broker(number).replicas.directories.where(TOPIC, PARTITION), self.known_as(number)
        registration = self.binding.registration
        if where is None or known == str(where.id):
            return False
        return number in registration.replicas and number not in registration.offline_replicas

    def has_something(self, number: int) -> bool:
        """Whether a broker tells that its replica is there; one that nobody leads and is empty it takes for lost."""
        hosted, told = self.binding.hosted(number), self.binding.told(number)
        if hosted is None or told is None:
            return False
        return told.leader != NO_LEADER or number in told.isr or bool(hosted.log.log_end_offset)

    def has_log(self, number: int) -> bool:
        return number in self.lost or number in self.left

    def error_without_topic(self, number: int) -> Error | None:
        """A process that has read no metadata yet may have lost its replica all the same."""
        return Error.KAFKA_STORAGE_ERROR if number in self.lost else None

    def explains(self, number: int, error: ErrorCode) -> bool:
        return number in self.failed and error is ErrorCode.kafka_storage_error

    def performed(self, action: Action) -> None:
        if isinstance(action, faults.Crash):
            self.failed.discard(action.broker)
            self.lost.pop(action.broker, None)
            self.left.pop(action.broker, None)

    # --- as the specification sees it ----------------------------------------------------------------------------

    def controller(self, seen: Controller) -> Controller:
        return with_part(seen, OfflineReplicas(abstraction.ids(self.binding.registration.offline_replicas)))

    def absent(self, number: int, seen: Replica) -> Replica | None:
        """What the disk may have, and the newest that the broker knows: by its replica, or by the metadata since."""
        told = self.binding.told(number)
        if told is not None and number not in told.replicas:
            if number in self.lost:
                self.left[number] = self.lost.pop(number)
            self.failed.discard(number)
        if number not in self.lost:
            return None
        lost = self.lost[number].replica
        return attrs.evolve(
            seen,
            log=lost.log,
            flushed=lost.flushed,
            high_watermark=lost.high_watermark,
            checkpoint=lost.checkpoint,
            controller_epoch=max(lost.controller_epoch, seen.controller_epoch),
            leader_epoch=max(lost.leader_epoch, seen.leader_epoch),
            partition_epoch=max(lost.partition_epoch, seen.partition_epoch),
        )

    def replica(self, number: int, beside: Replica, seen: Replica) -> Replica:
        if seen.running and self.binding.hosted(number) is not None:
            where = self.binding.broker(number).replicas.directories.where(TOPIC, PARTITION)
            assert where is not None, "what is hosted is somewhere"
            self.places[number] = Place(where.path, where.id)
            self.left.pop(number, None)
        if number in self.left:
            seen = with_part(seen, LeftLog(self._look_at_left(self.left[number].replica)))
        self.seen[number] = seen
        return with_part(seen, FailedDirectory(number in self.failed))

    def _look_at_left(self, lost: Replica) -> Replica:
        """What the machine says that a disk keeps of it."""
        kept = attrs.evolve(self.binding.machine.survivor(lost, lost.log_end_offset), flushed=lost.flushed)
        return with_part(kept, FailedDirectory(failed=True))
