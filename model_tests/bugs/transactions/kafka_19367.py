"""KAFKA-19367: the coordinator raises the epoch to fence the producer, and once more for the transaction's end."""

from __future__ import annotations

import attrs

from tidegauge.impl.coordinators.transactions.metadata import EPOCH_PER_TRANSACTION, TransactionMetadata
from tidegauge.impl.coordinators.transactions.rules import TransactionRules
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.transaction_roles import TransactionRoles


@attrs.frozen
class RaisesTheEpochTwice(TransactionRules):
    """An unasked abort of a transaction of version 2."""

    def fenced(self, metadata: TransactionMetadata, now_ms: int) -> TransactionMetadata:
        once = super().fenced(metadata, now_ms)
        twice = once.client_version >= EPOCH_PER_TRANSACTION
        return attrs.evolve(once, epoch=once.epoch + 1) if twice else once


BUG = CoreBug("kafka_19367", TransactionRoles(rules=RaisesTheEpochTwice))
