"""KIP-966: the last member of the ISR stays in it and leads again, although it crashed and lost its log's tail."""

from __future__ import annotations

from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.controller.elections import ElectionRules
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.replication import Roles


class LastReplicaStays(ElectionRules):
    """No replica that left the ISR is eligible, and the last one does not leave it."""

    def without(
        self, image: ClusterImage, topic: str, registration: PartitionRegistration, broker_id: int, *, clean: bool
    ) -> PartitionRegistration:
        if registration.isr == {broker_id}:
            return registration
        changed = super().without(image, topic, registration, broker_id, clean=clean)
        return changed._replace(elr=frozenset())


class LastReplicaStaysController(Controller):
    election_rules = LastReplicaStays


BUG = CoreBug("last_replica_standing", Roles(controller=LastReplicaStaysController))
