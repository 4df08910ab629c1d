"""What the coordinator does unasked: time-outs, records that are committed, a new coordinator.

A time-out that removes somebody who goes on is a perturbation, and bounded. One that removes nobody else than those who
are gone, or whose application hangs, is what heals: it happens in the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Self

import attrs

from tidegauge.spec.groups.classic.actions import GroupAction
from tidegauge.spec.groups.classic.coordinating import (
    all_responded,
    committed,
    completed,
    completed_if_all_joined,
    is_present,
    left,
    logged,
    prepared,
    rebalanced,
)
from tidegauge.spec.groups.classic.rules import GroupRules
from tidegauge.spec.groups.classic.state import Error, Group, State, Status, Waiting
from tidegauge.spec.kernel.evolving import evolve


def harm(machine: GroupRules, state: State, name: str, member_ids: Iterable[int], *, hung: bool) -> str | None:
    """The name under which a time-out of these members is counted; "" if it harms nobody, None if it may not be."""
    if not any(is_present(state, member_id, hung=hung) for member_id in member_ids):
        return ""
    return name if machine.may_perturb(state, name) else None


@attrs.frozen
class Timeout(GroupAction):
    """A time-out of the group."""

    @classmethod
    def is_possible(cls, machine: GroupRules) -> bool:
        return True

    @classmethod
    def candidates(cls, machine: GroupRules, state: State) -> Iterable[GroupAction]:
        return [cls()]


@attrs.frozen
class EndInitialDelay(Timeout):
    """The members of a group that was empty have had their time to come."""

    def guard(self, machine: GroupRules, state: State) -> str:
        if state.group is None or not state.group.initial:
            return "no group waits for its first members"
        return "" if completed(machine, state) != state else "nobody has come who could lead"

    def effect(self, machine: GroupRules, state: State) -> State:
        return completed(machine, state)


@attrs.frozen
class ExpireRebalance(Timeout):
    """The time to join is over (`rebalance.timeout.ms`, that is `max.poll.interval.ms`)."""

    bounded_as: ClassVar[str] = "ExpireRebalance"

    def missing(self, group: Group) -> list[int]:
        """Who has not joined."""
        absent = [one.member_id for one in group.members if one.waiting is not Waiting.JOIN]
        return [*absent, *group.pending]

    def guard(self, machine: GroupRules, state: State) -> str:
        group = state.group
        if group is None or group.status is not Status.PREPARING_REBALANCE or group.initial:
            return "no group waits for its members"
        if harm(machine, state, self.bounded_as, self.missing(group), hung=False) is None:
            return "no more members are late in this model"
        return "" if completed(machine, state) != state else "nobody has joined who could lead"

    def effect(self, machine: GroupRules, state: State) -> State:
        name = harm(machine, state, self.bounded_as, self.missing(state.loaded), hung=False)
        after = completed(machine, state)
        return after.spend(name) if name else after


@attrs.frozen
class ExpireSync(Timeout):
    """The time to ask for the assignment is over (KAFKA-12890)."""

    bounded_as: ClassVar[str] = "ExpireSync"

    def guard(self, machine: GroupRules, state: State) -> str:
        group = state.group
        if group is None or not machine.may_expire_sync(group):
            return "no member is late with its request for the assignment"
        if harm(machine, state, self.bounded_as, self.missing(group), hung=False) is None:
            return "no more members are late in this model"
        return ""

    def missing(self, group: Group) -> list[int]:
        """Who has not asked."""
        return [one.member_id for one in group.members if one.unsynced]

    def effect(self, machine: GroupRules, state: State) -> State:
        missing = self.missing(state.loaded)
        name = harm(machine, state, self.bounded_as, missing, hung=False)
        for member_id in missing:
            state = left(machine, state, member_id)
        state = prepared(machine, state)
        return state.spend(name) if name else state


@attrs.frozen
class ExpireSession(GroupAction):
    """A member, or one that was given an id and has not come back, sends nothing for too long."""

    bounded_as: ClassVar[str] = "ExpireSession"

    member_id: int

    @classmethod
    def is_possible(cls, machine: GroupRules) -> bool:
        return True

    @classmethod
    def candidates(cls, machine: GroupRules, state: State) -> Iterable[Self]:
        group = state.group or Group()
        return [cls(one) for one in (*(member.member_id for member in group.members), *group.pending)]

    def guard(self, machine: GroupRules, state: State) -> str:
        group = state.group
        if group is None:
            return "the coordinator is loading"
        member = group.member(self.member_id)
        if self.member_id not in group.pending and (member is None or not machine.may_expire_session(member)):
            return "no such member has a session that may end"
        if harm(machine, state, self.bounded_as, (self.member_id,), hung=True) is None:
            return "no more sessions end in this model"
        return ""

    def effect(self, machine: GroupRules, state: State) -> State:
        name = harm(machine, state, self.bounded_as, (self.member_id,), hung=True)
        group = state.loaded
        if self.member_id in group.pending:
            pending = tuple(one for one in group.pending if one != self.member_id)
            state = completed_if_all_joined(machine, evolve(state, group=evolve(group, pending=pending)), initial=True)
        else:
            state = rebalanced(machine, left(machine, state, self.member_id), initial=True)
        return state.spend(name) if name else state


@attrs.frozen
class CommitRecord(Timeout):
    """The coordinator's first record that was not is committed, and who waited for it is told."""

    @classmethod
    def is_possible(cls, machine: GroupRules) -> bool:
        return machine.writes_in_two_steps

    def guard(self, machine: GroupRules, state: State) -> str:
        return "" if state.appended else "nothing is appended that is not committed"

    def effect(self, machine: GroupRules, state: State) -> State:
        return committed(machine, state)


@attrs.frozen
class FailOver(GroupAction):
    """Another broker leads the group's partition of the log. It has as much of what was not committed as it has."""

    bounded_as: ClassVar[str] = "FailOver"

    kept: int

    @classmethod
    def candidates(cls, machine: GroupRules, state: State) -> Iterable[Self]:
        return [cls(kept) for kept in range(len(state.appended) + 1)]

    def guard(self, machine: GroupRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more coordinators fail in this model"
        if state.group is None:
            return "the coordinator is loading"
        return "" if 0 <= self.kept <= len(state.appended) else "so much is not appended"

    def effect(self, machine: GroupRules, state: State) -> State:
        for _ in range(self.kept):
            state = logged(state)
        for waiting in (Waiting.JOIN, Waiting.SYNC):
            state = all_responded(state, waiting, Error.NOT_COORDINATOR)
        values = tuple(offset.value for offset in state.log.offsets)
        told = tuple(value if self.kept else former for value, former in zip(values, state.told, strict=True))
        begun, logged_last = state.loaded.generation, max((one.generation for one in state.log.groups), default=0)
        lost = begun if begun > logged_last else state.lost
        return evolve(state, group=None, appended=(), told=told, lost=lost).spend(self.bounded_as)


@attrs.frozen
class Load(Timeout):
    """The new coordinator has read the log."""

    @classmethod
    def is_possible(cls, machine: GroupRules) -> bool:
        return machine.writes_in_two_steps

    def guard(self, machine: GroupRules, state: State) -> str:
        return "" if state.group is None else "it is loaded"

    def effect(self, machine: GroupRules, state: State) -> State:
        return evolve(state, group=machine.loaded(state.log))
