"""What the coordinator does unasked: time-outs, records that are committed, a new coordinator.

A time-out that removes a member that goes on is a perturbation, and bounded. One that removes nobody else than who is
gone, or whose application hangs, is what heals: it happens in the end.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import ClassVar, Self

import attrs

from tidegauge.spec.groups.consumer.actions import (
    ConsumerAction,
    appended,
    is_present,
    logged,
    removed,
    will_acknowledge,
)
from tidegauge.spec.groups.consumer.rules import ConsumerRules
from tidegauge.spec.groups.consumer.state import Age, Entry, Group, Member, State
from tidegauge.spec.kernel.evolving import evolve


@attrs.frozen
class MemberTimeout(ConsumerAction):
    """A time-out that removes a member."""

    member_id: int

    @classmethod
    def is_possible(cls, machine: ConsumerRules) -> bool:
        return True

    @classmethod
    def candidates(cls, machine: ConsumerRules, state: State) -> Iterable[Self]:
        return [] if state.group is None else [cls(member.member_id) for member in state.group.members]

    @abstractmethod
    def is_harm(self, state: State) -> bool:
        """Whether it removes a member that would do in the end what it is waited for."""

    @abstractmethod
    def missing(self, machine: ConsumerRules, member: Member) -> str:
        """Why no time runs out."""

    def guard(self, machine: ConsumerRules, state: State) -> str:
        member = state.group.member(self.member_id) if state.group is not None else None
        if member is None:
            return "there is no such member"
        if missing := self.missing(machine, member):
            return missing
        is_allowed = not self.is_harm(state) or machine.may_perturb(state, self.bounded_as)
        return "" if is_allowed else "no more members are late in this model"

    def effect(self, machine: ConsumerRules, state: State) -> State:
        is_harm = self.is_harm(state)
        state = removed(machine, state, self.member_id)
        return state.spend(self.bounded_as) if is_harm else state


@attrs.frozen
class ExpireSession(MemberTimeout):
    """A member sends nothing for too long (`group.consumer.session.timeout.ms`)."""

    bounded_as: ClassVar[str] = "ExpireSession"

    def is_harm(self, state: State) -> bool:
        return is_present(state, self.member_id)

    def missing(self, machine: ConsumerRules, member: Member) -> str:
        return "" if machine.may_expire_session(member) else "nobody waits for its heartbeats"


@attrs.frozen
class ExpireRebalance(MemberTimeout):
    """A member does not give back what it has to (`max.poll.interval.ms`, which it names when it joins)."""

    bounded_as: ClassVar[str] = "ExpireRebalance"

    def is_harm(self, state: State) -> bool:
        return will_acknowledge(state, self.member_id)

    def missing(self, machine: ConsumerRules, member: Member) -> str:
        return "" if machine.may_expire_rebalance(member) else "the member has nothing to give back"


# --- targets -------------------------------------------------------------------------------------------------------


@attrs.frozen
class EndInterval(ConsumerAction):
    """`consumer.assignment.interval.ms` has passed since a target was made: when that was is in the log with it.

    It has, too, for a coordinator whose clock was set back since, or is behind the former one's.
    """

    @classmethod
    def is_possible(cls, machine: ConsumerRules) -> bool:
        return machine.spaces_targets

    @classmethod
    def candidates(cls, machine: ConsumerRules, state: State) -> Iterable[Self]:
        return [cls()]

    def guard(self, machine: ConsumerRules, state: State) -> str:
        return "" if of_all_groups(state, Group.with_old_target) != state else "no target was made since"

    def effect(self, machine: ConsumerRules, state: State) -> State:
        return of_all_groups(state, Group.with_old_target)


def of_all_groups(state: State, later: Callable[[Group], Group]) -> State:
    """The state when time has passed for the group: as it is in memory, in the log, and on its way there."""
    log = evolve(state.log, group=later(state.log.group))
    entries = (one if one.group is None else evolve(one, group=later(one.group)) for one in state.appended)
    group = None if state.group is None else later(state.group)
    return evolve(state, log=log, appended=tuple(entries), group=group)


# --- regular expressions -------------------------------------------------------------------------------------------


@attrs.frozen
class EndResolution(ConsumerAction):
    """The coordinator's task has held the expressions against the topics; the next heartbeat makes a target of that."""

    @classmethod
    def is_possible(cls, machine: ConsumerRules) -> bool:
        return bool(machine.matches)

    @classmethod
    def candidates(cls, machine: ConsumerRules, state: State) -> Iterable[Self]:
        return [cls()]

    def guard(self, machine: ConsumerRules, state: State) -> str:
        return "" if state.resolving is not None else "no expression is being resolved"

    def effect(self, machine: ConsumerRules, state: State) -> State:
        assert state.resolving is not None, "the guard says so"
        group = after_resolution(machine, state, state.resolving)
        is_written = group != state.group
        state = evolve(state, resolving=None)
        return appended(machine, state, Entry(group)) if is_written else state


def after_resolution(machine: ConsumerRules, state: State, expressions: tuple[int, ...]) -> Group:
    """The group with what these expressions match: other topics begin an epoch."""
    before = state.loaded
    group = machine.resolved(before, state, expressions)
    partitions = machine.partitions_wanted(group, state)
    racks = machine.racks_of(state, partitions)
    if not machine.resolution_begins_epoch(before, group):
        return group
    return evolve(group, epoch=machine.next_epoch(group), known=partitions, racks=racks)


@attrs.frozen
class PassTime(ConsumerAction):
    """So much time has passed since expressions were resolved: when that was is in the log with what they match."""

    age: ClassVar[Age]

    @classmethod
    def is_possible(cls, machine: ConsumerRules) -> bool:
        return bool(machine.matches) and super().is_possible(machine)

    @classmethod
    def candidates(cls, machine: ConsumerRules, state: State) -> Iterable[Self]:
        return [cls()]

    def guard(self, machine: ConsumerRules, state: State) -> str:
        if self.bounded_as and not machine.may_perturb(state, self.bounded_as):
            return "no more time passes in this model"
        return "" if self.passed(state) != state else "nothing was resolved since"

    def effect(self, machine: ConsumerRules, state: State) -> State:
        state = self.passed(state)
        return state.spend(self.bounded_as) if self.bounded_as else state

    def passed(self, state: State) -> State:
        """Ten seconds are longer than the interval between two targets."""
        later = of_all_groups(state, lambda group: group.at_age(self.age))
        return state if later == state else of_all_groups(later, Group.with_old_target)


@attrs.frozen
class EndPause(PassTime):
    """Ten seconds have passed: expressions may be resolved again."""

    age: ClassVar[Age] = Age.PAST


@attrs.frozen
class BecomeDue(PassTime):
    """`group.consumer.regex.refresh.interval.ms` has passed: expressions are resolved again."""

    bounded_as: ClassVar[str] = "BecomeDue"
    age: ClassVar[Age] = Age.DUE


# --- the log -------------------------------------------------------------------------------------------------------


@attrs.frozen
class CoordinatorAction(ConsumerAction):
    """What happens to the coordinator's log."""

    @classmethod
    def is_possible(cls, machine: ConsumerRules) -> bool:
        return machine.writes_in_two_steps

    @classmethod
    def candidates(cls, machine: ConsumerRules, state: State) -> Iterable[Self]:
        return [cls()]


@attrs.frozen
class CommitRecord(CoordinatorAction):
    """The first batch that was not is committed, and who waits for it has its response."""

    def guard(self, machine: ConsumerRules, state: State) -> str:
        return "" if state.appended else "nothing is appended that is not committed"

    def effect(self, machine: ConsumerRules, state: State) -> State:
        entry = state.appended[0]
        state = logged(state)
        if entry.request is None or entry.response is None:
            return state
        number, process = entry.request.process, state.processes[entry.request.process]
        if not process.waiting or process.member_id != entry.request.member_id:
            return state
        return state.with_process(number, machine.after_response(process, entry.request, entry.response))


@attrs.frozen
class FailOver(CoordinatorAction):
    """Another broker leads the partition, with some of what is not committed; nobody has a response to it."""

    bounded_as: ClassVar[str] = "FailOver"

    kept: int
    """How many of the batches that are not committed are in its log."""

    @classmethod
    def candidates(cls, machine: ConsumerRules, state: State) -> Iterable[Self]:
        return [cls(kept) for kept in range(len(state.appended) + 1)]

    def guard(self, machine: ConsumerRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more coordinators fail in this model"
        if state.group is None:
            return "the coordinator is loading"
        return "" if 0 <= self.kept <= len(state.appended) else "so much is not appended"

    def effect(self, machine: ConsumerRules, state: State) -> State:
        for _ in range(self.kept):
            state = logged(state)
        processes = tuple(machine.after_loss(one) if one.waiting else one for one in state.processes)
        state = evolve(state, processes=processes, group=None, resolving=None, classic=None, appended=())
        return state.spend(self.bounded_as)


@attrs.frozen
class Load(CoordinatorAction):
    """The new coordinator has read the log."""

    def guard(self, machine: ConsumerRules, state: State) -> str:
        return "" if state.group is None else "it is loaded"

    def effect(self, machine: ConsumerRules, state: State) -> State:
        classic = state.log.classic
        state = evolve(state, group=machine.loaded(state.log))
        return state if classic is None else evolve(state, classic=machine.taken_over(classic))
