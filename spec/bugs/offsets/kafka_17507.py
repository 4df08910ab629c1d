"""KAFKA-17507: a marker is acknowledged before the group's coordinator knows of it."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.offsets.machine import Offsets
from tidegauge.spec.offsets.state import State


@attrs.frozen
class AcknowledgesWhatIsCommitted(Offsets):
    """A marker is acknowledged as soon as the log has it."""

    def acknowledgeable(self, state: State) -> int:
        return state.high_watermark


BUG = Bug(
    name="kafka_17507",
    title="a marker is acknowledged before the group's coordinator knows of it",
    reference="KAFKA-17507",
    mechanism=(
        "A marker is committed and acknowledged; the transaction is complete, and its producer goes on. The group's "
        "coordinator has not replayed it yet, and has the offset pending of a transaction that has ended."
    ),
    violates=("AcknowledgedIsApplied",),
    buggy=AcknowledgesWhatIsCommitted,
    model=Offsets(producers=1, max_entries=2, max_failures=0, max_time=0, applies_later=True),
)
