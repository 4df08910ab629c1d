"""What an action of the idempotence machine is, and what several of them share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import attrs

from tidegauge.spec.idempotence.state import ProduceRequest, ProduceResponse, State
from tidegauge.spec.kernel.machine import Action

if TYPE_CHECKING:
    from tidegauge.spec.idempotence.machine import Idempotence as Machine


@attrs.frozen
class IdempotenceAction(Action):
    """An action of the machine: one guard, one effect."""

    @classmethod
    def candidates(cls, machine: Machine, state: State) -> Iterable[IdempotenceAction]:
        """Those worth asking the guard about, in an order that depends on the state alone."""
        raise NotImplementedError(cls.__name__)

    def guard(self, machine: Machine, state: State) -> str:
        """What forbids the action now; empty when it may happen."""
        raise NotImplementedError(self.name)

    def effect(self, machine: Machine, state: State) -> State:
        """The state after it."""
        raise NotImplementedError(self.name)


def sent(machine: Machine, state: State, request: ProduceRequest) -> State:
    """A request is on its way; in the order of sending where requests do not overtake each other."""
    requests = (*state.requests, request)
    return attrs.evolve(state, requests=tuple(sorted(requests)) if machine.reordering else requests)


def with_response(state: State, response: ProduceResponse) -> State:
    """The state with a response in flight, if a request still waits for it."""
    request = response.request
    producer = state.producers[request.batch.producer]
    awaited = any(
        (f.batch, f.attempt, f.sent_to) == (request.batch, request.attempt, request.broker) for f in producer.in_flight
    )
    if not awaited or response in state.responses:
        return state
    return attrs.evolve(state, responses=tuple(sorted((*state.responses, response))))
