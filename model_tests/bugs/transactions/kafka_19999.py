"""KAFKA-19999: a marker of version 2 must have a greater epoch, though nothing is open any more."""

from __future__ import annotations

from tidegauge.impl.partition.producer_state import EPOCH_PER_TRANSACTION, ProducerEntry, ProducerStates
from tidegauge.impl.records.markers import TransactionMarker
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.transaction_roles import TransactionRoles


class TakesNoMarkerTwice(ProducerStates):
    """A repeat is refused."""

    def takes_marker_epoch(self, entry: ProducerEntry, marker: TransactionMarker, transaction_version: int) -> bool:
        per_transaction = transaction_version >= EPOCH_PER_TRANSACTION
        return marker.producer_epoch >= entry.epoch + per_transaction


BUG = CoreBug("kafka_19999", TransactionRoles(producers=TakesNoMarkerTwice))
