"""KIP-966: the last member of the ISR stays in it and leads again, although it crashed and lost its log's tail."""

from __future__ import annotations

import attrs

from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.replication import Roles


class LastReplicaStays(Controller):
    """Nobody who left the ISR is eligible, and nobody is the last to leave it."""

    def without(
        self, topic: str, registration: PartitionRegistration, broker_id: int, *, clean: bool
    ) -> PartitionRegistration:
        if registration.isr == {broker_id}:
            return registration
        changed = super().without(topic, registration, broker_id, clean=clean)
        return attrs.evolve(changed, elr=frozenset())


BUG = CoreBug("last_replica_standing", Roles(controller=LastReplicaStays))
