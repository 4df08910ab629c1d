"""KAFKA-8587, as the group's coordinator has it: an offset is told that an open transaction is about to change."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.offsets.machine import Offsets
from tidegauge.spec.offsets.state import Error, State


@attrs.frozen
class TellsWhatIsNotStable(Offsets):
    """Who asks for a stable offset is told the committed one, whatever is pending."""

    def fetch_error(self, state: State) -> Error:
        return Error.NONE


BUG = Bug(
    name="kafka_8587_told",
    title="an offset is told that an open transaction is about to change",
    reference="KAFKA-8587, KIP-447",
    mechanism=(
        "A member goes on from the committed offset while the last owner's transaction is not complete; once that "
        "commits, its records are consumed twice. What comes of it `kafka_8587` shows."
    ),
    violates=("StableIsDecided",),
    buggy=TellsWhatIsNotStable,
    model=Offsets(producers=1, max_entries=2, max_failures=0, max_time=0),
)
