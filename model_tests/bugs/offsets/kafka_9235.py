"""KAFKA-9235: a coordinator whose replica is taken away goes on."""

from __future__ import annotations

from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator
from tidegauge.impl.server.broker.coordinator_log import CoordinatorLog
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.offsets import OffsetRoles


class GoesOnWithoutItsReplica(CoordinatorLog[GroupCoordinator]):
    """Who has no replica any more is told nothing."""

    def leadership_changed(self, partition: Partition) -> None:
        if not partition.is_gone:
            super().leadership_changed(partition)


BUG = CoreBug("kafka_9235", OffsetRoles(log=GoesOnWithoutItsReplica), on_cores=False)
