"""What an action of the machine of classic groups is, and what the requests of members share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import ClassVar, Generic, Self, TypeVar

import attrs

from tidegauge.spec.groups.classic.rules import GroupRules
from tidegauge.spec.groups.classic.state import (
    CommitRequest,
    Error,
    HeartbeatRequest,
    JoinRequest,
    Late,
    ProcessNumber,
    State,
    SyncRequest,
)
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import EnumeratedAction, Refusal

Copied = JoinRequest | SyncRequest | HeartbeatRequest | CommitRequest
"""Requests of which a copy may be late."""
Outcome = tuple[Error, State]
"""The error of the response, and the state after the request, its response included."""
R = TypeVar("R", JoinRequest, SyncRequest, HeartbeatRequest, CommitRequest)


@attrs.frozen
class GroupAction(EnumeratedAction[GroupRules, State]):
    """An action of the machine: one guard, one effect."""


@attrs.frozen
class ProcessAction(GroupAction):
    """What one process does."""

    process: ProcessNumber

    @classmethod
    def candidates(cls, machine: GroupRules, state: State) -> Iterable[Self]:
        return [cls(number) for number in range(machine.processes)]


# --- requests that are late ----------------------------------------------------------------------------------------


def copied(late: Late, request: Copied) -> Late:
    """A copy of a request is on its way; its sender sends it again."""
    match request:
        case JoinRequest():
            return evolve(late, joins=tuple(sorted({*late.joins, request})))
        case SyncRequest():
            return evolve(late, syncs=tuple(sorted({*late.syncs, request})))
        case HeartbeatRequest():
            return evolve(late, heartbeats=tuple(sorted({*late.heartbeats, request})))
        case CommitRequest():
            return evolve(late, commits=tuple(sorted({*late.commits, request})))


def arrived(late: Late, request: Copied) -> Late:
    """A copy has arrived."""
    return Late(
        tuple(one for one in late.joins if one != request),
        tuple(one for one in late.syncs if one != request),
        tuple(one for one in late.heartbeats if one != request),
        tuple(one for one in late.commits if one != request),
    )


@attrs.frozen
class Receive(GroupAction, Generic[R]):
    """A request reaches the coordinator. What it does and its response are one step, unless it has to wait.

    A response that was lost is a request that was late: its sender has not waited for it. Where nothing changes, the
    request is refused, whatever the error is: nobody would notice.
    """

    @property
    @abstractmethod
    def request(self) -> R:
        """What is asked."""

    @property
    @abstractmethod
    def late(self) -> bool:
        """Whether nobody waits for the response any more."""

    @classmethod
    @abstractmethod
    def own(cls, machine: GroupRules, state: State, number: int) -> Iterator[R]:
        """What a process has to send."""

    @classmethod
    @abstractmethod
    def copies(cls, late: Late) -> tuple[R, ...]:
        """What is late."""

    @abstractmethod
    def outcome(self, machine: GroupRules, state: State) -> Outcome:
        """What becomes of the request, whether it is on its way or not."""

    @classmethod
    def candidates(cls, machine: GroupRules, state: State) -> Iterable[Self]:
        return [action for rule in cls.candidate_rules(machine) for action in rule(state)]

    @classmethod
    def candidate_rules(cls, machine: GroupRules) -> list[Callable[[State], Iterable[Self]]]:
        def own(number: int, state: State) -> list[Self]:
            return [cls(request, False) for request in cls.own(machine, state, number)]  # type: ignore[call-arg]

        def late(state: State) -> list[Self]:
            return [cls(request, True) for request in cls.copies(state.late)]  # type: ignore[call-arg]

        return [*(partial(own, number) for number in range(machine.processes)), late]

    def guard(self, machine: GroupRules, state: State) -> str:
        error, after = self.outcome(machine, state)
        if after == state:
            return Refusal(f"the request changes nothing: {error.name}", error)
        return "" if self.is_sent(machine, state) else f"no such request is on its way: {self.request}"

    def is_sent(self, machine: GroupRules, state: State) -> bool:
        """Whether it is on its way, or has to be sent."""
        return self.request in (
            self.copies(state.late) if self.late else self.own(machine, state, self.request.process)
        )

    def effect(self, machine: GroupRules, state: State) -> State:
        _, after = self.outcome(machine, state)
        return evolve(after, late=arrived(after.late, self.request)) if self.late else after

    def tried(self, machine: GroupRules, state: State) -> State | None:
        if not self.is_sent(machine, state):
            return None
        _, after = self.outcome(machine, state)
        if after == state:
            return None
        return evolve(after, late=arrived(after.late, self.request)) if self.late else after


@attrs.frozen
class Delay(ProcessAction):
    """A copy of a request is late. What has to arrive is sent again, so that no lost message stops anything."""

    @abstractmethod
    def copy(self, machine: GroupRules, state: State) -> Copied | None:
        """What may be copied now."""

    def guard(self, machine: GroupRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more requests are late in this model"
        copy = self.copy(machine, state)
        if copy is None:
            return "there is no such request to be late"
        return "" if copied(state.late, copy) != state.late else "such a request is late already"

    def effect(self, machine: GroupRules, state: State) -> State:
        copy = self.copy(machine, state)
        assert copy is not None, "the guard says so"
        return evolve(state, late=copied(state.late, copy)).spend(self.bounded_as)


@attrs.frozen
class DelayJoin(Delay):
    bounded_as: ClassVar[str] = "DelayJoin"

    def copy(self, machine: GroupRules, state: State) -> JoinRequest | None:
        return machine.join_request(state, self.process)


@attrs.frozen
class DelaySync(Delay):
    bounded_as: ClassVar[str] = "DelaySync"

    def copy(self, machine: GroupRules, state: State) -> SyncRequest | None:
        return machine.sync_request(state, self.process)


@attrs.frozen
class DelayHeartbeat(Delay):
    bounded_as: ClassVar[str] = "DelayHeartbeat"

    def copy(self, machine: GroupRules, state: State) -> HeartbeatRequest | None:
        return machine.heartbeat_request(state, self.process)


@attrs.frozen
class DelayCommit(Delay):
    """A commit is late. Its member goes on without waiting for the response."""

    bounded_as: ClassVar[str] = "DelayCommit"

    partition: int

    @classmethod
    def candidates(cls, machine: GroupRules, state: State) -> Iterable[Self]:
        return [cls(number, partition) for number, p in enumerate(state.processes) for partition in p.owned]

    def copy(self, machine: GroupRules, state: State) -> CommitRequest | None:
        return machine.commit_request(state, self.process, self.partition)

    def effect(self, machine: GroupRules, state: State) -> State:
        request = self.copy(machine, state)
        assert request is not None, "the guard says so"
        process = state.processes[self.process].at(self.partition, request.offset)
        return super().effect(machine, state).with_process(self.process, process)


DELAYS = (DelayJoin, DelaySync, DelayHeartbeat, DelayCommit)
