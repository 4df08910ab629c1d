"""What must hold of a group that goes over, what a search must have reached, and what everything comes to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tidegauge.spec.groups.consumer import ownership
from tidegauge.spec.groups.consumer import properties as consumer
from tidegauge.spec.groups.consumer.actions import LOG, MEMORY, PLACES, groups, groups_at, is_present, of_each_group
from tidegauge.spec.groups.consumer.classic_group import ClassicGroup, ClassicMember, Stage, Standing
from tidegauge.spec.groups.consumer.requests import ReceiveCommit
from tidegauge.spec.groups.consumer.state import (
    JOINING_EPOCH,
    NONE,
    STATIC_LEAVING_EPOCH,
    Group,
    Member,
    Phase,
    State,
    partitions_of,
)
from tidegauge.spec.groups.consumer.timing import ExpireSession, FailOver
from tidegauge.spec.groups.migration.rules import MigrationRules, Policy
from tidegauge.spec.kernel.bounds import times
from tidegauge.spec.kernel.each import holds_of_each
from tidegauge.spec.kernel.machine import Action, Invariant, StepInvariant


def classic_groups(state: State) -> Iterator[ClassicGroup]:
    """The classic group in the log and in memory."""
    for place in PLACES:
        yield from classic_groups_at(place, state)


def classic_groups_at(place: int, state: State) -> Iterator[ClassicGroup]:
    """The classic group as it is at a place."""
    if place in (LOG, MEMORY):
        known = state.log.classic if place == LOG else state.classic
        if known is not None:
            yield known
    else:
        batches = state.appended[place:] if place == PLACES[-1] else state.appended[place : place + 1]
        yield from (entry.classic for entry in batches if entry.classic is not None)


def identities(members: Iterable[Member | ClassicMember]) -> set[tuple[int, int]]:
    """Who is who: a static member has another member id with each of its processes."""
    return {(one.instance, NONE if one.instance != NONE else one.member_id) for one in members}


def one_member_has_it(place: int, state: State) -> bool:
    """No partition is assigned to two members, whatever the group is."""
    for group in classic_groups_at(place, state):
        given = [partition for member in group.members for partition in member.assigned]
        if len(given) != len(set(given)):
            return False
    return all(consumer.one_member_has_it(group) for group in groups_at(place, state))


def told_epochs_are_the_members(number: int, state: State) -> bool:
    """No process is ahead of its member; one that was told a generation which is not in the log has no assignment."""
    group, process = state.group, state.processes[number]
    if group is None or state.classic is not None or (process.classic and process.stage is not Stage.IN):
        return True
    member = group.member(process.member_id)
    return member is None or process.epoch <= member.epoch


def owners_commit(before: State, action: Action, after: State) -> bool:
    """A commit that is taken is of the member that has the partition, or that nobody has followed yet."""
    if not isinstance(action, ReceiveCommit) or before.classic is not None:
        return True
    is_taken = (before.log, before.appended) != (after.log, after.appended)
    return not is_taken or ownership.is_last_owner(before.loaded, action.request)


def owning_is_having(number: int, state: State) -> bool:
    """A process in the epoch of its member owns nothing that the member has not, as long as it is a consumer group."""
    return state.classic is not None or consumer.owning_is_having(number, state)


def one_owner_in_each_epoch(before: State, action: Action, after: State) -> bool:
    """No partition has two owners in one member epoch, as long as the group is a consumer group."""
    kept = before.appended[: action.kept] if isinstance(action, FailOver) else ()
    classic = before.log.classic, after.log.classic, *(one.classic for one in kept)
    is_consumer = all(one is None for one in classic)
    return not is_consumer or ownership.one_owner_in_each_epoch(before, action, after)


def goes_over_as_it_may(machine: MigrationRules) -> StepInvariant[State]:
    """A group with members goes over only where the policy lets it, and loses no classic member by that.

    The next process of a static member is that member still.
    """

    def holds(before: State, action: Action, after: State) -> bool:
        if before.group is None or after.group is None:
            return True
        if before.classic is not None and after.classic is None:
            is_allowed = machine.policy in (Policy.UPGRADE, Policy.BIDIRECTIONAL)
            kept = identities(before.classic.members) <= identities(after.group.members)
            return not before.classic.members or (is_allowed and kept)
        if before.classic is None and after.classic is not None and before.group.members:
            is_allowed = machine.policy in (Policy.DOWNGRADE, Policy.BIDIRECTIONAL)
            stays = identities(one for one in before.group.members if one.classic)
            found = identities(after.classic.members)
            static = identities(one for one in before.group.members if one.instance != NONE)
            return is_allowed and stays <= found <= stays | static
        return True

    return holds


def instances_are_unique(state: State) -> bool:
    """No two members have one group instance id, whatever the group is."""
    known: list[Group | ClassicGroup] = [*groups(state), *classic_groups(state)]
    for group in known:
        instances = [member.instance for member in group.members if member.instance != NONE]
        if len(instances) != len(set(instances)):
            return False
    return True


def only_the_replaced_end(machine: MigrationRules) -> Invariant[State]:
    """A process is fenced for good only if another one has its group instance id.

    The only process of a static member may be all the same: by a new coordinator, which knows nothing of a JoinGroup in
    a rebalance that goes on (`spec.groups.classic`), and by a late copy of a JoinGroup, which is given another member
    id.
    """
    replaced = consumer.only_the_replaced_end(machine)

    def holds(state: State) -> bool:
        is_static = all(
            machine.instance_of(number) != NONE
            for number, process in enumerate(state.processes)
            if process.phase is Phase.FENCED
        )
        is_lost = times(state.spent, "FailOver") or times(state.spent, "DelayHeartbeat")
        return is_static and (bool(is_lost) or replaced(state))

    return holds


Replacement = tuple[Member | ClassicMember, Member | ClassicMember]
"""A static member before and after its next process has come."""


def replacements(before: State, after: State) -> Iterator[Replacement]:
    """The static members that have another member id by a step."""
    is_same = before.group == after.group and before.classic == after.classic
    if is_same or before.group is None or after.group is None:
        return
    known = {one.instance: one for one in members_of(before) if one.instance != NONE}
    for member in members_of(after):
        former = known.get(member.instance)
        if former is not None and former.member_id != member.member_id:
            yield former, member


def members_of(state: State) -> tuple[Member | ClassicMember, ...]:
    """The members of the group as it is now, whatever it is."""
    return state.loaded.members if state.classic is None else state.classic.members


def only_the_released_are_replaced(before: State, action: Action, after: State) -> bool:
    """A process of KIP-848 that has not left loses its place to one of the other protocol only."""
    return not any(
        isinstance(former, Member)
        and isinstance(member, Member)
        and not (former.classic or member.classic)
        and former.epoch != STATIC_LEAVING_EPOCH
        for former, member in replacements(before, after)
    )


def the_replaced_keep_their_part(before: State, action: Action, after: State) -> bool:
    """The next process of a static member has what the one before was assigned, as far as it is to have it.

    No rebalance of a stable classic group begins by that. While one waits for its leader's assignment nobody has any.
    """
    standing = None if before.classic is None else before.classic.standing
    if standing is Standing.COMPLETING:
        return True
    for former, member in replacements(before, after):
        if standing is Standing.STABLE and after.classic is not None and after.classic.standing is not standing:
            return False
        had = assigned_to(former)
        if isinstance(former, Member):
            had &= {*before.loaded.target_of(former.member_id)}
        if isinstance(member, Member):
            had &= {*after.loaded.target_of(member.member_id)}
        if not had <= assigned_to(member):
            return False
    return True


def static_members_stay(before: State, action: Action, after: State) -> bool:
    """A static member of a classic group is one until its session ends, whether it joins a generation or not."""
    if before.classic is None or after.group is None or isinstance(action, ExpireSession):
        return True
    stays = {one.instance for one in before.classic.members} - {NONE}
    return stays <= {one.instance for one in members_of(after)}


def the_replaced_end(machine: MigrationRules) -> StepInvariant[State]:
    """A process that loses its membership because another one has its place ends, and does not take that back."""

    def holds(before: State, action: Action, after: State) -> bool:
        if before.group is None:
            return True
        for number, (old, new) in enumerate(zip(before.processes, after.processes, strict=True)):
            if old is new or not old.epoch > JOINING_EPOCH == new.epoch or not (old.works and new.works):
                continue
            has = {one.instance: one.member_id for one in members_of(before) if one.instance != NONE}
            if has.get(machine.instance_of(number), old.member_id) != old.member_id:
                return False
        return True

    return holds


def assigned_to(member: Member | ClassicMember) -> set[int]:
    """The partitions that a member is assigned, in either protocol."""
    return {*(partitions_of(member.assigned) if isinstance(member, Member) else member.assigned)}


def epochs_rise(before: State, action: Action, after: State) -> bool:
    """No number goes back: that of a classic group's generation is the epoch when it has gone over, and again."""
    if isinstance(action, FailOver):
        kept = before.appended[: action.kept]
        if (before.log.classic is None) != (after.log.classic is None) or any(one.classic is not None for one in kept):
            return True  # more than one batch counts by it, and a group without members may be among them
    old, new = before.log.classic, after.log.classic
    if old is not None and new is not None:
        return new.generation >= old.generation
    if new is not None:
        return not before.log.group.members or new.generation >= before.log.group.epoch
    if old is not None:
        return not old.members or after.log.group.epoch >= old.generation
    return consumer.epochs_rise(before, action, after)


def invariants(machine: MigrationRules) -> Mapping[str, Invariant[State]]:
    """What holds in every state."""
    return {
        "OneMemberHasIt": holds_of_each(PLACES, one_member_has_it),
        "TargetCovers": consumer.target_covers(machine),
        "OneCommitter": consumer.one_committer(machine),
        "EpochsAreOfTheGroup": of_each_group(consumer.epochs_are_of_the_group),
        "ToldEpochsAreTheMembers": holds_of_each(range(machine.processes), told_epochs_are_the_members),
        "OwningIsHaving": holds_of_each(range(machine.processes), owning_is_having),
        "ToldIsKept": consumer.told_is_kept,
        "MembersKnowTheirOffsets": consumer.members_know_their_offsets(machine),
        "InstancesAreUnique": instances_are_unique,
        "OnlyTheReplacedEnd": only_the_replaced_end(machine),
    }


def step_invariants(machine: MigrationRules) -> Mapping[str, StepInvariant[State]]:
    """What holds of every step."""
    return {
        "OwnersCommit": owners_commit,
        "OneOwnerInEachEpoch": one_owner_in_each_epoch,
        "GoesOverAsItMay": goes_over_as_it_may(machine),
        "OnlyTheReleasedAreReplaced": only_the_released_are_replaced,
        "TheReplacedKeepTheirPart": the_replaced_keep_their_part,
        "TheReplacedEnd": the_replaced_end(machine),
        "StaticMembersStay": static_members_stay,
        "EpochsRise": epochs_rise,
        "OffsetsDoNotGoBack": consumer.offsets_do_not_go_back,
    }


# --- what everything comes to ----------------------------------------------------------------------------------------


def all_are_stable(machine: MigrationRules) -> Invariant[State]:
    """Every process that goes on is in the one generation or epoch, and owns its part."""

    def holds(state: State) -> bool:
        working = consumer.working(state)
        if not consumer.is_in_order(machine, state):
            return True
        if (classic := state.classic) is not None:
            parts = {member.member_id: member.assigned for member in classic.members}
            return not working or (
                classic.standing is Standing.STABLE
                and all(
                    process.classic
                    and process.epoch == classic.generation
                    and process.stage is Stage.IN
                    and process.assigned is None
                    and process.owned == parts.get(process.member_id)
                    for process in working
                )
            )
        group = state.group
        return group is not None and all(
            process.epoch == group.epoch == group.target_epoch
            and process.assigned is None
            and (process.stage is Stage.IN or not process.classic)
            and process.owned == group.target_of(process.member_id)
            for process in working
        )

    return holds


def nobody_else_is_in(state: State) -> bool:
    """Who is gone is no member."""
    members = state.classic.members if state.classic is not None else () if state.group is None else state.group.members
    return state.group is not None and all(is_present(state, member.member_id) for member in members)


def classic_processes_are_in_their_epoch(state: State) -> bool:
    """No classic process goes on in a generation that is over, though a late copy of its JoinGroup has begun the next.

    That of a process of KIP-848 may: what it owns is given to nobody else.
    """
    if state.group is None:
        return False
    for process in consumer.working(state):
        if not process.classic or process.stage is not Stage.IN:
            continue
        member = state.group.member(process.member_id)
        if state.classic is not None and process.epoch != state.classic.generation:
            return False
        if state.classic is None and (member is None or process.epoch != member.epoch):
            return False
    return True


def group_is_as_its_members(state: State) -> bool:
    """A group is a classic one exactly if all who go on speak that protocol."""
    working = consumer.working(state)
    return not working or (state.classic is not None) == all(process.classic for process in working)


def converging(machine: MigrationRules) -> Mapping[str, Invariant[State]]:
    """What holds for good in the end; under a policy that lets nobody go over a member may be refused for ever."""
    wanted: dict[str, Invariant[State]] = {
        "who is gone is no member": nobody_else_is_in,
        "a classic process is in the epoch of its member": classic_processes_are_in_their_epoch,
    }
    if machine.policy is Policy.BIDIRECTIONAL:
        wanted["a group is a classic one if all who go on speak that protocol"] = group_is_as_its_members
    if machine.policy in (Policy.BIDIRECTIONAL, Policy.UPGRADE):
        wanted["every process that goes on is in the one generation, with its part"] = all_are_stable(machine)
        wanted["what somebody wants somebody owns"] = consumer.all_is_owned(machine)
    return wanted


def goals(machine: MigrationRules) -> Mapping[str, Invariant[State]]:
    """What a search that proves anything has reached."""
    wanted: dict[str, Invariant[State]] = {}
    kinds = {machine.is_classic(number) for number in range(machine.processes)}
    is_mixed = len(kinds) > 1 or (machine.processes > 1 and bool(machine.bounds["StartOver"]))
    if is_mixed and machine.partitions > 1 and machine.policy in (Policy.BIDIRECTIONAL, Policy.UPGRADE):
        wanted["members of both protocols own a part each"] = lambda state: (
            state.classic is None
            and {process.classic for process in state.processes if process.owned and process.epoch > JOINING_EPOCH}
            == {True, False}
        )
    is_left = machine.bounds["Leave"] or machine.bounds["Crash"] or machine.bounds["ExpireSession"]
    if is_mixed and is_left and machine.policy is Policy.BIDIRECTIONAL:
        wanted["a consumer group is a classic one again"] = lambda state: (
            state.log.classic is not None and state.log.classic.leader < 0 and bool(state.log.classic.members)
        )
    if machine.instances and machine.bounds["StartOver"] and machine.policy is Policy.BIDIRECTIONAL:
        wanted["the next process of a static member has its part by the other protocol"] = lambda state: any(
            process.owned and machine.instance_of(number) != NONE and process.classic != machine.is_classic(number)
            for number, process in enumerate(state.processes)
        )
    return wanted
