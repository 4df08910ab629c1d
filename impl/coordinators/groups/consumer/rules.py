"""The rules of the coordinator of a consumer group: whom it knows, who is to own what, and whose commits it takes.

They stand under the names that they have in `spec.groups.consumer`, which says what each is for. A rule is a method, so
that a bug (`model_tests.bugs`) can override it. They know no clock and no log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.consumer.assignors import ASSIGNORS, Target
from tidegauge.impl.coordinators.groups.consumer.metadata_hash import group_hash
from tidegauge.impl.coordinators.groups.consumer.state import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    ConsumerGroup,
    ConsumerHeartbeat,
    ConsumerMember,
    KnownTopics,
    Place,
    Resolved,
    Topics,
)
from tidegauge.impl.coordinators.groups.requests import Commit

NONE = ErrorCode.none
PAUSE_MS: Final = 10_000
"""Between two resolutions of a group's regular expressions."""


class ConsumerRules:
    """What the coordinator decides."""

    # --- who is a member -----------------------------------------------------------------------------------------

    def heartbeat_error(self, group: ConsumerGroup, request: ConsumerHeartbeat) -> ErrorCode:
        """UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID, FENCED_MEMBER_EPOCH."""
        if request.epoch == JOINING_EPOCH:
            return self.joining_error(group, request)
        if (error := self.member_error(group, request.instance_id, request.member_id)) is not NONE:
            return error
        leaves = request.epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH)
        return NONE if leaves else self.epoch_error(group.members[request.member_id], request)

    def joining_error(self, group: ConsumerGroup, request: ConsumerHeartbeat) -> ErrorCode:
        """A static member may be replaced when it has left to come back, and not before; but by the other protocol."""
        known = None if request.instance_id is None else group.instances.get(request.instance_id)
        if known is None or known == request.member_id:
            return NONE
        member = group.members[known]
        goes_over = member.classic is not None or request.classic is not None
        is_free = goes_over or member.epoch == STATIC_LEAVING_EPOCH
        return NONE if is_free else ErrorCode.unreleased_instance_id

    def member_error(self, group: ConsumerGroup, instance_id: str | None, member_id: str) -> ErrorCode:
        """Why one that says it is a member is none."""
        if instance_id is not None:
            known = group.instances.get(instance_id)
            if known is None:
                return ErrorCode.unknown_member_id
            if known != member_id:
                return ErrorCode.fenced_instance_id
        member = group.members.get(member_id)
        is_one = member is not None and member.classic is None
        return NONE if is_one else ErrorCode.unknown_member_id

    def epoch_error(self, member: ConsumerMember, request: ConsumerHeartbeat) -> ErrorCode:
        """A member is in its epoch, or behind by a response that was lost."""
        is_in = request.epoch == member.epoch or self.is_behind(member, request)
        return NONE if is_in else ErrorCode.fenced_member_epoch

    def is_behind(self, member: ConsumerMember, request: ConsumerHeartbeat) -> bool:
        """Whether a member has not got the response with its epoch, and owns nothing that it should not."""
        is_previous = request.epoch == member.previous_epoch < member.epoch
        return is_previous and request.owned is not None and request.owned <= member.assigned.keys()

    def joined(self, group: ConsumerGroup, request: ConsumerHeartbeat) -> ConsumerGroup:
        """The group with who joins. The next process of a static member takes over what the former one has."""
        instance_id, member_id = request.instance_id, request.member_id
        known = None if instance_id is None else group.instances.get(instance_id)
        if known is None and member_id in group.members:
            known = member_id
        if known is None:
            return group.with_member(ConsumerMember(member_id, instance_id))
        if known == member_id:
            return group
        former = group.members[known]
        target = {member_id if one == known else one: has for one, has in group.target.items()}
        group = attrs.evolve(group.without(known), target=target, resolved=group.resolved)
        member = attrs.evolve(
            former, member_id=member_id, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH, revoking={}
        )
        return group.with_member(member)

    # --- epochs ---------------------------------------------------------------------------------------------------

    def begins_epoch(
        self, group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, metadata_hash: int
    ) -> bool:
        """Another subscription, and other topics, partitions or racks of theirs, begin an epoch. Who joins had none."""
        is_new = before.topics != after.topics or self.expression_begins_epoch(group, before, after)
        return is_new or group.metadata_hash != metadata_hash

    def expression_begins_epoch(self, group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember) -> bool:
        """So does an expression that another member has had resolved, or none any more; else its resolution does."""
        return before.expression != after.expression and (not after.expression or after.expression in group.resolved)

    def resolution_begins_epoch(self, before: ConsumerGroup, after: ConsumerGroup) -> bool:
        """So does an expression that matches other topics, though another member may have these already."""
        had = {one: found.topics for one, found in before.resolved.items()}
        return any(found.topics != had.get(one, frozenset()) for one, found in after.resolved.items())

    # --- topics ----------------------------------------------------------------------------------------------------

    def still_resolved(self, group: ConsumerGroup) -> ConsumerGroup:
        """The group without what its members' expressions have not matched: a member has another one."""
        if group.resolved.keys() <= group.expressions:
            return group
        return attrs.evolve(group, resolved={k: one for k, one in group.resolved.items() if k in group.expressions})

    def needs_resolution(
        self, group: ConsumerGroup, known: KnownTopics, refresh_ms: int, *, is_resolving: bool
    ) -> bool:
        """Whether the members' expressions are to be resolved, all of them, when a heartbeat comes.

        `refresh_ms`: how long what they match holds at most. A topic that has gone is no reason.
        """
        if not group.expressions or is_resolving:
            return False
        if not group.resolved:
            return True
        last = max(group.resolved.values(), key=lambda one: one.time_ms)
        passed_ms = known.time_ms - last.time_ms
        if 0 <= passed_ms <= PAUSE_MS:  # a clock may have been set back
            return False
        is_new = group.resolved.keys() != group.expressions
        return is_new or last.version < known.newest or passed_ms > refresh_ms

    def resolved(self, group: ConsumerGroup, found: Mapping[str, Resolved]) -> ConsumerGroup:
        """The group with what expressions match, as far as members have them still."""
        wanted = {one: what for one, what in found.items() if one in group.expressions}
        return attrs.evolve(group, resolved={**group.resolved, **wanted}) if wanted else group

    def metadata_hash(self, group: ConsumerGroup, known: KnownTopics) -> int:
        """Of the topics that the members want: another number if one has come, gone or grown, or is in other racks."""
        topics = known.topics
        wanted = frozenset[str]().union(*group.subscriptions)
        return group_hash({name: known.topic_hash(name) for name in wanted if name in topics})

    def next_epoch(self, group: ConsumerGroup) -> int:
        return group.epoch + 1

    def needs_target(self, group: ConsumerGroup, now_ms: int, interval_ms: int) -> bool:
        """A target is made once for an epoch, and not before the interval since the last one has passed (KIP-1263).

        Both in ms, `now_ms` since 1970. Nobody waits for a clock that was set back, or that is behind the former
        coordinator's, to be again where it was when the last target was made.
        """
        if group.epoch <= group.target_epoch:
            return False
        return group.target_ms == 0 or not 0 <= now_ms - group.target_ms < interval_ms

    def time_of_target(self, now_ms: int) -> int:
        """The time counts from when a target is made."""
        return now_ms

    def removed(self, group: ConsumerGroup, member_id: str) -> ConsumerGroup:
        """The group without a member: an epoch of its own. Without members there is nothing to make a target for."""
        group = group.without(member_id)
        epoch = self.next_epoch(group)
        if group.members:
            return attrs.evolve(group, epoch=epoch)
        return attrs.evolve(group, epoch=epoch, target_epoch=epoch, target_ms=0)

    def away(self, member: ConsumerMember) -> ConsumerMember:
        """A static member that has left to come back: it has given back what it was to."""
        return attrs.evolve(
            member, epoch=STATIC_LEAVING_EPOCH, previous_epoch=member.epoch, revoking={}, is_waiting=False
        )

    # --- the target ------------------------------------------------------------------------------------------------

    def assignor(self, group: ConsumerGroup, known: Sequence[str]) -> str:
        """The assignor that most members name; the first of the brokers' if none does."""
        votes = Counter(one.assignor for one in group.members.values() if one.assignor in known)
        return max(known, key=lambda name: (votes[name], -known.index(name)))

    def target(self, group: ConsumerGroup, topics: Topics, known: Sequence[str]) -> Target:
        """Who is to own what."""
        return ASSIGNORS[self.assignor(group, known)](group, topics)

    # --- what a member has -----------------------------------------------------------------------------------------

    def reconciled(
        self, group: ConsumerGroup, member: ConsumerMember, owned: Collection[Place] | None, topics: Topics
    ) -> ConsumerMember:
        """The member one step nearer to its target. First it gives back; not before it has, it is in another epoch."""
        if member.revoking and not self.has_revoked(member.revoking, owned):
            return self.revoking_more(group, member, topics)
        if self.is_stable(group, member):
            return self.giving_up(group, member, owned, topics)
        return self.next_assignment(group, member, self.epoch_while_revoking(member), owned, topics)

    def is_stable(self, group: ConsumerGroup, member: ConsumerMember) -> bool:
        """Whether a member has had from the target what there was for it: only the next one gives it anything."""
        return member.epoch == group.target_epoch and not member.revoking and not member.is_waiting

    def giving_up(
        self, group: ConsumerGroup, member: ConsumerMember, owned: Collection[Place] | None, topics: Topics
    ) -> ConsumerMember:
        """A member that has nothing to get gives back what it has unsubscribed from since, unless it has already."""
        gone = self.unwanted(group, member, topics)
        if not gone:
            return member
        kept = {place: since for place, since in member.assigned.items() if place not in gone}
        left = {place: since for place, since in member.assigned.items() if place in gone}
        return attrs.evolve(member, assigned=kept, revoking={} if self.has_revoked(left, owned) else left)

    def part_of(self, group: ConsumerGroup, member: ConsumerMember, topics: Topics) -> frozenset[Place]:
        """A member's part of the target: nothing that it has unsubscribed from since, or that is gone (KAFKA-19431)."""
        wanted = topic_ids(group.wants(member), topics)
        return frozenset(place for place in group.target.get(member.member_id, ()) if place[0] in wanted)

    def unwanted(self, group: ConsumerGroup, member: ConsumerMember, topics: Topics) -> set[Place]:
        """What a member is assigned of topics that it wants no more, or that are gone."""
        wanted = topic_ids(group.wants(member), topics)
        return {place for place in member.assigned if place[0] not in wanted}

    def revoking_more(self, group: ConsumerGroup, member: ConsumerMember, topics: Topics) -> ConsumerMember:
        """A member that has something to give back yet gives back what it unsubscribes from meanwhile, too."""
        gone = self.unwanted(group, member, topics)
        if not gone:
            return member
        kept = {place: since for place, since in member.assigned.items() if place not in gone}
        more = {place: since for place, since in member.assigned.items() if place in gone}
        return attrs.evolve(member, assigned=kept, revoking={**member.revoking, **more})

    def epoch_while_revoking(self, member: ConsumerMember) -> int:
        """A member that has more to give back stays in its epoch: the next one may be another's (KAFKA-19974)."""
        return member.epoch

    def has_revoked(self, revoking: Collection[Place], owned: Collection[Place] | None) -> bool:
        """Whether a member has said that it owns none of these any more."""
        return owned is not None and not any(place in revoking for place in owned)

    def next_assignment(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        epoch: int,
        owned: Collection[Place] | None,
        topics: Topics,
    ) -> ConsumerMember:
        """The member with what it keeps, and either what it has to give back or what it is given."""
        target = self.part_of(group, member, topics)
        kept = {place: since for place, since in member.assigned.items() if place in target}
        revoking = {place: since for place, since in member.assigned.items() if place not in target}
        if revoking and not self.has_revoked(revoking, owned):
            member = attrs.evolve(member, assigned=kept, revoking=revoking, is_waiting=False)
            return self.in_epoch(member, epoch)
        missing = [place for place in sorted(target) if place not in kept]
        free = [place for place in missing if self.is_free(group, place, member.member_id)]
        given = dict.fromkeys(free, self.assignment_epoch(group))
        is_waiting = self.waits_for_others(missing, free)
        member = attrs.evolve(member, assigned={**kept, **given}, revoking={}, is_waiting=is_waiting)
        return self.in_epoch(member, group.target_epoch)

    def waits_for_others(self, missing: Collection[Place], free: Collection[Place]) -> bool:
        """A member is given what other members have still when they have it no more, also by an old target."""
        return len(free) < len(missing)

    def in_epoch(self, member: ConsumerMember, epoch: int) -> ConsumerMember:
        """The member in an epoch; the one before is remembered."""
        return member if epoch == member.epoch else attrs.evolve(member, epoch=epoch, previous_epoch=member.epoch)

    def is_free(self, group: ConsumerGroup, place: Place, member_id: str) -> bool:
        """A partition is given to a member when no other one has it, or has yet to give it back."""
        return group.holders.get(place, member_id) == member_id

    def assignment_epoch(self, group: ConsumerGroup) -> int:
        """The epoch in which a member is given something (KIP-1251)."""
        return group.target_epoch

    def tells_assignment(
        self, before: ConsumerMember | None, after: ConsumerMember, request: ConsumerHeartbeat
    ) -> bool:
        """A member is told what it is to own when that has changed, and when it cannot know it."""
        return request.is_full or before is None or before.assigned.keys() != after.assigned.keys()

    # --- commits ---------------------------------------------------------------------------------------------------

    def commit_error(self, group: ConsumerGroup, commit: Commit) -> ErrorCode:
        """Why nothing of a commit is taken: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH; ILLEGAL_GENERATION for a member of
        the classic protocol, which KIP-1251 is not for. An empty group takes offsets of who is no member.

        A transactional producer of before KIP-447 does not say who it is, and is believed.
        """
        if commit.is_of_group_alone or (commit.generation < 0 and not group.members):
            return NONE
        member = group.members.get(commit.member_id)
        if member is None:
            return ErrorCode.unknown_member_id
        if member.classic is not None:
            return NONE if commit.generation == member.epoch else ErrorCode.illegal_generation
        return ErrorCode.stale_member_epoch if commit.generation > member.epoch else NONE

    def place_error(self, group: ConsumerGroup, commit: Commit, place: Place) -> ErrorCode:
        """Why a partition of a commit is not taken: in an epoch that is over, the member had it not (KIP-1251).

        In the member's own epoch, because it may be another's by now: STALE_MEMBER_EPOCH, or REBALANCE_IN_PROGRESS for
        a member of the classic protocol.
        """
        member = group.members.get(commit.member_id)
        if member is None:
            return NONE
        if commit.generation == member.epoch:
            error = ErrorCode.stale_member_epoch if member.classic is None else ErrorCode.rebalance_in_progress
            return error if self.may_be_anothers(group, member, place) else NONE
        since = member.assigned.get(place, member.revoking.get(place))
        is_of_assignment = since is not None and since <= commit.generation
        return NONE if is_of_assignment else ErrorCode.stale_member_epoch

    def may_be_anothers(self, group: ConsumerGroup, member: ConsumerMember, place: Place) -> bool:
        """Whether another member may have had what this one has given back: not in the epoch of the target."""
        is_held = place in member.assigned or place in member.revoking
        return not is_held and group.target_epoch > member.epoch

    def fetch_error(self, group: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode:
        """Why a member is told no offsets: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH; who is no member may ask."""
        if member_id is None and epoch < 0:
            return NONE
        member = group.members.get(member_id or "")
        if member is None:
            return ErrorCode.unknown_member_id
        return NONE if epoch == member.epoch else ErrorCode.stale_member_epoch


def topic_ids(names: Collection[str], topics: Topics) -> set[str]:
    """The ids of the topics of these names that there are."""
    return {topics[name].topic_id for name in names if name in topics}
