"""KAFKA-5247: an offset counts from its marker on, and not from where it was written."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.offsets.machine import Offsets
from tidegauge.spec.offsets.state import Committed


@attrs.frozen
class CountsInTheOrderOfMarkers(Offsets):
    """What was committed last counts."""

    def counts_more(self, value: Committed, committed: Committed | None) -> bool:
        return True


BUG = Bug(
    name="kafka_5247",
    title="an offset counts from its marker on, and not from where it was written",
    reference="KAFKA-5247",
    mechanism=(
        "An offset is written in a transaction, a newer one beside it, and then the transaction commits: the group "
        "goes back to the older one. A broker that loads the log after the cleaner was there knows the newer one only."
    ),
    violates=("NewestCounts",),
    buggy=CountsInTheOrderOfMarkers,
    model=Offsets(producers=1, max_entries=3, max_failures=0, max_time=0),
)
