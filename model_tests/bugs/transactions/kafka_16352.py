"""KAFKA-16352: the coordinator takes any marker of a transactional id for the one that it waits for."""

from __future__ import annotations

import attrs

from tidegauge.impl.coordinators.transactions.messages import Marker
from tidegauge.impl.coordinators.transactions.metadata import PREPARED, TransactionMetadata
from tidegauge.impl.coordinators.transactions.rules import TransactionRules
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.transaction_roles import TransactionRoles


@attrs.frozen
class AwaitsById(TransactionRules):
    """An earlier end is as good as this one."""

    def awaits(self, metadata: TransactionMetadata, marker: Marker) -> bool:
        return metadata.status in PREPARED


BUG = CoreBug("kafka_16352", TransactionRoles(rules=AwaitsById))
