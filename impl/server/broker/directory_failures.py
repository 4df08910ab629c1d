"""Where replicas are, and a log directory that fails: what the controller is told (KIP-112, KIP-858).

The replicas in a failed directory are offline until the broker starts again. The next heartbeat names the directory,
and is sent at once: the controller then elects other leaders for what the broker led, and takes it out of the ISRs. For
that the controller must know the directory of each replica. A broker with several directories tells it
(AssignReplicasToDirs); a replica that is lost before the broker told its directory is assigned to `LOST`, and so is one
whose log cannot be opened or made, or that is in no directory as far as the controller knows.

A replica whose log was removed while the broker was down is in no directory (`lost_replicas`). That is told before the
broker is unfenced. Of a replica whose log is damaged, and about to be cut, it is told while the broker runs
(`withdrawn_replicas`).

A broker whose last log directory fails stops.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final
from uuid import UUID
from weakref import WeakKeyDictionary

import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.server import trace
from tidegauge.impl.server.broker.controller_link import RegistrationRefusedError
from tidegauge.impl.server.broker.lost_replicas import DAMAGED, UNASSIGNED, LostReplicas
from tidegauge.impl.server.broker.partition import Partition, TopicPartition
from tidegauge.impl.server.broker.registration import UNREGISTERED
from tidegauge.impl.storage.log_directory import LogDirectory
from tidegauge.impl.wire.channel import NoResponseError, UnreachableError

if TYPE_CHECKING:
    from kio.schema.assign_replicas_to_dirs.v0.response import AssignReplicasToDirsResponse

    from tidegauge.impl.server.broker.controller_link import ControllerLink
    from tidegauge.impl.server.broker.membership import Membership
    from tidegauge.impl.server.broker.metadata_cache import MetadataCache
    from tidegauge.impl.server.broker.registration import Registration
    from tidegauge.impl.server.broker.replica_manager import ReplicaManager
    from tidegauge.impl.server.broker.tasks import BrokerTasks
    from tidegauge.impl.server.trace.tracer import Tracer

LOGGER: Final = logging.getLogger(__name__)

LOST: Final = UUID(int=1)
"""The directory id of a replica whose directory is offline (KIP-858)."""


class DirectoryFailures:
    """What one broker tells the controller of its log directories."""

    def __init__(
        self,
        replicas: ReplicaManager,
        registration: Registration,
        membership: Membership,
        metadata: MetadataCache,
        controller: ControllerLink,
        tasks: BrokerTasks,
        *,
        tracer: Tracer,
        timers: bool,
    ) -> None:
        """`timers`: whether the controller is told of a failure as soon as it happens."""
        self._replicas = replicas
        self._registration = registration
        self._membership = membership
        self._metadata = metadata
        self._controller = controller
        self._tasks = tasks
        self._tracer = tracer
        self._timers = timers
        self._assigned: WeakKeyDictionary[Partition, UUID] = WeakKeyDictionary()
        """The directory of each replica, as the controller knows it."""
        self._assigned_in = UNREGISTERED
        """The broker epoch in which it was told."""
        self._looked_in = UNREGISTERED
        """The broker epoch in which a broker with one directory has looked whether the controller knows it."""
        self._lost: dict[TopicPartition, str] = {}
        """Replicas that were lost before the controller knew their directory -> their topic's id, "" if not known."""
        self._without_log = LostReplicas(registration.broker_id, replicas.directories)
        self._awaited: set[TopicPartition] = set()
        """Replicas that the controller takes for lost: their directories are told when they have something."""
        self._assigning = trio.Lock()
        self.on_assigned: Callable[[Partition], None] = lambda partition: None
        """Called with each replica whose directory the controller has been told."""

    def directory_failed(self, directory: LogDirectory, lost: list[Partition]) -> None:
        """A directory is offline, and these replicas with it: tell the controller."""
        if self._tracer.trace is not None:
            replica = trace.events.LostReplica
            self._tracer.record(
                trace.events.LogDirectoryFailed,
                path=directory.path,
                lost=tuple(replica(*one.key, one.log.log_end_offset, one.log.log_start_offset) for one in lost),
            )
        assigned = self._assignments()
        self._lost.update({one.key: one.topic_id for one in lost if assigned.get(one, UNASSIGNED) == UNASSIGNED})
        if not self._replicas.directories.online:
            self._tasks.halt(f"every log directory has failed, the last one {directory.path}")
        elif self._timers:
            self._tasks.start_soon(self._report)

    def replica_damaged(self, partition: Partition, reason: str) -> None:
        """A replica is offline, because its log is damaged: tell the controller that it is lost."""
        log_event(
            LOGGER,
            logging.ERROR,
            "replica given up",
            partition=f"{partition.topic}-{partition.index}",
            why=reason,
            next="another one leads, if one is in sync. Its repair failed, or it was damaged again and again: look at "
            "the disk, then restart the broker, or move the replica away and back",
        )
        if self._tracer.trace is not None:
            log = partition.log
            lost = (trace.events.LostReplica(*partition.key, log.log_end_offset, log.log_start_offset),)
            self._tracer.record(trace.events.ReplicaDamaged, path=log.directory, lost=lost)
        self._lost[partition.key] = partition.topic_id
        if self._timers:
            self._tasks.start_soon(self._report)

    def replica_withdrawn(self, partition: Partition, reason: str) -> None:
        """A replica is offline until nobody counts on its log, which is damaged: tell the controller."""
        log_event(
            LOGGER,
            logging.ERROR,
            "replica withdrawn",
            partition=f"{partition.topic}-{partition.index}",
            why=reason,
            next="the controller is told, and another replica leads if one is in sync; this one is repaired then",
        )
        if self._tracer.trace is not None:
            log = partition.log
            start = max(log.damage.start, log.log_start_offset)
            self._tracer.record(
                trace.events.WithdrawReplica, *partition.key, start=start, log_end_offset=log.log_end_offset
            )
        if self._timers:
            self._tasks.start_soon(self._report)

    def replica_held_back(self) -> None:
        """A replica waits until the controller knows its directory: tell it."""
        if self._timers:
            self._tasks.start_soon(self._report)

    def replica_without_log(self, key: TopicPartition, partition: Partition | None) -> None:
        """A replica is offline, because its log cannot be opened or made: tell the controller."""
        if self._tracer.trace is not None:
            ends = (None, 0) if partition is None else (partition.log.log_end_offset, partition.log.log_start_offset)
            lost = (trace.events.LostReplica(*key, *ends),)
            self._tracer.record(trace.events.LogNotOpened, path="", lost=lost)
        self._lost[key] = ""
        if self._timers and self._replicas.directories.online:
            self._tasks.start_soon(self._report)

    async def _report(self) -> None:
        """Send a heartbeat at once. Should it be lost, the next one says the same."""
        try:
            await self.assign()
            await self._membership.heartbeat()
        except (UnreachableError, NoResponseError, RegistrationRefusedError):
            return

    async def assign(self) -> int:
        """Tell the controller of replicas whose directory it does not know; returns how many.

        Raises UnreachableError or NoResponseError; the next call tells the same.
        """
        async with self._assigning:
            unassigned = self._unassigned()
            if not unassigned:
                self._note_look()
                return 0
            from tidegauge.impl.server.broker.assign_replicas import assignment_request

            broker_id, broker_epoch = self._registration.broker_id, self._registration.broker_epoch
            request = assignment_request(broker_id, broker_epoch, unassigned)
            hosted = [partition for partition in self._replicas if partition.key in unassigned]
            response: AssignReplicasToDirsResponse = await self._controller.forward(request)
            if response.error_code is not ErrorCode.none:
                return 0
            self._note_look()
            for key in unassigned:
                self._lost.pop(key, None)
            for key, (_, told) in unassigned.items():
                (self._awaited.add if told in (UNASSIGNED, DAMAGED) else self._awaited.discard)(key)
            for partition in hosted:
                self._assignments()[partition] = unassigned[partition.key][1]
                self._note_assigned(partition, unassigned[partition.key][1])
            return len(unassigned)

    def _note_assigned(self, partition: Partition, told: UUID) -> None:
        """The controller knows where a replica is, if it has not moved on."""
        directory = self._replicas.directories.where(*partition.key)
        if directory is not None and directory.id == told and not partition.is_gone:
            self.on_assigned(partition)

    def _note_look(self) -> None:
        """All replicas have been looked at, if the metadata are as new as the registration."""
        if self._metadata.offset_in_force > self._registration.broker_epoch:
            self._looked_in = self._registration.broker_epoch

    def settle(self) -> None:
        """This process is unfenced: it may lead."""
        self._without_log.settle()

    def _assignments(self) -> WeakKeyDictionary[Partition, UUID]:
        """What the controller knows. A broker that has registered again must tell everything again."""
        if self._assigned_in != self._registration.broker_epoch:
            self._assigned_in = self._registration.broker_epoch
            self._assigned.clear()
        return self._assigned

    def _unassigned(self) -> dict[TopicPartition, tuple[str, UUID]]:
        """Replica -> (topic id, directory id) for replicas whose directory the controller does not know."""
        directories, assigned = self._replicas.directories, self._assignments()
        unassigned = {key: (topic_id, LOST) for key, topic_id in self._lost_ones()}
        if self._registration.unfenced.is_set():
            unassigned |= self._withdrawn_ones()
        has_several = len(directories.paths) > 1
        for partition in self._looked_at(is_all=has_several):
            directory = directories.where(*partition.key)
            topic = self._metadata.image.topics.get(partition.topic)
            if topic is None or directory is None or not partition.topic_id or partition.index not in topic.partitions:
                continue
            known = topic.directories.get((partition.index, self._registration.broker_id))
            if self._without_log.is_told(partition, topic):
                if not self._without_log.is_found(partition, topic):
                    self._awaited.add(partition.key)
                    if known != str(UNASSIGNED):  # its directory was offline, and is back
                        unassigned[partition.key] = (partition.topic_id, UNASSIGNED)
                    continue
            elif not self._registration.unfenced.is_set() and self._without_log.is_lost(partition, topic):
                self._without_log.tell(partition)
                unassigned[partition.key] = (partition.topic_id, UNASSIGNED)
                continue
            # A broker with one directory tells nothing, unless the controller believes that the replica is elsewhere.
            is_news = assigned.get(partition) != directory.id
            if is_news if has_several else known not in (None, str(directory.id)):
                unassigned[partition.key] = (partition.topic_id, directory.id)
        return unassigned

    def _lost_ones(self) -> Iterator[tuple[TopicPartition, str]]:
        """Replicas that are lost, with their topics' ids.

        Without a log, or with one that has lost the id, it is the metadata's.
        """
        for (topic, index), topic_id in list(self._lost.items()):
            known = self._metadata.image.topics.get(topic)
            if self._replicas.get(topic, index) is not None:  # it has gone and come back
                del self._lost[topic, index]
            elif topic_id:
                yield (topic, index), topic_id
            elif known is not None and index in known.partitions:
                yield (topic, index), known.topic_id

    def _withdrawn_ones(self) -> dict[TopicPartition, tuple[str, UUID]]:
        """Replicas that are about to be cut; who is lost for the controller is found first, to be taken out again."""
        told = {}
        for partition, is_lost in self._replicas.hosted.withdrawn.unreported(self._metadata.image):
            directory = self._replicas.directories.where(*partition.key)
            if directory is not None and partition.topic_id:
                told[partition.key] = partition.topic_id, directory.id if is_lost else DAMAGED
        return told

    def _looked_at(self, *, is_all: bool) -> Iterable[Partition]:
        """The replicas of which the controller may have to be told: all of them after a registration."""
        if is_all or self._looked_in != self._registration.broker_epoch:
            return self._replicas
        return [partition for key in sorted(self._awaited) if (partition := self._replicas.get(*key)) is not None]
