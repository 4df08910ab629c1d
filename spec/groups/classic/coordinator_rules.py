"""The rules of the group coordinator: whom it knows, when a generation begins, and whose commits it takes.

Each rule is a function of what the coordinator has in memory, and of the request. A rule is a method, so that a
historical bug (`spec.bugs`) can override it.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tidegauge.spec.groups.classic.state import (
    NONE,
    CommitRequest,
    Error,
    Group,
    GroupRecord,
    HeartbeatRequest,
    Log,
    Member,
    State,
    Status,
    Subscription,
    SyncRequest,
    Waiting,
)
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import EnumeratingMachine


@attrs.frozen
class CoordinatorRules(EnumeratingMachine[State]):
    """What the coordinator decides."""

    requires_id: bool = True
    """Whether a process is given its member id before it joins (KIP-394): JoinGroup from version 4 on."""
    sync_timeout: bool = True
    """Whether members have to ask for their assignment in time; Kafka before 3.0 waits as long as they live."""

    # --- who is a member -----------------------------------------------------------------------------------------

    def member_error(self, group: Group, instance: int, member_id: int) -> Error:
        """Why one that says it is a member is none: it is unknown, or another process has its instance id."""
        if instance != NONE:
            known = group.of_instance(instance)
            if known is None:
                return Error.UNKNOWN_MEMBER_ID
            return Error.NONE if known.member_id == member_id else Error.FENCED_INSTANCE_ID
        return Error.UNKNOWN_MEMBER_ID if group.member(member_id) is None else Error.NONE

    def new_member_id(self, state: State, instance: int) -> int:
        """No member id is given twice, not even to the next process of a static member (KAFKA-8715)."""
        return state.member_ids

    def asks_back(self, instance: int) -> bool:
        """Whether a new member is given an id only, under which it has to come back (KIP-394)."""
        return self.requires_id and instance == NONE

    def has_protocol(self, group: Group, protocols: Sequence[int]) -> bool:
        """Whether all members know one of these protocols; an empty group takes any."""
        return any(all(one in member.protocols for member in group.members) for one in protocols)

    def selected_protocol(self, members: Sequence[Member]) -> int:
        """The protocol that all know and most prefer."""
        common = [one for one in members[0].protocols if all(one in member.protocols for member in members)]
        votes = [next(one for one in member.protocols if one in common) for member in members]
        return max(dict.fromkeys(votes), key=votes.count)

    # --- when a generation begins ------------------------------------------------------------------------------

    def rejoining_rebalances(
        self, group: Group, member: Member, protocols: Sequence[int], subscription: Subscription
    ) -> bool:
        """Whether a member that joins again wants another assignment, or has but missed a response."""
        leads = group.status is Status.STABLE and group.leader == member.member_id
        return leads or member.protocols != tuple(protocols) or member.subscription != subscription

    def replacing_rebalances(self, group: Group) -> bool:
        """Whether the next process of a static member begins a rebalance.

        The leader may have the former member id already: then what it gives would be for nobody (KAFKA-9801).
        """
        return group.status is Status.COMPLETING_REBALANCE

    def persists_replacement(self) -> bool:
        """The next process of a static member is in the log before it is told of its member id (KAFKA-10284)."""
        return True

    def removed(self, group: Group, member_id: int) -> Group:
        """The group without a member; if it led, the first one of the others leads."""
        members = tuple(one for one in group.members if one.member_id != member_id)
        leader = group.leader
        if leader == member_id:
            leader = members[0].member_id if members else NONE
        return evolve(group, members=members, leader=leader)

    def have_all_joined(self, group: Group) -> bool:
        """Whether there is nobody to wait for."""
        return not group.pending and all(member.waiting is Waiting.JOIN for member in group.members)

    def stays(self, member: Member) -> bool:
        """Whether a member stays in the group that has not joined in time: a static one, as long as its session."""
        return member.waiting is Waiting.JOIN or member.instance != NONE

    def elected(self, group: Group) -> int:
        """Who leads the next generation: the leader if it has joined, else the first one that has; NONE if none."""
        joined = [member.member_id for member in group.members if member.waiting is Waiting.JOIN]
        if group.leader in joined:
            return group.leader
        return joined[0] if joined else NONE

    def next_generation(self, group: Group) -> int:
        return group.generation + 1

    def watches(self, member: Member) -> bool:
        """The session of a member runs from the response to its JoinGroup on (KAFKA-9752)."""
        return True

    def has_response(self, group: Group, member: Member) -> bool:
        """The coordinator can tell every member what it has to tell, in the version it speaks (KAFKA-14422)."""
        return True

    # --- time-outs -----------------------------------------------------------------------------------------------

    def may_expire_session(self, member: Member) -> bool:
        """A member that waits for the others sends no heartbeats; a new one may have gone all the same."""
        return member.watched and (member.is_new or member.waiting is Waiting.NOTHING)

    def may_expire_sync(self, group: Group) -> bool:
        """A member that does not ask for its assignment in time is removed (KAFKA-12890)."""
        if not self.sync_timeout or group.status not in (Status.COMPLETING_REBALANCE, Status.STABLE):
            return False
        return any(member.unsynced for member in group.members)

    # --- SyncGroup, Heartbeat, OffsetCommit ----------------------------------------------------------------------

    def sync_error(self, group: Group, instance: int, request: SyncRequest) -> Error:
        """Why an assignment is not given, or not taken."""
        if error := self.member_error(group, instance, request.member_id):
            return error
        if request.generation != group.generation:
            return Error.ILLEGAL_GENERATION
        if group.protocol not in (NONE, request.protocol):
            return Error.INCONSISTENT_GROUP_PROTOCOL
        if group.status is Status.PREPARING_REBALANCE:
            return Error.REBALANCE_IN_PROGRESS
        return Error.NONE

    def heartbeat_error(self, group: Group, instance: int, request: HeartbeatRequest) -> Error:
        """What a member is told by the way."""
        if error := self.member_error(group, instance, request.member_id):
            return error
        if request.generation != group.generation:
            return Error.ILLEGAL_GENERATION
        return Error.REBALANCE_IN_PROGRESS if group.status is Status.PREPARING_REBALANCE else Error.NONE

    def commit_error(self, group: Group, instance: int, request: CommitRequest) -> Error:
        """Whose commit is not taken: of no member, of another generation, or while the next owner may have begun."""
        if error := self.member_error(group, instance, request.member_id):
            return error
        if request.generation != group.generation:
            return Error.ILLEGAL_GENERATION
        is_completing = group.status is Status.COMPLETING_REBALANCE
        return Error.REBALANCE_IN_PROGRESS if is_completing else Error.NONE

    def shared_out(self, group: Group, request: SyncRequest) -> GroupRecord:
        """The record of what the leader gives to each; nothing for whom it does not name."""
        given = {share.member_id: share.partitions for share in request.shares}
        members = tuple(evolve(one, partitions=given.get(one.member_id, ())) for one in group.members)
        return self.record(evolve(group, members=members))

    def record(self, group: Group) -> GroupRecord:
        """The record of the group as it is."""
        members = tuple(one.durable(group.protocol) for one in group.members)
        return GroupRecord(group.generation, group.protocol, group.leader, members)

    # --- the log -------------------------------------------------------------------------------------------------

    def takes_shares(self, group: Group, appended: Sequence[GroupRecord]) -> bool:
        """Of a generation one assignment is written: the leader's that asks again, and knows more by now, is not."""
        return not any(record.generation == group.generation for record in appended)

    def is_current(self, group: Group, record: GroupRecord) -> bool:
        """Whether the assignment in a record is still waited for when it is committed."""
        return group.status is Status.COMPLETING_REBALANCE and group.generation == record.generation

    def tells_when_committed(self) -> bool:
        """Nobody is told of what a new coordinator might not have."""
        return True

    def loaded(self, log: Log) -> Group:
        """What a new coordinator finds in the log: the last record of the group counts (KAFKA-5600)."""
        if not log.groups:
            return Group()
        record = log.groups[-1]
        status = Status.STABLE if record.members else Status.EMPTY
        return Group(status, record.generation, record.protocol, record.leader, record.members)
