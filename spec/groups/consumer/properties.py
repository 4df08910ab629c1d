"""What must hold of a consumer group, what a search must have reached, and what everything comes to.

*Owning* is what a process believes; *having* is what the coordinator knows: what a member is assigned, and what it has
yet to give back. The first may be behind; what a process does in the meantime is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from tidegauge.spec.groups.consumer import ownership, targets
from tidegauge.spec.groups.consumer.actions import groups, is_present, of_each_group
from tidegauge.spec.groups.consumer.requests import LoseResponse, ReceiveHeartbeat, ReceiveLeave
from tidegauge.spec.groups.consumer.rules import ConsumerRules
from tidegauge.spec.groups.consumer.state import (
    JOINING_EPOCH,
    NONE,
    STATIC_LEAVING_EPOCH,
    Age,
    CommitRequest,
    Error,
    Group,
    Phase,
    Process,
    State,
    partitions_of,
)
from tidegauge.spec.groups.consumer.timing import ExpireRebalance, ExpireSession
from tidegauge.spec.kernel.bounds import times
from tidegauge.spec.kernel.each import holds_of_each
from tidegauge.spec.kernel.machine import Action, Invariant, LeadsTo, StepInvariant

REMOVING = (ReceiveLeave, ExpireRebalance, ExpireSession)
"""Actions that may end the membership of a process that goes on."""


# --- who has what ----------------------------------------------------------------------------------------------------


def one_member_has_it(group: Group) -> bool:
    """No partition is assigned to a member that another one has, or has yet to give back."""
    had = [partition for member in group.members for partition in member.held]
    return len(had) == len(set(had))


def target_covers(machine: ConsumerRules) -> Invariant[State]:
    """A target gives each partition once, to who wants it; one of the group's epoch leaves nothing out."""

    def holds(group: Group) -> bool:
        given = [partition for _, partitions in group.target for partition in partitions]
        if len(given) != len(set(given)):
            return False
        return group.target_epoch != group.epoch or is_covering(machine, group, set(given))

    holds.__doc__ = target_covers.__doc__
    return of_each_group(holds)


def is_covering(machine: ConsumerRules, group: Group, given: set[int]) -> bool:
    """Whether the target gives all that is wanted, nobody what it does not want, and is about who wants something."""
    takers = {member.member_id: group.wants(member) for member in group.members}
    wanted = {p for topics in takers.values() for p in group.known if p % machine.topics in topics}
    told_of = {member_id for member_id, _ in group.target}
    if not told_of <= {*takers} or any(topics and one not in told_of for one, topics in takers.items()):
        return False
    return given == wanted and all(
        partition % machine.topics in takers[member_id] for member_id, has in group.target for partition in has
    )


def one_committer(machine: ConsumerRules) -> Invariant[State]:
    """Of the processes that own a partition, the commit of at most one would be taken now."""

    def holds(state: State) -> bool:
        owned = [partition for process in state.processes for partition in process.owned]
        contested = {partition for partition in owned if owned.count(partition) > 1}
        if not contested or state.group is None:
            return True
        committers = set[int]()
        for number, process in enumerate(state.processes):
            for partition in filter(contested.__contains__, process.owned):
                request = CommitRequest(number, process.member_id, process.epoch, partition, 0)
                if machine.committing_error(state, request) is Error.NONE:
                    if partition in committers:
                        return False
                    committers.add(partition)
        return True

    return holds


def owning_is_having(number: int, state: State) -> bool:
    """A process in the epoch of its member owns nothing that the member has not; a late copy may give it away."""
    process = state.processes[number]
    if not process.owned or process.phase is not Phase.UP or times(state.spent, "DelayHeartbeat"):
        return True
    member = state.group.member(process.member_id) if state.group is not None else None
    return member is None or process.epoch != member.epoch or {*process.owned} <= {*member.held}


def stable_means_agreed(state: State) -> bool:
    """Where all members have what the target gives them, a process that was told so owns it, or is about to."""
    group = state.group
    if group is None or times(state.spent, "DelayHeartbeat"):
        return True
    parts = {one.member_id: partitions_of(one.assigned) for one in group.members if one.epoch == group.epoch}
    if parts != dict(group.target):
        return True
    return all(
        process.owned == parts.get(process.member_id, process.owned)
        for process in state.processes
        if process.epoch == group.epoch and process.assigned is None and not process.waiting and not process.full
    )


def given_back_before_the_epoch(group: Group) -> bool:
    """A member in the epoch of the target has nothing that the target does not give it."""
    return all(
        {*member.held} <= {*group.target_of(member.member_id)}
        for member in group.members
        if member.epoch == group.target_epoch
    )


# --- epochs ----------------------------------------------------------------------------------------------------------


def epochs_rise(before: State, action: Action, after: State) -> bool:
    """No epoch in the log goes back: of the group, of its target, of a member that is not to come back."""
    old, new = before.log.group, after.log.group
    if old is new:
        return True
    if new.epoch < old.epoch or new.target_epoch < old.target_epoch:
        return False
    for member in new.members:
        known = old.member(member.member_id)
        if known is not None and 0 <= member.epoch < known.epoch:
            return False
    return True


def epochs_are_of_the_group(group: Group) -> bool:
    """No member is ahead of the target, and no target ahead of the group."""
    return group.target_epoch <= group.epoch and all(member.epoch <= group.target_epoch for member in group.members)


def told_epochs_are_logged(number: int, state: State) -> bool:
    """No process is in an epoch that a new coordinator might not know: of the group, and of its member."""
    process = state.processes[number]
    if process.epoch > state.log.group.epoch:
        return False
    member = state.log.group.member(process.member_id)
    return member is None or member.epoch < 0 or process.epoch <= member.epoch


def target_is_of_the_empty_group(group: Group) -> bool:
    """A group without members is in the epoch of its target: there is nobody to make another one for."""
    return bool(group.members) or group.target_epoch == group.epoch


# --- regular expressions ---------------------------------------------------------------------------------------------


def resolved_is_wanted(group: Group) -> bool:
    """Nothing is kept of an expression that no member has any more, nor of when it was resolved."""
    if not group.resolved:
        return (group.resolved_of, group.resolved_age) == (0, Age.DUE)
    return {one for one, _ in group.resolved} <= {*group.expressions}


def resolved_is_matched(machine: ConsumerRules) -> Invariant[State]:
    """What is resolved is what the expression matches of the topics that there had been by then, and are there."""

    def holds(state: State) -> bool:
        for group in groups(state):
            for one, topics in group.resolved:
                matched = {topic for topic in machine.matches[one] if topic < group.resolved_of}
                if not matched - {*state.deleted} <= {*topics} <= matched:
                    return False
        return True

    return holds


def heartbeats_resolve_nothing(before: State, action: Action, after: State) -> bool:
    """No heartbeat waits for an expression: what it matches is known later."""
    if not isinstance(action, ReceiveHeartbeat | LoseResponse) or before.group is None or after.group is None:
        return True
    return {*after.group.resolved} <= {*before.group.resolved}


def unresolved_begins_no_epoch(machine: ConsumerRules) -> StepInvariant[State]:
    """A member that brings an expression which nobody has had resolved begins no epoch by that: there is one later.

    A static member under another member id brings what the one that it replaces did not want.
    """

    def holds(before: State, action: Action, after: State) -> bool:
        if not isinstance(action, ReceiveHeartbeat) or before.group is None or after.group is None:
            return True
        request, group = action.request, before.group
        if request.expression == NONE or group.epoch == after.group.epoch:
            return True
        instance = machine.instance_of(request.process)
        member = group.member(request.member_id) or group.of_instance(instance)
        is_alone = request.topics == (() if member is None else member.topics) and group.known == after.group.known
        is_brought = request.expression != (NONE if member is None else member.expression)
        if not is_brought or not is_alone or group.racks != after.group.racks:
            return True
        return request.expression in dict(group.resolved)

    return holds


def resolutions_are_apart(before: State, action: Action, after: State) -> bool:
    """A task begins when there is none, not sooner than ten seconds after the last one, and for all expressions."""
    if after.resolving is None or after.resolving == before.resolving:
        return True
    group = after.loaded
    return before.resolving is None and group.resolved_age is not Age.RECENT and after.resolving == group.expressions


def what_is_due_begins(machine: ConsumerRules) -> StepInvariant[State]:
    """A heartbeat in a group whose expressions were resolved too long ago begins the task that resolves them."""

    def holds(before: State, action: Action, after: State) -> bool:
        if not isinstance(action, ReceiveHeartbeat) or before.group is None or after.group is None:
            return True
        is_due = after.group.resolved_age is Age.DUE and bool(after.group.expressions)
        if after.resolving is not None or not is_due:
            return True
        instance = machine.instance_of(action.request.process)
        return machine.heartbeat_error(before.group, instance, action.request) is not Error.NONE

    return holds


# --- members ---------------------------------------------------------------------------------------------------------


def member_ids_are_unique(state: State) -> bool:
    """No two processes have one member id, and no two members one instance id."""
    ids = [process.member_id for process in state.processes if process.member_id != NONE]
    if len(ids) != len(set(ids)):
        return False
    for group in groups(state):
        instances = [member.instance for member in group.members if member.instance != NONE]
        if len(instances) != len(set(instances)):
            return False
    return True


def only_the_late_are_removed(before: State, action: Action, after: State) -> bool:
    """A process that goes on is a member until it leaves or is too late for something.

    It is not too late to give back what it has not been told of, unless a late copy of its heartbeat was.
    """
    if before.group is None or after.group is None:
        return True
    if isinstance(action, ExpireRebalance) and before.spent == after.spent:
        removed = [process for process in before.processes if process.member_id == action.member_id]
        return bool(times(before.spent, "DelayHeartbeat")) or not any(process.works for process in removed)
    if isinstance(action, REMOVING) or before.group is after.group:
        return True
    return all(
        after.group.member(member.member_id) is not None or not is_present(before, member.member_id)
        for member in before.group.members
    )


def only_the_removed_are_fenced(before: State, action: Action, after: State) -> bool:
    """A process is told that it is no member only if it is none.

    One is that has twice in a row not got its response. One of whose heartbeats a late copy arrived may be: the copy
    may have told less than it owned.
    """
    for old, new in zip(before.processes, after.processes, strict=True):
        if old is new or not new.epoch == JOINING_EPOCH < old.epoch or new.member_id != old.member_id:
            continue
        if before.group is None or before.group.member(old.member_id) is None:
            continue
        lost = times(before.spent, "LoseResponse") + times(before.spent, "FailOver")
        if lost <= 1 and not times(before.spent, "DelayHeartbeat"):
            return False
    return True


def only_the_replaced_end(machine: ConsumerRules) -> Invariant[State]:
    """A process is fenced for good only if another one has its group instance id.

    That may be the process in a former life, a heartbeat of which comes after its crash, when its next life's session
    has ended.
    """

    def holds(state: State) -> bool:
        has_former_lives = times(state.spent, "Crash") > 0 and times(state.spent, "DelayHeartbeat") > 0
        for number, process in enumerate(state.processes):
            instance = machine.instance_of(number)
            others = [one for one in range(machine.processes) if one != number or has_former_lives]
            if process.phase is Phase.FENCED and not any(
                machine.instance_of(one) == instance != NONE for one in others
            ):
                return False
        return True

    return holds


# --- offsets ---------------------------------------------------------------------------------------------------------


def told_is_kept(state: State) -> bool:
    """What a member was told is committed is in the log, for all who read it."""
    return all(offset.value == value for offset, value in zip(state.log.offsets, state.told, strict=True))


def members_know_their_offsets(machine: ConsumerRules) -> Invariant[State]:
    """Who may commit goes on no earlier than its group is."""

    def holds(number: int, state: State) -> bool:
        if state.group is None:
            return True
        process = state.processes[number]
        for partition in process.owned:
            position = process.positions[partition]
            request = CommitRequest(number, process.member_id, process.epoch, partition, position)
            is_taken = position != NONE and machine.committing_error(state, request) is Error.NONE
            if is_taken and position < state.log.offsets[partition].value:
                return False
        return True

    holds.__doc__ = members_know_their_offsets.__doc__
    return holds_of_each(range(machine.processes), holds)


def offsets_do_not_go_back(before: State, action: Action, after: State) -> bool:
    """A committed offset goes back only if the member that has committed it says so."""
    return all(
        old == new or new.value >= old.value or new.member_id == old.member_id
        for old, new in zip(before.log.offsets, after.log.offsets, strict=True)
    )


# --- all of them -----------------------------------------------------------------------------------------------------


def invariants(machine: ConsumerRules) -> Mapping[str, Invariant[State]]:
    """What holds in every state."""
    return {
        "OneMemberHasIt": of_each_group(one_member_has_it),
        "TargetCovers": target_covers(machine),
        "OneCommitter": one_committer(machine),
        "OwnersAreNotRefused": ownership.owners_are_not_refused(machine),
        "OwningIsHaving": holds_of_each(range(machine.processes), owning_is_having),
        "StableMeansAgreed": stable_means_agreed,
        "GivenBackBeforeTheEpoch": of_each_group(given_back_before_the_epoch),
        "EpochsAreOfTheGroup": of_each_group(epochs_are_of_the_group),
        "TargetIsOfTheEmptyGroup": of_each_group(target_is_of_the_empty_group),
        "EmptyGroupsWaitForNothing": of_each_group(targets.empty_groups_wait_for_nothing),
        "WhoWaitsLacksSomething": of_each_group(targets.who_waits_lacks_something),
        "WhoLacksSomethingWaits": targets.who_lacks_something_waits(machine),
        "ToldEpochsAreLogged": holds_of_each(range(machine.processes), told_epochs_are_logged),
        "ResolvedIsWanted": of_each_group(resolved_is_wanted),
        "ResolvedIsMatched": resolved_is_matched(machine),
        "MemberIdsAreUnique": member_ids_are_unique,
        "OnlyTheReplacedEnd": only_the_replaced_end(machine),
        "ToldIsKept": told_is_kept,
        "MembersKnowTheirOffsets": members_know_their_offsets(machine),
    }


def step_invariants(machine: ConsumerRules) -> Mapping[str, StepInvariant[State]]:
    """What holds of every step."""
    return {
        "OwnersCommit": ownership.owners_commit,
        "OnlyWhatIsWantedIsAssigned": ownership.only_what_is_wanted_is_assigned(machine),
        "EpochsRise": epochs_rise,
        "OneOwnerInEachEpoch": ownership.one_owner_in_each_epoch,
        "TargetsAreApart": targets.targets_are_apart,
        "MadeTargetsAreNew": targets.made_targets_are_new(machine),
        "TargetsAreGivenOnce": targets.targets_are_given_once(machine),
        "WhatWaitsIsMade": targets.what_waits_is_made,
        "HeartbeatsResolveNothing": heartbeats_resolve_nothing,
        "UnresolvedBeginsNoEpoch": unresolved_begins_no_epoch(machine),
        "ResolutionsAreApart": resolutions_are_apart,
        "WhatIsDueBegins": what_is_due_begins(machine),
        "OnlyTheLateAreRemoved": only_the_late_are_removed,
        "OnlyTheRemovedAreFenced": only_the_removed_are_fenced,
        "OffsetsDoNotGoBack": offsets_do_not_go_back,
    }


# --- what everything comes to ----------------------------------------------------------------------------------------


def working(state: State) -> list[Process]:
    """The processes that go on."""
    return [process for process in state.processes if process.works]


def is_in_order(machine: ConsumerRules, state: State) -> bool:
    """Whether something can be said: no late copy may have arrived, and no static member has two processes."""
    up = [machine.instance_of(n) for n, one in enumerate(state.processes) if one.phase is Phase.UP]
    static = [instance for instance in up if instance != NONE]
    return not times(state.spent, "DelayHeartbeat") and len(static) == len(set(static))


def all_are_stable(machine: ConsumerRules) -> Invariant[State]:
    """Every process that goes on is a member, in the epoch of the group, and owns its part of the target."""

    def holds(state: State) -> bool:
        group = state.group
        if group is None:
            return False
        return not is_in_order(machine, state) or all(
            process.epoch == group.epoch == group.target_epoch
            and process.assigned is None
            and (process.topics, process.expression) == process.asked
            and process.owned == group.target_of(process.member_id)
            for process in working(state)
        )

    return holds


def all_is_owned(machine: ConsumerRules) -> Invariant[State]:
    """If nobody hangs, what somebody wants somebody owns."""

    def holds(state: State) -> bool:
        if any(process.hung for process in state.processes) or not is_in_order(machine, state):
            return True
        owned = {partition for process in state.processes for partition in process.owned}
        wanted = {topic for process in working(state) for topic in wanted_by(machine, process)}
        every = {each for each in range(state.partitions) if machine.is_there(state, each)}
        return owned >= {each for each in every if each % machine.topics in wanted}

    return holds


def wanted_by(machine: ConsumerRules, process: Process) -> tuple[int, ...]:
    """The topics that a process names, or whose names its expression matches."""
    matched = () if process.expression == NONE else machine.matches[process.expression]
    return tuple(sorted({*process.topics, *matched}))


def nothing_else_is_owned(machine: ConsumerRules) -> Invariant[State]:
    """Nobody owns for good what it does not want, or what there is no more."""

    def holds(state: State) -> bool:
        return not is_in_order(machine, state) or all(
            machine.is_there(state, each) and each % machine.topics in wanted_by(machine, process)
            for process in working(state)
            for each in process.owned
        )

    return holds


def racks_are_known(machine: ConsumerRules) -> Invariant[State]:
    """A group with a member that goes on is of the racks that the replicas are in."""

    def holds(state: State) -> bool:
        group = state.group
        if group is None:
            return False
        is_silent = not working(state) or not is_in_order(machine, state)
        return is_silent or group.racks == machine.racks_of(state, machine.partitions_wanted(group, state))

    return holds


def nobody_else_is_in(state: State) -> bool:
    """Who is gone is no member."""
    return state.group is not None and all(is_present(state, member.member_id) for member in state.group.members)


def converging(machine: ConsumerRules) -> Mapping[str, Invariant[State]]:
    """What holds for good in the end."""
    return {
        "every process that goes on is in the epoch of the group, with its part": all_are_stable(machine),
        "what somebody wants somebody owns": all_is_owned(machine),
        "nobody owns what it does not want": nothing_else_is_owned(machine),
        "the group is of the racks that its replicas are in": racks_are_known(machine),
        "who is gone is no member": nobody_else_is_in,
    }


def owed(machine: ConsumerRules) -> Mapping[str, LeadsTo[State]]:
    """What comes again and again by weak fairness alone, though others join, leave and commit as they like."""
    return {"the group comes to one epoch, in which each process has its part": LeadsTo.again(all_are_stable(machine))}


def goals(machine: ConsumerRules) -> Mapping[str, Invariant[State]]:
    """What a search that proves anything has reached."""
    wanted: dict[str, Invariant[State]] = {}
    names = {machine.instance_of(n) if machine.instance_of(n) != NONE else -2 - n for n in range(machine.processes)}
    if len(names) > 1 and machine.most_partitions > 1:
        wanted["two processes own a part each"] = lambda state: (
            sum(process.phase is Phase.UP and bool(process.owned) for process in state.processes) > 1
        )
        wanted["a member waits for what another has to give back"] = lambda state: (
            state.group is not None
            and any(
                {*state.group.target_of(one.member_id)} & {p for p, _ in other.revoking}
                for one, other in combinations(state.group.members, 2)
            )
        )
    if machine.bounds["Leave"] and any(name >= 0 for name in names):
        wanted["a static member is away, and keeps what it has"] = lambda state: (
            state.group is not None
            and any(one.epoch == STATIC_LEAVING_EPOCH and bool(one.assigned) for one in state.group.members)
        )
    if machine.spaces_targets and len(names) > 1:
        wanted["a member waits for the next target"] = lambda state: (
            state.group is not None
            and any(one.member_id not in dict(state.group.target) for one in state.group.members)
            and state.group.target_is_new
        )
    if machine.spaces_targets and machine.expressions and machine.bounds["Resubscribe"] > 1:
        wanted["an old target has more for a member, which waits for the next one"] = targets.old_target_has_more(
            machine
        )
    moves = machine.partitions > 1 or any(machine.bounds[name] for name in ("Leave", "Crash", "ExpireSession"))
    if machine.commits and len(names) > 1 and moves:
        wanted["a member goes on where another one was"] = lambda state: any(
            partition in process.owned
            and process.positions[partition] == offset.value > 0
            and offset.member_id != process.member_id
            for partition, offset in enumerate(state.log.offsets)
            for process in state.processes
        )
    if machine.expressions and machine.bounds["CreateTopic"]:
        wanted["a member owns what came after its expression"] = lambda state: any(
            process.expression != NONE and any(each % machine.topics >= machine.first_topics for each in process.owned)
            for process in state.processes
        )
    if machine.named and machine.expressions:
        wanted["a member owns what it names before its expression is resolved"] = lambda state: (
            state.group is not None
            and any(
                process.expression not in (NONE, *dict(state.group.resolved)) and bool(process.owned)
                for process in state.processes
            )
        )
    if machine.expressions and machine.bounds["FailOver"]:
        wanted["a new coordinator resolves expressions"] = lambda state: (
            times(state.spent, "FailOver") > 0 and state.resolving is not None
        )
    if machine.bounds["FailOver"]:
        wanted["a new coordinator goes on with the members"] = lambda state: (
            times(state.spent, "FailOver") > 0
            and state.group is not None
            and any(process.epoch == state.group.epoch and not process.full for process in state.processes)
        )
    return wanted


def explain(state: State) -> Mapping[str, object]:
    """The group in memory and in the log, and what each process believes."""
    shown: dict[str, object] = {"group": state.group, "log": state.log}
    shown |= {f"process {number}": process for number, process in enumerate(state.processes)}
    return shown
