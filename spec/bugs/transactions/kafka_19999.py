"""KAFKA-19999: a repeated marker that is refused for ever."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.state import Error, MarkerRequest, ProducerEntry


@attrs.frozen
class TakesNoMarkerTwice(Transactions):
    """A marker of version 2 must have a greater epoch, though nothing is open any more."""

    def marker_epoch_error(self, entry: ProducerEntry, request: MarkerRequest) -> Error:
        taken = request.epoch > entry.epoch or (request.version < 2 and request.epoch == entry.epoch)
        return Error.NONE if taken else Error.INVALID_PRODUCER_EPOCH


BUG = Bug(
    name="kafka_19999",
    title="a repeated marker that is refused for ever",
    reference="KAFKA-19999, KIP-1228",
    mechanism=(
        "A marker is written, and the coordinator fails before it is told; the next coordinator writes it "
        "again, is refused, and the transaction stays prepared."
    ),
    violates=("a prepared transaction is complete",),
    buggy=TakesNoMarkerTwice,
    model=Transactions(incarnations=1, partitions=1, transactions=1, bounds=Bounds(FailOver=1)),
)
