"""What producers do: begin, send, end, crash, give up, upgrade; and how a request of theirs comes to be late."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import ClassVar, Self

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.transactions.actions import ClientAction, given_up, own_markers, own_produces
from tidegauge.spec.transactions.rules import TransactionRules
from tidegauge.spec.transactions.state import (
    AddRequest,
    Decision,
    EndRequest,
    InitRequest,
    Late,
    MarkerRequest,
    PartitionNumber,
    Phase,
    ProduceRequest,
    ProducerNumber,
    State,
    Transaction,
    begun_by,
    with_begun,
    with_one,
    without_one,
)

Request = InitRequest | AddRequest | ProduceRequest | EndRequest | MarkerRequest


def later(late: Late, request: Request) -> Late:
    """What is late, with one more request."""
    match request:
        case InitRequest():
            return evolve(late, inits=with_one(late.inits, request))
        case AddRequest():
            return evolve(late, adds=with_one(late.adds, request))
        case ProduceRequest():
            return evolve(late, produces=with_one(late.produces, request))
        case EndRequest():
            return evolve(late, ends=with_one(late.ends, request))
        case MarkerRequest():
            return evolve(late, markers=with_one(late.markers, request))


def arrived(late: Late, request: Request) -> Late:
    """What is late, without a request that has arrived."""
    match request:
        case InitRequest():
            return evolve(late, inits=without_one(late.inits, request))
        case AddRequest():
            return evolve(late, adds=without_one(late.adds, request))
        case ProduceRequest():
            return evolve(late, produces=without_one(late.produces, request))
        case EndRequest():
            return evolve(late, ends=without_one(late.ends, request))
        case MarkerRequest():
            return evolve(late, markers=without_one(late.markers, request))


# --- what clients choose -------------------------------------------------------------------------------------------


@attrs.frozen
class ProducerAction(ClientAction):
    """What one producer does."""

    producer: ProducerNumber

    @classmethod
    def candidates(cls, machine: TransactionRules, state: State) -> Iterable[Self]:
        return [cls(number) for number in range(machine.producers)]


@attrs.frozen
class Start(ProducerAction):
    """A process of a transactional id starts; one that runs already does not know of it."""

    def guard(self, machine: TransactionRules, state: State) -> str:
        if state.producers[self.producer].phase is not Phase.DOWN:
            return f"producer {self.producer} has started"
        is_first = self.producer % machine.incarnations == 0
        waits = not is_first and state.producers[self.producer - 1].phase in (Phase.DOWN, Phase.INITIALISING)
        return "the process before it has yet to begin" if waits else ""

    def effect(self, machine: TransactionRules, state: State) -> State:
        producer = evolve(state.producers[self.producer], phase=Phase.INITIALISING, version=machine.version)
        return state.with_producer(self.producer, producer)


@attrs.frozen
class Begin(ProducerAction):
    """A producer begins a transaction: nobody else is told."""

    def guard(self, machine: TransactionRules, state: State) -> str:
        if state.producers[self.producer].phase is not Phase.READY:
            return f"producer {self.producer} is not between two transactions"
        position = state.producers[self.producer].position
        if machine.inputs and not 0 <= position < machine.inputs:
            return f"producer {self.producer} has nothing to consume"
        begun = begun_by(state.transactions, self.producer)
        if state.producers[self.producer].version < 2 and begun >= machine.transactions_before_upgrade:
            return f"producer {self.producer} upgrades first in this model"
        return "" if begun < machine.transactions else f"{begun} transactions of it are all in this model"

    def effect(self, machine: TransactionRules, state: State) -> State:
        producer = evolve(
            state.producers[self.producer], phase=Phase.IN_TRANSACTION, transaction=len(state.transactions)
        )
        transaction = Transaction(self.producer, consumed=producer.position)
        state = evolve(state, transactions=with_begun(state.transactions, transaction))
        return state.with_producer(self.producer, producer)


@attrs.frozen
class SlotAction(ClientAction):
    """What a producer does with one partition."""

    producer: ProducerNumber
    partition: PartitionNumber

    @classmethod
    def candidates(cls, machine: TransactionRules, state: State) -> Iterable[Self]:
        return [
            cls(number, partition)
            for number, producer in enumerate(state.producers)
            if producer.phase is Phase.IN_TRANSACTION
            for partition in range(machine.partitions)
        ]


@attrs.frozen
class Send(SlotAction):
    """A producer sends its next record to a partition."""

    def guard(self, machine: TransactionRules, state: State) -> str:
        producer = state.producers[self.producer]
        if producer.phase is not Phase.IN_TRANSACTION:
            return f"producer {self.producer} is not in a transaction"
        slot = producer.slots[self.partition]
        if slot.in_flight or slot.given_up or slot.acknowledged >= machine.records:
            return f"a record to partition {self.partition} is in flight or given up, or none is left in this model"
        return "" if machine.may_send(producer, self.partition) else f"partition {self.partition} is not added yet"

    def effect(self, machine: TransactionRules, state: State) -> State:
        producer = state.producers[self.producer]
        place, slot = self.partition, producer.slots[self.partition]
        if place != machine.offsets_partition:
            sequences = (*producer.sequences[:place], producer.sequences[place] + 1, *producer.sequences[place + 1 :])
            producer = evolve(producer, sequences=sequences)
        return state.with_producer(self.producer, producer.with_slot(place, evolve(slot, in_flight=True)))


@attrs.frozen
class End(ProducerAction):
    """A producer chooses to commit or to abort; its request is on its way until it is told."""

    decision: Decision

    @classmethod
    def candidates(cls, machine: TransactionRules, state: State) -> Iterable[Self]:
        return [
            cls(number, decision)
            for number in range(machine.producers)
            for decision in (Decision.COMMIT, Decision.ABORT)
        ]

    def guard(self, machine: TransactionRules, state: State) -> str:
        producer = state.producers[self.producer]
        if producer.phase is not Phase.IN_TRANSACTION or not machine.has_begun(producer):
            return f"producer {self.producer} has nothing to end"
        if any(slot.in_flight for slot in producer.slots):
            return f"producer {self.producer} waits for a record"
        if not machine.may_end(state.late.adds, producer.transaction):
            return f"producer {self.producer} waits for a partition to be added"
        if self.decision is Decision.COMMIT and not machine.may_commit(producer):
            return f"producer {self.producer} can only abort"
        if machine.two_phase and not machine.has_database(state, self.producer):
            return f"the database takes no decision of producer {self.producer} any more"
        return ""

    def effect(self, machine: TransactionRules, state: State) -> State:
        producer = state.producers[self.producer]
        phase = Phase.COMMITTING if self.decision is Decision.COMMIT else Phase.ABORTING
        state = state.with_fact(producer.transaction, "asked", self.decision)
        return state.with_producer(self.producer, evolve(producer, phase=phase))


@attrs.frozen
class Upgrade(ProducerAction):
    """Between two transactions a producer learns that the cluster speaks version 2 of the protocol."""

    bounded_as: ClassVar[str] = "Upgrade"

    def guard(self, machine: TransactionRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more upgrades in this model"
        producer = state.producers[self.producer]
        return "" if producer.phase is Phase.READY and producer.version < 2 else "it is no client between two of them"

    def effect(self, machine: TransactionRules, state: State) -> State:
        phase = Phase.INITIALISING if machine.raises_epoch_on_upgrade() else Phase.READY
        producer = evolve(state.producers[self.producer], version=2, phase=phase)
        return state.with_producer(self.producer, producer).spend(self.bounded_as)


# --- what goes wrong -----------------------------------------------------------------------------------------------


@attrs.frozen
class CrashProducer(ProducerAction):
    """A process dies; what it has sent may yet arrive."""

    bounded_as: ClassVar[str] = "CrashProducer"

    def guard(self, machine: TransactionRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more producers crash in this model"
        gone = (Phase.DOWN, Phase.FENCED, Phase.CRASHED)
        return f"producer {self.producer} does not run" if state.producers[self.producer].phase in gone else ""

    def effect(self, machine: TransactionRules, state: State) -> State:
        late = state.late
        for partition in range(machine.partitions):
            if (produce := machine.produce_request(state, self.producer, partition)) is not None:
                late = later(late, produce)
        if (end := machine.end_request(state, self.producer)) is not None:
            late = later(late, end)
        stopped = machine.stopped(state.producers[self.producer], Phase.CRASHED)
        return evolve(state.with_producer(self.producer, stopped), late=late).spend(self.bounded_as)


@attrs.frozen
class GiveUp(SlotAction):
    """A producer gives a record up (delivery.timeout.ms): its transaction can only be aborted."""

    bounded_as: ClassVar[str] = "GiveUp"

    def guard(self, machine: TransactionRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more records are given up in this model"
        request = machine.produce_request(state, self.producer, self.partition)
        return "" if request is not None else f"producer {self.producer} has no record in flight there"

    def effect(self, machine: TransactionRules, state: State) -> State:
        request = machine.produce_request(state, self.producer, self.partition)
        assert request is not None, "the guard says so"
        state = given_up(machine, state, request)
        return evolve(state, late=later(state.late, request)).spend(self.bounded_as)


@attrs.frozen
class Delay(ClientAction):
    """A request is late: it is sent again, and the first one may yet arrive, or never."""

    request: Request

    def guard(self, machine: TransactionRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more of these are late in this model"
        if later(state.late, self.request) == state.late:
            return "it is late already"
        return "" if self.request in self.waiting(machine, state) else "nobody waits for it"

    @classmethod
    def candidates(cls, machine: TransactionRules, state: State) -> Iterable[Self]:
        return [cls(request) for request in cls.waiting(machine, state)]

    @classmethod
    @abstractmethod
    def waiting(cls, machine: TransactionRules, state: State) -> list[Request]:
        """The requests of the kind that somebody waits for."""

    def effect(self, machine: TransactionRules, state: State) -> State:
        return evolve(state, late=later(state.late, self.request)).spend(self.bounded_as)


@attrs.frozen
class DelayInit(Delay):
    """An InitProducerId is late."""

    bounded_as: ClassVar[str] = "DelayInit"

    request: InitRequest

    @classmethod
    def waiting(cls, machine: TransactionRules, state: State) -> list[Request]:
        found = [machine.init_request(state, number) for number in range(machine.producers)]
        return [request for request in found if request is not None]


@attrs.frozen
class DelayAdd(Delay):
    """An AddPartitionsToTxn of a client is late."""

    bounded_as: ClassVar[str] = "DelayAdd"

    request: AddRequest

    @classmethod
    def waiting(cls, machine: TransactionRules, state: State) -> list[Request]:
        found = [
            machine.add_request(state, number, partition)
            for number in range(machine.producers)
            for partition in range(machine.partitions)
        ]
        return [request for request in found if request is not None]


@attrs.frozen
class DelayProduce(Delay):
    """A record is late."""

    bounded_as: ClassVar[str] = "DelayProduce"

    request: ProduceRequest

    @classmethod
    def waiting(cls, machine: TransactionRules, state: State) -> list[Request]:
        return list(own_produces(machine, state))


@attrs.frozen
class DelayEnd(Delay):
    """An EndTxn is late."""

    bounded_as: ClassVar[str] = "DelayEnd"

    request: EndRequest

    @classmethod
    def waiting(cls, machine: TransactionRules, state: State) -> list[Request]:
        found = [machine.end_request(state, number) for number in range(machine.producers)]
        sent: list[Request] = []
        for request in found:
            if request is not None:
                sent += [request, *([evolve(request, epoch=request.epoch + 1)] if machine.guesses_epochs else ())]
        return sent


@attrs.frozen
class DelayMarker(Delay):
    """A marker is late."""

    bounded_as: ClassVar[str] = "DelayMarker"

    request: MarkerRequest

    @classmethod
    def waiting(cls, machine: TransactionRules, state: State) -> list[Request]:
        return list(own_markers(machine, state))


DELAYS = (DelayInit, DelayAdd, DelayProduce, DelayEnd, DelayMarker)
