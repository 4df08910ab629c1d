"""KAFKA-13916: a broker that the controller has fenced is let into the ISR (before KIP-841)."""

from __future__ import annotations

from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.partition.messages import UNKNOWN_BROKER_EPOCH
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.replication import Roles


class FencedReplicaJoins(Controller):
    """Whether a member is live does not matter."""

    def is_eligible_for_isr(self, broker_id: int, broker_epoch: int) -> bool:
        return broker_epoch in (UNKNOWN_BROKER_EPOCH, self.image.brokers[broker_id].broker_epoch)


BUG = CoreBug("kafka_13916", Roles(controller=FencedReplicaJoins))
