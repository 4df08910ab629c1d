"""The classes that play each part in a lockstep of transactions."""

from __future__ import annotations

from typing import Final

import attrs

from tidegauge.impl.coordinators.transactions.coordinator import TransactionCoordinator
from tidegauge.impl.coordinators.transactions.rules import TransactionRules
from tidegauge.impl.partition.producer_state import ProducerStates
from tidegauge.impl.partition.replica import PartitionReplica


@attrs.frozen
class TransactionRoles:
    """A bug of the zoo brings its own."""

    rules: type[TransactionRules] = TransactionRules
    coordinator: type[TransactionCoordinator] = TransactionCoordinator
    replica: type[PartitionReplica] = PartitionReplica
    producers: type[ProducerStates] = ProducerStates


CORRECT: Final = TransactionRoles()
"""As they are in production."""
