"""KAFKA-6119: the coordinator aborts a transaction in time-out and leaves its producer the epoch."""

from __future__ import annotations

import attrs

from tidegauge.impl.coordinators.transactions.metadata import TransactionMetadata, TransactionStatus
from tidegauge.impl.coordinators.transactions.rules import TransactionRules
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.transaction_roles import TransactionRoles


@attrs.frozen
class ExpiresUnderTheSameEpoch(TransactionRules):
    """The time-out fences nobody."""

    def overdue(self, metadata: TransactionMetadata, now_ms: int) -> TransactionMetadata | None:
        if super().overdue(metadata, now_ms) is None:
            return None
        return attrs.evolve(metadata, status=TransactionStatus.PREPARE_ABORT, last_update_ms=now_ms)


BUG = CoreBug("kafka_6119", TransactionRoles(rules=ExpiresUnderTheSameEpoch))
