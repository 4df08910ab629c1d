"""KAFKA-14402: a leader lets a transaction begin in its partition without the coordinator's verification."""

from __future__ import annotations

from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.records.batches import BatchHeader
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.transaction_roles import TransactionRoles


class AppendsUnverified(PartitionReplica):
    """Everybody is verified."""

    def is_verified(self, header: BatchHeader) -> bool:
        return True


BUG = CoreBug("kafka_14402", TransactionRoles(replica=AppendsUnverified))
