"""KAFKA-9801: a static member that starts again while the leader assigns."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.groups.classic.state import Group
from tidegauge.spec.kernel.bounds import Bounds


@attrs.frozen
class ReplacesWhileTheLeaderAssigns(ClassicGroups):
    """A static member's next process takes the place of the former one also while the assignment is waited for."""

    def replacing_rebalances(self, group: Group) -> bool:
        return False


BUG = Bug(
    name="kafka_9801",
    title="a static member that starts again while the leader assigns",
    reference="KAFKA-9801",
    mechanism=(
        "The leader has the former member id, and gives it partitions. The next process has another one, "
        "and is given nothing; what it was to have nobody owns."
    ),
    violates=("SharedOutOnce",),
    buggy=ReplacesWhileTheLeaderAssigns,
    model=ClassicGroups(instances=(0, 1), bounds=Bounds(Crash=1)),
)
