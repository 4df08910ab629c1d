"""The rules of a rebalance: when it begins, when a generation does, who is in it, and when it is stable.

Theory of operation
-------------------
A rebalance begins with a member that comes, goes or changes; the others learn of it by their heartbeats and join again.
It ends when all have joined, or when its time is over: who has not joined by then is no member of the next generation.
Static members stay: they come back. The generation's leader is told of all members, assigns, and sends the assignment
with its SyncGroup. That is in the log before any member is told its part of it.

A group that was empty waits for its first members (`group.initial.rebalance.delay.ms`), and again while more come: else
the first of many would be a generation of its own.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.classic.messages import (
    GroupWrite,
    JoinedMember,
    JoinResponse,
    Noted,
    Purpose,
    SyncResponse,
)
from tidegauge.impl.coordinators.groups.classic.state import ClassicGroup, ClassicMember, ClassicState, InitialDelay
from tidegauge.impl.coordinators.groups.classic.turn import Turn

NONE = ErrorCode.none
IN_GENERATION = (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE)
"""States in which a rebalance may begin, and the one of an empty group."""


class RebalanceRules:
    """What a coordinator decides about rebalances."""

    # --- begin ---------------------------------------------------------------------------------------------------

    def rebalance(self, turn: Turn, why: str) -> None:
        """Have a rebalance: one begins, or the present one may be over now."""
        if turn.group.state is ClassicState.PREPARING_REBALANCE:
            self.finish_joining(turn)
        else:
            self.begin(turn, why)

    def begin(self, turn: Turn, why: str) -> None:
        """A rebalance begins; who waits for an assignment has to join again."""
        group = turn.group
        if group.state is ClassicState.COMPLETING_REBALANCE:
            self.reset_assignments(turn, ErrorCode.rebalance_in_progress)
        group.unsynced.clear()
        turn.wait_for_syncs(None)
        is_first = group.state is ClassicState.EMPTY
        group.enter(ClassicState.PREPARING_REBALANCE, turn.now.wall_ms)
        turn.note(Noted.REBALANCE, members=len(group.members), why=why)
        if is_first:
            self.wait_for_more(turn)
        elif group.has_all_joined:
            self.begin_generation(turn)
        else:
            turn.wait_for_joins(group.rebalance_timeout_ms)

    def wait_for_more(self, turn: Turn) -> None:
        """The group was empty: let more members come."""
        delay_ms = turn.limits.initial_delay_ms
        turn.group.initial = InitialDelay(delay_ms, max(turn.group.rebalance_timeout_ms - delay_ms, 0))
        turn.group.has_new_member = False
        turn.wait_for_joins(delay_ms)

    def finish_joining(self, turn: Turn) -> None:
        """The joining is over if all have joined, and no first members are waited for."""
        group = turn.group
        if group.state is ClassicState.PREPARING_REBALANCE and group.initial is None and group.has_all_joined:
            self.begin_generation(turn)

    # --- time-outs -----------------------------------------------------------------------------------------------

    def joining_timed_out(self, turn: Turn) -> None:
        """The time for joining is over; of a first rebalance only if nobody has come lately."""
        group = turn.group
        group.join_deadline = None
        if group.state is not ClassicState.PREPARING_REBALANCE:
            return
        initial = group.initial
        if initial is not None and group.has_new_member and initial.remaining_ms:
            group.has_new_member = False
            delay_ms = min(turn.limits.initial_delay_ms, initial.remaining_ms)
            group.initial = InitialDelay(delay_ms, max(initial.remaining_ms - initial.delay_ms, 0))
            turn.wait_for_joins(delay_ms)
        else:
            self.begin_generation(turn)

    def syncing_timed_out(self, turn: Turn) -> None:
        """Members of the generation have not asked for their assignment: they are gone."""
        group = turn.group
        gone = list(group.unsynced)
        for member_id in gone:
            group.remove(member_id)
            turn.end_session(member_id)
        turn.note(Noted.REMOVED, members=len(gone), why="they have not sent SyncGroup in time")
        self.begin(turn, f"{len(gone)} members have not sent SyncGroup in time")

    def session_timed_out(self, turn: Turn, member_id: str) -> None:
        """A member has sent nothing for too long, or nobody has joined with a member id that was given."""
        group = turn.group
        if group.pending.pop(member_id, None) is not None:
            turn.note(Noted.EXPIRED, member=member_id, why="it has not joined with the id that it was given")
            if group.state is ClassicState.PREPARING_REBALANCE and group.has_all_joined:
                self.begin_generation(turn)
            return
        member = group.members.get(member_id)
        if member is None:
            return
        member.session_deadline = None
        if member.is_waiting:
            return
        turn.note(Noted.EXPIRED, member=member_id, why="no heartbeat")
        self.drop(turn, member)
        if group.state in IN_GENERATION:
            self.begin(turn, f"the session of member {member_id} has ended")
        elif group.state is ClassicState.PREPARING_REBALANCE and group.has_all_joined:
            self.begin_generation(turn)

    def drop(self, turn: Turn, member: ClassicMember) -> None:
        """A member is out of the group; if its client is there, it begins anew."""
        turn.respond_to_join(member, JoinResponse(ErrorCode.unknown_member_id))
        turn.respond_to_sync(member, SyncResponse(ErrorCode.unknown_member_id))
        turn.group.remove(member.member_id)
        turn.end_session(member.member_id)

    # --- a generation --------------------------------------------------------------------------------------------

    def begin_generation(self, turn: Turn) -> None:
        """The joining is over: who has joined is in the next generation, and so are static members."""
        group = turn.group
        turn.wait_for_joins(None)
        late = [one for one in group.members.values() if one.joining is None and one.instance_id is None]
        for member in late:
            group.remove(member.member_id)
            turn.end_session(member.member_id)
        if late:
            turn.note(Noted.REMOVED, members=len(late), why="they have not joined again in time")
        if group.members and not self.elect_leader(group):
            turn.note(Noted.STALLED, members=len(group.members))
            turn.wait_for_joins(group.rebalance_timeout_ms)
            return
        group.initial = None
        group.generation += 1
        if group.members:
            self.tell_generation(turn)
        else:
            self.be_empty(turn)

    def elect_leader(self, group: ClassicGroup) -> bool:
        """The leader stays if it has joined; else another that has. Whether there is one."""
        leader = group.members.get(group.leader or "")
        if leader is None or leader.joining is None:
            joined = (one.member_id for one in group.members.values() if one.joining is not None)
            found = next(joined, None)
            if found is None:
                return False
            group.leader = found
        return True

    def be_empty(self, turn: Turn) -> None:
        """The generation has no members: that is written, and nobody waits for it but who has left."""
        group = turn.group
        group.protocol = None
        group.enter(ClassicState.EMPTY, turn.now.wall_ms)
        turn.note(Noted.EMPTY)
        turn.writes.append(GroupWrite(group.group_id, Purpose.EMPTY, group.written({})))

    def tell_generation(self, turn: Turn) -> None:
        """Everybody is told the generation, and its leader who is in it."""
        group = turn.group
        group.protocol = group.elected_protocol()
        group.enter(ClassicState.COMPLETING_REBALANCE, turn.now.wall_ms)
        turn.note(Noted.GENERATION, members=len(group.members))
        for member in group.members.values():
            turn.respond_to_join(member, self.generation_told(group, member.member_id))
            turn.begin_session(member)
            member.is_new = False
            group.unsynced[member.member_id] = None
        turn.wait_for_syncs(group.rebalance_timeout_ms)

    def generation_told(self, group: ClassicGroup, member_id: str) -> JoinResponse:
        """What a member is told of the present generation."""
        return JoinResponse(
            member_id=member_id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            leader=group.leader or "",
            members=self.told_members(group) if member_id == group.leader else (),
        )

    def told_members(self, group: ClassicGroup) -> tuple[JoinedMember, ...]:
        """What the leader has to know to assign."""
        return tuple(
            JoinedMember(one.member_id, one.instance_id, one.metadata_for(group.protocol))
            for one in group.members.values()
        )

    # --- the assignment ------------------------------------------------------------------------------------------

    def take_assignment(self, turn: Turn, assignments: dict[str, bytes]) -> None:
        """The leader has assigned: that is to be in the log first. Who was left out has nothing."""
        group = turn.group
        group.is_storing = True
        turn.writes.append(GroupWrite(group.group_id, Purpose.ASSIGNMENT, group.written(assignments)))

    def assignment_written(self, turn: Turn, write: GroupWrite) -> None:
        """Every member is told its part; unless another rebalance has begun since."""
        group = turn.group
        if not self.is_awaited(group, write):
            return
        for known in write.metadata.members:
            if (member := group.members.get(known.member_id)) is not None:
                member.assignment = known.assignment
        group.enter(ClassicState.STABLE, turn.now.wall_ms)
        turn.note(Noted.STABLE, members=len(group.members))
        for member in group.members.values():
            if turn.respond_to_sync(member, self.assignment_told(group, member)):
                turn.begin_session(member)

    def assignment_failed(self, turn: Turn, write: GroupWrite, error: ErrorCode) -> None:
        """Nobody may have it: members are told so, and the group rebalances."""
        if self.is_awaited(turn.group, write):
            self.reset_assignments(turn, error)
            self.begin(turn, f"the assignment was not written: {error.name.upper()}")

    def is_awaited(self, group: ClassicGroup, write: GroupWrite) -> bool:
        """Whether it is the assignment of the generation that waits for one."""
        return group.state is ClassicState.COMPLETING_REBALANCE and group.generation == write.metadata.generation

    def assignment_told(self, group: ClassicGroup, member: ClassicMember) -> SyncResponse:
        """What a member is told of its assignment."""
        return SyncResponse(NONE, group.protocol_type, group.protocol, member.assignment)

    def reset_assignments(self, turn: Turn, error: ErrorCode) -> None:
        """There is no assignment; who waits for one is told why."""
        for member in turn.group.members.values():
            member.assignment = b""
            if turn.respond_to_sync(member, SyncResponse(error)):
                turn.begin_session(member)
