"""KAFKA-18660: the coordinator looks at the producer id before it looks whether a transaction is to be complete."""

from __future__ import annotations

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.transactions.metadata import TransactionMetadata
from tidegauge.impl.coordinators.transactions.rules import Request, TransactionRules
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.transaction_roles import TransactionRoles


@attrs.frozen
class LooksAtTheProducerIdFirst(TransactionRules):
    """The next producer id is refused before it is in force."""

    def request_error(self, metadata: TransactionMetadata, request: Request) -> ErrorCode:
        if metadata.producer_id != request.producer_id:
            return ErrorCode.invalid_producer_id_mapping
        return super().request_error(metadata, request)


BUG = CoreBug("kafka_18660", TransactionRoles(rules=LooksAtTheProducerIdFirst))
