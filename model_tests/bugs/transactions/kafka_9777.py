"""KAFKA-9777: the last marker is acknowledged while the coordinator loads, and nobody looks at it again."""

from __future__ import annotations

from collections.abc import Set

from tidegauge.impl.coordinators.transactions.coordinator import TransactionCoordinator
from tidegauge.impl.coordinators.transactions.messages import Append, Marker
from tidegauge.impl.coordinators.transactions.metadata import TopicPartition
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.transaction_roles import TransactionRoles


class LooksWhereNothingLoads(TransactionCoordinator):
    """Who loads a partition of the log holds the lock that a look at any transaction needs."""

    def marker_written(self, marker: Marker, partitions: Set[TopicPartition], now_ms: int) -> Append[None] | None:
        complete = super().marker_written(marker, partitions, now_ms)
        if complete is None or not any(one.loading for one in self.partitions.values()):
            return complete
        self.failed(complete)
        return None


BUG = CoreBug("kafka_9777", TransactionRoles(coordinator=LooksWhereNothingLoads))
