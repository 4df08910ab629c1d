"""Log directories: in which one each replica is, and what it means that one is offline (KIP-858).

A broker names its directories when it registers, and tells in which of them each replica is. When it says that a
directory has failed, its replicas there are *offline*: they leave the ISR and lead no more, as if the broker had been
fenced, while the broker's other replicas go on. They stay eligible (ELR) as a fenced broker's do, for what they hold is
not lost as far as anybody knows, but they are not elected while they are offline.

A new process of the broker has its directories looked at again. What was in one that it does not name stays offline,
until the broker says that it has the replica elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.replica_lists import ReplicaLists
from tidegauge.impl.metadata.records import BrokerRegistrationChangeRecord, ReplicaDirectoryRecord

LOST: Final = "00000000-0000-0000-0000-000000000001"
"""The directory of a replica that was lost before its broker had said where it is."""


class Directories(ReplicaLists):
    """The controller's part in where replicas lie on their brokers."""

    def assign_directory(self, broker_id: int, topic: str, partition: int, directory: str) -> ErrorCode:
        """A broker says in which of its directories (by id) a replica is, or that it is lost."""
        registration = self.image.partition(topic, partition)
        if registration is None:
            return ErrorCode.unknown_topic_or_partition
        if broker_id not in registration.replicas:
            return ErrorCode.not_leader_or_follower
        if self.image.topics[topic].directories.get((partition, broker_id)) != directory:
            self._write(ReplicaDirectoryRecord(topic, partition, broker_id, directory))
        online = directory in self.image.brokers[broker_id].directories
        self._set_offline(broker_id, topic, partition, not online)
        self._commit()
        return ErrorCode.none

    def directories_offline(self, broker_id: int, offline: Collection[str]) -> bool:
        """A broker says that these of its directories have failed; False when that is no news."""
        broker = self.image.brokers[broker_id]
        remaining = tuple(directory for directory in broker.directories if directory not in offline)
        if remaining == broker.directories:
            return False
        self._write(BrokerRegistrationChangeRecord(broker_id, broker.broker_epoch, directories=remaining))
        self._look_at_directories(broker_id)
        self._commit()
        return True

    def _look_at_directories(self, broker_id: int) -> None:
        """Every replica of the broker is offline or not, as its directory is."""
        online = self.image.brokers[broker_id].directories
        for topic, partition, _ in list(self.image.partitions()):
            directory = self.image.topics[topic].directories.get((partition, broker_id))
            if directory is not None:
                self._set_offline(broker_id, topic, partition, directory not in online)

    def _set_offline(self, broker_id: int, topic: str, partition: int, offline: bool) -> None:
        old = self.image.partition(topic, partition)
        assert old is not None, "only partitions that exist have replicas"
        if offline == (broker_id in old.offline_replicas) or broker_id not in old.replicas:
            return
        if offline:
            new = self.without(topic, old, broker_id, clean=True)
            new = attrs.evolve(new, offline_replicas=old.offline_replicas | {broker_id})
        else:
            new = attrs.evolve(old, offline_replicas=old.offline_replicas - {broker_id})
        self._write_partition(topic, partition, old, self.with_leader(topic, new))
