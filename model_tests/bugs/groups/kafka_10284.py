"""KAFKA-10284: the coordinator keeps the id of a static member's next process to itself."""

from __future__ import annotations

from tidegauge.impl.coordinators.groups.classic.members import ClassicRules
from tidegauge.impl.coordinators.groups.classic.messages import JoinGroup
from tidegauge.impl.coordinators.groups.classic.state import ClassicMember, Token
from tidegauge.impl.coordinators.groups.classic.turn import Turn
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.classic_groups import GroupRoles


class ReplacesInMemory(ClassicRules):
    """Nothing is written when a static member starts again in a stable group."""

    def replace(self, turn: Turn, request: JoinGroup, old: ClassicMember, member_id: str, token: Token) -> None:
        super().replace(turn, request, old, member_id, token)
        if turn.writes and (replacement := turn.writes[-1].replacement) is not None:
            turn.writes.pop()
            self.replaced(turn, replacement)


BUG = CoreBug("kafka_10284", GroupRoles(rules=ReplacesInMemory))
