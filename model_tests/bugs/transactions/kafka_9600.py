"""KAFKA-9600: the coordinator ends a transaction for a client under any later epoch."""

from __future__ import annotations

import attrs

from tidegauge.impl.coordinators.transactions.messages import EndTxn
from tidegauge.impl.coordinators.transactions.metadata import TransactionMetadata, TransactionStatus
from tidegauge.impl.coordinators.transactions.rules import Ruling, TransactionRules
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.transaction_roles import TransactionRoles


@attrs.frozen
class TakesAnyLaterEpoch(TransactionRules):
    """A client may do what only the coordinator does."""

    def end_ruling(self, metadata: TransactionMetadata, request: EndTxn, new_id: int, now_ms: int) -> Ruling:
        if metadata.status is TransactionStatus.ONGOING and request.epoch > metadata.epoch:
            metadata = attrs.evolve(metadata, epoch=request.epoch)
        return super().end_ruling(metadata, request, new_id, now_ms)


BUG = CoreBug("kafka_9600", TransactionRoles(rules=TakesAnyLaterEpoch))
