"""KAFKA-17754: a late EndTxn that decides a later transaction."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.transactions.coordinator_rules import Ruling
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.state import EndRequest, Metadata, Status


@attrs.frozen
class EndsByProducerId(Transactions):
    """The coordinator does not ask which transaction an EndTxn is to end, as it can't before version 2."""

    def end_ruling(self, metadata: Metadata, request: EndRequest, new_id: int) -> Ruling:
        if metadata.status is Status.ONGOING and request.producer_id == metadata.producer_id:
            request = evolve(request, epoch=metadata.epoch)
        return super().end_ruling(metadata, request, new_id)


BUG = Bug(
    name="kafka_17754",
    title="a late EndTxn that decides a later transaction",
    reference="KAFKA-17754, KIP-890",
    mechanism=(
        "An EndTxn is sent twice; the second one arrives when the producer is in its next transaction, of the "
        "same epoch, and commits what is there by then."
    ),
    violates=("CommittedAsAsked",),
    buggy=EndsByProducerId,
    model=Transactions(incarnations=1, partitions=1, bounds=Bounds(DelayEnd=1)),
)
