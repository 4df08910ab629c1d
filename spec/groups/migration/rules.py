"""The rules of a group that goes over from one protocol to the other, and of members that speak the classic one.

A rule is a method, so that a bug (`spec.bugs`) can override it. `machine` tells how it works.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum

import attrs

from tidegauge.spec.groups.consumer.classic_group import ClassicGroup, ClassicMember, Stage, Standing
from tidegauge.spec.groups.consumer.rules import ConsumerRules
from tidegauge.spec.groups.consumer.state import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    NONE,
    STATIC_LEAVING_EPOCH,
    CommitRequest,
    Entry,
    Error,
    Group,
    HeartbeatRequest,
    Member,
    Phase,
    Process,
    Response,
    State,
    partitions_of,
)
from tidegauge.spec.kernel.evolving import evolve


class Policy(IntEnum):
    """`group.consumer.migration.policy`: which way a group with members goes over."""

    DISABLED = 0
    UPGRADE = 1
    DOWNGRADE = 2
    BIDIRECTIONAL = 3


@attrs.frozen
class MigrationRules(ConsumerRules):
    """What coordinator and processes decide; the fields are the constants of the model."""

    classic: tuple[bool, ...] = (True,)
    """Whether a process speaks the classic protocol; False, where it is not said."""
    eager: bool = False
    """Whether classic processes give all up before they join again, as they did before KIP-429."""
    policy: Policy = Policy.BIDIRECTIONAL

    def is_classic(self, process: int) -> bool:
        """The protocol of a process when it begins."""
        return process < len(self.classic) and self.classic[process]

    # --- which protocol ------------------------------------------------------------------------------------------

    def upgrades(self, group: ClassicGroup) -> bool:
        """Whether a classic group becomes a consumer group when a member of that protocol joins; an empty one may."""
        return not group.members or self.policy in (Policy.UPGRADE, Policy.BIDIRECTIONAL)

    def downgrades(self, group: Group) -> bool:
        """Whether a consumer group becomes a classic one: nobody speaks the other protocol any more."""
        is_allowed = self.policy in (Policy.DOWNGRADE, Policy.BIDIRECTIONAL)
        return is_allowed and bool(group.members) and all(member.classic for member in group.members)

    def upgraded(self, group: ClassicGroup, before: Group) -> Group:
        """The consumer group: its epoch is the generation, and everybody has what it may own.

        One that was a consumer group without members before goes on from its epoch.
        """
        if not group.members:
            return before
        epoch = max(group.generation, before.epoch)
        members = tuple(
            Member(
                member.member_id,
                topics=member.topics,
                epoch=epoch,
                previous_epoch=epoch,
                assigned=tuple((partition, epoch) for partition in member.assigned),
                revoking=tuple((partition, epoch) for partition in self.left_over(group, member)),
                classic=True,
                instance=member.instance,
            )
            for member in group.members
        )
        target = tuple((member.member_id, member.assigned) for member in group.members)
        return Group(epoch=epoch, target_epoch=epoch, target=target, members=members)

    def left_over(self, group: ClassicGroup, member: ClassicMember) -> tuple[int, ...]:
        """What a member owned when it joined, and may own still: its leader has not given that to anybody."""
        given = {partition for one in group.members for partition in one.assigned}
        return tuple(partition for partition in member.claims if partition not in given)

    def downgraded(self, group: Group) -> ClassicGroup:
        """The classic group, as the log has it: who has what, in a generation that nobody has led."""
        members = tuple(
            ClassicMember(member.member_id, member.topics, partitions_of(member.assigned), instance=member.instance)
            for member in group.members
        )
        return ClassicGroup(Standing.STABLE, self.generation_after(group), members)

    def generation_after(self, group: Group) -> int:
        """The generation of a group that was a consumer group: members in its last epoch are in it."""
        return group.epoch

    def taken_over(self, group: ClassicGroup) -> ClassicGroup:
        """A generation that nobody has led was a consumer group: what its last member had has to be shared out."""
        if not group.members or group.leader >= 0:
            return group
        return evolve(group, standing=Standing.PREPARING, leader=group.members[0].member_id)

    def written(self, before: Group, after: Group) -> Entry:
        """The group goes over if the next process of its last member of KIP-848 speaks the classic protocol."""
        goes_over = self.downgrades(after) and not self.downgrades(before)
        return Entry(classic=self.downgraded(after)) if goes_over else super().written(before, after)

    def removal(self, group: Group, member_id: int) -> Entry:
        """The group without a member goes over, if only classic ones are left."""
        left = group.without(member_id)
        return Entry(classic=self.downgraded(left)) if self.downgrades(left) else super().removal(group, member_id)

    # --- members of the classic protocol in a consumer group -----------------------------------------------------

    def heartbeat_error(self, group: Group, instance: int, request: HeartbeatRequest) -> Error:
        """JoinGroup and ConsumerGroupHeartbeat; each knows the members of its own protocol, but for who joins."""
        member = group.member(request.member_id)
        if request.epoch == JOINING_EPOCH and not request.classic:
            return self.joining_error(group, instance, request.member_id)
        is_new = request.epoch == JOINING_EPOCH and (request.full or instance == NONE)
        if not is_new and (error := self.side_error(group, instance, request.member_id, classic=request.classic)):
            return error
        if request.epoch == JOINING_EPOCH:
            return self.claims_error(member, request)
        assert member is not None, "it is known"
        leaves = request.epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH)
        return Error.NONE if leaves else self.epoch_error(member, request)

    def joining_error(self, group: Group, instance: int, member_id: int) -> Error:
        """A static member that has not left may be replaced by a process of the other protocol.

        One of the classic protocol says nothing when it ends.
        """
        known = group.of_instance(instance)
        goes_over = known is not None and known.classic
        return Error.NONE if goes_over else super().joining_error(group, instance, member_id)

    def side_error(self, group: Group, instance: int, member_id: int, *, classic: bool) -> Error:
        """Why one that says it is a member is none of its protocol."""
        if error := self.member_error(group, instance, member_id):
            return error
        member = group.member(member_id)
        return Error.NONE if member is not None and member.classic == classic else Error.UNKNOWN_MEMBER_ID

    def claims_error(self, member: Member | None, request: HeartbeatRequest) -> Error:
        """One that says it owns what it has not is no member any more, and must not go on with that."""
        held = set() if member is None else set(member.held)
        return Error.NONE if {*(request.owned or ())} <= held else Error.UNKNOWN_MEMBER_ID

    def generation_error(self, group: Group, instance: int, member_id: int, generation: int) -> Error:
        """Why a SyncGroup or Heartbeat is refused: the generation is the member's epoch."""
        if error := self.side_error(group, instance, member_id, classic=True):
            return error
        member = group.member(member_id)
        is_of_now = member is not None and generation == member.epoch
        return Error.NONE if is_of_now else Error.ILLEGAL_GENERATION

    def must_rejoin(self, group: Group, member: Member) -> bool:
        """A member joins again when an epoch has begun, when it has to give back, and when there is more for it."""
        return member.epoch < group.epoch or bool(member.revoking) or self.has_more(group, member)

    def has_more(self, group: Group, member: Member) -> bool:
        """Whether something is free that the target gives it."""
        missing = {*group.target_of(member.member_id)} - {*partitions_of(member.assigned)}
        return any(self.is_free(group, one, member.member_id) for one in missing)

    def may_sync(self, group: Group, member: Member) -> bool:
        """Whether a member is told its assignment: not in an epoch that is over, but while it has to give back."""
        return member.epoch == group.epoch or bool(member.revoking)

    def tells_when_committed(self) -> bool:
        """What a SyncGroup tells is in the log: the group may have gone over just now, and nobody else know of it."""
        return True

    def may_expire_rebalance(self, member: Member) -> bool:
        """A member of the classic protocol has no time for giving back: it joins again (`ExpireRejoin`)."""
        return not member.classic and super().may_expire_rebalance(member)

    # --- the classic group ---------------------------------------------------------------------------------------

    def classic_error(self, group: ClassicGroup, instance: int, member_id: int, generation: int) -> Error:
        """Why one that says it is a member is none, or of another generation."""
        if error := self.classic_member_error(group, instance, member_id):
            return error
        return Error.NONE if generation == group.generation else Error.ILLEGAL_GENERATION

    def classic_member_error(self, group: ClassicGroup, instance: int, member_id: int) -> Error:
        """Why one that says it is a member is none: it is unknown, or another process has its instance id."""
        known = group.member(member_id) if instance == NONE else group.of_instance(instance)
        if known is None:
            return Error.UNKNOWN_MEMBER_ID
        return Error.NONE if known.member_id == member_id else Error.FENCED_INSTANCE_ID

    def heartbeat_in_classic_error(self, group: ClassicGroup, instance: int, member_id: int) -> Error:
        """Why a member of KIP-848 is none: a static one may have lost its place to a classic process."""
        return self.classic_member_error(group, instance, member_id) or Error.UNKNOWN_MEMBER_ID

    def stays(self, member: ClassicMember) -> bool:
        """Whether a member is in the next generation: it has joined, or is a static one, which comes back."""
        return member.joined or member.instance != NONE

    def keeps_generation(self, group: ClassicGroup) -> bool:
        """Whether the next process of a static member goes on in the present generation (KIP-345)."""
        return group.standing is Standing.STABLE

    def classic_commit_error(self, group: ClassicGroup, request: CommitRequest) -> Error:
        """Whose commit is not taken; nobody has an assignment while the leader's is awaited."""
        error = self.classic_error(group, self.instance_of(request.process), request.member_id, request.epoch)
        is_unassigned = group.standing is Standing.COMPLETING
        return Error.REBALANCE_IN_PROGRESS if error is Error.NONE and is_unassigned else error

    def shares(self, group: ClassicGroup) -> dict[int, tuple[int, ...]]:
        """The leader's assignment: what somebody else owns yet it gives to nobody (KIP-429)."""
        members = tuple(Member(member.member_id, topics=member.topics) for member in group.members)
        claimed = tuple((member.member_id, self.claims(group, member)) for member in group.members)
        partitions = range(self.partitions)
        target = self.target(Group(members=members, target=claimed), partitions)
        owners = {partition: member_id for member_id, has in claimed for partition in has}
        return {
            member_id: tuple(sorted(one for one in has if owners.get(one, member_id) == member_id))
            for member_id, has in target.items()
        }

    def claims(self, group: ClassicGroup, member: ClassicMember) -> tuple[int, ...]:
        """What a member owns, as its leader has it: a static one may have missed the last generation (KIP-792)."""
        has_missed = member.instance != NONE and member.said != group.generation - 1
        return () if has_missed else member.claims

    # --- commits ---------------------------------------------------------------------------------------------------

    def committing_error(self, state: State, request: CommitRequest) -> Error:
        """Whose commit is not taken by the group as it is now."""
        if state.classic is not None:
            return self.classic_commit_error(state.classic, request)
        return self.commit_error(state.loaded, request)

    def commit_error(self, group: Group, request: CommitRequest) -> Error:
        """A member of the classic protocol commits in its generation, and in no other (no KIP-1251)."""
        member = group.member(request.member_id)
        if member is None or not member.classic:
            return super().commit_error(group, request)
        if request.epoch != member.epoch:
            return Error.ILLEGAL_GENERATION
        is_over = self.may_be_anothers(group, member, request.partition)
        return Error.REBALANCE_IN_PROGRESS if is_over else Error.NONE

    # --- rules of a process --------------------------------------------------------------------------------------

    def heartbeat_request(self, state: State, number: int) -> HeartbeatRequest | None:
        """A ConsumerGroupHeartbeat; or a JoinGroup, which is due outside a generation: it says what is owned."""
        process = state.processes[number]
        if not process.classic:
            return super().heartbeat_request(state, number)
        is_due = process.phase is Phase.UP and not process.waiting and process.assigned is None
        if not is_due or process.stage is not Stage.OUTSIDE:
            return None
        full = process.epoch == JOINING_EPOCH
        request = HeartbeatRequest(
            number, process.member_id, JOINING_EPOCH, process.topics, owned=process.owned, full=full, classic=True
        )
        return evolve(request, generation=process.epoch) if process.static and not full else request

    def leave_request(self, state: State, number: int) -> HeartbeatRequest | None:
        """A LeaveGroup, or the last heartbeat; a static member of the classic protocol says nothing (KIP-345)."""
        if state.processes[number].static:
            return None
        request = super().leave_request(state, number)
        return None if request is None else evolve(request, classic=state.processes[number].classic)

    def after_response(self, process: Process, request: HeartbeatRequest, response: Response) -> Process:
        """Who has joined asks for its assignment next, and who has asked for it has it."""
        if not process.classic:
            return super().after_response(process, request, response)
        if request.epoch != JOINING_EPOCH:
            return self.after_assignment(process, response.assignment or ())
        return evolve(process, epoch=response.epoch, stage=Stage.JOINED, full=False, waiting=False)

    def after_generation(self, process: Process, generation: int) -> Process:
        """A member is in the next generation; a static one that has missed others has lost what it owned."""
        has_missed = process.static and generation != process.epoch + 1
        owned = () if has_missed else process.owned
        return evolve(process, epoch=generation, stage=Stage.JOINED, owned=owned, full=False, waiting=False)

    def after_assignment(self, process: Process, assignment: Collection[int]) -> Process:
        """A member has the response to its SyncGroup: what it is to own it makes its own."""
        assigned = None if {*assignment} == {*process.owned} else tuple(assignment)
        return evolve(process, stage=Stage.IN, waiting=False, assigned=assigned)

    def after_error(self, process: Process, error: Error) -> Process:
        """Who is told that it has to join again does so; who is no member any more owns nothing."""
        if error is Error.REBALANCE_IN_PROGRESS:
            kept = () if self.eager else process.owned
            process = evolve(process, stage=Stage.OUTSIDE, waiting=False, assigned=None, owned=kept)
            return self.after_asking_for_an_id(process)
        process = super().after_error(process, error)
        return self.after_asking_for_an_id(evolve(process, stage=Stage.OUTSIDE) if process.classic else process)

    def after_asking_for_an_id(self, process: Process) -> Process:
        """A static process that has no generation does not know the member id that it was given."""
        is_unnamed = process.static and process.epoch == JOINING_EPOCH
        return evolve(process, member_id=NONE) if is_unnamed else process

    def after_loss(self, process: Process) -> Process:
        """A process without a response to JoinGroup or SyncGroup joins again; it was not told what it is to own."""
        if not process.classic:
            return super().after_loss(process)
        process = evolve(process, stage=Stage.OUTSIDE, waiting=False, assigned=None)
        return self.after_asking_for_an_id(process)

    def after_giving_back(self, process: Process) -> Process:
        """A classic member that has given something back joins again, so that others may be given it."""
        process = super().after_giving_back(process)
        return evolve(process, stage=Stage.OUTSIDE) if process.classic else process
