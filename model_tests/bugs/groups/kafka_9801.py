"""KAFKA-9801: a static member starts again while the leader assigns, and the coordinator goes on."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.classic.members import ClassicRules
from tidegauge.impl.coordinators.groups.classic.messages import JoinGroup, Noted, SyncResponse
from tidegauge.impl.coordinators.groups.classic.state import ClassicMember, ClassicState, Token
from tidegauge.impl.coordinators.groups.classic.turn import Turn
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.classic_groups import GroupRoles


class ReplacesWhileTheLeaderAssigns(ClassicRules):
    """The next process is told the generation that is under way."""

    def replace(self, turn: Turn, request: JoinGroup, old: ClassicMember, member_id: str, token: Token) -> None:
        if turn.group.state is not ClassicState.COMPLETING_REBALANCE:
            super().replace(turn, request, old, member_id, token)
            return
        turn.respond_to_sync(old, SyncResponse(ErrorCode.fenced_instance_id))
        turn.note(Noted.REPLACED, member=member_id)
        member = turn.group.replace(old, member_id)
        turn.end_session(old.member_id)
        turn.begin_session(member)
        turn.respond(token, self.generation_told(turn.group, member_id))


BUG = CoreBug("kafka_9801", GroupRoles(rules=ReplacesWhileTheLeaderAssigns))
