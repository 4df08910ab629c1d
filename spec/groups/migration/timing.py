"""What the coordinator does unasked in a migration, and how processes begin."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Self

import attrs

from tidegauge.spec.groups.consumer import processes, timing
from tidegauge.spec.groups.consumer.actions import ConsumerAction, ProcessAction, is_present
from tidegauge.spec.groups.consumer.classic_group import Standing
from tidegauge.spec.groups.consumer.rules import ConsumerRules
from tidegauge.spec.groups.consumer.state import NONE, Member, Phase, State
from tidegauge.spec.groups.migration.classic_side import begin_generation, classic_of, remove, take_effect
from tidegauge.spec.groups.migration.requests import migrating
from tidegauge.spec.kernel.evolving import evolve

# --- processes -----------------------------------------------------------------------------------------------------


@attrs.frozen
class Start(processes.Start):
    """A process begins, with its protocol."""

    def effect(self, machine: ConsumerRules, state: State) -> State:
        return started(machine, state, self.process, classic=migrating(machine).is_classic(self.process))


@attrs.frozen
class StartOver(ProcessAction):
    """An operator has configured the other protocol: the next process speaks that."""

    bounded_as: ClassVar[str] = "StartOver"

    def guard(self, machine: ConsumerRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more processes change their protocol in this model"
        return "" if state.processes[self.process].phase is Phase.DOWN else "the process is not down"

    def effect(self, machine: ConsumerRules, state: State) -> State:
        classic = not migrating(machine).is_classic(self.process)
        return started(machine, state, self.process, classic=classic).spend(self.bounded_as)


def started(machine: ConsumerRules, state: State, number: int, *, classic: bool) -> State:
    """A process begins; a static member of the classic protocol has no member id before it is given one."""
    begun = processes.Start(number).effect(machine, state)
    process = evolve(begun.processes[number], classic=classic)
    if not classic or machine.instance_of(number) == NONE:
        return begun.with_process(number, process)
    return state.with_process(number, evolve(process, member_id=NONE, static=True))


# --- time-outs -----------------------------------------------------------------------------------------------------


@attrs.frozen
class ExpireSession(timing.ExpireSession):
    """A member of either protocol sends nothing for too long; a JoinGroup or SyncGroup that waits keeps it."""

    @classmethod
    def candidates(cls, machine: ConsumerRules, state: State) -> Iterable[Self]:
        if state.classic is None:
            return super().candidates(machine, state)
        return [cls(member.member_id) for member in state.classic.members]

    def guard(self, machine: ConsumerRules, state: State) -> str:
        if state.classic is None:
            return super().guard(machine, state)
        member = state.classic.member(self.member_id)
        if member is None or member.joined or member.syncing:
            return "there is no such member, or its request waits"
        is_allowed = not self.is_harm(state) or machine.may_perturb(state, self.bounded_as)
        return "" if is_allowed else "no more members are late in this model"

    def effect(self, machine: ConsumerRules, state: State) -> State:
        if state.classic is None:
            return super().effect(machine, state)
        is_harm = self.is_harm(state)
        state = remove(migrating(machine), state, self.member_id)
        return state.spend(self.bounded_as) if is_harm else state


@attrs.frozen
class ExpireRebalance(timing.ExpireRebalance):
    """A member of KIP-848 does not give back what it has to."""

    @classmethod
    def candidates(cls, machine: ConsumerRules, state: State) -> Iterable[Self]:
        return super().candidates(machine, state) if state.classic is None else []


@attrs.frozen
class ExpireRejoin(timing.MemberTimeout):
    """A classic member of a consumer group was told to join again, and does not (`max.poll.interval.ms`)."""

    bounded_as: ClassVar[str] = "ExpireRejoin"

    @classmethod
    def is_possible(cls, machine: ConsumerRules) -> bool:
        return cls.bounded_as in machine.bounds

    @classmethod
    def candidates(cls, machine: ConsumerRules, state: State) -> Iterable[Self]:
        return super().candidates(machine, state) if state.classic is None else []

    def is_harm(self, state: State) -> bool:
        return True

    def missing(self, machine: ConsumerRules, member: Member) -> str:
        return "" if member.classic else "it is asked of classic members"

    def guard(self, machine: ConsumerRules, state: State) -> str:
        if refused := super().guard(machine, state):
            return refused
        member = state.loaded.member(self.member_id)
        assert member is not None, "the guard says so"
        return "" if migrating(machine).must_rejoin(state.loaded, member) else "the member has not to join again"


@attrs.frozen
class EndJoining(ConsumerAction):
    """The time to join the classic group's next generation is over: who has not joined is out of it."""

    bounded_as: ClassVar[str] = "EndJoining"

    @classmethod
    def is_possible(cls, machine: ConsumerRules) -> bool:
        return True

    @classmethod
    def candidates(cls, machine: ConsumerRules, state: State) -> Iterable[Self]:
        return [cls()]

    def is_harm(self, state: State) -> bool:
        """Whether somebody is late who would join."""
        return any(not one.joined and is_present(state, one.member_id) for one in classic_of(state).members)

    def guard(self, machine: ConsumerRules, state: State) -> str:
        if state.group is None or state.classic is None or state.classic.standing is not Standing.PREPARING:
            return "no rebalance of a classic group goes on"
        if begin_generation(migrating(machine), state) == state:
            return "static members are waited for"
        is_allowed = not self.is_harm(state) or machine.may_perturb(state, self.bounded_as)
        return "" if is_allowed else "no more members are late in this model"

    def effect(self, machine: ConsumerRules, state: State) -> State:
        is_harm = self.is_harm(state)
        state = begin_generation(migrating(machine), state)
        return state.spend(self.bounded_as) if is_harm else state


# --- the log -------------------------------------------------------------------------------------------------------


@attrs.frozen
class CommitRecord(timing.CommitRecord):
    """The first batch that was not is committed; the assignment of a classic group is told then."""

    def effect(self, machine: ConsumerRules, state: State) -> State:
        entry = state.appended[0]
        state = super().effect(machine, state)
        takes_effect = entry.assigns or entry.replacing != NONE
        return take_effect(migrating(machine), state, entry) if takes_effect else state
