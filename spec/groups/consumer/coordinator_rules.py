"""The rules of the coordinator of a consumer group: whom it knows, who is to own what, and whose commits it takes.

Each rule is a function of the group and of the request. A rule is a method, so that a bug (`spec.bugs`) can override
it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from tidegauge.spec.groups.consumer.classic_group import ClassicGroup
from tidegauge.spec.groups.consumer.state import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    NONE,
    STATIC_LEAVING_EPOCH,
    Age,
    CommitRequest,
    Entry,
    Error,
    Group,
    HeartbeatRequest,
    Log,
    Member,
    State,
    partitions_of,
)
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import EnumeratingMachine


@attrs.frozen
class CoordinatorRules(EnumeratingMachine[State]):
    """What the coordinator decides."""

    topics: int = 1
    """Partition p is of topic p modulo so many."""
    matches: tuple[tuple[int, ...], ...] = ()
    """The topics that a regular expression matches, by its number."""
    spaces_targets: bool = False
    """Whether there is a least time between two targets (`consumer.assignment.interval.ms`)."""

    # --- who is a member -----------------------------------------------------------------------------------------

    def heartbeat_error(self, group: Group, instance: int, request: HeartbeatRequest) -> Error:
        """Why a heartbeat is refused; one that leaves does not have the member's epoch."""
        if request.epoch == JOINING_EPOCH:
            return self.joining_error(group, instance, request.member_id)
        if error := self.member_error(group, instance, request.member_id):
            return error
        member = group.member(request.member_id)
        assert member is not None, "it is known"
        leaves = request.epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH)
        return Error.NONE if leaves else self.epoch_error(member, request)

    def joining_error(self, group: Group, instance: int, member_id: int) -> Error:
        """A static member may be replaced when it has left to come back, and not before."""
        known = group.of_instance(instance)
        is_free = known is None or known.member_id == member_id or known.epoch == STATIC_LEAVING_EPOCH
        return Error.NONE if is_free else Error.UNRELEASED_INSTANCE_ID

    def member_error(self, group: Group, instance: int, member_id: int) -> Error:
        """Why one that says it is a member is none: it is unknown, or another process has its instance id."""
        if instance == NONE:
            return Error.NONE if group.member(member_id) is not None else Error.UNKNOWN_MEMBER_ID
        known = group.of_instance(instance)
        if known is None:
            return Error.UNKNOWN_MEMBER_ID
        return Error.NONE if known.member_id == member_id else Error.FENCED_INSTANCE_ID

    def epoch_error(self, member: Member, request: HeartbeatRequest) -> Error:
        """A member is in its epoch; or in the one before, if it owns nothing more than it has: that is behind."""
        if request.epoch == member.epoch or self.is_behind(member, request):
            return Error.NONE
        return Error.FENCED_MEMBER_EPOCH

    def is_behind(self, member: Member, request: HeartbeatRequest) -> bool:
        """Whether a member has not got the response with its epoch, and owns nothing that it should not."""
        is_previous = request.epoch == member.previous_epoch < member.epoch
        return is_previous and request.owned is not None and {*request.owned} <= {*partitions_of(member.assigned)}

    def joined(self, group: Group, instance: int, request: HeartbeatRequest) -> Group:
        """The group with who joins. The next process of a static member takes over what the former one has."""
        known = group.of_instance(instance) or group.member(request.member_id)
        if known is None:
            return group.with_member(Member(request.member_id, instance))
        if known.member_id == request.member_id:
            return group
        target = tuple(sorted((request.member_id if one == known.member_id else one, has) for one, has in group.target))
        members = tuple(one for one in group.members if one.member_id != known.member_id)
        group = evolve(group, members=members, target=target)
        return group.with_member(
            Member(request.member_id, instance, known.topics, known.expression, assigned=known.assigned)
        )

    # --- epochs ---------------------------------------------------------------------------------------------------

    def begins_epoch(
        self, group: Group, before: Member, after: Member, partitions: Collection[int], racks: int
    ) -> bool:
        """Another subscription, other partitions of it, and replicas of these in other racks, begin an epoch.

        Who joins had no subscription. The group knows no more of its topics than this (KIP-1101).
        """
        is_new = before.topics != after.topics or self.expression_begins_epoch(group, before, after)
        return is_new or group.known != partitions or group.racks != racks

    def expression_begins_epoch(self, group: Group, before: Member, after: Member) -> bool:
        """So does an expression that another member has had resolved, or none any more; else its resolution does."""
        is_known = after.expression == NONE or after.expression in dict(group.resolved)
        return before.expression != after.expression and is_known

    def resolution_begins_epoch(self, before: Group, after: Group) -> bool:
        """So does an expression that matches other topics, though another member may have these already."""
        had = dict(before.resolved)
        return any(topics != had.get(one, ()) for one, topics in after.resolved)

    def next_epoch(self, group: Group) -> int:
        return group.epoch + 1

    def needs_target(self, group: Group) -> bool:
        """A target is made once for an epoch, and not before the interval since the last one has passed (KIP-1263)."""
        return group.epoch > group.target_epoch and not group.target_is_new

    def is_new_when_made(self) -> bool:
        """The time counts from when a target is made."""
        return self.spaces_targets

    def removed(self, group: Group, member_id: int) -> Group:
        """The group without a member: an epoch of its own, so that nobody is in one that the member was in.

        Without members there is nothing to make a target for (KAFKA-20442), and who joins next waits for no interval.
        """
        group = self.still_resolved(group.without(member_id))
        epoch = self.next_epoch(group)
        if group.members:
            return evolve(group, epoch=epoch)
        return evolve(group, epoch=epoch, target_epoch=epoch, target_is_new=False)

    def written(self, before: Group, after: Group) -> Entry:
        """What is written of a heartbeat that has changed the group."""
        return Entry(after)

    def removal(self, group: Group, member_id: int) -> Entry:
        """What is written when a member goes."""
        return Entry(self.removed(group, member_id))

    def away(self, member: Member) -> Member:
        """A static member that has left to come back: it has given back what it was to."""
        return evolve(member, epoch=STATIC_LEAVING_EPOCH, previous_epoch=member.epoch, revoking=(), waits=False)

    # --- topics --------------------------------------------------------------------------------------------------

    def has_topic(self, state: State, topic: int) -> bool:
        """Whether there is such a topic now."""
        return topic < state.created and topic not in state.deleted

    def is_there(self, state: State, partition: int) -> bool:
        """Whether there is such a partition, of a topic that there is."""
        return partition < state.partitions and self.has_topic(state, partition % self.topics)

    def still_resolved(self, group: Group) -> Group:
        """The group without what its members' expressions have not matched: a member is gone, or has another one."""
        resolved = tuple(one for one in group.resolved if one[0] in group.expressions)
        if not resolved:
            return evolve(group, resolved=(), resolved_of=0, resolved_age=Age.DUE)
        return evolve(group, resolved=resolved)

    def needs_resolution(self, group: Group, state: State) -> bool:
        """Whether the members' expressions are to be resolved, all of them, when a heartbeat comes.

        One of them is new, or there are topics that have come since, or it was long ago. It is not done twice at once,
        nor again within ten seconds. A topic that has gone is no reason: it has no partitions any more.
        """
        if not group.expressions or state.resolving is not None or group.resolved_age is Age.RECENT:
            return False
        is_new = tuple(one for one, _ in group.resolved) != group.expressions
        return is_new or group.resolved_of < state.created or group.resolved_age is Age.DUE

    def resolved(self, group: Group, state: State, expressions: tuple[int, ...]) -> Group:
        """The group with what these expressions match now, as far as members have them still."""
        wanted = [one for one in expressions if one in group.expressions]
        if not wanted:
            return group
        found = {one: tuple(t for t in self.matches[one] if self.has_topic(state, t)) for one in wanted}
        resolved = tuple(sorted({**dict(group.resolved), **found}.items()))
        return evolve(group, resolved=resolved, resolved_of=state.created, resolved_age=Age.RECENT)

    def partitions_wanted(self, group: Group, state: State) -> tuple[int, ...]:
        """The partitions of the topics that the members want."""
        wanted = {topic for member in group.members for topic in group.wants(member)}
        every = range(state.partitions)
        return tuple(one for one in every if one % self.topics in wanted and self.is_there(state, one))

    def racks_of(self, state: State, partitions: Collection[int]) -> int:
        """The racks of the replicas of these partitions; of none there is nothing to know."""
        return state.racks if partitions else 0

    # --- the assignor --------------------------------------------------------------------------------------------

    def target(self, group: Group, partitions: Collection[int]) -> Mapping[int, Collection[int]]:
        """Who is to own what: what it was to own, as far as that is fair, and the rest by who has least."""
        given: dict[int, list[int]] = {member.member_id: [] for member in group.members}
        most = -(-len(partitions) // max(1, len(given)))
        before = {partition: member_id for member_id, has in group.target for partition in has}
        left = []
        for partition in partitions:
            takers = [one.member_id for one in group.members if partition % self.topics in group.wants(one)]
            owner = before.get(partition, NONE)
            if owner in takers and (len(given[owner]) < most or len(takers) == 1):
                given[owner].append(partition)
            elif takers:
                left.append((partition, takers))
        for partition, takers in left:
            given[min(takers, key=lambda taker: len(given[taker]))].append(partition)
        return given

    # --- what a member has -----------------------------------------------------------------------------------------

    def reconciled(self, group: Group, member: Member, owned: Collection[int] | None) -> Member:
        """The member one step nearer to its target. First it gives back; not before it has, it is in another epoch."""
        if member.revoking and not self.has_revoked(member.revoking, owned):
            return self.revoking_more(group, member)
        if self.is_stable(group, member):
            return self.giving_up(group, member, owned)
        return self.next_assignment(group, member, self.epoch_while_revoking(member), owned)

    def is_stable(self, group: Group, member: Member) -> bool:
        """Whether a member has had from an older epoch's target what there was for it: only the next one gives it more.

        It may want by now what the target has for it, and that it did not want when it came there.
        """
        return group.is_past_its_target(member)

    def giving_up(self, group: Group, member: Member, owned: Collection[int] | None) -> Member:
        """A member that has nothing to get gives back what it has unsubscribed from since, unless it has already."""
        kept = tuple(one for one in member.assigned if self.is_wanted(group, member, one[0]))
        gone = tuple(one for one in member.assigned if one not in kept)
        return evolve(member, assigned=kept, revoking=() if self.has_revoked(gone, owned) else gone) if gone else member

    def part_of(self, group: Group, member: Member) -> set[int]:
        """A member's part of the target: nothing that it has unsubscribed from since, or that is gone (KAFKA-19431)."""
        return {one for one in group.target_of(member.member_id) if self.is_wanted(group, member, one)}

    def is_wanted(self, group: Group, member: Member, partition: int) -> bool:
        """Whether a partition is of a topic that a member wants, and there is still."""
        return partition in group.known and partition % self.topics in group.wants(member)

    def revoking_more(self, group: Group, member: Member) -> Member:
        """A member that has something to give back yet gives back what it unsubscribes from meanwhile, too."""
        kept = tuple(one for one in member.assigned if self.is_wanted(group, member, one[0]))
        gone = tuple(one for one in member.assigned if one not in kept)
        return evolve(member, assigned=kept, revoking=tuple(sorted((*member.revoking, *gone)))) if gone else member

    def epoch_while_revoking(self, member: Member) -> int:
        """A member that has more to give back stays in its epoch: the next one may be another's (KAFKA-19974)."""
        return member.epoch

    def has_revoked(self, revoking: Collection[tuple[int, int]], owned: Collection[int] | None) -> bool:
        """Whether a member has said that it owns none of these any more."""
        return owned is not None and not {partition for partition, _ in revoking} & {*owned}

    def next_assignment(self, group: Group, member: Member, epoch: int, owned: Collection[int] | None) -> Member:
        """The member with what it keeps, and either what it has to give back or what it is given."""
        target = self.part_of(group, member)
        kept = tuple(one for one in member.assigned if one[0] in target)
        revoking = tuple(one for one in member.assigned if one[0] not in target)
        if revoking and not self.has_revoked(revoking, owned):
            return self.in_epoch(evolve(member, assigned=kept, revoking=revoking, waits=False), epoch)
        missing = target - {*partitions_of(kept)}
        free = [one for one in missing if self.is_free(group, one, member.member_id)]
        given = [(one, self.assignment_epoch(group)) for one in free]
        waits = self.spaces_targets and self.waits_for_others(missing, free)
        member = evolve(member, assigned=tuple(sorted((*kept, *given))), revoking=(), waits=waits)
        return self.in_epoch(member, group.target_epoch)

    def waits_for_others(self, missing: Collection[int], free: Collection[int]) -> bool:
        """A member is given what other members have still when they have it no more, also by an old target."""
        return len(free) < len(missing)

    def in_epoch(self, member: Member, epoch: int) -> Member:
        """The member in an epoch; the one before is remembered."""
        return member if epoch == member.epoch else evolve(member, epoch=epoch, previous_epoch=member.epoch)

    def is_free(self, group: Group, partition: int, member_id: int) -> bool:
        """A partition is given to a member when no other one has it, or has yet to give it back."""
        return all(partition not in one.held for one in group.members if one.member_id != member_id)

    def assignment_epoch(self, group: Group) -> int:
        """The epoch in which a member is given something (KIP-1251)."""
        return group.target_epoch

    def tells_assignment(self, before: Member | None, after: Member, request: HeartbeatRequest) -> bool:
        """A member is told what it is to own when that has changed, and when it cannot know it."""
        return request.full or before is None or partitions_of(before.assigned) != partitions_of(after.assigned)

    # --- commits ---------------------------------------------------------------------------------------------------

    def commit_error(self, group: Group, request: CommitRequest) -> Error:
        """Whose commit is not taken: of no member, of an epoch to come, or of one in which it had not the partition.

        A member that has not been told of its epoch yet still owns what it was given before (KIP-1251).
        """
        member = group.member(request.member_id)
        if member is None:
            return Error.UNKNOWN_MEMBER_ID
        if request.epoch == member.epoch:
            is_over = self.may_be_anothers(group, member, request.partition)
            return Error.STALE_MEMBER_EPOCH if is_over else Error.NONE
        since = member.held.get(request.partition)
        is_of_assignment = since is not None and since <= request.epoch < member.epoch
        return Error.NONE if is_of_assignment else Error.STALE_MEMBER_EPOCH

    def may_be_anothers(self, group: Group, member: Member, partition: int) -> bool:
        """Whether another member may have had what this one has given back: not in the epoch of the target."""
        return partition not in member.held and group.target_epoch > member.epoch

    def committing_error(self, state: State, request: CommitRequest) -> Error:
        """The same, of the group as it is now."""
        return self.commit_error(state.loaded, request)

    # --- time-outs and the log -------------------------------------------------------------------------------------

    def may_expire_rebalance(self, member: Member) -> bool:
        """A member that does not give back in time is removed."""
        return bool(member.revoking)

    def may_expire_session(self, member: Member) -> bool:
        """The session of every member runs, also of one that is to come back."""
        return True

    def responds_when_committed(self) -> bool:
        """Nobody is told of what a new coordinator might not have."""
        return True

    def acknowledges_when_committed(self) -> bool:
        """So it is with offsets."""
        return True

    def loaded(self, log: Log) -> Group:
        """What a new coordinator finds in the log."""
        return log.group

    def taken_over(self, group: ClassicGroup) -> ClassicGroup:
        """A classic group as the log has it, in memory; there is none here."""
        return group
