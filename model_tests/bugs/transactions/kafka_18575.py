"""KAFKA-18575: a leader takes an open transaction of the producer id for the record's own, whatever its epoch."""

from __future__ import annotations

from tidegauge.impl.partition.producer_state import NO_OFFSET, ProducerStates
from tidegauge.impl.records.batches import BatchHeader
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.transaction_roles import TransactionRoles


class GoesOnWithAnyEpoch(ProducerStates):
    """A transaction is open or not."""

    def is_open_for(self, header: BatchHeader) -> bool:
        entry = self.entries.get(header.producer_id)
        return entry is not None and entry.current_txn_first_offset != NO_OFFSET


BUG = CoreBug("kafka_18575", TransactionRoles(producers=GoesOnWithAnyEpoch))
