"""KAFKA-13916: a broker that the controller has fenced is let into the ISR (before KIP-841)."""

from __future__ import annotations

from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.controller.isr_changes import IsrRules
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.partition.messages import UNKNOWN_BROKER_EPOCH
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.replication import Roles


class FencedReplicaJoins(IsrRules):
    """A member need not be live."""

    def is_eligible(self, image: ClusterImage, broker_id: int, broker_epoch: int) -> bool:
        return broker_epoch in (UNKNOWN_BROKER_EPOCH, image.brokers[broker_id].broker_epoch)


class FencedReplicaJoinsController(Controller):
    isr_rules = FencedReplicaJoins


BUG = CoreBug("kafka_13916", Roles(controller=FencedReplicaJoinsController))
