"""KAFKA-13636: the coordinator lets offsets go of a group whose members are not assigned yet."""

from __future__ import annotations

from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator
from tidegauge.impl.coordinators.groups.record_formats import OffsetKey
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.offsets import OffsetRoles


class LetsGoWhileTheyRejoin(GroupCoordinator):
    """Without a protocol nobody knows what the members read, and nothing counts as read."""

    def is_expired(self, key: OffsetKey, now_ms: int) -> bool:
        group = self.classic.get(key.group)
        if group is None or group.protocol is not None:
            return super().is_expired(key, now_ms)
        known = self.offsets.get(key)
        is_busy = self.offsets.is_unstable(key) or self.in_flight[key]
        return known is not None and not is_busy and now_ms - self._idle_since(key, known) >= self.limits.retention_ms


BUG = CoreBug("kafka_13636", OffsetRoles(coordinator=LetsGoWhileTheyRejoin))
