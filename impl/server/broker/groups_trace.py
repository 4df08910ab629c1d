"""What a coordinator of classic groups decides, as events of the trace, where that is of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.classic.coordinator import Adopted, Dissolved, End, Failed
from tidegauge.impl.coordinators.groups.classic.messages import (
    GroupWrite,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Outcome,
    SyncGroup,
)
from tidegauge.impl.coordinators.groups.classic.turn import DeadlineKey, Timer
from tidegauge.impl.coordinators.groups.group_metadata import GroupMetadata
from tidegauge.impl.coordinators.groups.requests import Commit
from tidegauge.impl.server import trace

if TYPE_CHECKING:
    from tidegauge.impl.coordinators.groups.classic.coordinator import Asked
    from tidegauge.impl.coordinators.groups.classic.state import ClassicGroup, Token
    from tidegauge.impl.server.trace.tracer import Tracer


class GroupsTrace:
    """Records the decisions of one core, in one leader epoch."""

    def __init__(self, tracer: Tracer, partition: int, leader_epoch: int) -> None:
        self._tracer = tracer
        self._of = (partition, leader_epoch)

    def loaded(self) -> None:
        """All of the log is in memory."""
        self._tracer.record(trace.groups.Loaded, *self._of)

    def resigned(self) -> None:
        """The leader epoch has ended here."""
        self._tracer.record(trace.groups.Resign, *self._of)

    def decided(self, asked: Asked, group: ClassicGroup, came: Outcome | ErrorCode, token: Token | None) -> None:
        """The core has taken something in, and this has come of it; `token` is of the request, if it is one."""
        kinds, record = trace.groups, self._tracer.record
        outcome = Outcome() if isinstance(came, ErrorCode) else came
        error = came if isinstance(came, ErrorCode) else ErrorCode.none
        told = next((response.error for one, response in outcome.responses if one is token), None)
        written = tuple(write.metadata for write in outcome.writes)
        of = (*self._of, group.group_id, kinds.GroupSeen.of(group), written)
        match asked:
            case JoinGroup():
                record(kinds.ReceiveJoin, *of, asked, told)
            case SyncGroup():
                record(kinds.ReceiveSync, *of, asked, told)
            case Heartbeat():
                record(kinds.ReceiveHeartbeat, *of, asked, error)
            case LeaveGroup():
                record(kinds.ReceiveLeave, *of, asked)
            case Commit():
                record(kinds.ReceiveCommit, *of, asked, error)
            case GroupMetadata():
                record(kinds.LoadGroup, *of, asked)
            case GroupWrite():
                record(kinds.CommitRecord, *of, asked.metadata)
            case Failed():
                record(kinds.FailRecord, *of, asked.write.metadata, asked.error)
            case Adopted(metadata=metadata):
                of = (*of[:-1], written if metadata is None else (metadata, *written))
                record(kinds.GoOver, *of)
            case Dissolved():
                record(kinds.Dissolve, *of)
            case End.ENDING:
                record(kinds.DeleteGroup, *of)
            case End.ENDED:
                record(kinds.CommitDeletion, *of)
            case End.KEPT:
                record(kinds.FailDeletion, *of)
            case DeadlineKey(timer=Timer.SESSION):
                record(kinds.ExpireSession, *of, asked.member_id)
            case DeadlineKey(timer=Timer.JOIN):
                record(kinds.ExpireRebalance, *of)
            case DeadlineKey():
                record(kinds.ExpireSync, *of)
            case str():
                record(kinds.TakeCommit, *of, asked)
