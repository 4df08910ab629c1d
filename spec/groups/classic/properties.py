"""What must hold of a group, what a search must have reached, and what everything comes to.

*Owning* is what a process believes; *who was given a partition last* is what the log says (`State.owners`). The first
may lag behind the second; what a process does in the meantime is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from tidegauge.spec.groups.classic.coordinating import is_present
from tidegauge.spec.groups.classic.requests import ReceiveCommit, ReceiveLeave
from tidegauge.spec.groups.classic.rules import GroupRules
from tidegauge.spec.groups.classic.state import (
    ENDED,
    NONE,
    CommitRequest,
    Error,
    GroupRecord,
    OffsetRecord,
    Phase,
    Process,
    State,
    Status,
    Waiting,
)
from tidegauge.spec.groups.classic.timing import ExpireRebalance, ExpireSession, ExpireSync
from tidegauge.spec.kernel.bounds import times
from tidegauge.spec.kernel.each import holds_of_each
from tidegauge.spec.kernel.machine import Action, Invariant, LeadsTo, StepInvariant

REMOVING = (ReceiveLeave, ExpireRebalance, ExpireSession, ExpireSync)
"""Actions that may end the membership of a process that goes on."""


def records(state: State) -> Iterator[GroupRecord]:
    """The group in the log, as far as it is known: committed, then appended."""
    yield from state.log.groups
    yield from (entry.record for entry in state.appended if isinstance(entry.record, GroupRecord))


def identity(instance: int, number: int) -> tuple[int, int]:
    """By what one is told from others: a static member by its group instance id, another one by its own number."""
    return instance, number if instance == NONE else NONE


# --- who owns what ---------------------------------------------------------------------------------------------------


def one_owner_of_a_generation(machine: GroupRules) -> Invariant[State]:
    """Of two processes that own a partition by one generation, one has replaced the other as a static member."""

    def holds(state: State) -> bool:
        stable = [(n, each) for n, each in enumerate(state.processes) if each.owned and each.phase is Phase.STABLE]
        for (one, mine), (other, yours) in combinations(stable, 2):
            is_shared = mine.generation == yours.generation and set(mine.owned) & set(yours.owned)
            if is_shared and not (machine.instance_of(one) == machine.instance_of(other) != NONE):
                return False
        return True

    return holds


def one_committer(machine: GroupRules) -> Invariant[State]:
    """Of the processes that own a partition, the commit of at most one would be taken now."""

    def holds(state: State) -> bool:
        owned = [partition for process in state.processes for partition in process.owned]
        contested = {partition for partition in owned if owned.count(partition) > 1}
        group = state.group
        if not contested or group is None:
            return True
        committers = set[int]()
        for number, process in enumerate(state.processes):
            if machine.may_commit(process):
                for partition in filter(contested.__contains__, process.owned):
                    request = CommitRequest(number, process.member_id, process.generation, partition, 0)
                    if machine.commit_error(group, machine.instance_of(number), request) is Error.NONE:
                        if partition in committers:
                            return False
                        committers.add(partition)
        return True

    return holds


def owners_commit(before: State, action: Action, after: State) -> bool:
    """A commit that is taken is of the member that was given the partition last, in the generation of that."""
    if not isinstance(action, ReceiveCommit) or (before.log, before.appended) == (after.log, after.appended):
        return True
    owner = before.owners[action.request.partition]
    return (owner.member_id, owner.generation) == (action.request.member_id, action.request.generation)


def revoked_before_given(before: State, action: Action, after: State) -> bool:
    """When a partition goes over to another member, no member that is in the new generation has it still.

    But for one that has missed a generation: what it says that it owns, nobody counts on.
    """
    for partition, (former, owner) in enumerate(zip(before.owners, after.owners, strict=True)):
        if former.member_id not in (NONE, owner.member_id) and former.generation != owner.generation:
            given = [one for one in after.log.groups if one.generation == owner.generation]  # a fail-over keeps several
            said = {one.member_id: one.subscription for record in given for one in record.members}
            latest = max((one.generation for one in said.values()), default=NONE)
            for process in after.processes:
                is_in = process.generation == owner.generation and process.phase in (Phase.JOINED, Phase.SYNCING)
                own = said.get(process.member_id) if is_in and process.member_id != owner.member_id else None
                if own is not None and own.generation == latest and partition in process.owned:
                    return False
    return True


def shared_out_once(machine: GroupRules) -> Invariant[State]:
    """An assignment gives each partition once, and only to who has asked for it.

    It leaves out what the leader does not know of yet; with the cooperative protocol, also what a member has to give
    back first. Of a generation whose number comes again after a fail-over nothing is said: its leader may be one that
    has shared the lost one out, among members that are gone.
    """

    def holds(state: State) -> bool:
        for record in records(state):
            given = [partition for member in record.members for partition in member.partitions]
            if len(given) != len(set(given)):
                return False
            for member in record.members:
                if any(partition % machine.topics not in member.subscription.topics for partition in member.partitions):
                    return False
            if record.generation > state.lost and not is_covered(machine, record, given):
                return False
        return True

    return holds


def is_covered(machine: GroupRules, record: GroupRecord, given: list[int]) -> bool:
    """Whether an assignment leaves nothing out that it might not.

    With the cooperative protocol nothing is said of one with a static member that has just begun: if its former process
    had yet to give something back, nobody knows that any more.
    """
    if machine.cooperative and any(
        member.instance != NONE and member.subscription.generation == NONE for member in record.members
    ):
        return True
    wanted = {topic for member in record.members for topic in member.subscription.topics}
    held = {partition for member in record.members for partition in member.subscription.owned}
    known = max(machine.partitions, max(given, default=NONE) + 1)
    missing = {each for each in range(known) if each % machine.topics in wanted} - set(given)
    return not missing if not machine.cooperative else missing <= held


# --- the group -------------------------------------------------------------------------------------------------------


def stable_means_agreed(number: int, state: State) -> bool:
    """A member with an assignment of the group's generation has what the group says; and nobody has one too early."""
    group, process = state.group, state.processes[number]
    if group is None or process.phase is not Phase.STABLE or process.generation != group.generation:
        return True
    member = group.member(process.member_id)
    is_early = group.status not in (Status.STABLE, Status.PREPARING_REBALANCE)
    return member is None or (not is_early and process.owned == member.partitions)


def stable_is_logged(state: State) -> bool:
    """A stable group is in the log, or about to be: a new coordinator finds the same members with the same shares."""
    group = state.group
    if group is None or group.status is not Status.STABLE:
        return True
    last = list(records(state))[-1:]
    return bool(last) and (last[0].generation, {one.member_id: one.partitions for one in last[0].members}) == (
        group.generation,
        {one.member_id: one.partitions for one in group.members},
    )


def all_know_the_protocol(state: State) -> bool:
    """Every member of a generation knows the protocol by which it is shared out."""
    group = state.group
    if group is None or group.status not in (Status.COMPLETING_REBALANCE, Status.STABLE):
        return True
    return all(group.protocol in member.protocols for member in group.members)


def nobody_waits_in_vain(state: State) -> bool:
    """Nobody waits for what has happened: to join a group that has begun, or for an assignment that is there."""
    group = state.group
    if group is None:
        return True
    written = {entry.replacing for entry in state.appended}
    for member in group.members:
        is_joining, is_syncing = member.waiting is Waiting.JOIN, member.waiting is Waiting.SYNC
        if is_joining and group.status is not Status.PREPARING_REBALANCE and member.member_id not in written:
            return False
        if is_syncing and group.status is not Status.COMPLETING_REBALANCE:
            return False
    return True


def member_ids_are_unique(state: State) -> bool:
    """No two processes have one member id."""
    ids = [process.member_id for process in state.processes if process.member_id != NONE]
    return len(ids) == len(set(ids))


def generations_rise(before: State, action: Action, after: State) -> bool:
    """A generation that is in the log is never followed by an older one, nor is one in memory but by a fail-over.

    A generation that nobody has an assignment of may come again after it.
    """
    if before.log is not after.log:
        old, new = before.log.groups[-1:], after.log.groups[-1:]
        if old and new[0].generation < old[0].generation:
            return False
    if after.group is None:
        return True
    if before.group is None:
        return not after.log.groups or after.group.generation >= after.log.groups[-1].generation
    return after.group.generation >= before.group.generation


def one_assignment_of_a_generation(state: State) -> bool:
    """Two records of one generation say the same, but for the member ids of static members that were replaced."""
    known: dict[int, dict[tuple[int, int], tuple[int, ...]]] = {}
    for record in records(state):
        said = {identity(one.instance, one.member_id): one.partitions for one in record.members}
        if known.setdefault(record.generation, said) != said:
            return False
    return True


# --- members ---------------------------------------------------------------------------------------------------------


def only_the_stale_are_reset(machine: GroupRules) -> StepInvariant[State]:
    """A process forgets its member id, or gives up its generation, if the coordinator does not know it under that."""

    def holds(before: State, action: Action, after: State) -> bool:
        group = before.group
        for number, (old, new) in enumerate(zip(before.processes, after.processes, strict=True)):
            if old is new or group is None or new.phase in ENDED:
                continue
            gives_up = new.generation == NONE and old.phase in (Phase.JOINED, Phase.SYNCING, Phase.STABLE)
            if new.member_id != NONE and not gives_up:
                continue
            is_known = machine.member_error(group, machine.instance_of(number), old.member_id) is Error.NONE
            if is_known and (new.member_id == NONE or group.generation == old.generation):
                return False
        return True

    return holds


def only_the_late_are_removed(before: State, action: Action, after: State) -> bool:
    """A process that goes on is a member until it leaves, is too late for something, or is replaced."""
    if before.group is after.group or isinstance(action, REMOVING):
        return True
    if before.group is None or after.group is None:
        return True
    return all(
        after.group.member(member.member_id) is not None
        or after.group.of_instance(member.instance) is not None
        or not is_present(before, member.member_id, hung=False)
        for member in before.group.members
    )


def only_the_replaced_are_fenced(machine: GroupRules) -> Invariant[State]:
    """A process is fenced if another one has its group instance id, and refused if it knows no common protocol.

    The only process of a static member may be fenced all the same: by a new coordinator, which knows nothing of a
    process that has replaced another one while a rebalance went on, as no record tells of that; and by a late copy of
    its own first JoinGroup, which nothing tells from that of a next process. And a new coordinator may refuse one that
    has a protocol in common with all: of what a member knows the log has the protocol of its generation alone.
    """

    instances = [machine.instance_of(number) for number in range(machine.processes)]

    def holds(number: int, state: State) -> bool:
        phase = state.processes[number].phase
        if phase is Phase.FENCED:
            is_mistaken = times(state.spent, "FailOver") or times(state.spent, "DelayJoin")
            is_only = instances.count(instances[number]) < 2 and not is_mistaken
            return instances[number] != NONE and not is_only
        known = set(machine.protocols_of(number))
        has_common = all(known & set(machine.protocols_of(other)) for other in range(machine.processes))
        return phase is not Phase.REFUSED or not has_common or bool(times(state.spent, "FailOver"))

    return holds_of_each(range(machine.processes), holds)


# --- offsets ---------------------------------------------------------------------------------------------------------


def told_is_kept(state: State) -> bool:
    """What a member was told is committed is in the log, for all who read it."""
    return bool(state.appended) or all(
        offset.value == value for offset, value in zip(state.log.offsets, state.told, strict=True)
    )


def offsets_do_not_go_back(before: State, action: Action, after: State) -> bool:
    """A committed offset goes back only if the member that has committed it says so, in the same generation."""
    for old, new in zip(before.log.offsets, after.log.offsets, strict=True):
        same = (old.member_id, old.generation) == (new.member_id, new.generation)
        if new.value < old.value and not same:
            return False
    return True


def members_know_their_offsets(number: int, state: State) -> bool:
    """Who may commit goes on no earlier than its group is, and no later than it has come itself."""
    process = state.processes[number]
    for partition in process.owned if process.phase is Phase.STABLE else ():
        owner = state.owners[partition]
        if (owner.member_id, owner.generation) == (process.member_id, process.generation):
            values = [state.log.offsets[partition].value]
            values += [
                entry.record.offset.value
                for entry in state.appended
                if isinstance(entry.record, OffsetRecord) and entry.record.partition == partition
            ]
            if process.positions[partition] != NONE and max(values) > process.positions[partition]:
                return False
    return True


# --- all of them -----------------------------------------------------------------------------------------------------


def invariants(machine: GroupRules) -> Mapping[str, Invariant[State]]:
    """What holds in every state."""
    return {
        "OneOwnerOfAGeneration": one_owner_of_a_generation(machine),
        "OneCommitter": one_committer(machine),
        "SharedOutOnce": shared_out_once(machine),
        "StableMeansAgreed": holds_of_each(range(machine.processes), stable_means_agreed),
        "StableIsLogged": stable_is_logged,
        "AllKnowTheProtocol": all_know_the_protocol,
        "NobodyWaitsInVain": nobody_waits_in_vain,
        "MemberIdsAreUnique": member_ids_are_unique,
        "OneAssignmentOfAGeneration": one_assignment_of_a_generation,
        "OnlyTheReplacedAreFenced": only_the_replaced_are_fenced(machine),
        "ToldIsKept": told_is_kept,
        "MembersKnowTheirOffsets": holds_of_each(range(machine.processes), members_know_their_offsets),
    }


def step_invariants(machine: GroupRules) -> Mapping[str, StepInvariant[State]]:
    """What holds of every step."""
    return {
        "OwnersCommit": owners_commit,
        "RevokedBeforeGiven": revoked_before_given,
        "GenerationsRise": generations_rise,
        "OnlyTheStaleAreReset": only_the_stale_are_reset(machine),
        "OnlyTheLateAreRemoved": only_the_late_are_removed,
        "OffsetsDoNotGoBack": offsets_do_not_go_back,
    }


# --- what everything comes to ----------------------------------------------------------------------------------------


def working(state: State) -> list[tuple[int, Process]]:
    """The processes that go on."""
    return [(n, one) for n, one in enumerate(state.processes) if one.phase not in ENDED and not one.hung]


def all_are_stable(machine: GroupRules) -> Invariant[State]:
    """Every process that goes on is a member of one stable generation."""

    def holds(state: State) -> bool:
        group = state.group
        return group is not None and all(
            process.phase is Phase.STABLE
            and not machine.wants_to_join(process)
            and group.status is Status.STABLE
            and group.generation == process.generation
            and group.member(process.member_id) is not None
            for _, process in working(state)
        )

    return holds


def all_is_owned(machine: GroupRules) -> Invariant[State]:
    """If nobody hangs, what somebody wants somebody owns."""

    def holds(state: State) -> bool:
        processes = [process for _, process in working(state)]
        if any(process.hung for process in state.processes):
            return True
        wanted = {topic for process in processes for topic in process.topics}
        owned = {partition for process in processes for partition in process.owned}
        return owned >= {each for each in range(state.partitions) if each % machine.topics in wanted}

    return holds


def nobody_else_is_in(state: State) -> bool:
    """Who is gone is in no group, and nobody waits for it."""
    group = state.group
    if group is None:
        return False
    return all(is_present(state, one, hung=True) for one in (*(m.member_id for m in group.members), *group.pending))


def converging(machine: GroupRules) -> Mapping[str, Invariant[State]]:
    """What holds for good in the end."""
    return {
        "every process that goes on is in one stable generation": all_are_stable(machine),
        "what somebody wants somebody owns": all_is_owned(machine),
        "who is gone is in no group": nobody_else_is_in,
    }


def owed(machine: GroupRules) -> Mapping[str, LeadsTo[State]]:
    """What comes though others join, leave and commit as they like: no request is held for ever (KAFKA-9752, 12890)."""

    def has_response(number: int, asks: Phase) -> LeadsTo[State]:
        def waits(state: State) -> bool:
            return state.processes[number].phase is asks and not state.processes[number].hung

        return LeadsTo(waits, lambda state: not waits(state))

    requests = {"JoinGroup": Phase.JOINING, "SyncGroup": Phase.SYNCING}
    return {
        f"the {request} of process {number} has its response": has_response(number, asks)
        for number in range(machine.processes)
        for request, asks in requests.items()
    }


def goals(machine: GroupRules) -> Mapping[str, Invariant[State]]:
    """What a search that proves anything has reached."""
    wanted: dict[str, Invariant[State]] = {}
    bounds, instances = machine.bounds, [machine.instance_of(number) for number in range(machine.processes)]
    names = [identity(instance, number) for number, instance in enumerate(instances)]
    have_common = any(
        names[one] != names[other] and set(machine.protocols_of(one)) & set(machine.protocols_of(other))
        for one, other in combinations(range(machine.processes), 2)
    )
    if have_common and machine.most_partitions > 1:
        wanted["two members share the partitions"] = lambda state: (
            sum(process.phase is Phase.STABLE and bool(process.owned) for process in state.processes) > 1
        )
    if len(set(names)) < len(names):
        wanted["a static member is replaced, and its former process knows it"] = lambda state: any(
            process.phase is Phase.FENCED for process in state.processes
        )
    moves = machine.partitions > 1 or any(bounds[name] for name in ("Leave", "Crash", "ExpireSession"))
    if machine.commits and have_common and moves:
        wanted["a member goes on where another one was"] = lambda state: any(
            process.phase is Phase.STABLE
            and process.positions[partition] == offset.value > 0
            and offset.member_id != process.member_id
            for partition, offset in enumerate(state.log.offsets)
            for process in state.processes
        )
    if bounds["FailOver"]:
        wanted["a new coordinator takes a stable group over"] = lambda state: (
            times(state.spent, "FailOver") > 0
            and state.group is not None
            and state.group.status is Status.STABLE
            and not state.appended
        )
    if machine.cooperative and have_common and machine.partitions > 1:
        wanted["a partition is with nobody until it is given back"] = lambda state: any(
            {p for one in record.members for p in one.subscription.owned}
            - {p for one in record.members for p in one.partitions}
            for record in state.log.groups
        )
    return wanted


def explain(state: State) -> Mapping[str, object]:
    """The group in memory and in the log, and what each process believes."""
    shown: dict[str, object] = {"group": state.group, "log": state.log.groups[-1:], "owners": state.owners}
    shown |= {f"process {number}": process for number, process in enumerate(state.processes)}
    return shown
