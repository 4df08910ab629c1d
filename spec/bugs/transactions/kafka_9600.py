"""KAFKA-9600: a client ends its transaction under an epoch that nobody gave it."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.transactions.coordinator_rules import Ruling
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.state import EndRequest, Metadata, Status


@attrs.frozen
class TakesAnyLaterEpoch(Transactions):
    """Clients end their transactions by the rule that the coordinator's own aborts need: the epoch may rise."""

    def end_ruling(self, metadata: Metadata, request: EndRequest, new_id: int) -> Ruling:
        if metadata.status is Status.ONGOING and request.epoch > metadata.epoch:
            metadata = evolve(metadata, epoch=request.epoch)
        return super().end_ruling(metadata, request, new_id)


BUG = Bug(
    name="kafka_9600",
    title="a client ends its transaction under an epoch that nobody gave it",
    reference="KAFKA-9600",
    mechanism=(
        "Only the coordinator raises epochs. A client that is wrong about its own has its EndTxn taken under a later "
        "one: the coordinator's record has an epoch that no producer was given. Kafka's transaction hung for it; here "
        "the producer is fenced by itself."
    ),
    violates=("OnlyZombiesFenced", "EpochsRise"),
    buggy=TakesAnyLaterEpoch,
    model=Transactions(
        transactions=1,
        partitions=1,
        incarnations=1,
        expiring=False,
        guesses_epochs=True,
        bounds=Bounds(DelayEnd=1),
    ),
)
