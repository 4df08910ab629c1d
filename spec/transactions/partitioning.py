"""What happens to partitions: records are verified and appended, markers written, logs replicated, leaders elected."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Self

import attrs

from tidegauge.spec.kernel.guarded import Refusal
from tidegauge.spec.transactions.actions import (
    TransactionAction,
    acknowledged,
    appended,
    failed,
    own_markers,
    own_produces,
    refused,
    replicated,
    ruled,
    unavailable,
)
from tidegauge.spec.transactions.coordinating import known
from tidegauge.spec.transactions.producing import arrived
from tidegauge.spec.transactions.rules import TransactionRules
from tidegauge.spec.transactions.state import (
    NONE,
    Error,
    Marker,
    MarkerRequest,
    Partition,
    PartitionNumber,
    ProduceRequest,
    Record,
    State,
)


@attrs.frozen
class ProduceAction(TransactionAction):
    """What a leader does with a record that has reached it."""

    request: ProduceRequest
    late: bool = False

    @classmethod
    def candidates(cls, machine: TransactionRules, state: State) -> Iterable[Self]:
        return [
            *(cls(request) for request in own_produces(machine, state)),
            *(cls(request, True) for request in state.late.produces),
        ]

    def absent(self, machine: TransactionRules, state: State) -> str:
        """Why there is no such record."""
        own = machine.produce_request(state, self.request.producer, self.request.partition)
        gone = (self.request not in state.late.produces) if self.late else (self.request != own)
        return f"no such record is on its way: {self.request}" if gone else ""


@attrs.frozen
class Verify(ProduceAction):
    """A leader asks the coordinator whether a transaction may begin in its partition; version 2 adds it by that."""

    def guard(self, machine: TransactionRules, state: State) -> str:
        if absent := self.absent(machine, state):
            return absent
        leader = state.partitions[self.request.partition]
        if machine.is_repeat(leader.memory, self.request) or machine.is_open_for(leader.memory, self.request):
            return "nothing is to be asked: the transaction is open here"
        if machine.is_let_in(leader, self.request):
            return "the coordinator has been asked"
        transactional_id = machine.id_of(self.request.producer)
        # What was added before is not in doubt while another record is pending (KAFKA-14904).
        if error := unavailable(state, transactional_id, pending=self.request.version >= 2):
            return refused(error, late=self.late)
        return refused(machine.verification_ruling(known(state, transactional_id), self.request).error, late=self.late)

    def effect(self, machine: TransactionRules, state: State) -> State:
        transactional_id = machine.id_of(self.request.producer)
        ruling = machine.verification_ruling(known(state, transactional_id), self.request)
        return ruled(machine, state, transactional_id, ruling, self.request, late=self.late)


@attrs.frozen
class Append(ProduceAction):
    """A leader appends a record; it acknowledges one that it has and that is committed."""

    def guard(self, machine: TransactionRules, state: State) -> str:
        if absent := self.absent(machine, state):
            return absent
        leader = state.partitions[self.request.partition]
        if machine.is_repeat(leader.memory, self.request):
            if self.late:
                return Refusal("the record is in the log", Error.NONE)
            return "" if self.offset(leader) < leader.high_watermark else "the record is not committed yet"
        error = machine.record_error(leader.memory, self.request)
        begins = not machine.is_open_for(leader.memory, self.request)
        if error is Error.NONE and begins and not machine.is_let_in(leader, self.request):
            return Refusal("no transaction is open, by the coordinator's word", Error.INVALID_TXN_STATE)
        return refused(error, late=self.late)

    def offset(self, leader: Partition) -> int:
        """Where the record is in the log."""
        wanted = (self.request.producer_id, self.request.epoch, self.request.sequence)
        return next(
            (
                offset
                for offset, entry in enumerate(leader.log)
                if isinstance(entry, Record) and (entry.producer_id, entry.epoch, entry.sequence) == wanted
            ),
            NONE,
        )

    def effect(self, machine: TransactionRules, state: State) -> State:
        request = self.request
        leader = state.partitions[request.partition]
        if machine.is_repeat(leader.memory, request):
            return acknowledged(machine, state, request)
        if error := machine.record_error(leader.memory, request):
            return failed(machine, state, request.producer, error)
        record = Record(request.producer_id, request.epoch, request.sequence, request.transaction)
        state = appended(machine, state, request.partition, record)
        if self.late:
            return attrs.evolve(state, late=arrived(state.late, request))
        return state if machine.appends_in_two_steps else acknowledged(machine, state, request)


@attrs.frozen
class WriteMarker(TransactionAction):
    """WriteTxnMarkers reaches the leader of a partition: the transaction ends there."""

    request: MarkerRequest
    late: bool = False

    @classmethod
    def candidates(cls, machine: TransactionRules, state: State) -> Iterable[Self]:
        return [
            *(cls(request) for request in own_markers(machine, state)),
            *(cls(request, True) for request in state.late.markers),
        ]

    def guard(self, machine: TransactionRules, state: State) -> str:
        sent = state.late.markers if self.late else tuple(own_markers(machine, state))
        if self.request not in sent:
            return f"no such marker is on its way: {self.request}"
        leader = state.partitions[self.request.partition]
        if not self.late and marker_of(self.request) in leader.log[leader.high_watermark :]:
            return "the marker is not committed yet"
        error = machine.marker_error(leader.memory, self.request)
        return Refusal(f"the marker is refused: {error.name}", error) if error else ""

    def effect(self, machine: TransactionRules, state: State) -> State:
        if self.late:
            state = attrs.evolve(state, late=arrived(state.late, self.request))
        return appended(machine, state, self.request.partition, marker_of(self.request))


def marker_of(request: MarkerRequest) -> Marker:
    """The control record that the request asks for."""
    return Marker(request.producer_id, request.epoch, request.coordinator_epoch, request.decision, request.version)


@attrs.frozen
class Replicate(TransactionAction):
    """A partition's log is committed to its end."""

    partition: PartitionNumber

    @classmethod
    def is_possible(cls, machine: TransactionRules) -> bool:
        return machine.appends_in_two_steps

    @classmethod
    def candidates(cls, machine: TransactionRules, state: State) -> Iterable[Self]:
        return [cls(number) for number in range(machine.partitions)]

    def guard(self, machine: TransactionRules, state: State) -> str:
        partition = state.partitions[self.partition]
        return "" if len(partition.log) > partition.high_watermark else "all is committed"

    def effect(self, machine: TransactionRules, state: State) -> State:
        return replicated(machine, state, self.partition)


@attrs.frozen
class Elect(TransactionAction):
    """Another replica leads a partition, or the same one after a restart: with `kept` entries, read from its disk."""

    bounded_as: ClassVar[str] = "Elect"

    partition: PartitionNumber
    kept: int

    @classmethod
    def candidates(cls, machine: TransactionRules, state: State) -> Iterable[Self]:
        return [
            cls(number, kept)
            for number, partition in enumerate(state.partitions)
            for kept in range(partition.high_watermark, len(partition.log) + 1)
        ]

    def guard(self, machine: TransactionRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more elections in this model"
        partition = state.partitions[self.partition]
        fits = partition.high_watermark <= self.kept <= len(partition.log)
        return "" if fits else f"no replica in sync has {self.kept} entries"

    def effect(self, machine: TransactionRules, state: State) -> State:
        partition = state.partitions[self.partition]
        log = partition.log[: self.kept]
        memory = machine.rebuilt(log, partition.high_watermark)
        leader = Partition(log, partition.high_watermark, memory)
        return state.with_partition(self.partition, leader).spend(self.bounded_as)
