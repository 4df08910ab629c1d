"""KAFKA-9752: the coordinator forgets the session of a new member."""

from __future__ import annotations

from tidegauge.impl.coordinators.groups.classic.members import ClassicRules
from tidegauge.impl.coordinators.groups.classic.turn import Turn
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.classic_groups import GroupRoles


class ForgetsNewMembers(ClassicRules):
    """Who has joined for the first time has no session until its first heartbeat."""

    def tell_generation(self, turn: Turn) -> None:
        new = [member for member in turn.group.members.values() if member.is_new]
        super().tell_generation(turn)
        for member in new:
            turn.end_session(member.member_id)
            member.session_deadline = None


BUG = CoreBug("kafka_9752", GroupRoles(rules=ForgetsNewMembers))
