"""KAFKA-10284: a static member that was replaced, as the log does not know."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.kernel.bounds import Bounds


@attrs.frozen
class ReplacesInMemory(ClassicGroups):
    """The member id of a static member's next process is told before it is in the log."""

    def persists_replacement(self) -> bool:
        return False


BUG = Bug(
    name="kafka_10284",
    title="a static member that was replaced, as the log does not know",
    reference="KAFKA-10284",
    mechanism=(
        "A static member starts again, and goes on in the stable group. The next coordinator finds the "
        "id of the former process in the log, and fences the only one that there is."
    ),
    violates=("StableIsLogged",),
    buggy=ReplacesInMemory,
    model=ClassicGroups(processes=1, instances=(0,), partitions=1, bounds=Bounds(Crash=1, FailOver=1)),
)
