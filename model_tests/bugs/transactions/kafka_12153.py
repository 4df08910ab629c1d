"""KAFKA-12153: the memory of producers keeps a transaction that began in what a replica has cut off."""

from __future__ import annotations

from collections.abc import Iterable

from tidegauge.impl.partition.producer_state import NO_OFFSET, ProducerEntry, ProducerStates
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.transaction_roles import TransactionRoles


class RemembersWhatWasCut(ProducerStates):
    """The log is shorter before its producers are looked at again."""

    def restart(self, entries: Iterable[ProducerEntry], offset: int, log_start_offset: int) -> None:
        opened = [one for one in self.entries.values() if one.current_txn_first_offset != NO_OFFSET]
        super().restart(entries, offset, log_start_offset)
        for entry in opened:
            if entry.current_txn_first_offset >= offset:
                self.entries[entry.producer_id] = entry
                self.transactions.begin(entry.producer_id, entry.current_txn_first_offset)


BUG = CoreBug("kafka_12153", TransactionRoles(producers=RemembersWhatWasCut), on_cluster=False)
