"""KAFKA-19163: the coordinator lets offsets go beside what a transaction has pending."""

from __future__ import annotations

from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator
from tidegauge.impl.coordinators.groups.record_formats import OffsetKey
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.offsets import OffsetRoles


class LetsGoWhatIsPending(GroupCoordinator):
    """Only what is committed is looked at."""

    def is_expired(self, key: OffsetKey, now_ms: int) -> bool:
        known = self.offsets.get(key)
        if known is None or self.in_flight[key] or self.is_kept_for_members(key):
            return False
        return now_ms - self._idle_since(key, known) >= self.limits.retention_ms


BUG = CoreBug("kafka_19163", OffsetRoles(coordinator=LetsGoWhatIsPending))
