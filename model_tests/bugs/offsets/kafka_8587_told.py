"""KAFKA-8587: the coordinator tells an offset that is not stable."""

from __future__ import annotations

from collections.abc import Mapping

from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator
from tidegauge.impl.coordinators.groups.offsets import CommittedOffset
from tidegauge.impl.coordinators.groups.record_formats import OffsetKey
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.offsets import OffsetRoles


class TellsWhatIsNotStable(GroupCoordinator):
    """As before KIP-447, nobody can ask for a stable one."""

    def told(self, key: OffsetKey, *, require_stable: bool) -> CommittedOffset | ErrorCode | None:
        return super().told(key, require_stable=False)

    def all_told(self, group: str, *, require_stable: bool) -> Mapping[tuple[str, int], CommittedOffset | ErrorCode]:
        return super().all_told(group, require_stable=False)


BUG = CoreBug("kafka_8587_told", OffsetRoles(coordinator=TellsWhatIsNotStable))
