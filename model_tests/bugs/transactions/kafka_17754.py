"""KAFKA-17754: the coordinator does not ask which transaction an EndTxn is to end."""

from __future__ import annotations

import attrs

from tidegauge.impl.coordinators.transactions.messages import EndTxn
from tidegauge.impl.coordinators.transactions.metadata import TransactionMetadata, TransactionStatus
from tidegauge.impl.coordinators.transactions.rules import Ruling, TransactionRules
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.transaction_roles import TransactionRoles


@attrs.frozen
class EndsByProducerId(TransactionRules):
    """Any epoch ends what is open."""

    def end_ruling(self, metadata: TransactionMetadata, request: EndTxn, new_id: int, now_ms: int) -> Ruling:
        if metadata.status is TransactionStatus.ONGOING and request.producer_id == metadata.producer_id:
            request = request._replace(epoch=metadata.epoch)
        return super().end_ruling(metadata, request, new_id, now_ms)


BUG = CoreBug("kafka_17754", TransactionRoles(rules=EndsByProducerId))
