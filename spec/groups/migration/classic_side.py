"""What becomes of the classic group: a rebalance begins, a generation does, the leader's assignment is in the log.

It is `spec.groups.classic` without what has no part in a migration: time-outs of requests, static members, protocols.
"""

from __future__ import annotations

from tidegauge.spec.groups.consumer.actions import appended
from tidegauge.spec.groups.consumer.classic_group import ClassicGroup, ClassicMember, Stage, Standing
from tidegauge.spec.groups.consumer.state import Entry, Error, HeartbeatRequest, Process, State
from tidegauge.spec.groups.migration.rules import MigrationRules
from tidegauge.spec.kernel.evolving import evolve


def classic_of(state: State) -> ClassicGroup:
    """The classic group, where a guard has asked whether there is one."""
    assert state.classic is not None, "it is a consumer group"
    return state.classic


def told(machine: MigrationRules, state: State, member_id: int, error: Error) -> State:
    """The process that waits under a member id has an error."""
    for number, process in enumerate(state.processes):
        if process.member_id == member_id and process.waiting:
            return state.with_process(number, machine.after_error(process, error))
    return state


def join(machine: MigrationRules, state: State, request: HeartbeatRequest) -> State:
    """A member wants to be in the next generation; it waits for it."""
    group = state.classic or ClassicGroup()
    known = group.member(request.member_id)
    assigned = () if known is None else known.assigned
    member = ClassicMember(request.member_id, request.topics, assigned, joined=True, claims=request.owned or ())
    if group.leader < 0:
        group = evolve(group, leader=request.member_id)
    state = evolve(state, classic=group.with_member(member))
    return rebalance(machine, state)


def rebalance(machine: MigrationRules, state: State) -> State:
    """One begins, or the present one may be over; who waits for an assignment has to join again."""
    group = classic_of(state)
    if group.standing is not Standing.PREPARING:
        for member in group.members:
            if member.syncing:
                state = told(machine, state, member.member_id, Error.REBALANCE_IN_PROGRESS)
        members = group.members
        if group.standing is Standing.COMPLETING:
            members = tuple(evolve(member, syncing=False, assigned=()) for member in members)
        first = group.standing is Standing.EMPTY
        group = evolve(group, standing=Standing.PREPARING, members=members, is_first=first, is_storing=False)
        state = evolve(state, classic=group)
    if group.is_first or not all(member.joined for member in group.members):
        return state
    return begin_generation(machine, state)


def begin_generation(machine: MigrationRules, state: State) -> State:
    """Who has joined is in the next generation, and is told so; without members that is in the log."""
    group = classic_of(state)
    joined = tuple(member for member in group.members if member.joined)
    generation = group.generation + 1
    if not joined:
        return appended(machine, state, Entry(classic=ClassicGroup(generation=generation)))
    ids = [member.member_id for member in joined]
    group = ClassicGroup(
        Standing.COMPLETING,
        generation,
        tuple(evolve(member, joined=False) for member in joined),
        group.leader if group.leader in ids else ids[0],
    )
    for number, process in enumerate(state.processes):
        if process.member_id in ids and process.waiting:
            state = state.with_process(number, told_generation(process, generation))
    return evolve(state, classic=group)


def told_generation(process: Process, generation: int) -> Process:
    """A process has the response to its JoinGroup."""
    return evolve(process, epoch=generation, stage=Stage.JOINED, full=False, waiting=False)


def sync(machine: MigrationRules, state: State, number: int) -> State:
    """A member of the generation waits for its assignment; the leader's is for everybody, and goes into the log."""
    group, process = classic_of(state), state.processes[number]
    member = group.member(process.member_id)
    assert member is not None, "it is known"
    if group.standing is Standing.STABLE:
        return state.with_process(number, machine.after_assignment(process, member.assigned))
    group = group.with_member(evolve(member, syncing=True))
    state = evolve(state.with_process(number, evolve(process, waiting=True)), classic=group)
    if group.leader != process.member_id or group.is_storing:
        return state
    shares = machine.shares(group)
    members = tuple(
        ClassicMember(one.member_id, one.topics, shares[one.member_id], claims=one.claims) for one in group.members
    )
    entry = Entry(classic=ClassicGroup(Standing.STABLE, group.generation, members, group.leader), assigns=True)
    state = appended(machine, evolve(state, classic=evolve(group, is_storing=True)), entry)
    return state if machine.writes_in_two_steps else take_effect(machine, state, entry)


def take_effect(machine: MigrationRules, state: State, entry: Entry) -> State:
    """The leader's assignment is in the log; unless a rebalance has begun since, everybody is told."""
    group, stored = state.classic, entry.classic
    assert stored is not None, "it is an assignment"
    if group is None or not group.is_storing or group.generation != stored.generation:
        return state
    for number, process in enumerate(state.processes):
        member, share = group.member(process.member_id), stored.member(process.member_id)
        if member is not None and share is not None and member.syncing and process.waiting:
            state = state.with_process(number, machine.after_assignment(process, share.assigned))
    return evolve(state, classic=stored)


def remove(machine: MigrationRules, state: State, member_id: int) -> State:
    """A member is out of the group, and the others share out what it had."""
    return rebalance(machine, evolve(state, classic=classic_of(state).without(member_id)))


def dissolve(machine: MigrationRules, state: State) -> State:
    """The classic group becomes a consumer group: who waits for a response has to join again."""
    group = classic_of(state)
    for member in group.members:
        if member.joined or member.syncing:
            state = told(machine, state, member.member_id, Error.REBALANCE_IN_PROGRESS)
    return evolve(state, group=machine.upgraded(group, state.loaded), classic=None)
