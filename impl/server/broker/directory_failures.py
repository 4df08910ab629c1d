"""A log directory that fails: what the rest of the broker, and the controller, are told (KIP-112, KIP-858).

The replicas in it are gone for this broker until it starts again. The controller learns that from the next heartbeat,
which is sent at once: it finds other leaders for what this broker led, and takes it out of the ISRs. For that it has to
know which replica is in which directory; a broker with more than one therefore says so (AssignReplicasToDirs) for each
replica that it hosts, and a replica that was lost before it had said so is assigned to `LOST`.

A broker that has lost its last directory stops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import UUID
from weakref import WeakKeyDictionary

import trio
from kio.schema.assign_replicas_to_dirs.v0 import request as wire_request
from kio.schema.assign_replicas_to_dirs.v0.request import AssignReplicasToDirsRequest
from kio.schema.errors import ErrorCode

from tidegauge.impl.server import trace
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.storage.log_directory import LogDirectory
from tidegauge.impl.wire.channel import NoAnswerError, UnreachableError
from tidegauge.impl.wire.primitives import BrokerId, i32, i64, topic_uuid

if TYPE_CHECKING:
    from kio.schema.assign_replicas_to_dirs.v0.response import AssignReplicasToDirsResponse

    from tidegauge.impl.server.broker_server import Broker

TopicPartition = tuple[str, int]

LOST: Final = UUID(int=1)
"""The directory id of a replica whose directory is offline (KIP-858)."""


class DirectoryFailures:
    """What one broker tells of its log directories."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._told: WeakKeyDictionary[Partition, UUID] = WeakKeyDictionary()
        """The directory of each replica, as the controller knows it; of one that goes it forgets it."""
        self._lost: dict[TopicPartition, str] = {}
        """Replicas that were lost before the controller knew their directory -> their topic's id."""
        self._assigning = trio.Lock()
        broker.replicas.on_directory_failure = self._failed

    @property
    def offline_ids(self) -> tuple[UUID, ...]:
        """Of the directories that have failed since the broker registered."""
        return tuple(self._broker.replicas.directories.offline_ids)

    @property
    def online_ids(self) -> tuple[UUID, ...]:
        """Of the directories that work."""
        return tuple(directory.id for directory in self._broker.replicas.directories.online)

    def _failed(self, directory: LogDirectory, lost: list[Partition]) -> None:
        broker = self._broker
        if broker.tracer.trace is not None:
            gone = trace.events.LostReplica
            broker.tracer.record(
                trace.events.LogDirectoryFailed,
                path=directory.path,
                lost=tuple(gone(*one.key, one.log.log_end_offset, one.log.log_start_offset) for one in lost),
            )
        self._lost.update({one.key: one.topic_id for one in lost if one not in self._told})
        if not broker.replicas.directories.online:
            broker.tasks.halt(f"every log directory has failed, the last one {directory.path}")
        elif broker.timers:
            broker.tasks.start_soon(self._tell)

    async def _tell(self) -> None:
        """A heartbeat at once; should it be lost, the next one says the same."""
        try:
            await self.assign()
            await self._broker.actions.heartbeat()
        except (UnreachableError, NoAnswerError):
            return

    async def assign(self) -> int:
        """Tell the controller of replicas whose directory it does not know; returns how many.

        Raises UnreachableError or NoAnswerError; the next call tells them again.
        """
        async with self._assigning:
            news = self._unassigned()
            if not news:
                return 0
            request = self._request(news)
            meant = [partition for partition in self._broker.replicas if partition.key in news]
            answer: AssignReplicasToDirsResponse = await self._broker.controller.forward(request)
            if answer.error_code is not ErrorCode.none:
                return 0
            for key in news:
                self._lost.pop(key, None)
            self._told.update({partition: news[partition.key][1] for partition in meant})
            return len(news)

    def _unassigned(self) -> dict[TopicPartition, tuple[str, UUID]]:
        """Replica -> (topic id, directory id) of those that the controller does not know of, or not rightly."""
        partitions = self._broker.replicas
        news = {key: (topic_id, LOST) for key, topic_id in self._lost.items()}
        if len(partitions.directories.paths) > 1:
            for partition in partitions:
                directory = partitions.directories.where(*partition.key)
                known = self._broker.metadata.image.partition(*partition.key) is not None
                if known and directory is not None and self._told.get(partition) != directory.id:
                    news[partition.key] = (partition.topic_id, directory.id)
        return news

    def forget(self) -> None:
        """The broker has registered anew: everything has to be told again."""
        self._told.clear()

    def _request(self, news: dict[TopicPartition, tuple[str, UUID]]) -> AssignReplicasToDirsRequest:
        by_directory: dict[UUID, dict[str, list[int]]] = {}
        for (_, index), (topic_id, directory) in news.items():
            by_directory.setdefault(directory, {}).setdefault(topic_id, []).append(index)
        return AssignReplicasToDirsRequest(
            broker_id=BrokerId(self._broker.id),
            broker_epoch=i64(self._broker.registration.broker_epoch),
            directories=tuple(
                wire_request.DirectoryData(
                    id_=directory,
                    topics=tuple(
                        wire_request.TopicData(
                            topic_id=topic_uuid(topic_id),
                            partitions=tuple(wire_request.PartitionData(partition_index=i32(each)) for each in indexes),
                        )
                        for topic_id, indexes in topics.items()
                    ),
                )
                for directory, topics in by_directory.items()
            ),
        )
