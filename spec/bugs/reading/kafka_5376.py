"""KAFKA-5376: a fetch that has waited is told of no aborted transaction."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.transactions.reading import CommittedReads, Reading
from tidegauge.spec.transactions.state import Partition, Span


@attrs.frozen
class TellsOfNoAbort(CommittedReads):
    """Only who is served at once is told what to leave out."""

    def left_out(self, reading: Reading, partition: Partition) -> tuple[Span, ...]:
        return reading.aborted


BUG = Bug(
    name="kafka_5376",
    title="a fetch that has waited is told of no aborted transaction",
    reference="KAFKA-5376",
    mechanism=(
        "A fetch finds nothing and waits. A transaction is written and aborted; the fetch is served with its records, "
        "and without the aborted transactions that a consumer needs to leave them out."
    ),
    violates=("ConsumedIsCommitted",),
    buggy=TellsOfNoAbort,
    model=CommittedReads(transactions=1, partitions=1, incarnations=1),
)
