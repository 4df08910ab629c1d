"""KAFKA-9144: a producer whose epoch has only a marker counts as idle for ever."""

from __future__ import annotations

from tidegauge.impl.partition.producer_state import DEFAULT_EXPIRATION_MS, NO_OFFSET, ProducerStates
from tidegauge.impl.records.batches import NO_TIMESTAMP
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.transaction_roles import TransactionRoles


class MarkersAreNoUse(ProducerStates):
    """The last batch of records says when a producer was there."""

    def expire(self, now_ms: int, expiration_ms: int = DEFAULT_EXPIRATION_MS) -> list[int]:
        for entry in self.entries.values():
            if not entry.batches and entry.current_txn_first_offset == NO_OFFSET:
                entry.last_timestamp = NO_TIMESTAMP
        forgot = self.forgot
        idle = super().expire(now_ms, expiration_ms)
        self.forgot = forgot  # whom a leader takes on trust is another machine's matter
        return idle


BUG = CoreBug("kafka_9144", TransactionRoles(producers=MarkersAreNoUse), on_cluster=False)
