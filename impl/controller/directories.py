"""Log directories: in which one each replica is, and what happens when one is offline (KIP-858).

A broker names its directories when it registers, and reports in which of them each replica is. When it reports that a
directory has failed, its replicas there are *offline*: they leave the ISR and do not lead, as if the broker had been
fenced; its other replicas are not affected. Offline replicas stay eligible (ELR) as a fenced broker's do, since their
records are not known to be lost, but they are not elected while they are offline.

A new process of the broker has its replicas compared with its directories again. A replica in a directory that the
process does not name stays offline until the broker reports it elsewhere.

A process that no longer has the log of a replica says so before it is unfenced: the replica is in no directory
(`UNASSIGNED`). It is *lost* until it is in the ISR, or the broker reports a directory that works, which it does when
the replica has records again or is in sync. What that means for elections is in `elections`.

A broker that runs says of a replica that its log is damaged (`DAMAGED`), before it cuts that log. Nobody may count on
the replica any more, neither on what it holds nor on what it has fetched. So it is taken out of ISR and ELR, and a
leader epoch begins: fetches from before it are of an earlier one. The last member of the ISR stays: it has to lead on
with what it can read, in the new epoch. Where nobody is in sync the report is refused, from a fenced broker too: who is
eligible has what is left, and an unclean election would be the next thing.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.decision import Decision, Proposal
from tidegauge.impl.controller.elections import ElectionRules
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.records import BrokerRegistrationChangeRecord, ReplicaDirectoryRecord
from tidegauge.impl.partition.registration import PartitionRegistration

LOST: Final = "00000000-0000-0000-0000-000000000001"
"""The directory of a replica that was lost before its broker reported its directory."""

UNASSIGNED: Final = "00000000-0000-0000-0000-000000000000"
"""The directory of a replica that is in none of its broker's: its log was removed while the broker was down."""

DAMAGED: Final = "00000000-0000-0000-0000-000000000003"
"""What a broker reports of a replica whose log is damaged and about to be cut; of the ids that KIP-858 reserves."""


class Directories:
    """Decides what brokers' reports about their log directories change."""

    def __init__(self, image: ClusterImage, rules: ElectionRules) -> None:
        self._image = image
        self._rules = rules

    def assign(self, broker_id: int, topic: str, partition: int, directory: str) -> Proposal[ErrorCode]:
        """A broker reports the directory (by id) of a replica, or what became of it (`UNASSIGNED`, `LOST`, `DAMAGED`).

        Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER (the broker has no such replica),
        ELIGIBLE_LEADERS_NOT_AVAILABLE (its log is damaged, and nobody is in sync).
        """
        decision = Decision(self._image)
        registration = self._image.partition(topic, partition)
        if registration is None:
            return decision.propose(ErrorCode.unknown_topic_or_partition)
        if broker_id not in registration.replicas:
            return decision.propose(ErrorCode.not_leader_or_follower)
        known = self._image.topics[topic].directories.get((partition, broker_id))
        is_told = broker_id in registration.lost_replicas
        is_late = directory == UNASSIGNED and not is_told and self._image.is_unfenced(broker_id)
        if is_late and known == UNASSIGNED:  # the same report again: the replica may be in sync by now
            return decision.propose(ErrorCode.none)
        if directory == DAMAGED or is_late:
            return self._take_out(broker_id, topic, partition, registration)
        if known != directory:
            decision.write(ReplicaDirectoryRecord(topic, partition, broker_id, directory))
        if directory != LOST:  # a directory that is offline says nothing of what is in it
            self._set_lost(decision, broker_id, topic, partition, directory == UNASSIGNED)
        online = self._is_online(self._image.brokers[broker_id].directories, directory)
        self._set_offline(decision, broker_id, topic, partition, not online)
        return decision.propose(ErrorCode.none)

    def _take_out(
        self, broker_id: int, topic: str, partition: int, registration: PartitionRegistration
    ) -> Proposal[ErrorCode]:
        """The log of a replica is damaged, and about to be cut: nobody counts on it, and a leader epoch begins."""
        decision = Decision(self._image)
        if not registration.isr:
            return decision.propose(ErrorCode.eligible_leaders_not_available)
        if broker_id in registration.lost_replicas:  # the same report again
            return decision.propose(ErrorCode.none)
        if registration.isr != {broker_id}:
            if self._image.topics[topic].directories.get((partition, broker_id)) != UNASSIGNED:
                decision.write(ReplicaDirectoryRecord(topic, partition, broker_id, UNASSIGNED))
            registration = self._rules.without(decision.image, topic, registration, broker_id, clean=False)
            registration = registration._replace(
                lost_replicas=registration.lost_replicas | {broker_id},
                offline_replicas=registration.offline_replicas - {broker_id},
            )
        led = self._rules.with_leader(decision.image, topic, registration)
        decision.change_partition(topic, partition, led, begins_epoch=self._image.is_unfenced(broker_id))
        return decision.propose(ErrorCode.none)

    def mark_offline(self, broker_id: int, offline: Collection[str]) -> Proposal[bool]:
        """A broker reports that these of its directories have failed; False when that was known."""
        decision = Decision(self._image)
        broker = self._image.brokers[broker_id]
        remaining = tuple(directory for directory in broker.directories if directory not in offline)
        if remaining == broker.directories:
            return decision.propose(False)
        decision.write(BrokerRegistrationChangeRecord(broker_id, broker.broker_epoch, directories=remaining))
        self.update_replicas(decision, broker_id)
        return decision.propose(True)

    def update_replicas(self, decision: Decision, broker_id: int) -> None:
        """Make every replica of the broker offline or online, as its directory is."""
        online = decision.image.brokers[broker_id].directories
        for topic, partition, _ in list(decision.image.partitions()):
            directory = decision.image.topics[topic].directories.get((partition, broker_id))
            if directory is not None:
                self._set_offline(decision, broker_id, topic, partition, not self._is_online(online, directory))

    def _is_online(self, directories: Collection[str], directory: str) -> bool:
        """A replica that is in no directory yet is no less there than its broker, as in Kafka."""
        return directory == UNASSIGNED or directory in directories

    def _set_lost(self, decision: Decision, broker_id: int, topic: str, partition: int, lost: bool) -> None:
        """A replica has come back without its log: neither in sync nor eligible, and the last to be elected."""
        old = decision.image.partition(topic, partition)
        assert old is not None, "only partitions that exist have replicas"
        if lost == (broker_id in old.lost_replicas):
            return
        if lost:
            new = self._rules.without(decision.image, topic, old, broker_id, clean=False)
            new = new._replace(lost_replicas=old.lost_replicas | {broker_id})
        else:
            new = old._replace(lost_replicas=old.lost_replicas - {broker_id})
        decision.change_partition(topic, partition, self._rules.with_leader(decision.image, topic, new))

    def _set_offline(self, decision: Decision, broker_id: int, topic: str, partition: int, offline: bool) -> None:
        image = decision.image
        old = image.partition(topic, partition)
        assert old is not None, "only partitions that exist have replicas"
        if offline == (broker_id in old.offline_replicas):
            return
        if offline:
            new = self._rules.without(image, topic, old, broker_id, clean=True)
            new = new._replace(offline_replicas=old.offline_replicas | {broker_id})
        else:
            new = old._replace(offline_replicas=old.offline_replicas - {broker_id})
        decision.change_partition(topic, partition, self._rules.with_leader(image, topic, new))
