"""What would come of a request that nobody has sent, or of a time-out, in each state: a copy of a coordinator is asked.

Walks come to few of the states in which a rule decides something. Here any process may ask under any member id, members
leave and time goes by whenever it could, whatever a model has them do; the specification says what comes of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final, Protocol, TypeAlias

from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.classic.messages import GroupWrite, LeaveResponse, Outcome, Response
from tidegauge.impl.coordinators.groups.classic.state import ClassicGroup, Token
from tidegauge.impl.coordinators.groups.classic.turn import DeadlineKey, Timer
from tidegauge.model_tests.harness.cores.classic_beside import ERROR, Beside, copied, timers
from tidegauge.model_tests.harness.cores.classic_times import GROUP, deadlines, lengths_differ
from tidegauge.model_tests.harness.cores.group_abstraction import abstract_group
from tidegauge.spec.groups.classic import coordinating, requests, timing
from tidegauge.spec.groups.classic import state as spec
from tidegauge.spec.groups.classic.machine import ClassicGroups as Machine
from tidegauge.spec.groups.classic.state import NONE, State
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.kernel.evolving import evolve

SHARE: Final = 0.5
"""Of the states, those in which a copy is asked."""
REPLACED_SHARE: Final = 0.5
"""Of those in which a static member waits, those in which the next process takes its place."""
Request: TypeAlias = requests.ReceiveJoin | requests.ReceiveSync | requests.ReceiveLeave
Asked: TypeAlias = Request | timing.EndInitialDelay | timing.ExpireRebalance | timing.ExpireSync | timing.ExpireSession
TIMERS: Final = {
    timing.EndInitialDelay: Timer.JOIN,
    timing.ExpireRebalance: Timer.JOIN,
    timing.ExpireSync: Timer.SYNC,
    timing.ExpireSession: Timer.SESSION,
}


class Copied(Beside, Protocol):
    """A coordinator that may be another one for a while."""

    def ask(
        self, action: requests.ReceiveJoin | requests.ReceiveSync | requests.ReceiveLeave, given: int, /
    ) -> Outcome:
        """What comes of a request whose response nobody waits for."""

    def told(self, response: Response, /) -> spec.Response:
        """A response as the specification has it."""


def copies_differ(cores: Copied, state: State, rng: Random) -> Iterator[Change]:
    """Where a copy makes something else of what might be asked than the specification does."""
    if cores.coordinator is None or state.group is None or rng.random() >= SHARE:
        return
    machine = cores.machine
    action = drawn(machine, state, rng)
    after = expected(machine, state, action)
    if after is None:
        return
    core, kept = cores.core, cores.core.classic
    before = deadlines(kept, kept.get(GROUP) or ClassicGroup(GROUP))
    core.classic = copied(kept)
    try:
        responses, writes = _made(cores, state, action)
        known = core.classic.get(GROUP) or ClassicGroup(GROUP)
        found = abstract_group(known, cores.process_of)
        waits = [*timers(cores, after.loaded, after.member_ids)] if found == after.loaded else []
        waits += lengths_differ(cores, known, before, deadlines(core.classic, known))
        if isinstance(action, requests.ReceiveLeave):
            waits += _who_leaves_is_told(cores, responses, writes)
    finally:
        core.classic = kept
    yield from waits
    if found != after.loaded:
        yield Change(f"the group after {action}", after.loaded, found)
    wanted = len(after.appended) - len(state.appended)
    if machine.writes_in_two_steps and len(writes) != wanted:
        yield Change(f"how many records are written after {action}", wanted, len(writes))
    for token, response in responses:
        process = cores.process_of(token)
        if process != NONE and (told := cores.told(response)) != after.processes[process].response:
            yield Change(f"what process {process} is told after {action}", after.processes[process].response, told)


def drawn(machine: Machine, state: State, rng: Random) -> Asked:
    """A request of any process, under any member id; or a time-out."""
    group, process = state.loaded, rng.randrange(machine.processes)
    held = [one.instance for one in group.members if one.instance != NONE and one.waiting is not spec.Waiting.NOTHING]
    again = [number for number in range(machine.processes) if machine.instance_of(number) in held]
    if again and rng.random() < REPLACED_SHARE:
        process = rng.choice(again)
        says = machine.says(machine.preparing(state.processes[process]))
        return requests.ReceiveJoin(spec.JoinRequest(process, NONE, says), late=True)
    member_id = rng.choice([*(member.member_id for member in group.members), *group.pending, state.member_ids])
    match rng.randrange(5):
        case 0 | 1:
            says = machine.says(machine.preparing(state.processes[process]))
            is_given = member_id in group.pending and machine.instance_of(process) != NONE  # never to a static member
            asked_as = NONE if is_given else rng.choice((member_id, NONE))
            return requests.ReceiveJoin(spec.JoinRequest(process, asked_as, says), late=True)
        case 2:
            generation = max(0, group.generation + rng.choice((-1, 0, 0, 0, 1)))
            return requests.ReceiveSync(spec.SyncRequest(process, member_id, generation, group.protocol), late=True)
        case 3:
            return requests.ReceiveLeave(spec.LeaveRequest(process, member_id), late=True)
        case _:
            kinds = timing.EndInitialDelay, timing.ExpireRebalance, timing.ExpireSync
            return rng.choice((*(kind() for kind in kinds), timing.ExpireSession(member_id)))


def expected(machine: Machine, state: State, action: Asked) -> State | None:
    """What comes of it; None if it cannot happen here, whatever a model allows."""
    group = state.loaded
    match action:
        case requests.ReceiveJoin() | requests.ReceiveSync():
            return action.outcome(machine, state)[1]
        case requests.ReceiveLeave(request=request):
            if action.error(machine, state) is not spec.Error.NONE:
                return state
            if request.member_id in group.pending:
                pending = tuple(one for one in group.pending if one != request.member_id)
                return coordinating.rebalanced(machine, evolve(state, group=evolve(group, pending=pending)))
            return coordinating.rebalanced(machine, coordinating.left(machine, state, request.member_id))
        case timing.EndInitialDelay():
            may_happen = not action.guard(machine, state)
        case timing.ExpireRebalance():
            is_joining = group.status is spec.Status.PREPARING_REBALANCE and not group.initial
            may_happen = is_joining and coordinating.completed(machine, state) != state
        case timing.ExpireSync():
            may_happen = machine.may_expire_sync(group)
        case timing.ExpireSession(member_id=member_id):
            member = group.member(member_id)
            may_happen = member_id in group.pending or (member is not None and machine.may_expire_session(member))
    return action.effect(machine, state) if may_happen else None


def _who_leaves_is_told(
    cores: Copied, responses: Sequence[tuple[Token, Response]], writes: Sequence[GroupWrite]
) -> Iterator[Change]:
    """Who leaves has one response: at once, or when it is in the log, or known not to be, that the group is empty."""
    waiting = writes if cores.machine.writes_in_two_steps else ()
    for is_written in (True, False):
        classic, told = copied(cores.core.classic), [*responses]
        for write in waiting:
            outcome = classic.written(write, cores.now) if is_written else classic.failed(write, ERROR, cores.now)
            told += outcome.responses
        wanted = ERROR if waiting and not is_written else ErrorCode.none
        if (found := [response.error for _, response in told if isinstance(response, LeaveResponse)]) != [wanted]:
            yield Change("what who leaves is told", [wanted], found)


def _made(cores: Copied, state: State, action: Asked) -> tuple[list[tuple[Token, Response]], list[GroupWrite]]:
    """The responses, and the records that are written; these are committed where nothing may come between."""
    classic, now = cores.core.classic, cores.now
    if isinstance(action, Request):
        outcome = cores.ask(action, state.member_ids)
    else:
        member_id = cores.name_of(action.member_id) if isinstance(action, timing.ExpireSession) else ""
        key = DeadlineKey(GROUP, TIMERS[type(action)], member_id)
        classic.deadlines.cancel(key)
        outcome = classic.timed_out(key, now)
        while isinstance(action, timing.EndInitialDelay) and classic.groups[GROUP].initial is not None:
            outcome = classic.timed_out(key, now)
    responses, writes = [*outcome.responses], [*outcome.writes]
    waiting: list[GroupWrite] = [] if cores.machine.writes_in_two_steps else [*writes]
    while waiting:
        outcome = classic.written(waiting.pop(0), now)
        responses += outcome.responses
        waiting += outcome.writes
    return responses, writes
