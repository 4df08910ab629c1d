"""KAFKA-17507: a marker is acknowledged before the group's coordinator knows of it."""

from __future__ import annotations

from functools import partial

from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator
from tidegauge.impl.server.broker.appends import PartitionMarker
from tidegauge.impl.server.broker.coordinator_log import Apply, CoordinatorLog, Led
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.offsets import OffsetRoles


class AcknowledgesWhatIsCommitted(CoordinatorLog[GroupCoordinator]):
    """Who waits for a marker waits for its commit; the coordinator knows of it in its own time."""

    async def append_marker(
        self, led: Led[GroupCoordinator], marker: PartitionMarker, apply: Apply, *, timeout_ms: float
    ) -> ErrorCode:
        partition = self._replicas.get(self.topic, led.index)
        if not led.is_led or partition is None:
            return ErrorCode.not_leader_or_follower
        replica, end = partition.replica, partition.log.log_end_offset + 1
        self._tasks.start_soon(partial(super().append_marker, led, marker, apply, timeout_ms=timeout_ms))
        await self._until_committed(partition.key, led, lambda: replica.high_watermark >= end)
        return ErrorCode.none if led.is_led else ErrorCode.not_leader_or_follower


BUG = CoreBug("kafka_17507", OffsetRoles(log=AcknowledgesWhatIsCommitted), on_cores=False)
