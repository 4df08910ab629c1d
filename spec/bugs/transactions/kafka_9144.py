"""KAFKA-9144: a producer is forgotten as soon as a marker has ended its epoch, and its coordinator's epoch with it."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.state import NONE, Marker, Memory


@attrs.frozen
class MarkersAreNoUse(Transactions):
    """A producer's time counts from its last record; one that has none in its present epoch has been idle for ever."""

    def with_marker(self, memory: Memory, marker: Marker, offset: int) -> Memory:
        memory = super().with_marker(memory, marker, offset)
        kept = tuple(entry for entry in memory.producers if entry.last_sequence != NONE or entry.open_from != NONE)
        return evolve(memory, producers=kept)


BUG = Bug(
    name="kafka_9144",
    title="a producer is forgotten at its marker, and its coordinator's epoch with it",
    reference="KAFKA-9144",
    mechanism=(
        "The coordinator aborts for a producer, under a new epoch. The marker empties what is known of the producer, "
        "whose time is counted from its last record: it is forgotten at once. The marker of the coordinator before, "
        "which comes late, is taken after that of the present one."
    ),
    violates=("EpochsRise",),
    buggy=MarkersAreNoUse,
    model=Transactions(transactions=1, partitions=1, incarnations=1, bounds=Bounds(DelayMarker=1, FailOver=1)),
)
