"""The rules of a group that goes over from one protocol to the other, and of members that speak the classic one.

They stand under the names that they have in `spec.groups.migration`, which says what each is for. A rule is a method,
so that a bug (`model_tests.bugs`) can override it. They know no clock and no log.
"""

from __future__ import annotations

from collections.abc import Collection

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.classic.state import (
    ClassicGroup,
    ClassicMember,
)
from tidegauge.impl.coordinators.groups.classic.subscriptions import CONSUMER
from tidegauge.impl.coordinators.groups.consumer.rules import ConsumerRules
from tidegauge.impl.coordinators.groups.consumer.state import (
    FIRST_EPOCH,
    ClassicSide,
    ConsumerGroup,
    ConsumerMember,
    Place,
    Topics,
)
from tidegauge.impl.coordinators.groups.group_metadata import GroupMember, GroupMetadata
from tidegauge.impl.coordinators.groups.migration.embedded import (
    NamedPlace,
    encode_assignment,
    read_assignment,
    read_subscription,
    version_of,
    without_owned,
)
from tidegauge.impl.coordinators.groups.migration.policy import Policy

NONE = ErrorCode.none


@attrs.frozen
class MigrationLimits:
    """What the settings say."""

    policy: Policy = Policy.BIDIRECTIONAL
    classic_max_size: int = (1 << 31) - 1
    """`group.max.size`: a larger group does not go back."""
    consumer_max_size: int = (1 << 31) - 1
    """`group.consumer.max.size`: a larger one does not go over."""


class MigrationRules:
    """What the coordinator decides."""

    def __init__(self, limits: MigrationLimits, consumers: ConsumerRules) -> None:
        self.limits = limits
        self.consumers = consumers

    # --- which protocol ------------------------------------------------------------------------------------------

    def refusal(self, group: ClassicGroup) -> str:
        """Why a classic group stays one when a member of the other protocol joins; "" if it does not."""
        if not group.members:
            return ""
        if self.limits.policy not in (Policy.UPGRADE, Policy.BIDIRECTIONAL):
            return "online upgrade is disabled"
        if group.protocol_type != CONSUMER:
            return "its members are no consumers"
        return "" if len(group.members) <= self.limits.consumer_max_size else "it has too many members"

    def upgrades(self, group: ClassicGroup) -> bool:
        """Whether a classic group becomes a consumer group when a member of that protocol joins; an empty one may."""
        return not self.refusal(group)

    def downgrades(self, group: ConsumerGroup) -> bool:
        """Whether a consumer group becomes a classic one: nobody speaks the other protocol any more."""
        is_allowed = self.limits.policy in (Policy.DOWNGRADE, Policy.BIDIRECTIONAL)
        is_classic = bool(group.members) and all(member.classic is not None for member in group.members.values())
        return is_allowed and is_classic and len(group.members) <= self.limits.classic_max_size

    def upgraded(self, group: ClassicGroup, before: ConsumerGroup | None, topics: Topics) -> ConsumerGroup:
        """The consumer group: its epoch is the generation, and everybody has what it may own.

        One that was a consumer group without members before goes on from its epoch. Raises RecordError for a member
        that has said what cannot be read.
        """
        stale = before or ConsumerGroup(group.group_id)
        if not group.members:
            return stale
        epoch = max(group.generation, stale.epoch, FIRST_EPOCH)
        had = {one.member_id: _places(read_assignment(one.assignment), topics) for one in group.members.values()}
        assigned, taken = dict[str, tuple[Place, ...]](), set[Place]()
        for member_id, places in had.items():
            assigned[member_id] = tuple(sorted(places - taken))
            taken |= places
        members: dict[str, ConsumerMember] = {}
        for member_id, member in sorted(group.members.items()):
            left_over = self.left_over(group, member, topics, taken)
            taken |= left_over
            metadata = self.metadata_of(group, member)
            members[member_id] = ConsumerMember(
                member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                topics=read_subscription(metadata).topics,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                epoch=epoch,
                previous_epoch=epoch,
                assigned=dict.fromkeys(assigned[member_id], epoch),
                revoking=dict.fromkeys(sorted(left_over), epoch),
                classic=ClassicSide(member.session_timeout_ms, member.protocols),
            )
        target = {one: frozenset(places) for one, places in assigned.items()}
        return ConsumerGroup(group.group_id, epoch=epoch, target_epoch=epoch, target=target, members=members)

    def metadata_of(self, group: ClassicGroup, member: ClassicMember) -> bytes:
        """What a member has told last: for the group's protocol, or, before there is one, for its best."""
        return member.metadata_for(group.protocol) or (member.protocols[0].metadata if member.protocols else b"")

    def left_over(
        self, group: ClassicGroup, member: ClassicMember, topics: Topics, given: Collection[Place]
    ) -> set[Place]:
        """What a member owned when it joined, and may own still: its leader has not given that to anybody."""
        claims = read_subscription(self.metadata_of(group, member)).owned
        return {place for place in _places(claims, topics) if place not in given}

    def downgraded(self, group: ConsumerGroup, topics: Topics, wall_ms: int) -> GroupMetadata:
        """The classic group, as the log has it: who has what, in a generation that nobody has led."""
        members = [one for _, one in sorted(group.members.items()) if one.classic is not None]
        return GroupMetadata(
            CONSUMER,
            self.generation_after(group),
            _common_protocol(members),
            None,
            wall_ms,
            tuple(_written(member, topics, _common_protocol(members)) for member in members),
        )

    def generation_after(self, group: ConsumerGroup) -> int:
        """The generation of a group that was a consumer group: members in its last epoch are in it."""
        return group.epoch

    # --- members of the classic protocol in a consumer group -----------------------------------------------------

    def claims_error(self, member: ConsumerMember | None, owned: Collection[Place]) -> ErrorCode:
        """One that says it owns what it has not is no member any more, and must not go on with that."""
        is_true = all(member is not None and (one in member.assigned or one in member.revoking) for one in owned)
        return NONE if is_true else ErrorCode.unknown_member_id

    def member_error(self, group: ConsumerGroup, member_id: str, instance_id: str | None) -> ErrorCode:
        """Why one that says it is a classic member is none: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
        if instance_id is not None:
            known = group.instances.get(instance_id)
            if known is None:
                return ErrorCode.unknown_member_id
            if known != member_id:
                return ErrorCode.fenced_instance_id
        member = group.members.get(member_id)
        return NONE if member is not None and member.classic is not None else ErrorCode.unknown_member_id

    def heartbeat_in_classic_error(self, group: ClassicGroup, member_id: str, instance_id: str | None) -> ErrorCode:
        """Why a member of KIP-848 is none of a classic group: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
        has_it = member_id if instance_id is None else group.instances.get(instance_id, member_id)
        return ErrorCode.unknown_member_id if has_it == member_id else ErrorCode.fenced_instance_id

    def generation_error(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        """Why a SyncGroup or Heartbeat is refused: the generation is the member's epoch."""
        error = self.member_error(group, member_id, instance_id)
        if error is NONE and generation != group.members[member_id].epoch:
            return ErrorCode.illegal_generation
        return error

    def must_rejoin(self, group: ConsumerGroup, member: ConsumerMember) -> bool:
        """A member joins again when an epoch has begun, when it has to give back, and when there is more for it."""
        return member.epoch < group.epoch or bool(member.revoking) or self.has_more(group, member)

    def has_more(self, group: ConsumerGroup, member: ConsumerMember) -> bool:
        """Whether something is free that the target gives it."""
        missing = (one for one in group.target.get(member.member_id, ()) if one not in member.assigned)
        return any(self.consumers.is_free(group, one, member.member_id) for one in missing)

    def may_sync(self, group: ConsumerGroup, member: ConsumerMember) -> bool:
        """Whether a member is told its assignment: not in an epoch that is over, but while it has to give back."""
        return member.epoch == group.epoch or bool(member.revoking)

    def supports(self, group: ConsumerGroup, protocol_type: str, names: Collection[str]) -> bool:
        """Whether one with these protocols can be in the group: one of them is known to all classic members."""
        common = set(names)
        for member in group.members.values():
            if member.classic is not None:
                common &= {one.name for one in member.classic.protocols}
        return protocol_type == CONSUMER and bool(common)


def _places(named: Collection[NamedPlace], topics: Topics) -> set[Place]:
    """By the topics' ids; what there is no more is left out."""
    return {(topics[name].topic_id, index) for name, index in named if name in topics}


def named_places(member: ConsumerMember, topics: Topics) -> list[NamedPlace]:
    """What a member has, by the topics' names; of topics that there are no more it has nothing."""
    names = {topics[name].topic_id: name for name in member.topics if name in topics}
    return [(names[topic_id], index) for topic_id, index in member.assigned if topic_id in names]


def _common_protocol(members: Collection[ConsumerMember]) -> str | None:
    """The first protocol that all know, in the order of the first member."""
    sides = [member.classic for member in members if member.classic is not None]
    known = set.intersection(*({one.name for one in side.protocols} for side in sides))
    return next((one.name for one in sides[0].protocols if one.name in known), None)


def _written(member: ConsumerMember, topics: Topics, protocol: str | None) -> GroupMember:
    side = member.classic
    assert side is not None, "it speaks the classic protocol"
    metadata = next((one.metadata for one in side.protocols if one.name == protocol), side.metadata)
    return GroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        side.session_timeout_ms,
        without_owned(metadata),
        encode_assignment(named_places(member, topics), version_of(metadata)),
    )
