"""A group of the classic protocol, as far as its migration has to know it (`spec.groups.migration`).

What members and coordinators do in full is `spec.groups.classic`.
"""

from __future__ import annotations

from enum import IntEnum

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.piecemeal import IN_PARTS


class Stage(IntEnum):
    """How far a process of the classic protocol is in a generation."""

    OUTSIDE = 0
    """It has to send JoinGroup, or waits for the response."""
    JOINED = 1
    """It has to send SyncGroup, or waits for the response."""
    IN = 2


class Standing(IntEnum):
    """The state of the group."""

    EMPTY = 0
    PREPARING = 1
    COMPLETING = 2
    STABLE = 3


@attrs.frozen(cache_hash=True)
class ClassicMember:
    """A member of the group."""

    member_id: int
    topics: tuple[int, ...] = ()
    assigned: tuple[int, ...] = ()
    """What it was assigned last."""
    joined: bool = False
    """Its JoinGroup waits."""
    syncing: bool = False
    """Its SyncGroup waits."""
    claims: tuple[int, ...] = ()
    """What it has said that it owns, in the JoinGroup of this generation."""
    instance: int = -1
    """Its group instance id, if it is a static member."""
    said: int = -1
    """The generation of what a static member claims."""


@attrs.frozen(cache_hash=True)
class ClassicGroup:
    """The group in memory; in the log it is stable or empty."""

    standing: Standing = Standing.EMPTY
    generation: int = 0
    members: tuple[ClassicMember, ...] = attrs.field(default=(), metadata=IN_PARTS)
    """By member id."""
    leader: int = -1
    """-1 in the log of a group that was a consumer group: nobody has led it."""
    is_first: bool = False
    """Whether the group was empty: the coordinator waits for more members, though all have joined."""
    is_storing: bool = False
    """Whether the leader's assignment is on its way into the log."""

    def member(self, member_id: int) -> ClassicMember | None:
        return next((one for one in self.members if one.member_id == member_id), None)

    def of_instance(self, instance: int) -> ClassicMember | None:
        """The static member with this group instance id."""
        return next((one for one in self.members if one.instance == instance >= 0), None)

    def with_member(self, member: ClassicMember) -> ClassicGroup:
        others = [one for one in self.members if one.member_id != member.member_id]
        return evolve(self, members=tuple(sorted((*others, member), key=lambda one: one.member_id)))

    def without(self, member_id: int) -> ClassicGroup:
        """The group without a member; another one leads it, if that was the leader."""
        members = tuple(one for one in self.members if one.member_id != member_id)
        leader = self.leader
        if leader == member_id:
            leader = members[0].member_id if members else -1
        return evolve(self, members=members, leader=leader)

    def with_next_process(self, former: ClassicMember, member: ClassicMember) -> ClassicGroup:
        """The group in which a static member goes on under another member id; it leads still, if it has."""
        leader = member.member_id if self.leader == former.member_id else self.leader
        return evolve(self.without(former.member_id).with_member(member), leader=leader)
