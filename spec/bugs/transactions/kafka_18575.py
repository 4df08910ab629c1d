"""KAFKA-18575: a record that joins the transaction before its own."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.state import NONE, Memory, ProduceRequest


@attrs.frozen
class GoesOnWithAnyEpoch(Transactions):
    """A leader takes an open transaction of the producer id for the record's own, whatever its epoch."""

    def is_open_for(self, memory: Memory, request: ProduceRequest) -> bool:
        entry = memory.entry(request.producer_id)
        return entry is not None and entry.open_from != NONE


BUG = Bug(
    name="kafka_18575",
    title="a record that joins the transaction before its own",
    reference="KAFKA-18575, KAFKA-18654",
    mechanism=(
        "A producer that was told of its commit sends the next record before the marker is written: the "
        "leader asks nobody, and the record is part of the transaction that is over."
    ),
    violates=("NoLateJoin",),
    buggy=GoesOnWithAnyEpoch,
    model=Transactions(incarnations=1, partitions=1, expiring=False),
)
