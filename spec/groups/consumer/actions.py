"""What an action of the machine of consumer groups is, what its coordinator appends, and who is there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Self

import attrs

from tidegauge.spec.groups.consumer.rules import ConsumerRules
from tidegauge.spec.groups.consumer.state import NONE, Entry, Group, Log, Phase, ProcessNumber, State
from tidegauge.spec.kernel.each import holds_of_each
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import EnumeratedAction
from tidegauge.spec.kernel.machine import Invariant


@attrs.frozen
class ConsumerAction(EnumeratedAction[ConsumerRules, State]):
    """An action of the machine: one guard, one effect."""


@attrs.frozen
class ProcessAction(ConsumerAction):
    """What one process does."""

    process: ProcessNumber

    @classmethod
    def candidates(cls, machine: ConsumerRules, state: State) -> Iterable[Self]:
        return [cls(number) for number in range(machine.processes)]


def groups(state: State) -> Iterator[Group]:
    """The group as it is in the log and in memory."""
    for place in PLACES:
        yield from groups_at(place, state)


LOG: Final = -2
MEMORY: Final = -1
PLACES: Final = range(LOG, 5)
"""Where the group is: in the log, in memory, and in each batch on its way; the last place is of all batches from it."""


def of_each_group(rule: Callable[[Group], bool]) -> Invariant[State]:
    """What holds in a state if the rule holds of the group as it is in the log, in memory, and on its way there."""

    def holds(place: int, state: State) -> bool:
        return all(rule(group) for group in groups_at(place, state))

    holds.__doc__ = rule.__doc__
    return holds_of_each(PLACES, holds)


def groups_at(place: int, state: State) -> Iterator[Group]:
    """The group as it is at a place."""
    if place == LOG:
        yield state.log.group
    elif place == MEMORY:
        if state.group is not None:
            yield state.group
    else:
        batches = state.appended[place:] if place == PLACES[-1] else state.appended[place : place + 1]
        yield from (entry.group for entry in batches if entry.group is not None)


# --- the log -------------------------------------------------------------------------------------------------------


def appended(machine: ConsumerRules, state: State, entry: Entry) -> State:
    """The coordinator goes on from what it has appended; it is committed at once if no fail-over can come between."""
    if entry.group is not None:
        state = evolve(state, group=entry.group)
    if entry.classic is not None and not entry.assigns and entry.replacing == NONE:
        group = Group() if entry.classic.members else state.group
        state = evolve(state, group=group, classic=machine.taken_over(entry.classic))
    if entry.offset is not None and not machine.acknowledges_when_committed():
        state = told(state, entry)
    state = evolve(state, appended=(*state.appended, entry))
    return state if machine.writes_in_two_steps else logged(state)


def logged(state: State) -> State:
    """The first batch that was not is in the log for good."""
    entry, log = state.appended[0], state.log
    if entry.offset is not None:
        partition, offset = entry.offset
        log = evolve(log, offsets=(*log.offsets[:partition], offset, *log.offsets[partition + 1 :]))
        state = told(state, entry)
    elif entry.classic is not None:
        log = Log(offsets=log.offsets, classic=entry.classic)
        state = state if state.classic is None else evolve(state, group=Group())
    elif entry.group is not None:
        log = Log(entry.group, log.offsets)
    return evolve(state, log=log, appended=state.appended[1:])


def told(state: State, entry: Entry) -> State:
    """A member knows, or could know, that its offset is committed."""
    assert entry.offset is not None, "it is asked of offsets"
    partition, offset = entry.offset
    return evolve(state, told=(*state.told[:partition], offset.value, *state.told[partition + 1 :]))


def removed(machine: ConsumerRules, state: State, member_id: int) -> State:
    """The coordinator removes a member: the group goes on without it."""
    return appended(machine, state, machine.removal(state.loaded, member_id))


# --- who is there --------------------------------------------------------------------------------------------------


def is_present(state: State, member_id: int) -> bool:
    """Whether a process sends heartbeats under this member id."""
    return any(process.member_id == member_id and process.phase is Phase.UP for process in state.processes)


def will_acknowledge(state: State, member_id: int) -> bool:
    """Whether a process goes on under this member id, and knows what it has to give back, or will be told."""
    return any(
        process.member_id == member_id
        and process.works
        and (process.assigned is not None or process.owned != process.said or process.full or process.waiting)
        for process in state.processes
    )
