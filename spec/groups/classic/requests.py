"""What the coordinator makes of the requests of members: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import ClassVar, Self

import attrs

from tidegauge.spec.groups.classic.actions import GroupAction, Outcome, Receive
from tidegauge.spec.groups.classic.coordinating import (
    appended,
    completed_if_all_joined,
    disconnected,
    joined,
    left,
    prepared,
    rebalanced,
    responded,
)
from tidegauge.spec.groups.classic.rules import GroupRules
from tidegauge.spec.groups.classic.state import (
    NONE,
    CommitRequest,
    Entry,
    Error,
    Failed,
    Group,
    GroupRecord,
    HeartbeatRequest,
    JoinRequest,
    Late,
    LeaveRequest,
    Member,
    Offset,
    OffsetRecord,
    Phase,
    Process,
    State,
    Status,
    Subscription,
    Synced,
    SyncRequest,
    Waiting,
)
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import Refusal

# --- JoinGroup -----------------------------------------------------------------------------------------------------


def added(machine: GroupRules, state: State, request: JoinRequest, member_id: int, connection: int) -> State:
    """A new member waits for the others."""
    group = state.loaded
    member = Member(
        member_id,
        machine.instance_of(request.process),
        machine.protocols_of(request.process),
        request.subscription,
        waiting=Waiting.JOIN,
        connection=connection,
        is_new=True,
    )
    pending = tuple(one for one in group.pending if one != member_id)
    leader = group.leader if group.members else member_id
    group = evolve(group, members=(*group.members, member), pending=pending, leader=leader)
    return begun(machine, evolve(state, group=group))


def begun(machine: GroupRules, state: State) -> State:
    """Somebody has joined: a rebalance begins, or the one that is under way may be complete."""
    if state.loaded.status is Status.PREPARING_REBALANCE:
        return completed_if_all_joined(machine, state)
    return prepared(machine, state)


def rejoined(machine: GroupRules, state: State, request: JoinRequest, member: Member, connection: int) -> State:
    """A member joins again: it waits for the others, or has but missed what it was told."""
    group, protocols = state.loaded, machine.protocols_of(request.process)
    is_stable = group.status is not Status.PREPARING_REBALANCE
    if is_stable and not machine.rejoining_rebalances(group, member, protocols, request.subscription):
        if connection == NONE:
            return state
        process = state.processes[connection]
        return state.with_process(connection, evolve(process, response=joined(group, member)))
    if member.waiting is not Waiting.NOTHING:  # only the later request of a member can have a process
        state = responded(state, member.member_id, Failed(Error.REBALANCE_IN_PROGRESS))
    member = evolve(
        member,
        protocols=protocols,
        subscription=request.subscription,
        waiting=Waiting.JOIN,
        connection=connection,
    )
    return begun(machine, evolve(state, group=state.loaded.with_member(member)))


def replaced(machine: GroupRules, state: State, request: JoinRequest, former: Member, connection: int) -> State:
    """The next process of a static member takes its place, with what it owns. The former one is fenced."""
    member_id = machine.new_member_id(state, former.instance)
    if former.waiting is not Waiting.NOTHING:
        state = responded(state, former.member_id, Failed(Error.FENCED_INSTANCE_ID))
    group = state.loaded
    member = evolve(
        former,
        member_id=member_id,
        protocols=machine.protocols_of(request.process),
        subscription=request.subscription,
        waiting=Waiting.JOIN,
        connection=connection,
        is_new=False,
        unsynced=False,
        watched=True,
    )
    others = tuple(one for one in group.members if one.member_id != former.member_id)
    leader = member_id if group.leader == former.member_id else group.leader
    group = evolve(group, members=(*others, member), leader=leader)
    state = evolve(state, group=group, member_ids=state.member_ids + 1)
    if group.status is Status.PREPARING_REBALANCE:
        return completed_if_all_joined(machine, state)
    if machine.replacing_rebalances(group):
        return prepared(machine, state)
    if group.status is Status.COMPLETING_REBALANCE:
        return responded(state, member_id, joined(group, member))
    if machine.selected_protocol(group.members) != group.protocol:
        return prepared(machine, state)
    if not machine.persists_replacement():
        return responded(state, member_id, joined(group, member))
    return appended(machine, state, Entry(machine.record(group), member_id))


def join(machine: GroupRules, state: State, request: JoinRequest, connection: int) -> Outcome:
    """JoinGroup at the coordinator."""
    group, instance = state.group, machine.instance_of(request.process)
    if group is None:
        return Error.COORDINATOR_LOAD_IN_PROGRESS, state
    if not machine.has_protocol(group, machine.protocols_of(request.process)):
        return Error.INCONSISTENT_GROUP_PROTOCOL, state
    if request.member_id == NONE:
        former = group.of_instance(instance)
        if former is not None:
            return Error.NONE, replaced(machine, state, request, former, connection)
        member_id = machine.new_member_id(state, instance)
        state = evolve(state, member_ids=state.member_ids + 1)
        if machine.asks_back(instance):
            group = evolve(group, pending=(*group.pending, member_id))
            return Error.MEMBER_ID_REQUIRED, evolve(state, group=group)
        return Error.NONE, added(machine, state, request, member_id, connection)
    if request.member_id in group.pending:
        return Error.NONE, added(machine, state, request, request.member_id, connection)
    if error := machine.member_error(group, instance, request.member_id):
        return error, state
    member = group.member(request.member_id)
    assert member is not None, "else it is unknown"
    return Error.NONE, rejoined(machine, state, request, member, connection)


@attrs.frozen
class ReceiveJoin(Receive[JoinRequest]):
    """JoinGroup reaches the coordinator."""

    request: JoinRequest
    late: bool = False

    @classmethod
    def own(cls, machine: GroupRules, state: State, number: int) -> Iterator[JoinRequest]:
        request = machine.join_request(state, number)
        if request is not None:
            yield request

    @classmethod
    def copies(cls, late: Late) -> tuple[JoinRequest, ...]:
        return late.joins

    @classmethod
    def attempts(cls, machine: GroupRules, state: State) -> Iterator[Self]:
        """Those on their way, and members that the group never had, or has no more."""
        yield from cls.candidates(machine, state)
        for number in range(machine.processes):
            for member_id in range(state.member_ids + 1):
                yield cls(JoinRequest(number, member_id, Subscription((0,))), True)

    def outcome(self, machine: GroupRules, state: State) -> Outcome:
        number = self.request.process
        if self.late:
            return join(machine, state, self.request, NONE)
        before, process = state, machine.preparing(state.processes[number])
        error, state = join(machine, state.with_process(number, process), self.request, number)
        if error is Error.COORDINATOR_LOAD_IN_PROGRESS:
            return error, before
        if error is Error.MEMBER_ID_REQUIRED:
            given = evolve(machine.rejoining(process), member_id=state.loaded.pending[-1], generation=NONE)
            return error, state.with_process(number, given)
        if error is not Error.NONE:
            return error, state.with_process(number, machine.after_error(process, error))
        return error, state


# --- SyncGroup -----------------------------------------------------------------------------------------------------


def sync(machine: GroupRules, state: State, request: SyncRequest, connection: int) -> Outcome:
    """SyncGroup at the coordinator. One that is loading has lost the rebalance: it begins anew."""
    if state.group is None:
        return Error.REBALANCE_IN_PROGRESS, state
    group = state.group
    if error := machine.sync_error(group, machine.instance_of(request.process), request):
        return error, state
    member = group.member(request.member_id)
    assert member is not None, "else it is unknown"
    member = evolve(member, unsynced=False)
    if group.status is Status.STABLE:
        state = evolve(state, group=group.with_member(member))
        if connection != NONE:
            process = evolve(state.processes[connection], response=Synced(member.partitions))
            state = state.with_process(connection, process)
        return Error.NONE, state
    if member.waiting is Waiting.SYNC:
        state = responded(state, member.member_id, Failed(Error.REBALANCE_IN_PROGRESS))
    group = group.with_member(evolve(member, waiting=Waiting.SYNC, connection=connection))
    state = evolve(state, group=group)
    records = [entry.record for entry in state.appended if isinstance(entry.record, GroupRecord)]
    if member.member_id == group.leader and machine.takes_shares(group, records):
        state = appended(machine, state, Entry(machine.shared_out(group, request)))
    return Error.NONE, state


@attrs.frozen
class ReceiveSync(Receive[SyncRequest]):
    """SyncGroup reaches the coordinator."""

    request: SyncRequest
    late: bool = False

    @classmethod
    def own(cls, machine: GroupRules, state: State, number: int) -> Iterator[SyncRequest]:
        request = machine.sync_request(state, number)
        if request is not None:
            yield request

    @classmethod
    def copies(cls, late: Late) -> tuple[SyncRequest, ...]:
        return late.syncs

    @classmethod
    def attempts(cls, machine: GroupRules, state: State) -> Iterator[Self]:
        """Those on their way, and requests of other members, generations and protocols."""
        yield from cls.candidates(machine, state)
        generation, protocol = near(state)
        for number in range(machine.processes):
            for member_id in range(state.member_ids + 1):
                for other in (generation - 1, generation + 1):
                    yield cls(SyncRequest(number, member_id, other, protocol), True)
                yield cls(SyncRequest(number, member_id, generation, protocol), True)
                yield cls(SyncRequest(number, member_id, generation, protocol + 1), True)

    def outcome(self, machine: GroupRules, state: State) -> Outcome:
        number = self.request.process
        if self.late:
            return sync(machine, state, self.request, NONE)
        process = evolve(state.processes[number], phase=Phase.SYNCING)
        error, state = sync(machine, state.with_process(number, process), self.request, number)
        if error is not Error.NONE:
            state = state.with_process(number, machine.after_error(process, error))
        return error, state


def near(state: State) -> tuple[int, int]:
    """The generation and the protocol of the group, as far as anybody knows."""
    group = state.group or Group()
    return group.generation, max(group.protocol, 0)


# --- Heartbeat -----------------------------------------------------------------------------------------------------


@attrs.frozen
class ReceiveHeartbeat(Receive[HeartbeatRequest]):
    """A heartbeat reaches the coordinator, and its response the member: this one may be late."""

    request: HeartbeatRequest
    late: bool = False

    @classmethod
    def own(cls, machine: GroupRules, state: State, number: int) -> Iterator[HeartbeatRequest]:
        request = machine.heartbeat_request(state, number)
        if request is not None:
            yield request

    @classmethod
    def copies(cls, late: Late) -> tuple[HeartbeatRequest, ...]:
        return late.heartbeats

    @classmethod
    def attempts(cls, machine: GroupRules, state: State) -> Iterator[Self]:
        """Those on their way, and requests of other members and generations."""
        yield from cls.candidates(machine, state)
        generation, _ = near(state)
        for number in range(machine.processes):
            for member_id in range(state.member_ids + 1):
                for other in (generation - 1, generation, generation + 1):
                    yield cls(HeartbeatRequest(number, member_id, other), True)

    def outcome(self, machine: GroupRules, state: State) -> Outcome:
        if state.group is None:
            return Error.NONE, state
        number, group = self.request.process, state.group
        error = machine.heartbeat_error(group, machine.instance_of(number), self.request)
        member = group.member(self.request.member_id)
        if error in (Error.NONE, Error.REBALANCE_IN_PROGRESS) and member is not None and not member.watched:
            state = evolve(state, group=group.with_member(evolve(member, watched=True)))
        process = state.processes[number]
        if error is Error.NONE or not machine.is_about_now(process, self.request):
            return error, state
        return error, state.with_process(number, told_meanwhile(machine, process, error))


def told_meanwhile(machine: GroupRules, process: Process, error: Error) -> Process:
    """A member that is told something while it works, or waits for its assignment."""
    if error is not Error.REBALANCE_IN_PROGRESS:
        return machine.after_error(process, error)
    return evolve(process, rejoin=True) if process.phase is Phase.STABLE else process


# --- LeaveGroup ----------------------------------------------------------------------------------------------------


@attrs.frozen
class ReceiveLeave(GroupAction):
    """A process ends, and says so: LeaveGroup reaches the coordinator."""

    bounded_as: ClassVar[str] = "Leave"

    request: LeaveRequest
    late: bool = False
    """Nobody has sent it: such a request is attempted, and refused."""

    @classmethod
    def candidates(cls, machine: GroupRules, state: State) -> Iterable[Self]:
        return [action for rule in cls.candidate_rules(machine) for action in rule(state)]

    @classmethod
    def candidate_rules(cls, machine: GroupRules) -> list[Callable[[State], Iterable[Self]]]:
        def own(number: int, state: State) -> list[Self]:
            request = machine.leave_request(state, number)
            return [] if request is None else [cls(request)]

        return [partial(own, number) for number in range(machine.processes)]

    @classmethod
    def attempts(cls, machine: GroupRules, state: State) -> Iterator[Self]:
        """Members that the group never had, or has no more."""
        for number in range(machine.processes):
            for member_id in range(state.member_ids + 1):
                yield cls(LeaveRequest(number, member_id), True)

    def guard(self, machine: GroupRules, state: State) -> str:
        error = self.error(machine, state)
        if self.late:
            return Refusal(f"the request is refused: {error.name}", error) if error else "nobody has sent it"
        if not machine.may_perturb(state, self.bounded_as):
            return "no more processes leave in this model"
        is_sent = self.request == machine.leave_request(state, self.request.process)
        return "" if is_sent else "the process has nothing to leave"

    def error(self, machine: GroupRules, state: State) -> Error:
        """Why nobody leaves."""
        if state.group is None:
            return Error.COORDINATOR_LOAD_IN_PROGRESS
        if self.request.member_id in state.group.pending:
            return Error.NONE
        return machine.member_error(state.group, machine.instance_of(self.request.process), self.request.member_id)

    def effect(self, machine: GroupRules, state: State) -> State:
        number, member_id = self.request.process, self.request.member_id
        error = self.error(machine, state)
        state = disconnected(state, number).with_process(number, Process()).spend(self.bounded_as)
        if error is not Error.NONE:
            return state
        group = state.loaded
        if member_id in group.pending:
            pending = tuple(one for one in group.pending if one != member_id)
            return rebalanced(machine, evolve(state, group=evolve(group, pending=pending)))
        return rebalanced(machine, left(machine, state, member_id))


# --- OffsetCommit --------------------------------------------------------------------------------------------------


@attrs.frozen
class ReceiveCommit(Receive[CommitRequest]):
    """OffsetCommit reaches the coordinator."""

    fair: ClassVar[bool] = False

    request: CommitRequest
    late: bool = False

    @classmethod
    def is_possible(cls, machine: GroupRules) -> bool:
        return machine.commits > 0

    @classmethod
    def own(cls, machine: GroupRules, state: State, number: int) -> Iterator[CommitRequest]:
        for partition in state.processes[number].owned:
            request = machine.commit_request(state, number, partition)
            if request is not None:
                yield request

    @classmethod
    def copies(cls, late: Late) -> tuple[CommitRequest, ...]:
        return late.commits

    @classmethod
    def attempts(cls, machine: GroupRules, state: State) -> Iterator[Self]:
        """Those on their way, and commits of other members and generations."""
        yield from cls.candidates(machine, state)
        generation, _ = near(state)
        for number in range(machine.processes):
            for member_id in range(state.member_ids + 1):
                for other in (generation - 1, generation, generation + 1):
                    if other >= 0:
                        yield cls(CommitRequest(number, member_id, other, 0, 1), True)

    def outcome(self, machine: GroupRules, state: State) -> Outcome:
        if state.group is None:
            return Error.COORDINATOR_LOAD_IN_PROGRESS, state
        request, number = self.request, self.request.process
        if state.group == Group() and not state.log.groups:
            error = Error.ILLEGAL_GENERATION
        else:
            error = machine.commit_error(state.group, machine.instance_of(number), request)
        member = state.group.member(request.member_id)
        if error is Error.NONE and member is not None:
            state = evolve(state, group=state.group.with_member(evolve(member, watched=True)))
            offset = Offset(request.offset, request.member_id, request.generation)
            state = appended(machine, state, Entry(OffsetRecord(request.partition, offset)))
        if self.late:
            return error, state
        process = state.processes[number].at(request.partition, request.offset)
        if error is not Error.NONE:
            process = told_meanwhile(machine, process, error)
        return error, state.with_process(number, process)


Received = ReceiveJoin | ReceiveSync | ReceiveHeartbeat | ReceiveCommit
"""Requests with an outcome."""
SENT = (ReceiveJoin, ReceiveSync, ReceiveHeartbeat, ReceiveCommit, ReceiveLeave)
"""Classes of action of which anybody may send what is refused."""
