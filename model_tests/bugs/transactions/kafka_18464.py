"""KAFKA-18464: the abort of a transaction without partitions raises the epoch, and holds that against the request."""

from __future__ import annotations

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.transactions.messages import EndTxn
from tidegauge.impl.coordinators.transactions.metadata import TransactionMetadata
from tidegauge.impl.coordinators.transactions.rules import Ruling, TransactionRules
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.transaction_roles import TransactionRoles


@attrs.frozen
class FencesAfterAnEmptyAbort(TransactionRules):
    """The record is written, and the response is an error."""

    def empty_abort_ruling(self, metadata: TransactionMetadata, request: EndTxn, new_id: int, now_ms: int) -> Ruling:
        return super().empty_abort_ruling(metadata, request, new_id, now_ms)._replace(error=ErrorCode.producer_fenced)


BUG = CoreBug("kafka_18464", TransactionRoles(rules=FencesAfterAnEmptyAbort))
