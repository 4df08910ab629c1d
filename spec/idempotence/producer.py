"""What a producer does: send, send again, lose a connection, look for the leader, give up, take a response."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import dropwhile
from typing import ClassVar, Self

import attrs

from tidegauge.spec.idempotence.actions import IdempotenceAction, awaiting, sent, with_last, without_first
from tidegauge.spec.idempotence.rules import IdempotenceRules
from tidegauge.spec.idempotence.state import (
    COMPLETED,
    NONE,
    Batch,
    BrokerId,
    Error,
    InFlight,
    Producer,
    ProduceRequest,
    ProduceResponse,
    ProducerId,
    State,
)
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.piecemeal import one_at_a_time, question


@attrs.frozen
class Send(IdempotenceAction):
    """A producer sends its next `count` records as a batch to whom it takes for the leader."""

    fair: ClassVar[bool] = False

    producer: ProducerId
    count: int = 1

    @classmethod
    def candidates(cls, machine: IdempotenceRules, state: State) -> Iterable[Self]:
        return [cls(number, count) for number in range(machine.producers) for count in machine.batch_sizes]

    def guard(self, machine: IdempotenceRules, state: State) -> str:
        producer = state.producers[self.producer]
        if producer.desynchronised:
            return f"producer {self.producer} can't go on"
        if self.count not in machine.batch_sizes or producer.next_record + self.count > machine.max_records:
            return f"no {self.count} records are left in this model"
        return "" if machine.may_send(producer) else f"producer {self.producer} has to wait for what is in flight"

    def effect(self, machine: IdempotenceRules, state: State) -> State:
        producer = state.producers[self.producer]
        sequence = producer.next_sequence if machine.idempotent else NONE
        batch = Batch(self.producer, producer.epoch, sequence, producer.next_record, self.count)
        flight = InFlight(batch, 0, producer.leader, behind=bool(producer.in_flight))
        producer = evolve(
            producer,
            next_sequence=machine.advanced(producer.next_sequence, self.count),
            next_record=producer.next_record + self.count,
            in_flight=with_last(producer.in_flight, flight),
        )
        state = state.with_producer(self.producer, producer)
        return sent(machine, state, ProduceRequest(batch, producer.leader, 0))


@attrs.frozen
class Retry(IdempotenceAction):
    """A producer sends a batch in flight again, to whom it now takes for the leader."""

    producer: ProducerId
    place: int

    @classmethod
    def candidates(cls, machine: IdempotenceRules, state: State) -> Iterable[Self]:
        return [
            cls(number, place)
            for number, producer in enumerate(state.producers)
            for place, flight in enumerate(producer.in_flight)
            if flight.sent_to == NONE
        ]

    def guard(self, machine: IdempotenceRules, state: State) -> str:
        producer = state.producers[self.producer]
        if self.place >= len(producer.in_flight) or producer.in_flight[self.place].sent_to != NONE:
            return f"batch {self.place} of producer {self.producer} is not to be sent again"
        if producer.in_flight[self.place].attempt + 1 >= machine.max_attempts:
            return f"all {machine.max_attempts} attempts are used"
        if producer.desynchronised:
            return f"producer {self.producer} can't go on"
        return "" if machine.may_retry(producer, self.place) else "an older batch is to be sent first"

    def effect(self, machine: IdempotenceRules, state: State) -> State:
        producer = state.producers[self.producer]
        old = producer.in_flight[self.place]
        flight = InFlight(old.batch, old.attempt + 1, producer.leader, behind=self.place > 0)
        producer = evolve(producer, in_flight=with_flight(producer.in_flight, (self.place, flight)))
        state = state.with_producer(self.producer, producer)
        return sent(machine, state, ProduceRequest(flight.batch, producer.leader, flight.attempt))


@one_at_a_time
def with_flight(in_flight: tuple[InFlight, ...], new: tuple[int, InFlight]) -> tuple[InFlight, ...]:
    """The line with another flight in a place."""
    place, flight = new
    return (*in_flight[:place], flight, *in_flight[place + 1 :])


@one_at_a_time
def completed(in_flight: tuple[InFlight, ...], flight: InFlight) -> tuple[InFlight, ...]:
    """The line after this flight was acknowledged: what is completed leaves it at its head."""
    line = [evolve(each, sent_to=COMPLETED) if each == flight else each for each in in_flight]
    return tuple(dropwhile(lambda each: each.sent_to == COMPLETED, line))


@one_at_a_time
def refused(in_flight: tuple[InFlight, ...], flight: InFlight) -> tuple[InFlight, ...]:
    """The line after this flight was refused for now: it is to be sent again."""
    return tuple(evolve(each, sent_to=NONE) if each == flight else each for each in in_flight)


@one_at_a_time
def cut_off(in_flight: tuple[InFlight, ...], broker: int) -> tuple[InFlight, ...]:
    """The line after the connection to a broker broke: what was sent on it is to be sent again."""
    return tuple(evolve(each, sent_to=NONE) if each.sent_to == broker else each for each in in_flight)


@question
def waits_for(in_flight: tuple[InFlight, ...], broker: int) -> bool:
    """Whether a response of this broker is awaited."""
    return any(flight.sent_to == broker for flight in in_flight)


@attrs.frozen
class LoseConnection(IdempotenceAction):
    """A producer's connection to a broker breaks: no response will come on it, though what was sent may yet arrive."""

    bounded_as: ClassVar[str] = "LoseConnection"

    producer: ProducerId
    broker: BrokerId

    @classmethod
    def candidates(cls, machine: IdempotenceRules, state: State) -> Iterable[Self]:
        return [cls(number, broker) for number in range(machine.producers) for broker in range(machine.brokers)]

    def guard(self, machine: IdempotenceRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more connections are lost in this model"
        waits = waits_for(state.producers[self.producer].in_flight, self.broker)
        return "" if waits else f"producer {self.producer} waits for nothing from broker {self.broker}"

    def effect(self, machine: IdempotenceRules, state: State) -> State:
        return disconnected(state, self.producer, self.broker).spend(self.bounded_as)


def disconnected(state: State, number: int, broker: int) -> State:
    """Every batch that was sent on the connection is to be sent again, and no response comes through."""
    producer = state.producers[number]
    state = state.with_producer(number, evolve(producer, in_flight=cut_off(producer.in_flight, broker)))
    return evolve(state, responses=without_line(state.responses, (number, broker)))


@one_at_a_time
def without_line(responses: tuple[ProduceResponse, ...], line: tuple[int, int]) -> tuple[ProduceResponse, ...]:
    """The responses but for those on the connection of a producer to a broker."""
    return tuple(r for r in responses if (r.request.batch.producer, r.request.broker) != line)


@one_at_a_time
def without_producer(responses: tuple[ProduceResponse, ...], producer: int) -> tuple[ProduceResponse, ...]:
    """The responses but for those to a producer."""
    return tuple(r for r in responses if r.request.batch.producer != producer)


@attrs.frozen
class RefreshMetadata(IdempotenceAction):
    """A producer learns who leads."""

    producer: ProducerId

    @classmethod
    def candidates(cls, machine: IdempotenceRules, state: State) -> Iterable[Self]:
        return [cls(number) for number in range(machine.producers)]

    def guard(self, machine: IdempotenceRules, state: State) -> str:
        known = state.producers[self.producer].leader == state.leader
        return f"producer {self.producer} knows that broker {state.leader} leads" if known else ""

    def effect(self, machine: IdempotenceRules, state: State) -> State:
        producer = evolve(state.producers[self.producer], leader=state.leader)
        return state.with_producer(self.producer, producer)


@attrs.frozen
class GiveUp(IdempotenceAction):
    """A producer gives up what is in flight (delivery.timeout.ms) and begins a new epoch, at sequence 0 (KIP-360)."""

    bounded_as: ClassVar[str] = "GiveUp"

    producer: ProducerId

    @classmethod
    def candidates(cls, machine: IdempotenceRules, state: State) -> Iterable[Self]:
        return [cls(number) for number in range(machine.producers)]

    def guard(self, machine: IdempotenceRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more producers give up in this model"
        return "" if state.producers[self.producer].in_flight else f"producer {self.producer} has nothing in flight"

    def effect(self, machine: IdempotenceRules, state: State) -> State:
        producer = state.producers[self.producer]
        producer = machine.begun_again(producer)
        kept = without_producer(state.responses, self.producer)
        state = evolve(state.with_producer(self.producer, producer), responses=kept)
        return state.spend(self.bounded_as)


@attrs.frozen
class ReceiveProduceResponse(IdempotenceAction):
    """A response reaches the producer, which is done with the batch, or will send it again, or can't go on."""

    response: ProduceResponse

    @classmethod
    def candidates(cls, machine: IdempotenceRules, state: State) -> Iterable[Self]:
        return [cls(response) for response in state.responses]

    def guard(self, machine: IdempotenceRules, state: State) -> str:
        return "" if self.response in state.responses else f"no such response is on its way: {self.response}"

    def effect(self, machine: IdempotenceRules, state: State) -> State:
        request, number = self.response.request, self.response.request.batch.producer
        state = evolve(state, responses=without_first(state.responses, self.response))
        producer = state.producers[number]
        flight = awaiting(producer.in_flight, request)
        if flight is None:
            return state
        after = self._taken(machine, producer, flight)
        if self.response.error is Error.NOT_LEADER_OR_FOLLOWER:
            after = evolve(after, leader=state.leader)
        return state.with_producer(number, after)

    def _taken(self, machine: IdempotenceRules, producer: Producer, flight: InFlight) -> Producer:
        error = self.response.error
        if error is Error.OK:
            return evolve(producer, in_flight=completed(producer.in_flight, flight))
        temporary = error is Error.NOT_LEADER_OR_FOLLOWER or (
            error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER and machine.refusal_is_temporary(flight)
        )
        if temporary:
            return evolve(producer, in_flight=refused(producer.in_flight, flight))
        return evolve(producer, desynchronised=True)
