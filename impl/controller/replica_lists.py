"""Replica lists that change: how a reassignment begins, completes and is taken back (KIP-455).

The list first grows to the target and what the target replaces; nothing is given up until the whole target is in sync.
Then those that are to go leave list and ISR, and whoever leads of them hands over. When a replica leaves the list a
leader epoch begins even if the leader stays: what the replica sent before must not count when it is back, empty.

The rules take a registration and return another, as those of elections do; the operations are in `reassignments`.
"""

from __future__ import annotations

import attrs

from tidegauge.impl.controller.elections import Elections, Governed
from tidegauge.impl.partition.registration import NO_LEADER, PartitionRegistration


class ReplicaLists(Elections):
    """The rules by which a partition's replica list changes."""

    def reassigned(self, registration: PartitionRegistration, target: tuple[int, ...]) -> PartitionRegistration:
        """The list grown to the target; a replica that was being added still is, if the target wants it."""
        listed = registration.replicas
        removing = tuple(sorted(set(listed).difference(target)))
        adding = tuple(b for b in sorted(target) if b not in listed or b in registration.adding_replicas)
        return attrs.evolve(
            registration, replicas=(*target, *removing), adding_replicas=adding, removing_replicas=removing
        )

    def completed(self, registration: PartitionRegistration) -> PartitionRegistration:
        """The reassignment is over once all of its target is in sync."""
        target = registration.target_replicas
        if not registration.is_reassigned or not self.may_complete(registration, target):
            return registration
        return self.only_on(registration, target)

    def may_complete(self, registration: PartitionRegistration, target: tuple[int, ...]) -> bool:
        """Every replica of the target is in the ISR."""
        return registration.isr.issuperset(target)

    def cancelled(self, registration: PartitionRegistration) -> PartitionRegistration:
        """The list without what was being added."""
        kept = tuple(b for b in registration.replicas if b not in registration.adding_replicas)
        return self.only_on(registration, kept)

    def may_cancel(self, topic: str, registration: PartitionRegistration) -> bool:
        """Somebody remains who is known to hold every committed record, or the topic prefers availability."""
        remaining = (registration.isr | registration.elr).difference(registration.adding_replicas)
        return bool(remaining) or self.unclean_leader_election(topic)

    def only_on(self, registration: PartitionRegistration, replicas: tuple[int, ...]) -> PartitionRegistration:
        """The partition on these replicas, nobody else in its ISR, and no reassignment."""
        last_known = registration.last_known_leader
        return attrs.evolve(
            registration,
            replicas=replicas,
            isr=registration.isr.intersection(replicas),
            elr=registration.elr.intersection(replicas),
            offline_replicas=registration.offline_replicas.intersection(replicas),
            last_known_leader=last_known if last_known in replicas else NO_LEADER,
            adding_replicas=(),
            removing_replicas=(),
        )

    def settled(self, topic: str, registration: PartitionRegistration) -> Governed:
        """Without those that are about to stop where others are in sync, and with a leader."""
        return self.with_leader(topic, self.relieved(topic, registration))

    def relieved(self, topic: str, registration: PartitionRegistration) -> PartitionRegistration:
        """Brokers that are about to stop leave the ISR, unless that would empty it (KIP-841)."""
        leaving = {b for b in registration.isr if self.image.is_unfenced(b) and not self.image.is_active(b)}
        if not self.may_relieve(registration, leaving):
            return registration
        for broker in sorted(leaving):
            registration = self.without(topic, registration, broker, clean=True)
        return registration

    def may_relieve(self, registration: PartitionRegistration, leaving: set[int]) -> bool:
        """Somebody stays."""
        return not registration.isr <= leaving
