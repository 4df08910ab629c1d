"""Reads of committed records that take their time, as a machine of their own: `Transactions` with a reader.

A fetch reaches a leader that has nothing new to return. It waits, and is served when there is something: what it is
served with is looked up then, and not when it came. The last stable offset and the high watermark that bound it are of
one moment, and so are the records and the index of aborted transactions that says which of them count for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Self, TypeVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Invariant
from tidegauge.spec.transactions.actions import TransactionAction
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.rules import TransactionRules
from tidegauge.spec.transactions.state import (
    NONE,
    Decision,
    Partition,
    PartitionNumber,
    Record,
    Span,
    State,
    outcome_of,
)

T = TypeVar("T")


@attrs.frozen
class Reading:
    """What a fetch has found when it came; the right rules make no use of it."""

    first_undecided: int = NONE
    aborted: tuple[Span, ...] = ()


@attrs.frozen(cache_hash=True)
class ReadingState(State):
    """The state of transactions, and one reader of each partition."""

    readings: tuple[Reading | None, ...] = ()
    """Of each partition the fetch that waits."""
    positions: tuple[int, ...] = ()
    consumed: tuple[tuple[int, int], ...] = ()
    """What read_committed has returned: (partition, offset)."""


@attrs.frozen
class ReadAction(TransactionAction):
    """What a reader of one partition does."""

    partition: PartitionNumber

    @classmethod
    def candidates(cls, machine: TransactionRules, state: State) -> Iterable[Self]:
        return [cls(number) for number in range(machine.partitions)]


@attrs.frozen
class StartRead(ReadAction):
    """A fetch reaches the leader, and waits."""

    fair: ClassVar[bool] = False

    def guard(self, machine: TransactionRules, state: State) -> str:
        assert isinstance(state, ReadingState)
        return "" if state.readings[self.partition] is None else "the reader waits"

    def effect(self, machine: TransactionRules, state: State) -> State:
        assert isinstance(machine, CommittedReads)
        assert isinstance(state, ReadingState)
        reading = machine.found(state.partitions[self.partition])
        return evolve(state, readings=_with(state.readings, self.partition, reading))


@attrs.frozen
class FinishRead(ReadAction):
    """There is something for a fetch that waits."""

    def guard(self, machine: TransactionRules, state: State) -> str:
        assert isinstance(machine, CommittedReads)
        assert isinstance(state, ReadingState)
        reading = state.readings[self.partition]
        if reading is None:
            return "no fetch waits"
        stable = machine.bound(reading, state.partitions[self.partition])
        return "" if stable > state.positions[self.partition] else "there is nothing new"

    def effect(self, machine: TransactionRules, state: State) -> State:
        assert isinstance(machine, CommittedReads)
        assert isinstance(state, ReadingState)
        number, partition = self.partition, state.partitions[self.partition]
        reading, position = state.readings[number], machine.begins(state.positions[number])
        assert reading is not None, "the guard says so"
        stable, aborted = machine.bound(reading, partition), machine.left_out(reading, partition)
        returned = tuple(
            (number, offset)
            for offset, entry in enumerate(partition.log[:stable])
            if offset >= position
            and isinstance(entry, Record)
            and not any(one.producer_id == entry.producer_id and one.first <= offset <= one.last for one in aborted)
        )
        return evolve(
            state,
            readings=_with(state.readings, number, None),
            positions=_with(state.positions, number, stable),
            consumed=(*state.consumed, *returned),
        )


def _with(values: tuple[T, ...], place: int, value: T) -> tuple[T, ...]:
    return (*values[:place], value, *values[place + 1 :])


@attrs.frozen
class CommittedReads(Transactions):
    """The machine: that of transactions with a reader of each partition."""

    action_types: ClassVar[tuple[type[TransactionAction], ...]] = (*Transactions.action_types, StartRead, FinishRead)

    def initial(self) -> Iterable[State]:
        """Readers are at the start of every log. Raises ValueError as the machine of transactions does."""
        for state in super().initial():
            given = {field.name: getattr(state, field.name) for field in attrs.fields(State)}
            yield ReadingState(**given, readings=(None,) * self.partitions, positions=(0,) * self.partitions)

    def found(self, partition: Partition) -> Reading:
        """What there is when a fetch comes."""
        undecided = [entry.open_from for entry in partition.memory.producers if entry.open_from != NONE]
        undecided += [span.first for span in partition.memory.unreplicated]
        return Reading(min(undecided, default=NONE), partition.memory.aborted)

    # --- rules ---------------------------------------------------------------------------------------------------

    def begins(self, position: int) -> int:
        """Where the read begins: where the last one ended."""
        return position

    def bound(self, reading: Reading, partition: Partition) -> int:
        """Where the read ends: at the last stable offset, as it is now (KAFKA-9807)."""
        return self.last_stable_offset(partition)

    def left_out(self, reading: Reading, partition: Partition) -> tuple[Span, ...]:
        """Which transactions count for nothing: all that are aborted by now (KAFKA-5376)."""
        return partition.memory.aborted

    # --- properties ----------------------------------------------------------------------------------------------

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {
            **super().invariants,
            "ConsumedIsCommitted": consumed_is_committed,
            "ConsumedOnce": consumed_once,
        }

    @property
    def sometimes(self) -> Mapping[str, Invariant[State]]:
        return {
            "a record is returned of a log in which another one was aborted": lambda state: (
                isinstance(state, ReadingState) and bool(state.consumed) and bool(state.partitions[0].memory.aborted)
            )
        }

    @property
    def converges(self) -> Mapping[str, Invariant[State]]:
        return {**super().converges, "a fetch that waits is served once there is something": self._is_served}

    def _is_served(self, state: State) -> bool:
        assert isinstance(state, ReadingState)
        return not any(
            reading is not None and self.last_stable_offset(partition) > position
            for reading, position, partition in zip(state.readings, state.positions, state.partitions, strict=True)
        )

    @property
    def interchangeable(self) -> int:
        return 0

    @property
    def why_unlike(self) -> str:
        return "what it adds to the state has no renaming of partitions"


def consumed_is_committed(state: State) -> bool:
    """What a reader of committed records was given is of committed transactions."""
    assert isinstance(state, ReadingState)
    for number, offset in state.consumed:
        record = state.partitions[number].log[offset]
        if not isinstance(record, Record) or outcome_of(state.transactions, record.transaction) is not Decision.COMMIT:
            return False
    return True


def consumed_once(state: State) -> bool:
    """A reader is given each record of a partition once, in the order of the log."""
    assert isinstance(state, ReadingState)
    read: dict[PartitionNumber, int] = {}
    for number, offset in state.consumed:
        if offset <= read.get(number, NONE):
            return False
        read[number] = offset
    return True
