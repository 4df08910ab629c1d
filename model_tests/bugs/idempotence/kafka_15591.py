"""KAFKA-15591: an unknown producer may begin at any sequence, though nothing can have been forgotten (KIP-360)."""

from __future__ import annotations

from tidegauge.impl.partition.producer_state import ProducerStates
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.replication import Roles


class AcceptsAnyUnknown(ProducerStates):
    """A new producer's second batch is taken for the continuation of something forgotten."""

    def accepts_unknown(self) -> bool:
        return True


BUG = CoreBug("kafka_15591", Roles(producers=AcceptsAnyUnknown))
