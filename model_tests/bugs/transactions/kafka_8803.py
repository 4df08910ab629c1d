"""KAFKA-8803: a record is committed and not known, because the clock was set back before it was written."""

from __future__ import annotations

from tidegauge.impl.coordinators.transactions.coordinator import CoordinatedId, TransactionCoordinator
from tidegauge.impl.coordinators.transactions.messages import Append, Committed
from tidegauge.impl.coordinators.transactions.metadata import NO_TIME
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.transaction_roles import TransactionRoles


class TakesInNothingEarlier(TransactionCoordinator):
    """A transaction that begins before the last one did can't be: its record stays pending."""

    def committed(self, append: Append[object], now_ms: int) -> Committed:
        found = self._pending(append)
        if found is not None and _is_earlier(found):
            return Committed()
        return super().committed(append, now_ms)


def _is_earlier(found: CoordinatedId) -> bool:
    """Whether the pending record is of a transaction that began before the last one did."""
    written = None if found.pending is None else found.pending.metadata
    return found.cached is not None and written is not None and NO_TIME < written.start_ms < found.cached.start_ms


BUG = CoreBug("kafka_8803", TransactionRoles(coordinator=TakesInNothingEarlier))
