"""What a coordinator of consumer groups (KIP-848) can decide, one class each, named as the action of the specification.

Each decision says of which partition of `__consumer_offsets` and leader epoch it is (`groups.OfGroups`), and what the
group is right after it. What is *written* is pending until `CommitRecord`, or `FailRecord`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from tidegauge.impl.server.trace.groups import OfGroups

if TYPE_CHECKING:
    from kio.schema.errors import ErrorCode

    from tidegauge.impl.coordinators.groups.classic.messages import Heartbeat, JoinGroup, SyncGroup
    from tidegauge.impl.coordinators.groups.consumer.state import (
        ConsumerGroup,
        ConsumerHeartbeat,
        ConsumerMember,
        Held,
        Place,
    )
    from tidegauge.impl.coordinators.groups.requests import Commit

    HeldSeen = tuple[tuple[Place, int], ...]
    """Partitions, each with the epoch in which the member was assigned it, in their order."""


class MemberSeen(NamedTuple):
    """A member, as its coordinator knows it."""

    member_id: str
    instance_id: str | None
    topics: tuple[str, ...]
    expression: str
    epoch: int
    previous_epoch: int
    assigned: HeldSeen
    revoking: HeldSeen
    is_classic: bool
    has_session: bool
    """Whether it is removed unless a request of it comes in time."""
    has_to_give_back_in_time: bool
    """Whether it is removed unless it gives back in time what it has to."""
    is_waiting: bool
    """Whether others had something of its target when it asked."""

    @classmethod
    def of(cls, member: ConsumerMember, *, has_session: bool, has_to_give_back_in_time: bool) -> MemberSeen:
        return cls(
            member.member_id,
            member.instance_id,
            tuple(sorted(member.topics)),
            member.expression,
            member.epoch,
            member.previous_epoch,
            _held(member.assigned),
            _held(member.revoking),
            member.classic is not None,
            has_session,
            has_to_give_back_in_time,
            member.is_waiting,
        )


class GroupSeen(NamedTuple):
    """A group, as its coordinator knows it."""

    epoch: int
    metadata_hash: int
    target_epoch: int
    target: tuple[tuple[str, tuple[Place, ...]], ...]
    """Who is to own what."""
    target_ms: int
    """When that was made, in ms since 1970; 0 if nobody knows."""
    members: tuple[MemberSeen, ...]
    resolved: tuple[tuple[str, tuple[str, ...]], ...]
    """Regular expression -> the topics that it has matched."""
    revision: int
    """Later ones have larger numbers; 0 as it was loaded."""

    @classmethod
    def of(cls, group: ConsumerGroup, members: tuple[MemberSeen, ...]) -> GroupSeen:
        return cls(
            group.epoch,
            group.metadata_hash,
            group.target_epoch,
            tuple((one, tuple(sorted(has))) for one, has in sorted(group.target.items())),
            group.target_ms,
            members,
            tuple((one, tuple(sorted(found.topics))) for one, found in sorted(group.resolved.items())),
            group.revision,
        )


class TopicSeen(NamedTuple):
    """A topic, as the coordinator knows it when a heartbeat comes."""

    name: str
    topic_id: str
    partitions: int
    topic_hash: int
    """Another number, other partitions, or other racks of their replicas."""


def _held(held: Held) -> HeldSeen:
    return tuple(sorted(held.items()))


class OfConsumerGroup(OfGroups):
    """A decision about one group."""

    group: str
    after: GroupSeen | None
    """None if there is none."""


class LoadGroup(OfConsumerGroup):
    """The group is known as the log has it."""


class ReceiveHeartbeat(OfConsumerGroup):
    """ConsumerGroupHeartbeat."""

    request: ConsumerHeartbeat
    error: ErrorCode
    epoch: int
    """That the response has, if all that is written is committed."""
    assignment: tuple[Place, ...] | None
    """That it has; None if it has none."""
    is_written: bool
    topics: tuple[TopicSeen, ...]
    """Those that the group may be about, as they are."""
    resolves: tuple[str, ...] | None
    """The regular expressions whose resolution is begun; None if none is."""
    time_ms: int
    """When it came, in ms since 1970."""
    interval_ms: int
    """The least time between two targets of the group."""


class ReceiveLeave(ReceiveHeartbeat):
    """One that says that its member leaves, for good or to come back."""


class EndResolution(OfConsumerGroup):
    """Regular expressions were held against topics."""

    expressions: tuple[str, ...]
    is_written: bool
    topics: tuple[TopicSeen, ...]
    """Those that the group may be about, as they are."""
    matches: tuple[tuple[str, tuple[str, ...]], ...]
    """Regular expression -> the topics that it matches now."""


class RespondToHeartbeat(OfConsumerGroup):
    """The response is told: what it tells is committed."""

    member_id: str
    epoch: int
    assignment: tuple[Place, ...] | None
    revision: int
    """Of the group as it was when the heartbeat came, or was made by that."""


class ReceiveCommit(OfConsumerGroup):
    """OffsetCommit, or TxnOffsetCommit, in a group with members or records of its own."""

    request: Commit
    error: ErrorCode
    refused: Mapping[tuple[str, int], ErrorCode]
    """Of partitions, by topic and number."""


class ExpireSession(OfConsumerGroup):
    """The time is over in which a heartbeat of a member should have come."""

    member_id: str


class ExpireRebalance(OfConsumerGroup):
    """The time is over in which a member should have given back what it has to."""

    member_id: str


class ExpireRejoin(OfConsumerGroup):
    """The time is over for a member of the classic protocol to join again, or to ask for its assignment."""

    member_id: str


class RemoveMember(OfConsumerGroup):
    """An operator removes a member."""

    member_id: str


class DeleteGroup(OfConsumerGroup):
    """A group without members is deleted."""


class GoOver(OfConsumerGroup):
    """The group is a classic one from now on."""


class ReceiveSync(OfConsumerGroup):
    """SyncGroup of a classic member."""

    request: SyncGroup
    error: ErrorCode
    assigned: tuple[Place, ...]
    """What it is told that it has."""


class ReceiveClassicHeartbeat(OfConsumerGroup):
    """Heartbeat of a classic member."""

    request: Heartbeat
    error: ErrorCode


class RefuseJoin(OfConsumerGroup):
    """JoinGroup of a classic member, which says what is wrong before the group is looked at any further."""

    request: JoinGroup
    error: ErrorCode
    owned: tuple[Place, ...]
    """What it says that its member owns, as far as it was read."""


class RefuseHeartbeat(OfConsumerGroup):
    """ConsumerGroupHeartbeat in a classic group, which stays one."""

    request: ConsumerHeartbeat
    error: ErrorCode


class CommitRecord(OfConsumerGroup):
    """What was written is committed: the group is so in the log."""

    written: GroupSeen | None


class FailRecord(OfConsumerGroup):
    """What was written is not in the log, and never will be."""

    written: GroupSeen | None
