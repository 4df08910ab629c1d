"""KAFKA-5494: the leader remembers one batch of each producer, so repeats of older ones are out of order."""

from __future__ import annotations

from tidegauge.impl.partition.producer_state import ProducerStates
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.replication import Roles


class RemembersLastBatch(ProducerStates):
    """Enough for one request in flight."""

    def batches_to_retain(self) -> int:
        return 1


BUG = CoreBug("kafka_5494", Roles(producers=RemembersLastBatch))
