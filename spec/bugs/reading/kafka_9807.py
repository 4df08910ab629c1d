"""KAFKA-9807: a read is bounded by a first unstable offset and a high watermark of two moments."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.transactions.reading import CommittedReads, Reading
from tidegauge.spec.transactions.state import NONE, Partition


@attrs.frozen
class LooksTwice(CommittedReads):
    """The high watermark may have moved since the first unstable offset was looked up."""

    def bound(self, reading: Reading, partition: Partition) -> int:
        first = reading.first_undecided
        return partition.high_watermark if first == NONE else min(first, partition.high_watermark)


BUG = Bug(
    name="kafka_9807",
    title="a read beyond the last stable offset",
    reference="KAFKA-9807",
    mechanism=(
        "A read of committed records finds no transaction undecided. Before it looks at the high watermark, that moves "
        "over the first record of one: the read returns it, and the transaction is aborted."
    ),
    violates=("ConsumedIsCommitted",),
    buggy=LooksTwice,
    model=CommittedReads(transactions=1, partitions=1, incarnations=1),
)
