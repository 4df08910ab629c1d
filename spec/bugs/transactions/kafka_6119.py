"""KAFKA-6119: a time-out that fences nobody."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.state import Metadata, Status


@attrs.frozen
class ExpiresUnderTheSameEpoch(Transactions):
    """The coordinator aborts a transaction in time-out and leaves its producer the epoch."""

    def expired(self, metadata: Metadata) -> Metadata | None:
        if super().expired(metadata) is None:
            return None
        return evolve(metadata, status=Status.PREPARE_ABORT)


BUG = Bug(
    name="kafka_6119",
    title="a time-out that fences nobody",
    reference="KAFKA-6119",
    mechanism=(
        "The coordinator aborts a transaction that takes too long; its producer adds the next partition as if "
        "nothing had happened, and commits: what it sent before the time-out is lost."
    ),
    violates=("OneOutcome",),
    buggy=ExpiresUnderTheSameEpoch,
    model=Transactions(incarnations=1, transactions=1, version=1),
)
