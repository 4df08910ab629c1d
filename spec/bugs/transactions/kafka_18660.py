"""KAFKA-18660: a producer id that is refused before it is in force."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.state import AddRequest, Error, Metadata, ProduceRequest


@attrs.frozen
class LooksAtTheProducerIdFirst(Transactions):
    """The coordinator looks at the producer id before it looks whether a transaction has yet to be complete."""

    def request_error(self, metadata: Metadata, request: AddRequest | ProduceRequest) -> Error:
        if metadata.producer_id != request.producer_id:
            return Error.INVALID_PRODUCER_ID_MAPPING
        return super().request_error(metadata, request)


BUG = Bug(
    name="kafka_18660",
    title="a producer id that is refused before it is in force",
    reference="KAFKA-18660",
    mechanism=(
        "Epochs are used up, and EndTxn gives the producer its next id; it sends a record under that id "
        "before the last marker is written, and is refused for good."
    ),
    violates=("OnlyZombiesFenced",),
    buggy=LooksAtTheProducerIdFirst,
    model=Transactions(incarnations=1, partitions=1, transactions=3, max_epoch=2, expiring=False),
)
