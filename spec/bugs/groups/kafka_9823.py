"""KAFKA-9823: a late response that resets a member."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.groups.classic.state import HeartbeatRequest, Phase, Process
from tidegauge.spec.kernel.bounds import Bounds


@attrs.frozen
class TakesLateResponses(ClassicGroups):
    """A member takes the error of a heartbeat for its own, whatever it was when it sent it."""

    def is_about_now(self, process: Process, request: HeartbeatRequest) -> bool:
        return process.phase in (Phase.JOINED, Phase.SYNCING, Phase.STABLE)


BUG = Bug(
    name="kafka_9823",
    title="a late response that resets a member",
    reference="KAFKA-9823",
    mechanism=(
        "A heartbeat of a former membership has its response late: the member, which has joined anew by then, "
        "forgets who it is, while the group has it as a member."
    ),
    violates=("OnlyTheStaleAreReset",),
    buggy=TakesLateResponses,
    model=ClassicGroups(processes=1, bounds=Bounds(ExpireSession=1, DelayHeartbeat=1)),
)
