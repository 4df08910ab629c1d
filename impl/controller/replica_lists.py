"""The rules by which replica lists change: a reassignment begins, completes and is cancelled (KIP-455).

The list first grows to the target and to what the target replaces. No replica is removed until the whole target is in
sync. Then the removed replicas leave list and ISR; where one of them leads, another replica takes over. When a replica
leaves the list a leader epoch begins even if the leader stays: what the replica sent before must not count when it is
back, empty.
"""

from __future__ import annotations

from tidegauge.impl.controller.decision import LedPartition
from tidegauge.impl.controller.elections import ElectionRules
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.partition.registration import NO_LEADER, PartitionRegistration


class ReplicaListRules:
    """How a partition's replica list changes, and who leaves the ISR with it."""

    def __init__(self, elections: ElectionRules) -> None:
        self.elections = elections

    def reassigned(self, registration: PartitionRegistration, target: tuple[int, ...]) -> PartitionRegistration:
        """The list grown to the target; a replica that was being added still is, if it is in the target."""
        listed = registration.replicas
        removing = tuple(sorted(set(listed).difference(target)))
        adding = tuple(b for b in sorted(target) if b not in listed or b in registration.adding_replicas)
        return registration._replace(replicas=(*target, *removing), adding_replicas=adding, removing_replicas=removing)

    def completed(self, registration: PartitionRegistration) -> PartitionRegistration:
        """The partition on its target alone if the reassignment can complete, else unchanged."""
        if not registration.is_reassigned:
            return registration
        target = registration.target_replicas
        return self.only_on(registration, target) if self.may_complete(registration, target) else registration

    def may_complete(self, registration: PartitionRegistration, target: tuple[int, ...]) -> bool:
        """A reassignment completes when every replica of its target is in the ISR."""
        return registration.isr.issuperset(target)

    def cancelled(self, registration: PartitionRegistration) -> PartitionRegistration:
        """The list without the replicas that were being added."""
        kept = tuple(b for b in registration.replicas if b not in registration.adding_replicas)
        return self.only_on(registration, kept)

    def may_cancel(self, image: ClusterImage, topic: str, registration: PartitionRegistration) -> bool:
        """A replica remains that is known to have every committed record, or the topic allows unclean elections."""
        remaining = (registration.isr | registration.elr).difference(registration.adding_replicas)
        return bool(remaining) or self.elections.config.unclean_leader_election(image, topic)

    def only_on(self, registration: PartitionRegistration, replicas: tuple[int, ...]) -> PartitionRegistration:
        """The partition on these replicas, with no other in ISR or ELR, and not reassigned."""
        last_known = registration.last_known_leader
        return registration._replace(
            replicas=replicas,
            isr=registration.isr.intersection(replicas),
            elr=registration.elr.intersection(replicas),
            offline_replicas=registration.offline_replicas.intersection(replicas),
            lost_replicas=registration.lost_replicas.intersection(replicas),
            last_known_leader=last_known if last_known in replicas else NO_LEADER,
            adding_replicas=(),
            removing_replicas=(),
        )

    def with_lasting_leader(self, image: ClusterImage, topic: str, registration: PartitionRegistration) -> LedPartition:
        """The partition without the brokers that are about to stop, and with a leader."""
        return self.elections.with_leader(image, topic, self.without_stopping(image, topic, registration))

    def without_stopping(
        self, image: ClusterImage, topic: str, registration: PartitionRegistration
    ) -> PartitionRegistration:
        """Brokers in controlled shutdown leave the ISR, unless that would empty it (KIP-841)."""
        stopping = {b for b in registration.isr if image.is_shutting_down(b) and image.is_unfenced(b)}
        if not stopping or not self.may_leave(registration, stopping):
            return registration
        for broker in sorted(stopping):
            registration = self.elections.without(image, topic, registration, broker, clean=True)
        return registration

    def may_leave(self, registration: PartitionRegistration, stopping: set[int]) -> bool:
        """Brokers in controlled shutdown may leave an ISR that keeps another member."""
        return not registration.isr <= stopping
