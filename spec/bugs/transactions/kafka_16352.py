"""KAFKA-16352: a marker that is acknowledged late stands for that of a later end."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.state import PREPARED, MarkerRequest, Metadata


@attrs.frozen
class AcknowledgesById(Transactions):
    """The coordinator asks of which transactional id a marker is, and not of which end."""

    def acknowledged(self, metadata: Metadata, request: MarkerRequest) -> Metadata:
        if metadata.status not in PREPARED:
            return metadata
        return evolve(metadata, partitions=tuple(p for p in metadata.partitions if p != request.partition))


BUG = Bug(
    name="kafka_16352",
    title="a marker that is acknowledged late stands for that of a later end",
    reference="KAFKA-16352",
    mechanism=(
        "A marker is sent twice, and its second acknowledgement comes when the next transaction of the id is prepared. "
        "The coordinator finds what is pending by the id alone, and takes it off: the partition never gets the later "
        "marker, and its transaction stays open there."
    ),
    violates=("OpenIsKnown",),
    buggy=AcknowledgesById,
    model=Transactions(incarnations=1, partitions=1, bounds=Bounds(DelayMarker=1, GiveUp=1, Elect=1)),
)
