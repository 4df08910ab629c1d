"""Unclean elections under transactions, as a machine of their own: partitions lose what is committed.

A replica is elected that has less than what is committed. Records are lost: that is what an unclean election costs. A
marker that is lost costs more. Its transaction is open in the partition again, and nobody will end it: for the
coordinator it is complete. So a leader that was elected so goes on from the last stable offset of its log, where
nothing is open. KAFKA-7408 asks for that, and Kafka does not do it; nor does the implementation here, in which an
operator ends what hangs, as there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Self

import attrs

from tidegauge.spec.kernel.bounds import times
from tidegauge.spec.kernel.machine import Action, Invariant, StepInvariant
from tidegauge.spec.kernel.meaning import meaning, says
from tidegauge.spec.transactions.actions import TransactionAction
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.rules import TransactionRules
from tidegauge.spec.transactions.state import NONE, Log, Partition, PartitionNumber, State

LOST: tuple[str, ...] = ("AcknowledgedRecordsAreKept", "OnlyZombiesFenced")
"""What an unclean election costs: records, and, where a producer's are gone, the sequence of those that follow."""


@attrs.frozen
class ElectUnclean(TransactionAction):
    """A replica leads that has `kept` entries, fewer than are committed."""

    bounded_as: ClassVar[str] = "ElectUnclean"

    partition: PartitionNumber
    kept: int

    @classmethod
    def candidates(cls, machine: TransactionRules, state: State) -> Iterable[Self]:
        return [
            cls(number, kept)
            for number, partition in enumerate(state.partitions)
            for kept in range(partition.high_watermark)
        ]

    def guard(self, machine: TransactionRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more unclean elections in this model"
        is_unclean = 0 <= self.kept < state.partitions[self.partition].high_watermark
        return "" if is_unclean else "nothing that is committed would be lost"

    def effect(self, machine: TransactionRules, state: State) -> State:
        assert isinstance(machine, UncleanTransactions)
        log = machine.log_of_the_unclean(state.partitions[self.partition].log[: self.kept])
        leader = Partition(log, len(log), machine.rebuilt(log, len(log)))
        return state.with_partition(self.partition, leader).spend(self.bounded_as)


@attrs.frozen
class UncleanTransactions(Transactions):
    """The machine: that of transactions with unclean elections."""

    action_types: ClassVar[tuple[type[TransactionAction], ...]] = (*Transactions.action_types, ElectUnclean)

    def log_of_the_unclean(self, log: Log) -> Log:
        """What a leader keeps that was elected uncleanly: nothing from the first open transaction on (KAFKA-7408)."""
        opened = [one.open_from for one in self.rebuilt(log, len(log)).producers if one.open_from != NONE]
        return log[: min(opened, default=len(log))]

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {name: _unless_lost(holds) if name in LOST else holds for name, holds in super().invariants.items()}

    @property
    def step_invariants(self) -> Mapping[str, StepInvariant[State]]:
        return {name: _unless_losing(holds) for name, holds in super().step_invariants.items()}

    @property
    def sometimes(self) -> Mapping[str, Invariant[State]]:
        return {
            "an unclean election leaves nothing of a log": lambda state: (
                bool(times(state.spent, "ElectUnclean")) and any(not one.log for one in state.partitions)
            )
        }

    @property
    def interchangeable(self) -> int:
        return 0

    @property
    def why_unlike(self) -> str:
        return "what it adds to the state has no renaming of partitions"


def _unless_lost(holds: Invariant[State]) -> Invariant[State]:
    words = f"Unless an election was unclean: {meaning(holds)}"
    return says(words, lambda state: bool(times(state.spent, "ElectUnclean")) or holds(state))


def _unless_losing(holds: StepInvariant[State]) -> StepInvariant[State]:
    def kept(before: State, action: Action, after: State) -> bool:
        return isinstance(action, ElectUnclean) or holds(before, action, after)

    return says(f"But for an unclean election: {meaning(holds)}", kept)
