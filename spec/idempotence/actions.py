"""What an action of the idempotence machine is, and what several of them share."""

from __future__ import annotations

import attrs

from tidegauge.spec.idempotence.rules import IdempotenceRules
from tidegauge.spec.idempotence.state import ProduceRequest, ProduceResponse, State
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import EnumeratedAction


@attrs.frozen
class IdempotenceAction(EnumeratedAction[IdempotenceRules, State]):
    """An action of the machine: one guard, one effect."""


def sent(machine: IdempotenceRules, state: State, request: ProduceRequest) -> State:
    """A request is on its way; in the order of sending where requests do not overtake each other."""
    requests = (*state.requests, request)
    return evolve(state, requests=tuple(sorted(requests)) if machine.reordering else requests)


def with_response(state: State, response: ProduceResponse) -> State:
    """The state with a response in flight, if a request still waits for it."""
    request = response.request
    producer = state.producers[request.batch.producer]
    awaited = any(
        (f.batch, f.attempt, f.sent_to) == (request.batch, request.attempt, request.broker) for f in producer.in_flight
    )
    if not awaited or response in state.responses:
        return state
    return evolve(state, responses=tuple(sorted((*state.responses, response))))
