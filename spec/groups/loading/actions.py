"""What may happen to a group's records, and to a load of them."""

from __future__ import annotations

from typing import ClassVar, Final

import attrs

from tidegauge.spec.groups.loading.rules import LoadingRules, empty, put
from tidegauge.spec.groups.loading.state import NONE, Error, Group, Load, Member, Record, State
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import GuardedAction, Refusal

LOADING: Final = Refusal("no coordinator has the group yet", Error.COORDINATOR_LOAD_IN_PROGRESS)
"""Who asks is told so, a member or an operator, and whatever it wants."""


@attrs.frozen
class LoadingAction(GuardedAction[LoadingRules, State]):
    """An action of this machine."""


def written(machine: LoadingRules, state: State, after: Group | None) -> State:
    """The group changes: the records are in the log, as one batch, and committed at once."""
    records = (Record(state.end, *change) for change in machine.changed(state.group, after))
    return evolve(state, group=after, log=(*state.log, *records), end=state.end + 1)


def _enough(machine: LoadingRules, state: State) -> str:
    """Why the group does not change any more, if it does not."""
    return "" if state.changes < machine.max_changes else "enough has changed"


@attrs.frozen
class Join(LoadingAction):
    """A member joins; the partition is to be its own."""

    fair: ClassVar[bool] = False

    member: int

    def guard(self, machine: LoadingRules, state: State) -> str:
        if state.load is not None:
            return LOADING
        members = (None,) * machine.members if state.group is None else state.group.members
        if members[self.member] is not None:
            return "it is there already"
        if None in members[: self.member]:
            return "one of a lower number joins first"
        return _enough(machine, state)

    def effect(self, machine: LoadingRules, state: State) -> State:
        group = state.group or empty(machine.members)
        joined = evolve(group, members=put(group.members, self.member, Member()))
        after = machine.rebalanced(joined, self.member)
        return written(machine, evolve(state, changes=state.changes + 1), _with(machine, after, self.member))


@attrs.frozen
class Leave(LoadingAction):
    """A member leaves; the partition is to be that of the first that is left."""

    fair: ClassVar[bool] = False

    member: int

    def guard(self, machine: LoadingRules, state: State) -> str:
        if state.load is not None:
            return LOADING
        if state.group is None or state.group.members[self.member] is None:
            return "it is not there"
        return _enough(machine, state)

    def effect(self, machine: LoadingRules, state: State) -> State:
        group = state.group
        assert group is not None
        left = evolve(group, members=put(group.members, self.member, None))
        owner = next((number for number, one in enumerate(left.members) if one is not None), NONE)
        after = machine.rebalanced(left, owner)
        return written(machine, evolve(state, changes=state.changes + 1), after)


@attrs.frozen
class Delete(LoadingAction):
    """An operator deletes the group, which has no members."""

    fair: ClassVar[bool] = False

    def guard(self, machine: LoadingRules, state: State) -> str:
        if state.load is not None:
            return LOADING
        if state.group is None:
            return "there is no group"
        return "it has members" if any(state.group.members) else _enough(machine, state)

    def effect(self, machine: LoadingRules, state: State) -> State:
        return written(machine, evolve(state, changes=state.changes + 1), None)


@attrs.frozen
class Advance(LoadingAction):
    """A member's heartbeat brings it nearer to the target."""

    fair: ClassVar[bool] = False

    member: int

    def guard(self, machine: LoadingRules, state: State) -> str:
        if state.load is not None:
            return LOADING
        group = state.group
        if group is None or group.members[self.member] is None:
            return "it is not there"
        is_new = machine.advanced(group, self.member) != group.members[self.member]
        return "" if is_new else "it has what it can have"

    def effect(self, machine: LoadingRules, state: State) -> State:
        assert state.group is not None
        return written(machine, state, _with(machine, state.group, self.member))


def _with(machine: LoadingRules, group: Group, member: int) -> Group:
    return evolve(group, members=put(group.members, member, machine.advanced(group, member)))


@attrs.frozen
class Clean(LoadingAction):
    """The cleaner drops what later records replace, up to a batch."""

    fair: ClassVar[bool] = False

    end: int

    def guard(self, machine: LoadingRules, state: State) -> str:
        if state.rounds >= machine.max_rounds:
            return "the cleaner was there often enough"
        last = (one for one in state.log if one.batch == self.end - 1)
        return (
            "" if any(machine.is_replaced(state, one) for one in last) else "it would drop no more than a shorter round"
        )

    def effect(self, machine: LoadingRules, state: State) -> State:
        kept = (one for one in state.log if one.batch >= self.end or not machine.is_replaced(state, one))
        return evolve(state, log=tuple(kept), rounds=state.rounds + 1)


@attrs.frozen
class DropTombstones(LoadingAction):
    """The cleaner drops tombstones that have had their time, up to a batch."""

    fair: ClassVar[bool] = False

    end: int

    def guard(self, machine: LoadingRules, state: State) -> str:
        if state.rounds >= machine.max_rounds:
            return "the cleaner was there often enough"
        last = [one for one in state.log if one.batch == self.end - 1 and one.value is None]
        if not last:
            return "it would drop no more than a shorter round"
        if not machine.is_clean(state, self.end):
            return "what is replaced goes first"
        return "" if machine.has_had_its_time(state, last[0]) else "a load has yet to read it"

    def effect(self, machine: LoadingRules, state: State) -> State:
        kept = (one for one in state.log if one.batch >= self.end or one.value is not None)
        return evolve(state, log=tuple(kept), rounds=state.rounds + 1)


@attrs.frozen
class BeginLoad(LoadingAction):
    """Another broker becomes the coordinator, or the same one anew: all that it knows is in the log."""

    fair: ClassVar[bool] = False

    def guard(self, machine: LoadingRules, state: State) -> str:
        return "" if state.log and state.load != Load() else "there is nothing to load"

    def effect(self, machine: LoadingRules, state: State) -> State:
        return evolve(state, load=Load())


@attrs.frozen
class Read(LoadingAction):
    """The load reads what is left of the next batch."""

    def guard(self, machine: LoadingRules, state: State) -> str:
        if state.load is None or state.load.is_refused:
            return "nothing is loaded"
        return "" if state.unread else "it has read all"

    def effect(self, machine: LoadingRules, state: State) -> State:
        load, unread = state.load, state.unread
        assert load is not None
        batch, group = unread[0].batch, load.group
        for record in unread:
            if record.batch != batch:
                break
            if not machine.takes(group, record):
                return evolve(state, load=evolve(load, is_refused=True))
            group = machine.replayed(group, record)
        return evolve(state, load=Load(batch + 1, group))


@attrs.frozen
class EndLoad(LoadingAction):
    """All is read: the coordinator serves the group that it has loaded."""

    def guard(self, machine: LoadingRules, state: State) -> str:
        if state.load is None or state.load.is_refused:
            return "nothing is loaded"
        return "there is more to read" if state.unread else ""

    def effect(self, machine: LoadingRules, state: State) -> State:
        assert state.load is not None
        return evolve(state, group=state.load.group, load=None)
