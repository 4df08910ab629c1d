"""What happens to partitions: records are verified and appended, markers written, logs replicated, leaders elected."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import ClassVar, Self

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import Refusal
from tidegauge.spec.transactions.actions import (
    TransactionAction,
    acknowledged,
    appended,
    failed,
    given_up,
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
    Decision,
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

    @classmethod
    def attempts(cls, machine: TransactionRules, state: State) -> Iterator[Self]:
        """Those on their way, and records of epochs and generations that are not the present ones."""
        yield from cls.candidates(machine, state)
        group = state.group.generation
        for number, one in enumerate(state.coordination):
            known_id, process = one.logged.producer_id, number * machine.incarnations
            for partition in range(machine.partitions) if known_id != NONE else ():
                is_offsets = partition == machine.offsets_partition
                for epoch in range(max(0, one.logged.epoch - 1), one.logged.epoch + 2):
                    request = ProduceRequest(process, known_id, epoch, partition, NONE, NONE, machine.version)
                    for generation in (group - 1, group) if is_offsets else ():
                        commit = evolve(request, generation=generation, offset=1)
                        yield cls(commit, True)
                        yield cls(evolve(commit, is_member=False), True)
                    for sequence in () if is_offsets else (0, 1, 2):
                        yield cls(evolve(request, sequence=sequence), True)

    def guard(self, machine: TransactionRules, state: State) -> str:
        own = machine.produce_request(state, self.request.producer, self.request.partition)
        is_sent = self.request in state.late.produces if self.late else self.request == own
        return self.reason(machine, state) or ("" if is_sent else f"no such record is on its way: {self.request}")

    @abstractmethod
    def reason(self, machine: TransactionRules, state: State) -> str:
        """Why the leader does nothing with the record, whether it is on its way or not."""


@attrs.frozen
class Verify(ProduceAction):
    """A leader asks the coordinator whether a transaction may begin in its partition; version 2 adds it by that."""

    def reason(self, machine: TransactionRules, state: State) -> str:
        leader = state.partitions[self.request.partition]
        if machine.is_repeat(leader.memory, self.request) or machine.is_open_for(leader.memory, self.request):
            return "nothing is to be asked: the transaction is open here"
        if not self.late and machine.waits_at(state, self.request) != NONE:
            return "nothing is to be asked: it waits for its response"
        if machine.is_verified(leader, self.request):
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

    def reason(self, machine: TransactionRules, state: State) -> str:
        leader = state.partitions[self.request.partition]
        if machine.is_repeat(leader.memory, self.request):
            if self.late:
                return Refusal("the record is in the log", Error.NONE)
            return "" if self.offset(leader) < leader.high_watermark else "the record is not committed yet"
        if self.waits_at(machine, state) != NONE:
            is_committed = self.waits_at(machine, state) < leader.high_watermark
            return "" if is_committed else "the offset is not committed yet"
        error = self.error(machine, state)
        begins = not machine.is_open_for(leader.memory, self.request)
        if error is Error.NONE and begins and not machine.is_verified(leader, self.request):
            return Refusal("no transaction is open, as the coordinator says", Error.INVALID_TXN_STATE)
        return refused(error, late=self.late)

    def error(self, machine: TransactionRules, state: State) -> Error:
        """Why the leader, or the group's coordinator there, does not take the record."""
        is_offset = self.request.partition == machine.offsets_partition
        error = machine.generation_error(state.group, self.request) if is_offset else Error.NONE
        return error or machine.record_error(state.partitions[self.request.partition].memory, self.request)

    def waits_at(self, machine: TransactionRules, state: State) -> int:
        """Where the request is in the log, if its producer waits for the response; NONE if it does not."""
        return NONE if self.late else machine.waits_at(state, self.request)

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
        if machine.is_repeat(leader.memory, request) or self.waits_at(machine, state) != NONE:
            return acknowledged(machine, state, request)
        if error := self.error(machine, state):
            if error is Error.ILLEGAL_GENERATION:
                return given_up(machine, state, request)
            return failed(machine, state, request.producer, error)
        record = Record(request.producer_id, request.epoch, request.sequence, request.transaction, request.offset)
        state = appended(machine, state, request.partition, record)
        if self.late:
            return evolve(state, late=arrived(state.late, request))
        if not machine.appends_in_two_steps:
            return acknowledged(machine, state, request)
        if request.partition == machine.offsets_partition:
            return waiting(state, request, len(leader.log))
        return state


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

    @classmethod
    def attempts(cls, machine: TransactionRules, state: State) -> Iterator[Self]:
        """Those on their way, and markers of older epochs and coordinators."""
        yield from cls.candidates(machine, state)
        for number, one in enumerate(state.coordination):
            metadata = one.logged
            for partition in range(machine.partitions) if metadata.producer_id != NONE else ():
                marker = machine.marker(metadata, number, partition, state.coordinator_epoch)
                marker = evolve(marker, decision=Decision.ABORT)
                for epoch in range(max(0, metadata.epoch - 1), metadata.epoch + 1):
                    yield cls(evolve(marker, epoch=epoch), True)
                if state.coordinator_epoch:
                    yield cls(evolve(marker, coordinator_epoch=state.coordinator_epoch - 1), True)

    def guard(self, machine: TransactionRules, state: State) -> str:
        sent = state.late.markers if self.late else tuple(own_markers(machine, state))
        leader = state.partitions[self.request.partition]
        if not self.late and marker_of(self.request) in leader.log[leader.high_watermark :]:
            return "the marker is not committed yet"
        error = machine.marker_error(leader.memory, self.request)
        if error:
            return Refusal(f"the marker is refused: {error.name}", error)
        return "" if self.request in sent else f"no such marker is on its way: {self.request}"

    def effect(self, machine: TransactionRules, state: State) -> State:
        if self.late:
            state = evolve(state, late=arrived(state.late, self.request))
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
        memory = machine.memory_after_cut(partition, log)
        leader = Partition(log, partition.high_watermark, memory)
        if self.partition == machine.offsets_partition:
            state = forgotten(state, self.partition)
        return state.with_partition(self.partition, leader).spend(self.bounded_as)


def waiting(state: State, request: ProduceRequest, offset: int) -> State:
    """A producer waits for the response to an offset commit that is in the log."""
    producer = state.producers[request.producer]
    slot = evolve(producer.slots[request.partition], appended=offset)
    return state.with_producer(request.producer, producer.with_slot(request.partition, slot))


def forgotten(state: State, partition: PartitionNumber) -> State:
    """The group's coordinator has changed: no response of the last one comes, and who waited for it asks again."""
    for number, producer in enumerate(state.producers):
        if producer.slots and producer.slots[partition].appended != NONE:
            slot = evolve(producer.slots[partition], appended=NONE)
            state = state.with_producer(number, producer.with_slot(partition, slot))
    return state
