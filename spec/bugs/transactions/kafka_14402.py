"""KAFKA-14402: hanging transactions."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.state import Partition, ProduceRequest


@attrs.frozen
class AppendsUnverified(Transactions):
    """A leader lets a transaction begin in its partition without asking the coordinator."""

    def is_verified(self, partition: Partition, request: ProduceRequest) -> bool:
        return True


BUG = Bug(
    name="kafka_14402",
    title="hanging transactions",
    reference="KAFKA-14402, KIP-890",
    mechanism=(
        "A record is given up and its transaction aborted; the record arrives after the marker, and opens a "
        "transaction that nobody knows of and nobody ends."
    ),
    violates=("OpenIsKnown",),
    buggy=AppendsUnverified,
    model=Transactions(incarnations=1, partitions=1, version=1, bounds=Bounds(GiveUp=1)),
)
