"""A decision: computed on the committed image, proposed as one list of records, applied once they are committed.

A `Decision` collects the records of one decision. Its image is the committed one with these records applied, so that a
rule that runs later in the same decision sees what an earlier one has written. The committed image does not change: the
first record makes a draft of it (`ClusterImage.draft`). `propose` ends the decision and gives a `Proposal`: the records
to append to the metadata log as one, the image to go on with and the response to send when they are committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.records import MetadataRecord, PartitionChangeRecord
from tidegauge.impl.partition.registration import PartitionRegistration

Response = TypeVar("Response", covariant=True)
Given = TypeVar("Given")


NO_SESSIONS: Final[Mapping[int, int]] = MappingProxyType({})


class MetadataAppended(NamedTuple):
    """The metadata log is committed up to `end_offset`: brokers that wait for it can fetch."""

    end_offset: int


class LeaderElected(NamedTuple):
    """A partition has another leader (-1: none). An unclean election may have lost committed records."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    unclean: bool


ControllerEffect: TypeAlias = MetadataAppended | LeaderElected


class Proposal(NamedTuple, Generic[Response]):
    """One decision that is not committed yet; without records there is nothing to commit.

    One is made with every request and heartbeat: a NamedTuple costs half of what a frozen class does.
    """

    base_offset: int
    """The number of records in the image on which it was made. It is void on any other."""
    records: tuple[MetadataRecord, ...]
    image: ClusterImage
    """The image with the records applied."""
    response: Response
    elections: tuple[LeaderElected, ...] = ()
    sessions: Mapping[int, int] = NO_SESSIONS
    """Broker id -> new deadline in ms of its session. Sessions are not in the log."""


class LedPartition(NamedTuple):
    """A partition with a leader if it can have one, and whether that leader was elected uncleanly."""

    registration: PartitionRegistration
    unclean: bool = False


class Decision:
    """The records of one decision so far, and the image with them applied."""

    __slots__ = ("_base_offset", "_elections", "_records", "image")

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self._base_offset = image.offset
        self._records: list[MetadataRecord] = []
        self._elections: list[LeaderElected] = []

    def write(self, record: MetadataRecord) -> None:
        """Add a record to the decision; `image` shows it from now on."""
        if not self._records:
            self.image = self.image.draft()
        self.image.apply(record)
        self._records.append(record)

    def change_partition(
        self, topic: str, partition: int, changed: LedPartition, *, begins_epoch: bool = False
    ) -> None:
        """Write a partition's change, if there is one; a change of leader is an election.

        `begins_epoch`: a leader epoch begins in any case, though the leader stays.
        """
        old = self.image.topics[topic].partitions[partition]
        new = in_sync_found(changed.registration)
        record = change_record(topic, partition, old, new, begins_epoch=begins_epoch)
        if record is None:
            return
        self.write(record)
        if record.leader is not None:
            leader, epoch = new.leader, old.leader_epoch + 1
            self._elections.append(LeaderElected(topic, partition, leader, epoch, changed.unclean))

    def propose(self, response: Given, sessions: Mapping[int, int] | None = None) -> Proposal[Given]:
        """End the decision."""
        records, elections = tuple(self._records), tuple(self._elections)
        return Proposal(self._base_offset, records, self.image, response, elections, sessions or NO_SESSIONS)


def unwritten(image: ClusterImage, response: Given, sessions: Mapping[int, int] = NO_SESSIONS) -> Proposal[Given]:
    """A decision that writes no record."""
    return Proposal(image.offset, (), image, response, (), sessions)


def change_record(
    topic: str,
    partition: int,
    old: PartitionRegistration,
    new: PartitionRegistration,
    *,
    begins_epoch: bool = False,
) -> PartitionChangeRecord | None:
    """The record that turns `old` into `new`; None when they differ in nothing that a broker acts on.

    No broker acts on the last known leader, and the epochs only count changes.
    """
    begins_epoch = begins_epoch or new.leader != old.leader or removes_replicas(old, new)
    leader = new.leader if begins_epoch else None
    isr = None if new.isr == old.isr else tuple(sorted(new.isr))
    elr = None if new.elr == old.elr else tuple(sorted(new.elr))
    replicas = None if new.replicas == old.replicas else new.replicas
    adding = None if new.adding_replicas == old.adding_replicas else new.adding_replicas
    removing = None if new.removing_replicas == old.removing_replicas else new.removing_replicas
    offline = None if new.offline_replicas == old.offline_replicas else tuple(sorted(new.offline_replicas))
    lost = None if new.lost_replicas == old.lost_replicas else tuple(sorted(new.lost_replicas))
    if leader is None and isr is elr is replicas is adding is removing is offline is lost is None:
        return None
    last_known = None if new.last_known_leader == old.last_known_leader else new.last_known_leader
    return PartitionChangeRecord(
        topic, partition, leader, isr, elr, last_known, replicas, adding, removing, offline, lost
    )


def in_sync_found(registration: PartitionRegistration) -> PartitionRegistration:
    """Who is in sync is not lost: its broker may die before it reports where the replica is, and what the replica has
    by then may be all that is left.
    """
    return registration._replace(lost_replicas=registration.lost_replicas - registration.isr)


def removes_replicas(old: PartitionRegistration, new: PartitionRegistration) -> bool:
    """Whether a replica leaves the list. A leader epoch begins then, since the replica may come back empty: what it
    fetched before must not count.
    """
    return new.replicas != old.replicas and not set(old.replicas) <= set(new.replicas)
