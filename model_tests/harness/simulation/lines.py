"""Lines of idempotent producers, each in step with one of `spec.idempotence`, and where their records come to lie.

What a line decides (send, send again, take a response, give up) is the specification's action. Before it the action
must be enabled, after it line and specification must be equal: what does not hold is told once, as a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.sequencing import InFlightBatch, Sequencing
from tidegauge.spec.idempotence import producer as producing
from tidegauge.spec.idempotence.actions import IdempotenceAction
from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.idempotence.state import (
    Error,
    InFlight,
    Producer,
    ProduceRequest,
    ProduceResponse,
    State,
)
from tidegauge.spec.kernel.bounds import UNBOUNDED
from tidegauge.spec.kernel.evolving import evolve

MOST_RECORDS = 3
"""In a batch."""
RETAINED = 5
TOLD: dict[ErrorCode, Error] = {
    ErrorCode.none: Error.OK,
    ErrorCode.out_of_order_sequence_number: Error.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.invalid_producer_epoch: Error.INVALID_PRODUCER_EPOCH,
}
"""What a response means to a line; after any other, and after none, the batch is to be sent again."""


@attrs.define
class Lines:
    """All lines of a run, and what was found of them."""

    sequencing: type[Sequencing]
    """Whose rules they follow."""
    sequences: int
    """What they count modulo."""
    findings: list[str] = attrs.field(factory=list)
    sent: dict[str, list[int]] = attrs.field(factory=dict)
    """The values that each line was given, in their order."""
    begun_again: int = 0
    """How often a line was given up for a new epoch."""

    def line(self, name: str, max_in_flight: int) -> Sequencing:
        """A new line; `name` says whose it is."""
        fields: dict[str, Any] = {"lines": self, "name": name, "sequences": self.sequences}
        watched: type[InStep] = type("Watched", (InStep, self.sequencing), fields)
        return watched(max_in_flight)

    def maker(self, name: str) -> Callable[[int], Sequencing]:
        """What makes the lines of one producer, the next when its id is used up."""
        return lambda max_in_flight: self.line(name, max_in_flight)


def out_of_order(sent: Mapping[str, Sequence[int]], log: Sequence[int]) -> Iterator[str]:
    """Lines whose records are in a partition twice, or not in the order in which they were given.

    Some may be missing: not acknowledged, deleted, or lost in an unclean election.
    """
    places: dict[int, list[int]] = {}
    for place, value in enumerate(log):
        places.setdefault(value, []).append(place)
    for name, values in sent.items():
        found = [place for value in values for place in places.get(value, ())]
        if twice := [value for value in values if len(places.get(value, ())) > 1]:
            yield f"{name}: the log has {twice[0]} {len(places[twice[0]])} times"
        elif found != sorted(found):
            yield f"{name}: the log has {[log[place] for place in sorted(found)]} of what was sent as {values}"


class InStep(Sequencing):
    """A line that is watched; combined with the class whose rules it follows."""

    lines: ClassVar[Lines]
    name: ClassVar[str]

    def __init__(self, max_in_flight: int) -> None:
        super().__init__(max_in_flight)
        self._machine = Idempotence(
            sequences=self.sequences,
            max_in_flight=max_in_flight,
            max_records=UNBOUNDED,
            max_attempts=UNBOUNDED,
            batch_sizes=tuple(range(1, MOST_RECORDS + 1)),
        )
        self._expected = Producer()
        self._is_followed = True

    def send(self, count: int, leader: int) -> InFlightBatch:
        self._follow(producing.Send(0, count), leader)
        batch = super().send(count, leader)
        self._compare()
        return batch

    def retry(self, batch: InFlightBatch, leader: int) -> None:
        self._follow(producing.Retry(0, self.line.index(batch)), leader)
        super().retry(batch, leader)
        self._compare()

    def complete(self, batch: InFlightBatch, attempt: int, error: ErrorCode) -> bool:
        waits = batch in self.line and batch.sent_to >= 0
        if self._is_followed and waits:
            flight = self._expected.in_flight[self.line.index(batch)]
            told = TOLD.get(error, Error.NOT_LEADER_OR_FOLLOWER)
            response = ProduceResponse(ProduceRequest(flight.batch, flight.sent_to, attempt), told)
            self._follow(producing.ReceiveProduceResponse(response), self._expected.leader, response)
        try:
            return super().complete(batch, attempt, error)
        finally:
            self._compare()

    def give_up(self) -> None:
        self.lines.begun_again += 1
        super().give_up()
        if self._is_followed:
            after = producing.GiveUp(0).effect(self._machine, self._state(self._expected.leader)).producers[0]
            self._expected = evolve(after, desynchronised=False)
            self._compare()

    def _state(self, leader: int, *responses: ProduceResponse) -> State:
        """The producer alone with what it knows; brokers are the trace's matter."""
        return State((evolve(self._expected, leader=leader),), (), leader, 0, (), responses=responses)

    def _follow(self, action: IdempotenceAction, leader: int, *responses: ProduceResponse) -> None:
        """Take the specification's action, with the leader that the producer knows."""
        if self._is_followed:
            state = self._state(leader, *responses)
            if refused := action.guard(self._machine, state):
                self._tell(f"does {action}, which the specification forbids: {refused}")
            else:
                self._expected = action.effect(self._machine, state).producers[0]

    def _compare(self) -> None:
        if not self._is_followed:
            return
        flights = tuple((b.epoch, b.base_sequence, b.count, b.attempt, b.sent_to, b.behind) for b in self.line)
        found = self.epoch, self.next_sequence, flights, self.desynchronised
        wanted = self._expected
        expected = wanted.epoch, wanted.next_sequence, tuple(map(_flight, wanted.in_flight)), wanted.desynchronised
        if found != expected:
            self._tell(f"is at {found}, the specification's producer at {expected}")

    def _tell(self, what: str) -> None:
        self._is_followed = False
        self.lines.findings.append(f"{self.name} {what}")


def _flight(flight: InFlight) -> tuple[object, ...]:
    batch = flight.batch
    return batch.epoch, batch.sequence, batch.count, flight.attempt, flight.sent_to, flight.behind
