"""The rules of who is a member: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and a commit of offsets.

A dynamic member is given an id first, and is in the group when it joins with that (KIP-394): a client that never learns
of its id leaves nobody behind. A static member has an instance id (KIP-345): when it comes again without a member id
it takes the place of the one before, whose requests are *fenced* from then on. In a stable group that needs no
rebalance, as long as the group's protocol stays the same; the new member id is in the log before it is told.
"""

from __future__ import annotations

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.classic.messages import (
    MEMBER_ID_REQUIRED_FROM,
    NO_MEMBER,
    SKIP_ASSIGNMENT_FROM,
    GroupWrite,
    Heartbeat,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    LeaveResponse,
    Leaving,
    Left,
    Noted,
    Purpose,
    Replacement,
    SyncGroup,
    SyncResponse,
)
from tidegauge.impl.coordinators.groups.classic.rebalances import IN_GENERATION, NONE, RebalanceRules
from tidegauge.impl.coordinators.groups.classic.state import ClassicGroup, ClassicMember, ClassicState, Token
from tidegauge.impl.coordinators.groups.classic.turn import Turn
from tidegauge.impl.coordinators.groups.requests import Commit

TOKEN_TAKEN = ErrorCode.rebalance_in_progress
"""To a request that waits when its member sends another one: only the later one can have a client."""


class ClassicRules(RebalanceRules):
    """What a coordinator decides about members."""

    # --- JoinGroup -----------------------------------------------------------------------------------------------

    def join(self, turn: Turn, request: JoinGroup, token: Token) -> None:
        """A member wants to be in the next generation."""
        group = turn.group
        names = [protocol.name for protocol in request.protocols]
        if not self.has_room(turn, request.member_id):
            if (member := group.members.get(request.member_id)) is not None:
                self.drop(turn, member)
            elif group.pending.pop(request.member_id, None) is not None:
                turn.end_session(request.member_id)
            turn.respond(token, JoinResponse(ErrorCode.group_max_size_reached))
            self.finish_joining(turn)
        elif group.state is ClassicState.DEAD:
            turn.respond(token, JoinResponse(ErrorCode.coordinator_not_available, request.member_id))
        elif not group.supports(request.protocol_type, names):
            turn.respond(token, JoinResponse(ErrorCode.inconsistent_group_protocol, request.member_id))
        elif request.member_id != NO_MEMBER:
            self.join_known(turn, request, token)
        elif request.instance_id is None:
            self.join_dynamic(turn, request, token)
        else:
            self.join_static(turn, request, token)

    def has_room(self, turn: Turn, member_id: str) -> bool:
        """Whether one more can join (`group.max.size`).

        While members join again those count that have: who comes last is out, where the size was lowered.
        """
        group, max_size = turn.group, turn.limits.max_size
        member = group.members.get(member_id)
        if group.state is ClassicState.PREPARING_REBALANCE:
            return (member is not None and member.joining is not None) or group.joined < max_size
        return group.state not in IN_GENERATION or member is not None or len(group.members) < max_size

    def join_dynamic(self, turn: Turn, request: JoinGroup, token: Token) -> None:
        """One without an id: it is given one, and joins with that. Older clients are members at once."""
        member_id = f"{request.client_id}-{request.unique}"
        if request.version >= MEMBER_ID_REQUIRED_FROM:
            turn.expect(member_id, request.session_timeout_ms)
            turn.respond(token, JoinResponse(ErrorCode.member_id_required, member_id))
        else:
            self.add(turn, request, member_id, token)

    def join_static(self, turn: Turn, request: JoinGroup, token: Token) -> None:
        """One with an instance id and no member id: a new process, perhaps in the place of another one."""
        member_id = f"{request.instance_id}-{request.unique}"
        known = turn.group.instances.get(request.instance_id or "")
        if known is None:
            self.add(turn, request, member_id, token)
        else:
            self.replace(turn, request, turn.group.members[known], member_id, token)

    def join_known(self, turn: Turn, request: JoinGroup, token: Token) -> None:
        """One with a member id: it joins for the first time with it, or again."""
        group = turn.group
        if request.member_id in group.pending and request.instance_id is None:
            self.add(turn, request, request.member_id, token)
            return
        error = self.member_error(group, request.member_id, request.instance_id)
        if error is not NONE:
            turn.respond(token, JoinResponse(error, request.member_id))
            return
        member = group.members[request.member_id]
        changes = member.protocols != request.protocols
        if group.state is ClassicState.PREPARING_REBALANCE:
            self.join_again(turn, request, member, token, "joins again")
        elif changes:
            self.join_again(turn, request, member, token, "has other protocols or metadata")
        elif group.state is ClassicState.STABLE and group.leader == member.member_id:
            self.join_again(turn, request, member, token, "leads the group and joins again")
        else:
            turn.respond(token, self.generation_told(group, member.member_id))

    def join_again(self, turn: Turn, request: JoinGroup, member: ClassicMember, token: Token, why: str) -> None:
        """A member joins the next generation."""
        self.update(turn, request, member, token)
        self.rebalance(turn, f"member {member.member_id} {why}{_said(request.reason)}")

    def update(self, turn: Turn, request: JoinGroup, member: ClassicMember, token: Token) -> None:
        """What the member says of itself now; its JoinGroup waits."""
        turn.group.update(member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
        former = turn.group.wait_to_join(member, token)
        turn.respond(former, JoinResponse(TOKEN_TAKEN, member.member_id))

    def add(self, turn: Turn, request: JoinGroup, member_id: str, token: Token) -> None:
        """A new member is in the group."""
        group = turn.group
        member = ClassicMember(
            member_id,
            request.instance_id,
            request.client_id,
            request.client_host,
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocols,
            is_new=True,
        )
        group.pending.pop(member_id, None)
        group.add(member, request.protocol_type)
        group.wait_to_join(member, token)
        group.has_new_member = True
        turn.begin_session(member, turn.limits.new_member_join_ms)
        turn.note(Noted.JOINED, member=member_id)
        self.rebalance(turn, f"member {member_id} joins{_said(request.reason)}")

    # --- static members ------------------------------------------------------------------------------------------

    def replace(self, turn: Turn, request: JoinGroup, old: ClassicMember, member_id: str, token: Token) -> None:
        """A static member takes the place of the process before, which is fenced."""
        group, old_leader = turn.group, turn.group.leader
        turn.respond_to_join(old, JoinResponse(ErrorCode.fenced_instance_id, old.member_id))
        turn.respond_to_sync(old, SyncResponse(ErrorCode.fenced_instance_id))
        turn.note(Noted.REPLACED, member=member_id, why=f"in the place of {old.member_id}")
        member = group.replace(old, member_id)
        self.wait_for_unsynced(turn)
        turn.end_session(old.member_id)
        self.update(turn, request, member, token)
        turn.begin_session(member)
        why = f"static member {member_id} joins{_said(request.reason)}"
        if group.state is ClassicState.STABLE and group.elected_protocol() == group.protocol:
            assigned = {one.member_id: one.assignment for one in group.members.values()}
            replacement = Replacement(old, member_id, token, old_leader, request.version)
            turn.writes.append(
                GroupWrite(group.group_id, Purpose.REPLACEMENT, group.written(assigned), replacement=replacement)
            )
        else:
            self.rebalance(turn, why)

    def replaced(self, turn: Turn, replacement: Replacement) -> None:
        """The new member id is in the log: the member goes on in the present generation.

        In a rebalance that has begun since, it has joined with this very request.
        """
        group, member = turn.group, self._waiting(turn.group, replacement)
        if member is None:
            return
        told = self.generation_told(group, member.member_id)
        if replacement.version >= SKIP_ASSIGNMENT_FROM:
            told = attrs.evolve(told, skip_assignment=group.leader == member.member_id)
        else:  # it must not take itself for the leader: what it would assign would go nowhere
            told = attrs.evolve(told, leader=replacement.old_leader or "", members=())
        turn.respond_to_join(member, told)
        if member.session_deadline is None:
            turn.begin_session(member)

    def replacement_failed(self, turn: Turn, replacement: Replacement, error: ErrorCode) -> None:
        """The new member id is not in the log: the old one is the member's again."""
        group, member = turn.group, self._waiting(turn.group, replacement)
        if member is None:
            return
        old = replacement.old
        told = self.generation_told(group, NO_MEMBER)
        turn.respond_to_join(member, attrs.evolve(told, error=error, leader=replacement.old_leader or ""))
        group.update(member, old.protocols, old.rebalance_timeout_ms, old.session_timeout_ms)
        turn.end_session(member.member_id)
        turn.begin_session(group.replace(member, old.member_id))

    def _waiting(self, group: ClassicGroup, replacement: Replacement) -> ClassicMember | None:
        member = group.members.get(replacement.member_id)
        is_waiting = member is not None and member.joining is replacement.token and group.state is ClassicState.STABLE
        return member if is_waiting else None

    # --- SyncGroup -----------------------------------------------------------------------------------------------

    def sync(self, turn: Turn, request: SyncGroup, token: Token) -> None:
        """A member wants its assignment; the leader's is for everybody."""
        group = turn.group
        error = self.sync_error(group, request)
        if error is not NONE:
            turn.respond(token, SyncResponse(error))
            return
        member = group.members[request.member_id]
        group.unsynced.pop(member.member_id, None)
        self.wait_for_unsynced(turn)
        if group.state is ClassicState.STABLE:
            turn.respond(token, self.assignment_told(group, member))
            return
        former, member.syncing = member.syncing, token
        turn.respond(former, SyncResponse(TOKEN_TAKEN))
        if group.leader == member.member_id and not group.is_storing:
            self.take_assignment(turn, dict(request.assignments))

    def wait_for_unsynced(self, turn: Turn) -> None:
        """Nobody is waited for any more once all have asked for their assignment, or have been replaced."""
        if not turn.group.unsynced:
            turn.wait_for_syncs(None)

    def sync_error(self, group: ClassicGroup, request: SyncGroup) -> ErrorCode:
        """Why there is no assignment for it, now or ever."""
        if group.state is ClassicState.DEAD:
            return ErrorCode.coordinator_not_available
        error = self.generation_error(group, request.member_id, request.instance_id, request.generation)
        if error is not NONE:
            return error
        for told, known in ((request.protocol_type, group.protocol_type), (request.protocol, group.protocol)):
            if told is not None and known is not None and told != known:
                return ErrorCode.inconsistent_group_protocol
        is_joining = group.state is ClassicState.PREPARING_REBALANCE
        return ErrorCode.rebalance_in_progress if is_joining else NONE

    # --- Heartbeat, and commits ----------------------------------------------------------------------------------

    def heartbeat(self, turn: Turn, request: Heartbeat) -> ErrorCode:
        """A member lives; REBALANCE_IN_PROGRESS tells it to join again."""
        group = turn.group
        if group.state is ClassicState.DEAD:
            return ErrorCode.coordinator_not_available
        error = self.generation_error(group, request.member_id, request.instance_id, request.generation)
        if error is not NONE:
            return error
        turn.begin_session(group.members[request.member_id])
        is_joining = group.state is ClassicState.PREPARING_REBALANCE
        return ErrorCode.rebalance_in_progress if is_joining else NONE

    def commit_error(self, group: ClassicGroup, commit: Commit) -> ErrorCode:
        """Why a commit is refused: its client is no member of the present generation, or has no assignment yet.

        Without a membership one may commit while the group is empty.
        """
        if group.state is ClassicState.DEAD:
            return ErrorCode.coordinator_not_available
        if commit.generation < 0 and group.state is ClassicState.EMPTY:
            return NONE
        if commit.generation >= 0 or commit.member_id != NO_MEMBER or commit.instance_id is not None:
            error = self.generation_error(group, commit.member_id, commit.instance_id, commit.generation)
            if error is not NONE:
                return error
        elif not commit.is_transactional:  # a transactional producer of before KIP-447 does not say who it is
            return ErrorCode.unknown_member_id
        is_unassigned = group.state is ClassicState.COMPLETING_REBALANCE and not commit.is_transactional
        return ErrorCode.rebalance_in_progress if is_unassigned else NONE

    def committed_by(self, turn: Turn, member_id: str) -> None:
        """A commit was taken: its member lives."""
        member = turn.group.members.get(member_id)
        if member is not None:
            turn.begin_session(member)

    def member_error(self, group: ClassicGroup, member_id: str, instance_id: str | None) -> ErrorCode:
        """Why one that says it is a member is none: FENCED_INSTANCE_ID, UNKNOWN_MEMBER_ID."""
        if instance_id is not None:
            known = group.instances.get(instance_id)
            if known is None:
                return ErrorCode.unknown_member_id
            if known != member_id:
                return ErrorCode.fenced_instance_id
        return NONE if member_id in group.members else ErrorCode.unknown_member_id

    def generation_error(
        self, group: ClassicGroup, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        """The same, and ILLEGAL_GENERATION for a member of another generation."""
        error = self.member_error(group, member_id, instance_id)
        if error is NONE and generation != group.generation:
            return ErrorCode.illegal_generation
        return error

    # --- LeaveGroup ----------------------------------------------------------------------------------------------

    def leave(self, turn: Turn, request: LeaveGroup, token: Token) -> None:
        """Members leave; each has an error of its own."""
        group = turn.group
        if group.state is ClassicState.DEAD:
            turn.respond(token, LeaveResponse(ErrorCode.coordinator_not_available))
            return
        left = tuple(Left(one.member_id, one.instance_id, self.leave_one(turn, one)) for one in request.members)
        gone = sum(1 for one in left if one.error is NONE)
        if gone and group.state in (*IN_GENERATION, ClassicState.PREPARING_REBALANCE):
            self.rebalance(turn, f"{gone} members have left")
        turn.respond_when_written(token, LeaveResponse(NONE, left))

    def leave_one(self, turn: Turn, leaving: Leaving) -> ErrorCode:
        """One leaves; an operator removes a static member by its instance id alone."""
        group, member_id = turn.group, leaving.member_id
        if member_id in group.pending:
            del group.pending[member_id]
            turn.end_session(member_id)
        else:
            if member_id == NO_MEMBER and leaving.instance_id is not None:
                member_id = group.instances.get(leaving.instance_id, NO_MEMBER)
            error = self.member_error(group, member_id, leaving.instance_id)
            if error is not NONE:
                return error
            self.drop(turn, group.members[member_id])
        turn.note(Noted.LEFT, member=member_id, why=leaving.reason)
        return NONE


def _said(reason: str) -> str:
    return f"; it says: {reason}" if reason else ""
