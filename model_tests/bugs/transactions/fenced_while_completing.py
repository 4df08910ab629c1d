"""A producer that is fenced because its last transaction is not complete: the order of checks, as in KAFKA-18660."""

from __future__ import annotations

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.transactions.messages import EndTxn
from tidegauge.impl.coordinators.transactions.metadata import TransactionMetadata
from tidegauge.impl.coordinators.transactions.rules import Ruling, TransactionRules
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.transaction_roles import TransactionRoles


@attrs.frozen
class HoldsTheEpochAgainstIt(TransactionRules):
    """While a transaction is prepared the coordinator takes EndTxn of the epoch that has ended it, and of no other."""

    def end_ruling(self, metadata: TransactionMetadata, request: EndTxn, new_id: int, now_ms: int) -> Ruling:
        if self.is_end_too_early(metadata, request):
            return Ruling(ErrorCode.producer_fenced)
        return super().end_ruling(metadata, request, new_id, now_ms)


BUG = CoreBug("fenced_while_completing", TransactionRoles(rules=HoldsTheEpochAgainstIt))
