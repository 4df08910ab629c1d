"""KAFKA-8803: a record is committed and not known, because the clock was set back before it was written."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.state import NONE, Metadata


@attrs.frozen
class TakesInNothingEarlier(Transactions):
    """A transaction that begins before the last one did can't be: its record stays pending."""

    def takes_in(self, known: Metadata, committed: Metadata) -> bool:
        return known.started == NONE or committed.started <= known.started


BUG = Bug(
    name="kafka_8803",
    title="a record is committed and not known, because the clock was set back",
    reference="KAFKA-8803",
    mechanism=(
        "The coordinator checks, when a record is committed, that its transaction began no earlier than the last one. "
        "Where its clock was set back in between the check fails, and the record stays pending: every request of the "
        "id is told CONCURRENT_TRANSACTIONS, and nothing expires, until another coordinator loads the log."
    ),
    violates=("KnowsItsLog",),
    buggy=TakesInNothingEarlier,
    model=Transactions(incarnations=1, partitions=1, bounds=Bounds(TurnClockBack=1)),
)
