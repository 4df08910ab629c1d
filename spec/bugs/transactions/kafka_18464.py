"""KAFKA-18464: an empty abort that fences itself."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.transactions.coordinator_rules import Ruling
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.state import EndRequest, Error, Metadata


@attrs.frozen
class FencesAfterAnEmptyAbort(Transactions):
    """The abort of a transaction without partitions raises the epoch, and then holds the request against it."""

    def empty_abort_ruling(self, metadata: Metadata, request: EndRequest, new_id: int) -> Ruling:
        return evolve(super().empty_abort_ruling(metadata, request, new_id), error=Error.PRODUCER_FENCED)


BUG = Bug(
    name="kafka_18464",
    title="an empty abort that fences itself",
    reference="KAFKA-18464",
    mechanism=(
        "A producer gives its only record up before the leader has added the partition, and aborts; the "
        "coordinator raises the epoch, and refuses the abort for its old one."
    ),
    violates=("OnlyZombiesFenced",),
    buggy=FencesAfterAnEmptyAbort,
    model=Transactions(incarnations=1, partitions=1, expiring=False, bounds=Bounds(GiveUp=1)),
)
