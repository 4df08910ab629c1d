"""What becomes of the classic group: a rebalance begins, a generation does, the leader's assignment is in the log.

It is `spec.groups.classic` without what has no part in a migration: time-outs of requests, and protocols.
"""

from __future__ import annotations

from tidegauge.spec.groups.consumer.actions import appended
from tidegauge.spec.groups.consumer.classic_group import ClassicGroup, ClassicMember, Standing
from tidegauge.spec.groups.consumer.state import NONE, Entry, Error, HeartbeatRequest, State
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
    group, instance = state.classic or ClassicGroup(), machine.instance_of(request.process)
    former = group.of_instance(instance)
    if former is not None and former.member_id != request.member_id:
        return replace(machine, state, request, former)
    known = group.member(request.member_id)
    assigned = () if known is None else known.assigned
    claims = request.owned or ()
    member = ClassicMember(
        request.member_id, request.topics, assigned, True, False, claims, instance, request.generation
    )
    if group.leader < 0:
        group = evolve(group, leader=request.member_id)
    state = evolve(state, classic=group.with_member(member))
    return rebalance(machine, state)


def replace(machine: MigrationRules, state: State, request: HeartbeatRequest, former: ClassicMember) -> State:
    """The next process of a static member is in its place; the one before is fenced.

    In a stable group nothing else changes: it waits until its member id is in the log, and has the same part.
    """
    state = told(machine, state, former.member_id, Error.FENCED_INSTANCE_ID)
    said = evolve(former, member_id=request.member_id, topics=request.topics, claims=request.owned or (), said=NONE)
    group = classic_of(state).with_next_process(former, evolve(said, joined=True, syncing=False))
    state = evolve(state, classic=group)
    if not machine.keeps_generation(group):
        return rebalance(machine, state)
    members = tuple(evolve(member, joined=False) for member in group.members)
    entry = Entry(classic=evolve(group, members=members), replacing=request.member_id)
    state = appended(machine, state, entry)
    return state if machine.writes_in_two_steps else take_effect(machine, state, entry)


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
    """Who has joined is in the next generation, and is told so; without members that is in the log.

    Static members are in it, too: they come back. While no other one has joined they are waited for.
    """
    group = classic_of(state)
    members = tuple(member for member in group.members if machine.stays(member))
    generation = group.generation + 1
    if not members:
        return appended(machine, state, Entry(classic=ClassicGroup(generation=generation)))
    ids = [member.member_id for member in members if member.joined]
    if not ids:
        return evolve(state, classic=evolve(group, members=members, is_first=False))
    group = ClassicGroup(
        Standing.COMPLETING,
        generation,
        tuple(evolve(member, joined=False) for member in members),
        group.leader if group.leader in ids else ids[0],
    )
    for number, process in enumerate(state.processes):
        if process.member_id in ids and process.waiting:
            state = state.with_process(number, machine.after_generation(process, generation))
    return evolve(state, classic=group)


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
    members = tuple(evolve(one, assigned=shares[one.member_id], joined=False, syncing=False) for one in group.members)
    entry = Entry(classic=ClassicGroup(Standing.STABLE, group.generation, members, group.leader), assigns=True)
    state = appended(machine, evolve(state, classic=evolve(group, is_storing=True)), entry)
    return state if machine.writes_in_two_steps else take_effect(machine, state, entry)


def take_effect(machine: MigrationRules, state: State, entry: Entry) -> State:
    """The leader's assignment is in the log; unless a rebalance has begun since, everybody is told.

    Or a static member's new id is: then its process is told that it goes on in the generation.
    """
    group, stored = state.classic, entry.classic
    assert stored is not None, "it is of a classic group"
    if entry.replacing != NONE:
        return told_replaced(machine, state, entry.replacing)
    if group is None or not group.is_storing or group.generation != stored.generation:
        return state
    for number, process in enumerate(state.processes):
        member, share = group.member(process.member_id), stored.member(process.member_id)
        if member is not None and share is not None and member.syncing and process.waiting:
            state = state.with_process(number, machine.after_assignment(process, share.assigned))
    return evolve(state, classic=stored)


def told_replaced(machine: MigrationRules, state: State, member_id: int) -> State:
    """The next process of a static member goes on in the generation, unless a rebalance has begun."""
    group = state.classic
    member = None if group is None else group.member(member_id)
    if group is None or member is None or not member.joined or group.standing is not Standing.STABLE:
        return state
    for number, process in enumerate(state.processes):
        if process.member_id == member_id and process.waiting:
            state = state.with_process(number, machine.after_generation(process, group.generation))
    return evolve(state, classic=group.with_member(evolve(member, joined=False)))


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
