"""Replicas that were found damaged while their broker runs: withdrawn, and hosted again when they may be repaired.

Theory of operation
-------------------
Others count on what a replica has, and on what it has fetched. So a replica that meets damage is *withdrawn* first: it
neither leads nor follows, its log stays open, and requests for it get KAFKA_STORAGE_ERROR. The controller is told that
it is in none of the broker's directories. It takes the replica out of ISR and ELR, and begins a leader epoch
(`impl.controller.directories`). A fetch from before is of an earlier epoch then, and counts no more.

When the metadata show both, the replica is hosted again, and goes by the rules of `damaged_replicas`: as a follower it
is repaired, and if nobody else is in sync by now it leads on.

A disk that damages again and again is not mended by that: after `MOST_RETURNS` a replica is given up, until the broker
starts again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final

from tidegauge.impl.partition.registration import PartitionRegistration

if TYPE_CHECKING:
    from tidegauge.impl.metadata.image import ClusterImage
    from tidegauge.impl.server.broker.partition import Partition, TopicPartition

MOST_RETURNS: Final = 3
"""How often a replica is hosted again in the life of a process."""


def may_return(registration: PartitionRegistration, broker_id: int, epoch: int) -> bool:
    """Whether a replica that took part in leader epochs up to `epoch` may be repaired, or lead on alone."""
    if registration.leader_epoch <= epoch:
        return False
    leads_alone = registration.leader == broker_id and registration.isr <= {broker_id}
    return leads_alone or (broker_id not in registration.isr and broker_id not in registration.elr)


class WithdrawnReplicas:
    """The replicas of one broker that are withdrawn."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self._withdrawn: dict[TopicPartition, Partition] = {}
        """As they were hosted."""
        self._times: Counter[tuple[TopicPartition, str]] = Counter()
        """How often a replica of a topic with this id was withdrawn."""

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._withdrawn.values()))

    def may_withdraw(self, partition: Partition) -> bool:
        """Whether a replica that has met damage can be repaired while the broker runs."""
        return bool(partition.log.damage) and self._times[partition.key, partition.topic_id] < MOST_RETURNS

    def withdraw(self, partition: Partition) -> None:
        """It is hosted no more for now, and its log stays open."""
        partition.replica.resign()
        self._times[partition.key, partition.topic_id] += 1
        self._withdrawn[partition.key] = partition

    def returned(self, key: TopicPartition, registration: PartitionRegistration) -> Partition | None:
        """A replica that is to be hosted again, as it was before; None while there is none."""
        partition = self._withdrawn.get(key)
        if partition is None or not may_return(registration, self._broker_id, partition.replica.leader_epoch):
            return None
        return self._withdrawn.pop(key)

    def forget(self, keys: Collection[TopicPartition]) -> list[Partition]:
        """Those of these replicas that were withdrawn: they are gone for this process."""
        return [self._withdrawn.pop(key) for key in list(self._withdrawn) if key in keys]

    def unreported(self, image: ClusterImage) -> Iterator[tuple[Partition, bool]]:
        """Those that the controller has yet to take out, and whether it takes them for lost already.

        Of such a one it has to know first where it is.
        """
        for partition in self._withdrawn.values():
            registration = image.partition(*partition.key)
            if registration is None or self._broker_id not in registration.replicas or not registration.isr:
                continue
            if not may_return(registration, self._broker_id, partition.replica.leader_epoch):
                yield partition, self._broker_id in registration.lost_replicas
