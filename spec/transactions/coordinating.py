"""What happens at the transaction coordinator: requests, records that are committed, time-outs, a new coordinator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, Self

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import Refusal
from tidegauge.spec.transactions.actions import (
    CLOCK,
    TransactionAction,
    committed,
    logged,
    refused,
    ruled,
    unavailable,
    written,
)
from tidegauge.spec.transactions.coordinator_rules import Ruling
from tidegauge.spec.transactions.producing import arrived
from tidegauge.spec.transactions.rules import TransactionRules
from tidegauge.spec.transactions.state import (
    NONE,
    AddRequest,
    Coordination,
    Decision,
    EndRequest,
    Error,
    IdNumber,
    InitRequest,
    Metadata,
    State,
)


def known(state: State, transactional_id: int) -> Metadata:
    """The coordinator's record of an id that it has loaded."""
    cached = state.coordination[transactional_id].cached
    assert cached is not None, "a guard has asked whether it is loaded"
    return cached


def near_producer_ids(state: State, metadata: Metadata) -> tuple[int, ...]:
    """The producer ids of a record, and one that nobody has yet."""
    next_one = () if metadata.next_producer_id == NONE else (metadata.next_producer_id,)
    return (metadata.producer_id, state.producer_ids, *next_one)


def near_epochs(metadata: Metadata, below: int) -> tuple[int, ...]:
    """The epochs around that of a record, and the first one of a producer id that is not in force yet."""
    first = (0,) if metadata.next_producer_id != NONE else ()
    return tuple(sorted({*first, *range(max(0, metadata.epoch - below), metadata.epoch + 2)}))


def near_ids(state: State) -> Iterator[tuple[int, Metadata]]:
    """The transactional ids that have a producer id, with what the log says of each."""
    return ((number, one.logged) for number, one in enumerate(state.coordination) if one.logged.producer_id != NONE)


@attrs.frozen
class ReceiveInit(TransactionAction):
    """InitProducerId reaches the coordinator."""

    request: InitRequest
    late: bool = False

    @classmethod
    def candidates(cls, machine: TransactionRules, state: State) -> Iterable[Self]:
        own = [machine.init_request(state, number) for number in range(machine.producers)]
        return [
            *(cls(request) for request in own if request is not None),
            *(cls(request, True) for request in state.late.inits),
        ]

    @classmethod
    def attempts(cls, machine: TransactionRules, state: State) -> Iterator[Self]:
        """Those on their way, and producers that go on under epochs that are not theirs."""
        yield from cls.candidates(machine, state)
        for number, metadata in near_ids(state):
            for epoch in range(max(0, metadata.epoch - 2), metadata.epoch + 2):
                yield cls(InitRequest(number * machine.incarnations, metadata.producer_id, epoch), True)

    def guard(self, machine: TransactionRules, state: State) -> str:
        own = machine.init_request(state, self.request.producer)
        is_sent = self.request in state.late.inits if self.late else self.request == own
        return self.reason(machine, state) or ("" if is_sent else f"no such request is on its way: {self.request}")

    def reason(self, machine: TransactionRules, state: State) -> str:
        """Why the coordinator refuses the request, whether it is on its way or not."""
        if error := unavailable(state, machine.id_of(self.request.producer)):
            return refused(error, late=self.late)
        ruling = self.ruling(machine, state)
        return "" if ruling.metadata is not None else refused(ruling.error, late=self.late)

    def ruling(self, machine: TransactionRules, state: State) -> Ruling:
        metadata = known(state, machine.id_of(self.request.producer))
        return machine.init_ruling(metadata, self.request, state.producer_ids)

    def effect(self, machine: TransactionRules, state: State) -> State:
        ruling = self.ruling(machine, state)
        if self.late:
            state = evolve(state, late=arrived(state.late, self.request))
        transactional_id = machine.id_of(self.request.producer)
        return ruled(machine, state, transactional_id, ruling, self.request, late=self.late)


@attrs.frozen
class ReceiveAdd(TransactionAction):
    """AddPartitionsToTxn of a client reaches the coordinator (version 1)."""

    request: AddRequest
    late: bool = False

    @classmethod
    def candidates(cls, machine: TransactionRules, state: State) -> Iterable[Self]:
        own = [
            machine.add_request(state, number, partition)
            for number in range(machine.producers)
            for partition in range(machine.partitions)
        ]
        return [
            *(cls(request) for request in own if request is not None),
            *(cls(request, True) for request in state.late.adds),
        ]

    @classmethod
    def attempts(cls, machine: TransactionRules, state: State) -> Iterator[Self]:
        """Those on their way, and requests of epochs and producer ids that are not the present ones."""
        yield from cls.candidates(machine, state)
        for number, metadata in near_ids(state):
            for epoch in near_epochs(metadata, 1):
                for producer_id in near_producer_ids(state, metadata):
                    request = AddRequest(number * machine.incarnations, producer_id, epoch, 0, NONE)
                    yield cls(request, True)

    def guard(self, machine: TransactionRules, state: State) -> str:
        own = machine.add_request(state, self.request.producer, self.request.partition)
        is_sent = self.request in state.late.adds if self.late else self.request == own
        return self.reason(machine, state) or ("" if is_sent else f"no such request is on its way: {self.request}")

    def reason(self, machine: TransactionRules, state: State) -> str:
        """Why the coordinator refuses the request, whether it is on its way or not."""
        if error := unavailable(state, machine.id_of(self.request.producer)):
            return refused(error, late=self.late)
        return refused(self.ruling(machine, state).error, late=self.late)

    def ruling(self, machine: TransactionRules, state: State) -> Ruling:
        return machine.add_ruling(known(state, machine.id_of(self.request.producer)), self.request)

    def effect(self, machine: TransactionRules, state: State) -> State:
        ruling = self.ruling(machine, state)
        if self.late:
            state = evolve(state, late=arrived(state.late, self.request))
        transactional_id = machine.id_of(self.request.producer)
        return ruled(machine, state, transactional_id, ruling, self.request, late=self.late)


@attrs.frozen
class ReceiveEnd(TransactionAction):
    """EndTxn reaches the coordinator."""

    request: EndRequest
    late: bool = False

    @classmethod
    def candidates(cls, machine: TransactionRules, state: State) -> Iterable[Self]:
        own = [machine.end_request(state, number) for number in range(machine.producers)]
        return [
            *(cls(request) for request in own if request is not None),
            *(cls(request, True) for request in state.late.ends),
        ]

    @classmethod
    def attempts(cls, machine: TransactionRules, state: State) -> Iterator[Self]:
        """Those on their way, and requests of epochs and producer ids that are not the present ones."""
        yield from cls.candidates(machine, state)
        for number, metadata in near_ids(state):
            for epoch in near_epochs(metadata, 2):
                for producer_id in near_producer_ids(state, metadata):
                    for decision in (Decision.COMMIT, Decision.ABORT):
                        process = number * machine.incarnations
                        yield cls(EndRequest(process, producer_id, epoch, decision, NONE, machine.version), True)

    def guard(self, machine: TransactionRules, state: State) -> str:
        own = machine.end_request(state, self.request.producer)
        is_sent = self.request in state.late.ends if self.late else self.request == own
        return self.reason(machine, state) or ("" if is_sent else f"no such request is on its way: {self.request}")

    def reason(self, machine: TransactionRules, state: State) -> str:
        """Why the coordinator refuses the request, whether it is on its way or not."""
        if error := unavailable(state, machine.id_of(self.request.producer)):
            return refused(error, late=self.late)
        ruling = self.ruling(machine, state)
        if self.late and ruling.metadata is None and ruling.error is Error.NONE:
            return Refusal("the transaction has ended so", Error.NONE)
        return refused(ruling.error, late=self.late)

    def ruling(self, machine: TransactionRules, state: State) -> Ruling:
        metadata = known(state, machine.id_of(self.request.producer))
        return machine.end_ruling(metadata, self.request, state.producer_ids)

    def effect(self, machine: TransactionRules, state: State) -> State:
        ruling = self.ruling(machine, state)
        if self.late:
            state = evolve(state, late=arrived(state.late, self.request))
        transactional_id = machine.id_of(self.request.producer)
        return ruled(machine, state, transactional_id, ruling, self.request, late=self.late)


@attrs.frozen
class IdAction(TransactionAction):
    """What the coordinator does with one transactional id."""

    transactional_id: IdNumber

    @classmethod
    def candidates(cls, machine: TransactionRules, state: State) -> Iterable[Self]:
        return [cls(number) for number in range(machine.transactional_ids)]


@attrs.frozen
class Complete(IdAction):
    """Every marker is acknowledged: the coordinator writes that the transaction is complete."""

    def guard(self, machine: TransactionRules, state: State) -> str:
        if unavailable(state, self.transactional_id):
            return "the coordinator is loading, or a record is pending"
        if state.coordination[self.transactional_id].unattended:
            return "nobody looks whether a transaction has all its markers"
        completed = machine.completed(known(state, self.transactional_id))
        return "" if completed is not None else "no transaction has all its markers"

    def effect(self, machine: TransactionRules, state: State) -> State:
        completed = machine.completed(known(state, self.transactional_id))
        assert completed is not None, "the guard says so"
        return written(machine, state, self.transactional_id, completed)


@attrs.frozen
class ExpireTransaction(IdAction):
    """A transaction's time is over (transaction.timeout.ms): the coordinator aborts it."""

    @classmethod
    def is_possible(cls, machine: TransactionRules) -> bool:
        return machine.expiring

    def guard(self, machine: TransactionRules, state: State) -> str:
        if not machine.expiring or unavailable(state, self.transactional_id):
            return "nothing expires: the coordinator is loading, or a record is pending"
        expired = machine.expired(known(state, self.transactional_id))
        return "" if expired is not None else "no transaction is open"

    def effect(self, machine: TransactionRules, state: State) -> State:
        expired = machine.expired(known(state, self.transactional_id))
        assert expired is not None, "the guard says so"
        return written(machine, state, self.transactional_id, expired)


@attrs.frozen
class ExpireId(IdAction):
    """Nobody has used a transactional id for long (transactional.id.expiration.ms): a tombstone takes it away."""

    bounded_as: ClassVar[str] = "ExpireId"

    def guard(self, machine: TransactionRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more ids are forgotten in this model"
        if unavailable(state, self.transactional_id):
            return "the coordinator is loading, or a record is pending"
        may_be = machine.is_forgotten(known(state, self.transactional_id))
        return "" if may_be else "the id is in use, or nobody has used it yet"

    def effect(self, machine: TransactionRules, state: State) -> State:
        return written(machine, state, self.transactional_id, Metadata()).spend(self.bounded_as)


@attrs.frozen
class TurnClockBack(TransactionAction):
    """The clock of the coordinator is set back, further than anything lasts: what begins now began before that."""

    bounded_as: ClassVar[str] = CLOCK

    @classmethod
    def candidates(cls, machine: TransactionRules, state: State) -> Iterable[Self]:
        return [cls()]

    def guard(self, machine: TransactionRules, state: State) -> str:
        return "" if machine.may_perturb(state, self.bounded_as) else "the clock is set back no more in this model"

    def effect(self, machine: TransactionRules, state: State) -> State:
        return state.spend(self.bounded_as)


@attrs.frozen
class CommitRecord(IdAction):
    """The coordinator's record is committed in the transaction log, and who waited for it is told."""

    @classmethod
    def is_possible(cls, machine: TransactionRules) -> bool:
        return machine.writes_in_two_steps

    def guard(self, machine: TransactionRules, state: State) -> str:
        return "" if state.coordination[self.transactional_id].pending is not None else "no record is pending"

    def effect(self, machine: TransactionRules, state: State) -> State:
        return committed(machine, state, self.transactional_id)


@attrs.frozen
class FailOver(TransactionAction):
    """Another broker leads the transaction log. What was pending is in the log, or it is lost."""

    bounded_as: ClassVar[str] = "FailOver"

    kept: bool

    @classmethod
    def candidates(cls, machine: TransactionRules, state: State) -> Iterable[Self]:
        is_pending = any(one.pending is not None for one in state.coordination)
        return [cls(True), cls(False)] if is_pending else [cls(False)]

    def guard(self, machine: TransactionRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more coordinators fail in this model"
        is_pending = any(one.pending is not None for one in state.coordination)
        return "nothing is pending" if self.kept and not is_pending else ""

    def effect(self, machine: TransactionRules, state: State) -> State:
        for number, one in enumerate(state.coordination):
            if self.kept and one.pending is not None:
                state = logged(machine, state, number, one.pending.metadata)
            state = state.with_coordination(number, Coordination(state.coordination[number].logged, None, None))
        return evolve(state, coordinator_epoch=state.coordinator_epoch + 1).spend(self.bounded_as)


@attrs.frozen
class Load(IdAction):
    """A new coordinator has read the transaction log as far as one id goes."""

    @classmethod
    def is_possible(cls, machine: TransactionRules) -> bool:
        return machine.writes_in_two_steps

    def guard(self, machine: TransactionRules, state: State) -> str:
        return "" if state.coordination[self.transactional_id].cached is None else "it is loaded"

    def effect(self, machine: TransactionRules, state: State) -> State:
        one = state.coordination[self.transactional_id]
        return state.with_coordination(self.transactional_id, evolve(one, cached=machine.loaded(one.logged)))
