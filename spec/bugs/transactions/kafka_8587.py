"""KAFKA-8587: an offset that a transaction is about to change, told to the next owner of a partition."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.state import Error, Partition


@attrs.frozen
class TellsUnstableOffsets(Transactions):
    """The group's coordinator tells the last committed offset, whatever transaction is open."""

    def offset_fetch_error(self, partition: Partition) -> Error:
        return Error.NONE


BUG = Bug(
    name="kafka_8587",
    title="a record that two members consume",
    reference="KAFKA-8587, KIP-447",
    mechanism=(
        "A member has committed its offset in a transaction that is not complete; the partition is given to another "
        "member with another transactional id, which is told the offset before, and consumes the record again."
    ),
    violates=("ExactlyOnce",),
    buggy=TellsUnstableOffsets,
    model=Transactions(
        transactional_ids=2,
        incarnations=1,
        partitions=1,
        transactions=1,
        inputs=1,
        expiring=False,
        bounds=Bounds(Rebalance=1),
    ),
)
