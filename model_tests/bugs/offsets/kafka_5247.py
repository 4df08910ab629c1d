"""KAFKA-5247: the store keeps what a marker commits, whatever was written later."""

from __future__ import annotations

from tidegauge.impl.coordinators.groups.offsets import GroupOffsets
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.offsets import OffsetRoles


class KeepsTheLastCommitted(GroupOffsets):
    """The marker's order counts."""

    def _end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        waiting = dict(self.pending.get(producer_id, {}))
        super()._end_transaction(producer_id, is_commit=is_commit)
        for key, offset in waiting.items() if is_commit else ():
            self._keep(key, offset)


BUG = CoreBug("kafka_5247", OffsetRoles(offsets=KeepsTheLastCommitted))
