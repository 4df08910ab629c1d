"""Leader election, and who may be elected: the ISR, and the eligible leader replicas (KIP-966).

A record is committed once the whole ISR holds it, so any member of the ISR can lead without loss. While the ISR is
smaller than min.insync.replicas nothing is committed; the replicas that left it in that time still hold all that is,
and stay *eligible*. When neither has a live member the partition waits, unless the topic (or an operator) prefers a
leader that may lack committed records to none: an *unclean* election. The one exception is a partition whose ISR and
ELR are both empty, since every member of them came back as a new process: nobody better than the last known leader can
ever turn up, so it leads again, uncleanly, once it is there.
"""

from __future__ import annotations

from typing import NamedTuple

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.state import ControllerState, LeaderElected, change_record
from tidegauge.impl.partition.registration import NO_LEADER, PartitionRegistration


class Elected(NamedTuple):
    """Who is to lead (-1: nobody can), and whether committed records may be lost by it."""

    leader: int
    unclean: bool


class Governed(NamedTuple):
    """A partition with a leader if it can have one, and whether that one was elected uncleanly."""

    registration: PartitionRegistration
    unclean: bool


class Elections(ControllerState):
    """The rules by which a partition's leader, ISR and ELR change together.

    A rule takes a registration and returns another; its epochs are raised when the change is decided.
    """

    def elect(self, registration: PartitionRegistration, *, unclean: bool) -> Elected:
        """By order of preference in the ISR, then in the ELR, then whoever is left.

        A broker that is about to stop leads only where it is the last of the ISR.
        """
        online = [replica for replica in registration.replicas if replica not in registration.offline_replicas]
        live = [replica for replica in online if self.image.is_active(replica)]
        for candidates in (registration.isr, registration.elr):
            for replica in live:
                if replica in candidates:
                    return Elected(replica, unclean=False)
        for replica in online:
            if replica in registration.isr and self.image.is_unfenced(replica):
                return Elected(replica, unclean=False)
        if unclean and live:
            return Elected(live[0], unclean=True)
        if not registration.isr and not registration.elr and registration.last_known_leader in live:
            return Elected(registration.last_known_leader, unclean=True)
        return Elected(NO_LEADER, unclean=False)

    def with_leader(self, topic: str, registration: PartitionRegistration, *, unclean: bool = False) -> Governed:
        """The partition with its leader kept if it can be, else elected anew."""
        if registration.leader in registration.isr and self.image.is_unfenced(registration.leader):
            return Governed(registration, unclean=False)
        leader, was_unclean = self.elect(registration, unclean=unclean or self.unclean_leader_election(topic))
        if leader != NO_LEADER and leader not in registration.isr:
            isr = frozenset({leader})
            elr = frozenset[int]() if was_unclean else self.elr_after(topic, registration, isr, registration.elr)
            registration = attrs.evolve(registration, isr=isr, elr=elr)
        return Governed(self.led_by(registration, leader), was_unclean)

    def led_by(self, registration: PartitionRegistration, leader: int) -> PartitionRegistration:
        """The partition with this leader (-1: none), the former one remembered."""
        if leader == registration.leader:
            return registration
        last_known_leader = registration.leader if leader == NO_LEADER else leader
        return attrs.evolve(registration, leader=leader, last_known_leader=last_known_leader)

    def without(
        self, topic: str, registration: PartitionRegistration, broker_id: int, *, clean: bool
    ) -> PartitionRegistration:
        """`broker_id` leaves the ISR; it stays eligible while the ISR is too small, unless it may have lost data."""
        isr = registration.isr - {broker_id}
        elr = registration.elr - {broker_id}
        if clean and broker_id in registration.isr:
            elr |= {broker_id}
        return attrs.evolve(registration, isr=isr, elr=self.elr_after(topic, registration, isr, elr))

    def elr_after(
        self, topic: str, registration: PartitionRegistration, isr: frozenset[int], elr: frozenset[int]
    ) -> frozenset[int]:
        """Eligible leaders are kept as long as nothing can be committed without them."""
        return elr - isr if len(isr) < self.min_insync_replicas(topic, registration) else frozenset()

    def elect_preferred(self, topic: str, partition: int) -> ErrorCode:
        """Give the leadership back to the first of the replica list."""
        old = self.image.partition(topic, partition)
        if old is None:
            return ErrorCode.unknown_topic_or_partition
        preferred = old.replicas[0]
        if old.leader == preferred:
            return ErrorCode.election_not_needed
        if preferred not in old.isr or not self.image.is_active(preferred):
            return ErrorCode.preferred_leader_not_available
        self._write_partition(topic, partition, old, Governed(self.led_by(old, preferred), unclean=False))
        self._commit()
        return ErrorCode.none

    def elect_uncleanly(self, topic: str, partition: int) -> ErrorCode:
        """An operator accepts loss: a partition without a leader gets one if any of its replicas is live."""
        old = self.image.partition(topic, partition)
        if old is None:
            return ErrorCode.unknown_topic_or_partition
        if old.leader != NO_LEADER:
            return ErrorCode.election_not_needed
        governed = self.with_leader(topic, old, unclean=True)
        if governed.registration.leader == NO_LEADER:
            return ErrorCode.eligible_leaders_not_available
        self._write_partition(topic, partition, old, governed)
        self._commit()
        return ErrorCode.none

    def _write_partition(self, topic: str, partition: int, old: PartitionRegistration, governed: Governed) -> None:
        """Write a partition's change, if it is one; a change of leader is announced as well."""
        new, unclean = governed
        record = change_record(topic, partition, old, new)
        if record is None:
            return
        self._write(record)
        if record.leader is not None:
            self._effects.append(LeaderElected(topic, partition, new.leader, old.leader_epoch + 1, unclean))
