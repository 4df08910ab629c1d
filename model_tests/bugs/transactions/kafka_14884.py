"""KAFKA-14884: the coordinator's verification outlives the marker that ends the transaction."""

from __future__ import annotations

from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.transaction_roles import TransactionRoles


class KeepsTheWord(PartitionReplica):
    """Neither a record nor a marker ends it."""

    def end_verification(self, producer_id: int) -> None:
        """The verification stays."""


BUG = CoreBug("kafka_14884", TransactionRoles(replica=KeepsTheWord))
