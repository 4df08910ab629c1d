"""What members send to the coordinator, and what becomes of it: ConsumerGroupHeartbeat and OffsetCommit.

A request that changes nothing is refused, whatever its error is: nobody would notice.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import ClassVar, Self

import attrs

from tidegauge.spec.groups.consumer.actions import ConsumerAction, ProcessAction, appended, removed
from tidegauge.spec.groups.consumer.rules import ConsumerRules
from tidegauge.spec.groups.consumer.state import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    CommitRequest,
    Entry,
    Error,
    Group,
    HeartbeatRequest,
    Offset,
    Process,
    Response,
    State,
)
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import Refusal

Outcome = tuple[Error, State]
"""The error of the response, and the state after the request, its response included."""


@attrs.frozen
class Receive(ConsumerAction):
    """A request reaches the coordinator; `late`: nobody waits for its response any more."""

    @property
    @abstractmethod
    def late(self) -> bool:
        """Whether nobody waits for the response any more."""

    @abstractmethod
    def is_sent(self, machine: ConsumerRules, state: State) -> bool:
        """Whether it is on its way, or has to be sent."""

    @abstractmethod
    def outcome(self, machine: ConsumerRules, state: State) -> Outcome:
        """What becomes of the request, whether it is on its way or not."""

    @abstractmethod
    def arrived(self, state: State) -> State:
        """The state without the late copy."""

    def guard(self, machine: ConsumerRules, state: State) -> str:
        error, after = self.outcome(machine, state)
        if after == state:
            return Refusal(f"the request changes nothing: {error.name}", error)
        return "" if self.is_sent(machine, state) else "no such request is on its way"

    def effect(self, machine: ConsumerRules, state: State) -> State:
        _, after = self.outcome(machine, state)
        return self.arrived(after) if self.late else after

    def tried(self, machine: ConsumerRules, state: State) -> State | None:
        if not self.is_sent(machine, state):
            return None
        _, after = self.outcome(machine, state)
        if after == state:
            return None
        return self.arrived(after) if self.late else after


def near(state: State) -> range:
    """Epochs about those of the group: who sends another one is refused."""
    known = state.group or state.log.group
    return range(max(1, known.epoch - 2), known.epoch + 2)


# --- ConsumerGroupHeartbeat ------------------------------------------------------------------------------------------


@attrs.frozen
class ReceiveHeartbeat(Receive):
    """A heartbeat that joins or goes on reaches the coordinator."""

    request: HeartbeatRequest
    late: bool = False

    @classmethod
    def candidates(cls, machine: ConsumerRules, state: State) -> Iterable[Self]:
        return [action for rule in cls.candidate_rules(machine) for action in rule(state)]

    @classmethod
    def candidate_rules(cls, machine: ConsumerRules) -> list[Callable[[State], Iterable[Self]]]:
        def own(number: int, state: State) -> list[Self]:
            request = machine.heartbeat_request(state, number)
            return [] if request is None else [cls(request)]

        def late(state: State) -> list[Self]:
            return [cls(request, True) for request in state.heartbeats]

        return [*(partial(own, number) for number in range(machine.processes)), late]

    @classmethod
    def attempts(cls, machine: ConsumerRules, state: State) -> Iterator[Self]:
        """Those on their way, and heartbeats of other members and epochs."""
        yield from cls.candidates(machine, state)
        for number in range(machine.processes):
            for member_id in range(state.member_ids + 1):
                for epoch in near(state):
                    yield cls(HeartbeatRequest(number, member_id, epoch, tuple(range(machine.topics))), True)

    def is_sent(self, machine: ConsumerRules, state: State) -> bool:
        if self.late:
            return self.request in state.heartbeats
        return self.request == machine.heartbeat_request(state, self.request.process)

    def arrived(self, state: State) -> State:
        return evolve(state, heartbeats=tuple(one for one in state.heartbeats if one != self.request))

    def outcome(self, machine: ConsumerRules, state: State) -> Outcome:
        if state.group is None:
            return Error.COORDINATOR_LOAD_IN_PROGRESS, state
        request, number = self.request, self.request.process
        error = machine.heartbeat_error(state.group, machine.instance_of(number), request)
        process = state.processes[number]
        if error is not Error.NONE:
            if self.late or error is Error.UNRELEASED_INSTANCE_ID:
                return error, state
            return error, state.with_process(number, machine.after_error(process, error))
        group, response = advanced(machine, state, request)
        after = process if self.late else machine.after_response(process, request, response)
        before, state = state.group, begun(machine, state, group)
        if group == before and after == process:
            return Error.NONE, state
        entry = machine.written(before, group)
        if not machine.writes_in_two_steps or not machine.responds_when_committed():
            return Error.NONE, appended(machine, state.with_process(number, after), entry)
        if self.late:
            return Error.NONE, appended(machine, state, entry)
        waiting = state.with_process(number, evolve(process, waiting=True))
        return Error.NONE, appended(machine, waiting, evolve(entry, request=request, response=response))


def advanced(machine: ConsumerRules, state: State, request: HeartbeatRequest) -> tuple[Group, Response]:
    """The group after a heartbeat, and what the member is told."""
    known = state.loaded.member(request.member_id)
    group = state.loaded
    if request.epoch == JOINING_EPOCH:
        group = machine.joined(group, machine.instance_of(request.process), request)
    before = group.member(request.member_id)
    assert before is not None, "it is known or has joined"
    subscribed = evolve(before, topics=request.topics, expression=request.expression, classic=request.classic)
    group = machine.still_resolved(group.with_member(subscribed))
    partitions = machine.partitions_wanted(group, state)
    racks = machine.racks_of(state, partitions)
    if machine.begins_epoch(group, before, subscribed, partitions, racks):
        group = evolve(group, epoch=machine.next_epoch(group), known=partitions, racks=racks)
    if machine.needs_target(group):
        target = machine.target(group, partitions)
        shares = tuple((member_id, tuple(sorted(has))) for member_id, has in sorted(target.items()))
        group = evolve(group, target=shares, target_epoch=group.epoch, target_is_new=machine.is_new_when_made())
    member = machine.reconciled(group, subscribed, request.owned)
    told = machine.tells_assignment(known, member, request)
    assigned = tuple(partition for partition, _ in member.assigned)
    return group.with_member(member), Response(member.epoch, assigned if told else None)


def begun(machine: ConsumerRules, state: State, group: Group) -> State:
    """The state with the task that resolves the group's expressions, if they need it; the heartbeat does not wait."""
    return evolve(state, resolving=group.expressions) if machine.needs_resolution(group, state) else state


@attrs.frozen
class ReceiveLeave(ConsumerAction):
    """A process ends, and says so: it has given back what it owned."""

    bounded_as: ClassVar[str] = "Leave"

    request: HeartbeatRequest
    late: bool = False
    """Nobody has sent it: such a request is attempted, and refused."""

    @classmethod
    def candidates(cls, machine: ConsumerRules, state: State) -> Iterable[Self]:
        return [action for rule in cls.candidate_rules(machine) for action in rule(state)]

    @classmethod
    def candidate_rules(cls, machine: ConsumerRules) -> list[Callable[[State], Iterable[Self]]]:
        def own(number: int, state: State) -> list[Self]:
            request = machine.leave_request(state, number)
            return [] if request is None else [cls(request)]

        return [partial(own, number) for number in range(machine.processes)]

    @classmethod
    def attempts(cls, machine: ConsumerRules, state: State) -> Iterator[Self]:
        """Members that the group never had, or has no more."""
        for number in range(machine.processes):
            for member_id in range(state.member_ids + 1):
                yield cls(HeartbeatRequest(number, member_id, LEAVING_EPOCH), True)

    def guard(self, machine: ConsumerRules, state: State) -> str:
        error = self.error(machine, state)
        if self.late:
            return Refusal(f"the request is refused: {error.name}", error) if error else "nobody has sent it"
        if not machine.may_perturb(state, self.bounded_as):
            return "no more processes leave in this model"
        is_sent = self.request == machine.leave_request(state, self.request.process)
        return "" if is_sent else "the process has nothing to leave"

    def error(self, machine: ConsumerRules, state: State) -> Error:
        """Why nobody leaves."""
        if state.group is None:
            return Error.COORDINATOR_LOAD_IN_PROGRESS
        return machine.heartbeat_error(state.group, machine.instance_of(self.request.process), self.request)

    def effect(self, machine: ConsumerRules, state: State) -> State:
        error = self.error(machine, state)
        state = state.with_process(self.request.process, Process()).spend(self.bounded_as)
        if error is not Error.NONE:
            return state
        member = state.loaded.member(self.request.member_id)
        assert member is not None, "it is known"
        if self.request.epoch == LEAVING_EPOCH:
            return removed(machine, state, member.member_id)
        return appended(machine, state, Entry(state.loaded.with_member(machine.away(member))))


# --- OffsetCommit --------------------------------------------------------------------------------------------------


@attrs.frozen
class ReceiveCommit(Receive):
    """OffsetCommit reaches the coordinator. Its sender goes on: it learns by heartbeats if it is no member."""

    fair: ClassVar[bool] = False

    request: CommitRequest
    late: bool = False

    @classmethod
    def is_possible(cls, machine: ConsumerRules) -> bool:
        return machine.commits > 0

    @classmethod
    def candidates(cls, machine: ConsumerRules, state: State) -> Iterable[Self]:
        return [action for rule in cls.candidate_rules(machine) for action in rule(state)]

    @classmethod
    def candidate_rules(cls, machine: ConsumerRules) -> list[Callable[[State], Iterable[Self]]]:
        def own(number: int, state: State) -> list[Self]:
            requests = (machine.commit_request(state, number, one) for one in state.processes[number].owned)
            return [cls(request) for request in requests if request is not None]

        def late(state: State) -> list[Self]:
            return [cls(request, True) for request in state.commits]

        return [*(partial(own, number) for number in range(machine.processes)), late]

    @classmethod
    def attempts(cls, machine: ConsumerRules, state: State) -> Iterator[Self]:
        """Those on their way, and commits of other members and epochs."""
        yield from cls.candidates(machine, state)
        for number in range(machine.processes):
            for member_id in range(state.member_ids + 1):
                for epoch in near(state):
                    yield cls(CommitRequest(number, member_id, epoch, 0, 1), True)

    def is_sent(self, machine: ConsumerRules, state: State) -> bool:
        if self.late:
            return self.request in state.commits
        return self.request == machine.commit_request(state, self.request.process, self.request.partition)

    def arrived(self, state: State) -> State:
        return evolve(state, commits=tuple(one for one in state.commits if one != self.request))

    def outcome(self, machine: ConsumerRules, state: State) -> Outcome:
        if state.group is None:
            return Error.COORDINATOR_LOAD_IN_PROGRESS, state
        request = self.request
        error = machine.committing_error(state, request)
        if error is not Error.NONE:
            return error, state
        if not self.late:
            process = state.processes[request.process].at(request.partition, request.offset)
            state = state.with_process(request.process, process)
        return error, appended(
            machine, state, Entry(offset=(request.partition, Offset(request.offset, request.member_id)))
        )


# --- requests that are late ----------------------------------------------------------------------------------------


@attrs.frozen
class LoseResponse(ProcessAction):
    """A heartbeat does what it does, and its process has no response: it sends another one, which says all."""

    bounded_as: ClassVar[str] = "LoseResponse"
    receive: ClassVar[type[ReceiveHeartbeat]] = ReceiveHeartbeat
    """What becomes of the heartbeat."""

    def guard(self, machine: ConsumerRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more responses are lost in this model"
        request = machine.heartbeat_request(state, self.process)
        return "" if request is not None else "no heartbeat is due"

    def effect(self, machine: ConsumerRules, state: State) -> State:
        request = machine.heartbeat_request(state, self.process)
        assert request is not None, "the guard says so"
        _, state = self.receive(request, True).outcome(machine, state)
        process = machine.after_loss(state.processes[self.process])
        return state.with_process(self.process, process).spend(self.bounded_as)


@attrs.frozen
class DelayHeartbeat(ProcessAction):
    """A heartbeat is late: its process gives it up, and sends the next one."""

    bounded_as: ClassVar[str] = "DelayHeartbeat"

    def guard(self, machine: ConsumerRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more heartbeats are late in this model"
        request = machine.heartbeat_request(state, self.process)
        if request is None or request in state.heartbeats:
            return "there is no such heartbeat to be late"
        return ""

    def effect(self, machine: ConsumerRules, state: State) -> State:
        request = machine.heartbeat_request(state, self.process)
        assert request is not None, "the guard says so"
        state = evolve(state, heartbeats=tuple(sorted((*state.heartbeats, request), key=repr)))
        process = machine.after_loss(state.processes[self.process])
        return state.with_process(self.process, process).spend(self.bounded_as)


@attrs.frozen
class DelayCommit(ProcessAction):
    """A commit is late. Its member goes on without waiting for the response."""

    bounded_as: ClassVar[str] = "DelayCommit"

    partition: int

    @classmethod
    def candidates(cls, machine: ConsumerRules, state: State) -> Iterable[Self]:
        return [cls(number, partition) for number, p in enumerate(state.processes) for partition in p.owned]

    def guard(self, machine: ConsumerRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more commits are late in this model"
        request = machine.commit_request(state, self.process, self.partition)
        return "" if request is not None and request not in state.commits else "there is no such commit to be late"

    def effect(self, machine: ConsumerRules, state: State) -> State:
        request = machine.commit_request(state, self.process, self.partition)
        assert request is not None, "the guard says so"
        state = evolve(state, commits=tuple(sorted((*state.commits, request))))
        process = state.processes[self.process].at(self.partition, request.offset)
        return state.with_process(self.process, process).spend(self.bounded_as)
