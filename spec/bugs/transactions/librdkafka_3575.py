"""librdkafka 3575: a client ends its transaction while a partition is on its way into it."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.state import AddRequest


@attrs.frozen
class EndsWhileItAdds(Transactions):
    """A client looks at its records alone."""

    def may_end(self, late: Iterable[AddRequest], transaction: int) -> bool:
        return True


BUG = Bug(
    name="librdkafka_3575",
    title="a client ends its transaction while a partition is on its way into it",
    reference="librdkafka 3575",
    mechanism=(
        "The client ends its transaction, and the coordinator gets its AddPartitionsToTxn after the EndTxn. With "
        "version 1 that opens another transaction, under the epoch that is still the client's, and the client knows "
        "of none."
    ),
    violates=("OneOutcome", "CommittedAsAsked"),
    buggy=EndsWhileItAdds,
    model=Transactions(
        transactions=2, partitions=1, incarnations=1, version=1, one_connection=True, bounds=Bounds(DelayAdd=1)
    ),
)
