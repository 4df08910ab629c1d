"""KAFKA-14139: a proposal names brokers, not their processes, so one that lost its disk passes (before KIP-903)."""

from __future__ import annotations

from tidegauge.impl.partition.messages import UNKNOWN_BROKER_EPOCH
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.replication import Roles


class IsrWithoutBrokerEpochs(PartitionReplica):
    """The leader does not say which process of a broker it saw fetching."""

    def isr_with_broker_epochs(self, isr: frozenset[int], broker_epoch: int) -> tuple[tuple[int, int], ...]:
        return tuple((member, UNKNOWN_BROKER_EPOCH) for member in sorted(isr))


BUG = CoreBug("kafka_14139", Roles(replica=IsrWithoutBrokerEpochs))
