"""A producer that is fenced because its last transaction is not complete: the order of checks, as in KAFKA-18660."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.transactions.coordinator_rules import Ruling
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.state import EndRequest, Error, Metadata


@attrs.frozen
class HoldsTheEpochAgainstIt(Transactions):
    """While a transaction is prepared the coordinator takes EndTxn of the epoch that has ended it, and of no other."""

    def end_ruling(self, metadata: Metadata, request: EndRequest, new_id: int) -> Ruling:
        if self.is_end_too_early(metadata, request):
            return Ruling(Error.PRODUCER_FENCED)
        return super().end_ruling(metadata, request, new_id)


BUG = Bug(
    name="fenced_while_completing",
    title="an abort that is fenced because the last commit is not complete",
    reference="KIP-890, as it was merged first; KAFKA-18660",
    mechanism=(
        "A producer is told of its commit and goes on under its next epoch; it gives a record up and aborts before "
        "the last marker is written, and the coordinator finds neither the present epoch nor a repeat."
    ),
    violates=("OnlyZombiesFenced",),
    buggy=HoldsTheEpochAgainstIt,
    model=Transactions(incarnations=1, partitions=1, expiring=False, bounds=Bounds(GiveUp=1)),
)
