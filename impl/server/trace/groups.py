"""What a coordinator of classic groups can decide, one class each, named as the action of the specification.

A coordinator is a broker that leads a partition of `__consumer_offsets`. Each decision says of which partition and
leader epoch it is, so that two brokers that both think that they coordinate are told apart, and what the group is right
after it. What is *written* is pending until `CommitRecord`, or `FailRecord`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidegauge.impl.server.trace.events import Decision

if TYPE_CHECKING:
    from kio.schema.errors import ErrorCode

    from tidegauge.impl.coordinators.groups.classic.messages import Heartbeat, JoinGroup, LeaveGroup, SyncGroup
    from tidegauge.impl.coordinators.groups.classic.state import ClassicGroup, ClassicMember, ClassicState, Protocol
    from tidegauge.impl.coordinators.groups.group_metadata import GroupMetadata
    from tidegauge.impl.coordinators.groups.requests import Commit


class MemberSeen(NamedTuple):
    """A member, as its coordinator knows it."""

    member_id: str
    instance_id: str | None
    protocols: tuple[Protocol, ...]
    assignment: bytes
    is_joining: bool
    """Its JoinGroup waits."""
    is_syncing: bool
    is_new: bool
    is_unsynced: bool
    """It has not asked for the assignment of the generation yet."""
    has_session: bool
    """Whether it is removed unless a request of it comes in time."""

    @classmethod
    def of(cls, group: ClassicGroup, member: ClassicMember) -> MemberSeen:
        return cls(
            member.member_id,
            member.instance_id,
            member.protocols,
            member.assignment,
            member.joining is not None,
            member.syncing is not None,
            member.is_new,
            member.member_id in group.unsynced,
            member.session_deadline is not None,
        )


class GroupSeen(NamedTuple):
    """A group, as its coordinator knows it."""

    state: ClassicState
    generation: int
    protocol: str | None
    leader: str | None
    members: tuple[MemberSeen, ...]
    pending: tuple[str, ...]
    """Member ids that were given, and have not joined."""
    is_initial: bool
    """Its first members are waited for."""
    waits_for_joins: bool
    """Whether that ends by itself."""
    waits_for_syncs: bool

    @classmethod
    def of(cls, group: ClassicGroup) -> GroupSeen:
        return cls(
            group.state,
            group.generation,
            group.protocol,
            group.leader,
            tuple(MemberSeen.of(group, member) for member in group.members.values()),
            tuple(group.pending),
            group.initial is not None,
            group.join_deadline is not None,
            group.sync_deadline is not None,
        )


class OfGroups(Decision):
    """A decision of the coordinator of one partition of `__consumer_offsets`."""

    log_partition: int
    leader_epoch: int


class Loaded(OfGroups):
    """The coordinator has read its log, and serves requests from now on."""


class Resign(OfGroups):
    """The leader epoch has ended here: nothing of it counts any more."""


class OfGroup(OfGroups):
    """A decision about one group."""

    group: str
    after: GroupSeen
    written: tuple[GroupMetadata, ...]
    """Records that have to be committed, in their order, before what hangs on them is told."""


class LoadGroup(OfGroup):
    """The group is known as the log has it."""

    logged: GroupMetadata


class ReceiveJoin(OfGroup):
    """JoinGroup."""

    request: JoinGroup
    error: ErrorCode | None
    """Of the response; None where the request waits."""


class ReceiveSync(OfGroup):
    """SyncGroup."""

    request: SyncGroup
    error: ErrorCode | None


class ReceiveHeartbeat(OfGroup):
    """Heartbeat."""

    request: Heartbeat
    error: ErrorCode


class ReceiveLeave(OfGroup):
    """LeaveGroup."""

    request: LeaveGroup


class ReceiveCommit(OfGroup):
    """OffsetCommit, or TxnOffsetCommit."""

    request: Commit
    error: ErrorCode


class TakeCommit(OfGroup):
    """A commit was taken: its member lives."""

    member_id: str


class ExpireSession(OfGroup):
    """The time is over in which a request of a member should have come."""

    member_id: str


class ExpireRebalance(OfGroup):
    """The time to join is over, or a part of the time for the first members."""


class ExpireSync(OfGroup):
    """The time to ask for the assignment is over."""


class CommitRecord(OfGroup):
    """A record is committed."""

    record: GroupMetadata


class FailRecord(OfGroup):
    """A record is not in the log, or nobody knows for too long."""

    record: GroupMetadata
    error: ErrorCode


class GoOver(OfGroup):
    """The group was a consumer group (KIP-848): it is a classic one from now on, or again."""


class Dissolve(OfGroup):
    """The group is a consumer group from now on, or again; `after`: as it was."""


class DeleteGroup(OfGroup):
    """The tombstone of a group without members is on its way."""


class CommitDeletion(OfGroup):
    """It is committed: there is no group."""


class FailDeletion(OfGroup):
    """It never will be in the log: the group is what it was."""
