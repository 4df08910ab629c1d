"""KAFKA-14884: a transaction that was verified before it was aborted."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.state import Partition


@attrs.frozen
class KeepsTheWordOverAMarker(Transactions):
    """The coordinator's verification holds until a record uses it, whatever marker comes between."""

    def verified_after(self, partition: Partition, producer_id: int) -> tuple[tuple[int, int], ...]:
        return partition.verified


BUG = Bug(
    name="kafka_14884",
    title="a transaction that was verified before it was aborted",
    reference="KAFKA-14884, KIP-890",
    mechanism=(
        "A leader asks the coordinator, which says that the transaction is open; the transaction is aborted, "
        "and its marker written; then the leader appends the record."
    ),
    violates=("OpenIsKnown",),
    buggy=KeepsTheWordOverAMarker,
    model=Transactions(incarnations=1, partitions=1, version=1, bounds=Bounds(GiveUp=1)),
)
