"""What processes and operators do: processes start and end, reconcile, look for offsets, and change what they want."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Self

import attrs

from tidegauge.spec.groups.consumer.actions import ConsumerAction, ProcessAction
from tidegauge.spec.groups.consumer.rules import ConsumerRules
from tidegauge.spec.groups.consumer.state import NONE, Phase, Process, State
from tidegauge.spec.kernel.evolving import evolve


@attrs.frozen
class Start(ProcessAction):
    """A process begins."""

    fair: ClassVar[bool] = False

    def guard(self, machine: ConsumerRules, state: State) -> str:
        return "" if state.processes[self.process].phase is Phase.DOWN else "the process is not down"

    def effect(self, machine: ConsumerRules, state: State) -> State:
        member_id = machine.new_member_id(state)
        state = evolve(state, member_ids=max(state.member_ids, member_id + 1))
        return state.with_process(self.process, machine.started(member_id, machine.expression_of(self.process)))


@attrs.frozen
class GiveBack(ProcessAction):
    """A member's application lets go what is assigned to it no more; heartbeats go on meanwhile."""

    def guard(self, machine: ConsumerRules, state: State) -> str:
        process = state.processes[self.process]
        return "" if process.works and machine.to_give_back(process) else "the process has nothing to give back"

    def effect(self, machine: ConsumerRules, state: State) -> State:
        return state.with_process(self.process, machine.after_giving_back(state.processes[self.process]))


@attrs.frozen
class Reconcile(ProcessAction):
    """A member that has nothing more to give back begins with what it is given."""

    def guard(self, machine: ConsumerRules, state: State) -> str:
        process = state.processes[self.process]
        if not process.works or process.assigned is None:
            return "the process owns what it was assigned"
        return "the process gives back first" if machine.to_give_back(process) else ""

    def effect(self, machine: ConsumerRules, state: State) -> State:
        return state.with_process(self.process, machine.after_reconciling(state.processes[self.process]))


@attrs.frozen
class FetchOffsets(ProcessAction):
    """A member asks where to go on in the partitions that it was given."""

    fair: ClassVar[bool] = False

    @classmethod
    def is_possible(cls, machine: ConsumerRules) -> bool:
        return machine.commits > 0

    def guard(self, machine: ConsumerRules, state: State) -> str:
        process = state.processes[self.process]
        if not process.works or state.group is None:
            return "nobody asks, or nobody responds"
        return "" if any(process.positions[each] == NONE for each in process.owned) else "it knows all positions"

    def effect(self, machine: ConsumerRules, state: State) -> State:
        process = state.processes[self.process]
        positions = tuple(
            state.log.offsets[place].value if place in process.owned and at == NONE else at
            for place, at in enumerate(process.positions)
        )
        return state.with_process(self.process, evolve(process, positions=positions))


@attrs.frozen
class Crash(ProcessAction):
    """A process ends without a word, and all that it knew is gone."""

    bounded_as: ClassVar[str] = "Crash"

    def guard(self, machine: ConsumerRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more processes crash in this model"
        return "" if state.processes[self.process].phase is Phase.UP else "there is no process to crash"

    def effect(self, machine: ConsumerRules, state: State) -> State:
        return state.with_process(self.process, Process()).spend(self.bounded_as)


@attrs.frozen
class Hang(ProcessAction):
    """The application of a process does nothing any more, while its heartbeats go on."""

    bounded_as: ClassVar[str] = "Hang"

    def guard(self, machine: ConsumerRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more processes hang in this model"
        return "" if state.processes[self.process].works else "there is no process to hang"

    def effect(self, machine: ConsumerRules, state: State) -> State:
        process = evolve(state.processes[self.process], hung=True)
        return state.with_process(self.process, process).spend(self.bounded_as)


@attrs.frozen
class Resubscribe(ProcessAction):
    """A member wants other topics: one less, or all of them when it would want none.

    One with an expression names all of them, and the other way round.
    """

    bounded_as: ClassVar[str] = "Resubscribe"

    def guard(self, machine: ConsumerRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more processes change their mind in this model"
        has_choice = machine.topics > 1 or machine.expression_of(self.process) != NONE
        is_free = has_choice and state.processes[self.process].works
        return "" if is_free else "there is nothing else to want, or nobody who wants it"

    def effect(self, machine: ConsumerRules, state: State) -> State:
        process = state.processes[self.process]
        every = tuple(range(machine.topics))
        if (expression := machine.expression_of(self.process)) == NONE:
            process = evolve(process, topics=process.topics[:-1] or every)
        elif process.expression == NONE:
            process = evolve(process, topics=machine.named, expression=expression)
        else:
            process = evolve(process, topics=every, expression=NONE)
        return state.with_process(self.process, process).spend(self.bounded_as)


@attrs.frozen
class AddPartition(ConsumerAction):
    """An operator adds a partition to a topic; the coordinator sees it with the next heartbeat."""

    bounded_as: ClassVar[str] = "AddPartition"

    @classmethod
    def candidates(cls, machine: ConsumerRules, state: State) -> Iterable[Self]:
        return [cls()]

    def guard(self, machine: ConsumerRules, state: State) -> str:
        return "" if machine.may_perturb(state, self.bounded_as) else "no more partitions are added in this model"

    def effect(self, machine: ConsumerRules, state: State) -> State:
        return evolve(state, partitions=state.partitions + 1).spend(self.bounded_as)


@attrs.frozen
class ChangeRacks(ConsumerAction):
    """Replicas are in other racks: they were moved, or their broker was. The next heartbeat sees it (KIP-1101)."""

    bounded_as: ClassVar[str] = "ChangeRacks"

    @classmethod
    def candidates(cls, machine: ConsumerRules, state: State) -> Iterable[Self]:
        return [cls()]

    def guard(self, machine: ConsumerRules, state: State) -> str:
        return "" if machine.may_perturb(state, self.bounded_as) else "no more racks change in this model"

    def effect(self, machine: ConsumerRules, state: State) -> State:
        return evolve(state, racks=state.racks + 1).spend(self.bounded_as)


@attrs.frozen
class CreateTopic(ConsumerAction):
    """An operator creates a topic, which somebody may wait for; the coordinator sees it with the next heartbeat."""

    bounded_as: ClassVar[str] = "CreateTopic"

    @classmethod
    def candidates(cls, machine: ConsumerRules, state: State) -> Iterable[Self]:
        return [cls()]

    def guard(self, machine: ConsumerRules, state: State) -> str:
        is_allowed = machine.may_perturb(state, self.bounded_as) and state.created < machine.topics
        return "" if is_allowed else "no more topics are created in this model"

    def effect(self, machine: ConsumerRules, state: State) -> State:
        return evolve(state, created=state.created + 1).spend(self.bounded_as)


@attrs.frozen
class DeleteTopic(ConsumerAction):
    """An operator deletes a topic for good; who has partitions of it gives them back."""

    bounded_as: ClassVar[str] = "DeleteTopic"

    topic: int

    @classmethod
    def candidates(cls, machine: ConsumerRules, state: State) -> Iterable[Self]:
        return [cls(topic) for topic in range(state.created) if topic not in state.deleted]

    def guard(self, machine: ConsumerRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more topics are deleted in this model"
        is_there = self.topic < state.created and self.topic not in state.deleted
        return "" if is_there else "there is no such topic"

    def effect(self, machine: ConsumerRules, state: State) -> State:
        return evolve(state, deleted=tuple(sorted((*state.deleted, self.topic)))).spend(self.bounded_as)
