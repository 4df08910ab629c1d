"""KAFKA-9777: the last marker is acknowledged while the coordinator loads, and nobody looks at it again."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.state import State


@attrs.frozen
class LooksWhereNothingLoads(Transactions):
    """Who loads a partition of the log holds the lock that a look at any transaction needs."""

    def notices_the_last_marker(self, state: State) -> bool:
        return all(one.cached is not None for one in state.coordination)


BUG = Bug(
    name="kafka_9777",
    title="the last marker is acknowledged while the coordinator loads, and nobody looks again",
    reference="KAFKA-9777",
    mechanism=(
        "Whether a transaction is complete is looked at when a marker of it is acknowledged, and not at all where "
        "another partition of the log is just being loaded, which holds the lock. After the last marker nothing makes "
        "anybody look again: the transaction stays prepared, and its producer is told CONCURRENT_TRANSACTIONS."
    ),
    violates=("LastMarkerIsNoticed",),
    buggy=LooksWhereNothingLoads,
    model=Transactions(
        transactional_ids=2,
        incarnations=1,
        partitions=1,
        transactions=1,
        inputs=1,
        expiring=False,
        bounds=Bounds(FailOver=1),
    ),
)
