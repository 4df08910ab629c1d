"""What a group does whose members write transactions: its input changes hands, members ask where to go on (KIP-447).

The group has one input partition. Who owns it consumes its records one after the other, each in a transaction that
writes to other partitions and commits the next offset to the group's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Self

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import Refusal
from tidegauge.spec.transactions.producing import ProducerAction
from tidegauge.spec.transactions.rules import TransactionRules
from tidegauge.spec.transactions.state import Group, Phase, State


@attrs.frozen
class Rebalance(ProducerAction):
    """The input partition is given to a member, in a new generation; the former owner does not know of it."""

    bounded_as: ClassVar[str] = "Rebalance"

    def guard(self, machine: TransactionRules, state: State) -> str:
        if not machine.inputs or not machine.may_perturb(state, self.bounded_as):
            return "no more rebalances in this model"
        return "" if state.group.owner != self.producer else f"producer {self.producer} owns the input"

    def effect(self, machine: TransactionRules, state: State) -> State:
        group = Group(state.group.generation + 1, self.producer)
        return evolve(state, group=group).spend(self.bounded_as)


@attrs.frozen
class FetchOffset(ProducerAction):
    """The owner of the input joins the group's generation, and asks where to go on: only what is stable is told."""

    @classmethod
    def is_possible(cls, machine: TransactionRules) -> bool:
        return machine.inputs > 0

    @classmethod
    def candidates(cls, machine: TransactionRules, state: State) -> Iterable[Self]:
        return [cls(state.group.owner)] if machine.inputs else ()

    def guard(self, machine: TransactionRules, state: State) -> str:
        producer = state.producers[self.producer]
        if not machine.inputs or state.group.owner != self.producer or producer.phase is not Phase.READY:
            return f"producer {self.producer} does not own the input, or is not between two transactions"
        if producer.position >= 0 and producer.generation == state.group.generation:
            return f"producer {self.producer} knows where to go on"
        error = machine.offset_fetch_error(state.partitions[machine.offsets_partition])
        return Refusal("a transaction may yet change the offset", error) if error else ""

    def effect(self, machine: TransactionRules, state: State) -> State:
        offset = machine.committed_offset(state.partitions[machine.offsets_partition])
        producer = state.producers[self.producer]
        producer = evolve(producer, generation=state.group.generation, position=offset)
        return state.with_producer(self.producer, producer)
