"""KAFKA-12890: a group that waits for an assignment for ever."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.groups.classic.state import Group
from tidegauge.spec.kernel.bounds import Bounds


@attrs.frozen
class WaitsForSyncs(ClassicGroups):
    """A member that sends heartbeats may take all the time in the world to ask for its assignment."""

    def may_expire_sync(self, group: Group) -> bool:
        return False


BUG = Bug(
    name="kafka_12890",
    title="a group that waits for an assignment for ever",
    reference="KAFKA-12890",
    mechanism=(
        "A member joins, and its application hangs while its heartbeats go on. If it leads, nobody gets "
        "an assignment; if not, it is a member that does nothing."
    ),
    violates=("every process that goes on is in one stable generation",),
    buggy=WaitsForSyncs,
    model=ClassicGroups(bounds=Bounds(Hang=1)),
)
