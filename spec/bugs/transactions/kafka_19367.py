"""KAFKA-19367: an epoch that is raised twice, and overflows."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.state import Metadata


@attrs.frozen
class RaisesTheEpochTwice(Transactions):
    """The coordinator raises the epoch to fence the producer, and once more because the transaction is of version 2."""

    def fenced(self, metadata: Metadata) -> Metadata:
        once = super().fenced(metadata)
        return evolve(once, epoch=once.epoch + 1) if metadata.version >= 2 else once


BUG = Bug(
    name="kafka_19367",
    title="an epoch that is raised twice, and overflows",
    reference="KAFKA-19367, KAFKA-20090",
    mechanism=(
        "A transaction of the last epoch but one is aborted unasked: the epoch after next is beyond the largest."
    ),
    violates=("EpochsRise", "EpochsAreInRange"),
    buggy=RaisesTheEpochTwice,
    model=Transactions(incarnations=1, partitions=1, max_epoch=2),
)
