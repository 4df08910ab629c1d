"""KAFKA-9235: a coordinator whose replica is taken away goes on."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.offsets.machine import Offsets
from tidegauge.spec.offsets.state import Store


@attrs.frozen
class GoesOnWithoutItsReplica(Offsets):
    """Only a leader that becomes a follower forgets; one that has no replica any more is told nothing."""

    def kept_by_former(self, store: Store) -> Store | None:
        return store


BUG = Bug(
    name="kafka_9235",
    title="a coordinator whose replica is taken away goes on",
    reference="KAFKA-9235",
    mechanism=(
        "The partition is reassigned away from its leader, which deletes the replica and keeps what it knows. Another "
        "broker takes over, a group commits there, and a client that asks the former coordinator is told what was "
        "committed before."
    ),
    violates=("FormerTellsNothingElse",),
    buggy=GoesOnWithoutItsReplica,
    model=Offsets(producers=1, max_entries=2, max_time=0),
)
