"""What the coordinator does with its group: rebalances, records that are appended and committed, responses.

Each function makes one state of another one. The rules say what is to be done; here is what that changes.
"""

from __future__ import annotations

from tidegauge.spec.groups.classic.rules import GroupRules
from tidegauge.spec.groups.classic.state import (
    ENDED,
    NONE,
    Entry,
    Error,
    Failed,
    Group,
    GroupRecord,
    Joined,
    Log,
    Member,
    OffsetRecord,
    Owner,
    Phase,
    Process,
    Response,
    State,
    Status,
    Synced,
    Waiting,
)
from tidegauge.spec.kernel.evolving import evolve

# --- responses -----------------------------------------------------------------------------------------------------


def responded(state: State, member_id: int, response: Response) -> State:
    """What a member waits for is on its way to it, or to nobody."""
    group = state.loaded
    member = group.member(member_id)
    assert member is not None, "it waits"
    if member.connection != NONE:
        process = state.processes[member.connection]
        state = state.with_process(member.connection, evolve(process, response=response))
    watched = member.watched or member.waiting is Waiting.SYNC
    member = evolve(member, waiting=Waiting.NOTHING, connection=NONE, watched=watched)
    return evolve(state, group=group.with_member(member))


def all_responded(state: State, waiting: Waiting, error: Error) -> State:
    """Every member that waits for this is told of an error."""
    for member in state.loaded.members:
        if member.waiting is waiting:
            state = responded(state, member.member_id, Failed(error))
    return state


def disconnected(state: State, number: int) -> State:
    """Nobody has the responses that a process was to have."""
    state = state.with_process(number, evolve(state.processes[number], response=None))
    group = state.group
    if group is None or all(member.connection != number for member in group.members):
        return state
    members = tuple(evolve(one, connection=NONE) if one.connection == number else one for one in group.members)
    return evolve(state, group=evolve(group, members=members))


def joined(group: Group, member: Member) -> Joined:
    """The response to a JoinGroup: only the leader of a group that has no assignment yet is told of the others."""
    leads = group.leader == member.member_id and group.status is Status.COMPLETING_REBALANCE
    members = tuple((one.member_id, one.subscription) for one in group.members) if leads else ()
    return Joined(member.member_id, group.generation, group.protocol, group.leader, members)


# --- rebalances ----------------------------------------------------------------------------------------------------


def prepared(machine: GroupRules, state: State) -> State:
    """A rebalance begins: members that wait for an assignment join again."""
    group = state.loaded
    if group.status is Status.COMPLETING_REBALANCE:
        state = all_responded(state, Waiting.SYNC, Error.REBALANCE_IN_PROGRESS)
        group = state.loaded.unassigned()
    initial = group.status is Status.EMPTY
    group = evolve(group.rejoining(), status=Status.PREPARING_REBALANCE, initial=initial)
    return completed_if_all_joined(machine, evolve(state, group=group))


def completed_if_all_joined(machine: GroupRules, state: State, *, initial: bool = False) -> State:
    """The generation begins if there is nobody to wait for; `initial`: even if others are given time to come."""
    group = state.loaded
    if group.status is not Status.PREPARING_REBALANCE or not machine.have_all_joined(group):
        return state
    return state if group.initial and not initial else completed(machine, state)


def completed(machine: GroupRules, state: State) -> State:
    """The generation begins with those that have joined; if nobody has, static members are waited for."""
    group = state.loaded
    for member in group.members:
        if not machine.stays(member):
            group = machine.removed(group, member.member_id)
    leader = machine.elected(group)
    if group.members and leader == NONE:
        return evolve(state, group=evolve(group, initial=False))
    generation = machine.next_generation(group)
    group = evolve(group, generation=generation, leader=leader, initial=False)
    if not group.members:
        group = evolve(group, status=Status.EMPTY, protocol=NONE)
        return appended(machine, evolve(state, group=group), Entry(GroupRecord(generation)))
    protocol = machine.selected_protocol(group.members)
    members = tuple(evolve(one, unsynced=True, watched=machine.watches(one), is_new=False) for one in group.members)
    group = evolve(group, status=Status.COMPLETING_REBALANCE, protocol=protocol, members=members)
    state = evolve(state, group=group)
    for member in members:
        if member.waiting is Waiting.JOIN and machine.has_response(group, member):
            state = responded(state, member.member_id, joined(group, member))
    return state


def left(machine: GroupRules, state: State, member_id: int) -> State:
    """A member is none any more. If it waits, it is told so."""
    member = state.loaded.member(member_id)
    assert member is not None, "the guard says so"
    if member.waiting is not Waiting.NOTHING:
        state = responded(state, member_id, Failed(Error.UNKNOWN_MEMBER_ID))
    return evolve(state, group=machine.removed(state.loaded, member_id))


def rebalanced(machine: GroupRules, state: State, *, initial: bool = False) -> State:
    """The members have changed: a rebalance begins, or goes on without whom it has waited for."""
    if state.loaded.status in (Status.STABLE, Status.COMPLETING_REBALANCE):
        return prepared(machine, state)
    return completed_if_all_joined(machine, state, initial=initial)


# --- the log -------------------------------------------------------------------------------------------------------


def appended(machine: GroupRules, state: State, entry: Entry) -> State:
    """The coordinator has appended a record; it is committed at once where nothing may come between."""
    state = evolve(state, appended=(*state.appended, entry))
    if isinstance(entry.record, OffsetRecord) and not machine.tells_when_committed():
        state = told(state, entry.record)
    return state if machine.writes_in_two_steps else committed(machine, state)


def committed(machine: GroupRules, state: State) -> State:
    """The first record that was not is committed, and who waits for it is told."""
    entry = state.appended[0]
    state = logged(state)
    record, group = entry.record, state.loaded
    if isinstance(record, OffsetRecord):
        return told(state, record)
    if machine.is_current(group, record):
        return assigned(state, record)
    replaced = group.member(entry.replacing)
    if replaced is not None and replaced.waiting is Waiting.JOIN and group.status is Status.STABLE:
        return responded(state, entry.replacing, joined(group, replaced))
    return state


def logged(state: State) -> State:
    """The first record that was not is in the log for good."""
    record, log = state.appended[0].record, state.log
    state = evolve(state, appended=state.appended[1:])
    if isinstance(record, OffsetRecord):
        offsets = (*log.offsets[: record.partition], record.offset, *log.offsets[record.partition + 1 :])
        return evolve(state, log=Log(log.groups, offsets))
    owners = list(state.owners)
    for member in record.members:
        for partition in member.partitions:
            owners[partition] = Owner(member.member_id, record.generation)
    return evolve(state, log=Log((*log.groups[-1:], record), log.offsets), owners=tuple(owners))


def told(state: State, record: OffsetRecord) -> State:
    """A member knows, or could know, that its offset is committed."""
    values = (*state.told[: record.partition], record.offset.value, *state.told[record.partition + 1 :])
    return evolve(state, told=values)


def assigned(state: State, record: GroupRecord) -> State:
    """All members agree: who waits for its assignment is told of it, and who asks later will be."""
    group = evolve(state.loaded, status=Status.STABLE)
    for known in record.members:
        member = group.member(known.member_id)
        assert member is not None, "who leaves begins another generation"
        group = group.with_member(evolve(member, partitions=known.partitions))
    state = evolve(state, group=group)
    for member in group.members:
        if member.waiting is Waiting.SYNC:
            state = responded(state, member.member_id, Synced(member.partitions))
    return state


# --- who is there --------------------------------------------------------------------------------------------------

BEATING = (Phase.JOINED, Phase.SYNCING, Phase.STABLE)
"""Processes that send heartbeats."""


def is_present(state: State, member_id: int, *, hung: bool) -> bool:
    """Whether a process goes on under this member id, or will when it has its response.

    With `hung`, it is enough that it sends heartbeats.
    """

    def goes_on(process: Process) -> bool:
        return process.phase not in ENDED and (not process.hung or (hung and process.phase in BEATING))

    if any(process.member_id == member_id and goes_on(process) for process in state.processes):
        return True
    member = state.group.member(member_id) if state.group is not None else None
    if member is not None and member.connection != NONE and goes_on(state.processes[member.connection]):
        return True
    return any(
        isinstance(process.response, Joined) and process.response.member_id == member_id and goes_on(process)
        for process in state.processes
    )
