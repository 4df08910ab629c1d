"""What processes do: they start and crash, receive responses, look for offsets, and change what they want."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Self

import attrs

from tidegauge.spec.groups.classic.actions import GroupAction, ProcessAction
from tidegauge.spec.groups.classic.coordinating import disconnected
from tidegauge.spec.groups.classic.rules import GroupRules
from tidegauge.spec.groups.classic.state import (
    ENDED,
    NONE,
    Failed,
    Joined,
    OffsetRecord,
    Phase,
    Process,
    State,
    Synced,
)
from tidegauge.spec.kernel.evolving import evolve


@attrs.frozen
class Start(ProcessAction):
    """A process begins."""

    fair: ClassVar[bool] = False

    def guard(self, machine: GroupRules, state: State) -> str:
        return "" if state.processes[self.process].phase is Phase.DOWN else "the process is not down"

    def effect(self, machine: GroupRules, state: State) -> State:
        return state.with_process(self.process, machine.started())


@attrs.frozen
class Crash(ProcessAction):
    """A process ends without a word, and all that it knew is gone."""

    bounded_as: ClassVar[str] = "Crash"

    def guard(self, machine: GroupRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more processes crash in this model"
        return "" if state.processes[self.process].phase not in ENDED else "there is no process to crash"

    def effect(self, machine: GroupRules, state: State) -> State:
        return disconnected(state, self.process).with_process(self.process, Process()).spend(self.bounded_as)


@attrs.frozen
class Hang(ProcessAction):
    """The application of a process does nothing any more, while its heartbeats go on."""

    bounded_as: ClassVar[str] = "Hang"

    def guard(self, machine: GroupRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more processes hang in this model"
        process = state.processes[self.process]
        return "" if process.phase not in ENDED and not process.hung else "there is no process to hang"

    def effect(self, machine: GroupRules, state: State) -> State:
        process = evolve(state.processes[self.process], hung=True)
        return state.with_process(self.process, process).spend(self.bounded_as)


@attrs.frozen
class ReceiveResponse(ProcessAction):
    """The response that a process has waited for arrives."""

    def guard(self, machine: GroupRules, state: State) -> str:
        process = state.processes[self.process]
        return "" if process.response is not None and not process.hung else "no response is on its way"

    def effect(self, machine: GroupRules, state: State) -> State:
        process = state.processes[self.process]
        match process.response:
            case Joined(member_id, generation, protocol, leader, members):
                leads = leader == member_id
                process = evolve(
                    process,
                    phase=Phase.JOINED,
                    member_id=member_id,
                    generation=generation,
                    protocol=protocol,
                    leads=leads,
                    known=machine.known_on_joining(process, generation, state.partitions) if leads else 0,
                    shares=machine.shares(members, state.partitions),
                    response=None,
                )
            case Synced(partitions):
                process = machine.after_sync(process, partitions)
            case Failed(error):
                process = machine.after_error(process, error)
        return state.with_process(self.process, process)


@attrs.frozen
class LoseConnection(ProcessAction):
    """A process does not get the response that it waits for, and asks again.

    It is a perturbation only if there is, or will be, a response: else the process gives up waiting in the end.
    """

    bounded_as: ClassVar[str] = "LoseConnection"

    @classmethod
    def is_possible(cls, machine: GroupRules) -> bool:
        return True

    def guard(self, machine: GroupRules, state: State) -> str:
        process = state.processes[self.process]
        if process.hung or process.phase not in (Phase.JOINING, Phase.SYNCING):
            return "the process waits for nothing"
        if self.has_response(state) and not machine.may_perturb(state, self.bounded_as):
            return "no more connections are lost in this model"
        return ""

    def has_response(self, state: State) -> bool:
        """Whether the process would have a response in the end."""
        if state.processes[self.process].response is not None:
            return True
        return state.group is not None and any(one.connection == self.process for one in state.group.members)

    def effect(self, machine: GroupRules, state: State) -> State:
        if self.has_response(state):
            state = state.spend(self.bounded_as)
        state = disconnected(state, self.process)
        process = state.processes[self.process]
        return state.with_process(self.process, machine.rejoining(process))


@attrs.frozen
class FetchOffsets(ProcessAction):
    """A member asks where to go on in the partitions that it was given."""

    fair: ClassVar[bool] = False

    @classmethod
    def is_possible(cls, machine: GroupRules) -> bool:
        return machine.commits > 0

    def guard(self, machine: GroupRules, state: State) -> str:
        process = state.processes[self.process]
        if process.hung or process.phase is not Phase.STABLE or state.group is None:
            return "nobody asks, or nobody responds"
        if any(isinstance(entry.record, OffsetRecord) for entry in state.appended):
            return "a commit is on its way, perhaps a former member's: it asks again (KIP-447)"
        return "" if any(process.positions[each] == NONE for each in process.owned) else "it knows all positions"

    def effect(self, machine: GroupRules, state: State) -> State:
        process = state.processes[self.process]
        positions = tuple(
            state.log.offsets[place].value if place in process.owned and at == NONE else at
            for place, at in enumerate(process.positions)
        )
        return state.with_process(self.process, evolve(process, positions=positions))


@attrs.frozen
class Resubscribe(ProcessAction):
    """A dynamic member wants other topics: those that it has not wanted, or all but the last.

    All processes of a static member want the same. If the next one did not, it would be given what the former one had,
    until something else begins a rebalance.
    """

    bounded_as: ClassVar[str] = "Resubscribe"

    def guard(self, machine: GroupRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more processes change their mind in this model"
        process = state.processes[self.process]
        is_up = process.phase not in ENDED and not process.hung and machine.instance_of(self.process) == NONE
        return "" if is_up and machine.topics > 1 else "there is nothing else to want, or nobody who wants it"

    def effect(self, machine: GroupRules, state: State) -> State:
        process = state.processes[self.process]
        every = tuple(range(machine.topics))
        process = evolve(process, topics=every[:-1] if process.topics == every else every)
        return state.with_process(self.process, process).spend(self.bounded_as)


@attrs.frozen
class AddPartition(GroupAction):
    """An operator adds a partition to a topic."""

    bounded_as: ClassVar[str] = "AddPartition"

    @classmethod
    def candidates(cls, machine: GroupRules, state: State) -> Iterable[Self]:
        return [cls()]

    def guard(self, machine: GroupRules, state: State) -> str:
        return "" if machine.may_perturb(state, self.bounded_as) else "no more partitions are added in this model"

    def effect(self, machine: GroupRules, state: State) -> State:
        return evolve(state, partitions=state.partitions + 1).spend(self.bounded_as)


@attrs.frozen
class NoticePartitions(ProcessAction):
    """The leader sees that there are more partitions: it has the group joined anew."""

    @classmethod
    def is_possible(cls, machine: GroupRules) -> bool:
        return "AddPartition" in machine.bounds

    def guard(self, machine: GroupRules, state: State) -> str:
        process = state.processes[self.process]
        is_new = machine.notices(process, state.partitions) and not process.rejoin and not process.hung
        return "" if is_new else "nobody leads that knows fewer partitions than there are"

    def effect(self, machine: GroupRules, state: State) -> State:
        return state.with_process(self.process, evolve(state.processes[self.process], rejoin=True))
