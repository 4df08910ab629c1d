"""KAFKA-19163: an offset, or its group, expires under a transaction that is open."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.offsets.machine import Offsets
from tidegauge.spec.offsets.state import State


@attrs.frozen
class LetsGoWhatIsPending(Offsets):
    """The sweep for what is old looks at the committed offsets alone."""

    def is_pending(self, state: State) -> bool:
        return False


BUG = Bug(
    name="kafka_19163",
    title="an offset expires under a transaction that is open",
    reference="KAFKA-19163",
    mechanism=(
        "The coordinator writes a tombstone for what is old, and does not see what a transaction has pending. The "
        "tombstone takes that along: the transaction commits, and its offset is gone."
    ),
    violates=("OnlyOldExpires",),
    buggy=LetsGoWhatIsPending,
    model=Offsets(producers=1, max_entries=4, max_failures=0),
)
