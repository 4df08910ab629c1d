"""KAFKA-5231: a new process has the open transaction aborted under the epoch that the old process still has."""

from __future__ import annotations

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.transactions.metadata import TransactionMetadata, TransactionStatus
from tidegauge.impl.coordinators.transactions.rules import Ruling, TransactionRules
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.transaction_roles import TransactionRoles


@attrs.frozen
class BeginsUnderTheEpochThatItAborts(TransactionRules):
    """The abort fences nobody."""

    def fencing_ruling(self, metadata: TransactionMetadata, now_ms: int) -> Ruling:
        aborted = attrs.evolve(metadata, status=TransactionStatus.PREPARE_ABORT, last_update_ms=now_ms)
        return Ruling(ErrorCode.concurrent_transactions, aborted)


BUG = CoreBug("kafka_5231", TransactionRoles(rules=BeginsUnderTheEpochThatItAborts))
