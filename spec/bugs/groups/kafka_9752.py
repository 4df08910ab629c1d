"""KAFKA-9752: a new member whose session never ends."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.groups.classic.state import Member
from tidegauge.spec.kernel.bounds import Bounds


@attrs.frozen
class ForgetsNewMembers(ClassicGroups):
    """The session of a member that has just joined for the first time is not watched."""

    def watches(self, member: Member) -> bool:
        return not member.is_new


BUG = Bug(
    name="kafka_9752",
    title="a new member whose session never ends",
    reference="KAFKA-9752",
    mechanism=(
        "A process crashes before it has the response to its first JoinGroup. Its session does not end, "
        "and before KAFKA-12890 nothing else removed it: the group waits for it for ever."
    ),
    violates=("every process that goes on is in one stable generation", "who is gone is in no group"),
    buggy=ForgetsNewMembers,
    model=ClassicGroups(processes=1, sync_timeout=False, bounds=Bounds(Crash=1)),
)
