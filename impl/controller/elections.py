"""The rules of leader election: who leads, and who may be elected.

A record is committed once the whole ISR has it, so any member of the ISR can lead without loss. While the ISR is
smaller than min.insync.replicas nothing is committed. A replica that leaves it in that time still has every committed
record and stays *eligible* (ELR, KIP-966). When no member of ISR or ELR is live, the partition waits for one. Two
exceptions elect *uncleanly*, a leader that may lack committed records:

- The topic's unclean.leader.election.enable, or an operator, prefers such a leader to none.
- ISR and ELR are both empty, since each of their members came back as a new process. No better replica than the last
  known leader can turn up, so it leads again as soon as it is live. If it came back without its log (it is *lost*) that
  is true only when all others are lost too; if one is not, that one leads, and if several are not, nobody can tell
  which has most, and the partition waits for an operator.

Of those that may be elected uncleanly a lost replica comes last.

A rule takes the image and a registration and returns another registration. The epochs are raised when the change is
applied.
"""

from __future__ import annotations

from typing import NamedTuple

from tidegauge.impl.controller.config import ControllerConfig
from tidegauge.impl.controller.decision import LedPartition
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.records import PartitionRecord
from tidegauge.impl.partition.registration import NO_LEADER, PartitionRegistration


class Elected(NamedTuple):
    """The new leader (-1: none can lead), and whether committed records may be lost by its election."""

    leader: int
    unclean: bool


class ElectionRules:
    """How a partition's leader, ISR and ELR change together."""

    def __init__(self, config: ControllerConfig) -> None:
        self.config = config

    def new_partition(
        self, image: ClusterImage, topic: str, partition: int, replicas: tuple[int, ...]
    ) -> PartitionRecord:
        """A partition as it begins: the active replicas are in sync, the first of them leads."""
        isr = tuple(sorted(replica for replica in replicas if image.is_active(replica)))
        leader = next(replica for replica in replicas if replica in isr)
        return PartitionRecord(topic, partition, replicas, isr, leader)

    def elect(self, image: ClusterImage, registration: PartitionRegistration, *, unclean: bool) -> Elected:
        """The first active replica of the ISR in replica order, else of the ELR, else, if `unclean`, of all replicas.

        A broker that is about to stop leads only where no active member of ISR or ELR is left.
        """
        online = [replica for replica in registration.replicas if replica not in registration.offline_replicas]
        live = [replica for replica in online if image.is_active(replica)]
        for candidates in (registration.isr, registration.elr):
            for replica in live:
                if replica in candidates:
                    return Elected(replica, unclean=False)
        for replica in online:
            if replica in registration.isr and image.is_unfenced(replica):
                return Elected(replica, unclean=False)
        if unclean and live:
            return Elected(min(live, key=registration.lost_replicas.__contains__), unclean=True)
        if not registration.isr and not registration.elr and (best := self.best_left(registration)) in live:
            return Elected(best, unclean=True)
        return Elected(NO_LEADER, unclean=False)

    def best_left(self, registration: PartitionRegistration) -> int:
        """The replica of which no better one can turn up when ISR and ELR are empty; -1 if that cannot be told."""
        kept = [replica for replica in registration.replicas if replica not in registration.lost_replicas]
        if not kept or registration.last_known_leader in kept:
            return registration.last_known_leader
        return kept[0] if len(kept) == 1 else NO_LEADER

    def with_leader(
        self, image: ClusterImage, topic: str, registration: PartitionRegistration, *, unclean: bool = False
    ) -> LedPartition:
        """The partition with its leader if that one can stay, else with a new one."""
        if registration.leader in registration.isr and image.is_unfenced(registration.leader):
            return LedPartition(registration)
        allowed = unclean or self.config.unclean_leader_election(image, topic)
        leader, was_unclean = self.elect(image, registration, unclean=allowed)
        if leader != NO_LEADER and leader not in registration.isr:
            isr = frozenset({leader})
            elr = frozenset[int]() if was_unclean else self.elr_after(image, topic, registration, isr, registration.elr)
            registration = registration._replace(isr=isr, elr=elr)
        return LedPartition(self.led_by(registration, leader), was_unclean)

    def led_by(self, registration: PartitionRegistration, leader: int) -> PartitionRegistration:
        """The partition with this leader (-1: none), the former one remembered."""
        if leader == registration.leader:
            return registration
        last_known_leader = registration.leader if leader == NO_LEADER else leader
        return registration._replace(leader=leader, last_known_leader=last_known_leader)

    def without(
        self, image: ClusterImage, topic: str, registration: PartitionRegistration, broker_id: int, *, clean: bool
    ) -> PartitionRegistration:
        """`broker_id` leaves the ISR. While that is too small it is or stays eligible, unless it may have lost data."""
        isr = registration.isr - {broker_id}
        left = registration.isr & {broker_id}
        elr = registration.elr | left if clean else registration.elr - {broker_id}
        return registration._replace(isr=isr, elr=self.elr_after(image, topic, registration, isr, elr))

    def elr_after(
        self,
        image: ClusterImage,
        topic: str,
        registration: PartitionRegistration,
        isr: frozenset[int],
        elr: frozenset[int],
    ) -> frozenset[int]:
        """Replicas stay eligible as long as nothing can be committed without them."""
        needed = min(self.config.min_insync_replicas(image, topic), len(registration.replicas))
        return elr - isr if len(isr) < needed else frozenset()
