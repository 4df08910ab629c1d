"""KAFKA-5231: an abort that fences nobody."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.transactions.coordinator_rules import Ruling
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.state import Error, Metadata, Status


@attrs.frozen
class BeginsUnderTheEpochThatItAborts(Transactions):
    """A new process has the open transaction aborted under the epoch that the old process still has."""

    def fencing_ruling(self, metadata: Metadata) -> Ruling:
        return Ruling(Error.CONCURRENT_TRANSACTIONS, evolve(metadata, status=Status.PREPARE_ABORT))


BUG = Bug(
    name="kafka_5231",
    title="an abort that fences nobody",
    reference="KAFKA-5231",
    mechanism=(
        "A new process makes the coordinator abort the open transaction; the old process, whose epoch is "
        "still the present one, goes on in it, and the part before the abort is gone."
    ),
    violates=("OneOutcome",),
    buggy=BeginsUnderTheEpochThatItAborts,
    model=Transactions(transactions=1, version=1, expiring=False),
)
