"""What an action of the idempotence machine is, and what several of them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final, TypeVar

import attrs

from tidegauge.spec.idempotence.rules import IdempotenceRules
from tidegauge.spec.idempotence.state import InFlight, ProduceRequest, ProduceResponse, State
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import EnumeratedAction
from tidegauge.spec.kernel.piecemeal import one_at_a_time, question

M = TypeVar("M")

_BATCH = ("batch.producer", "batch.epoch", "batch.sequence", "batch.first", "batch.count")
_REQUEST = (*_BATCH, "broker", "attempt")
_FIELDS: Final[Mapping[type[object], Callable[[object], Any]]] = {
    ProduceRequest: attrgetter(*_REQUEST),
    ProduceResponse: attrgetter(*(f"request.{name}" for name in _REQUEST), "error", "base_offset", "repeated"),
}
"""What messages are in the order of: they compare without `__lt__` of attrs, which takes ten times as long."""


@attrs.frozen
class IdempotenceAction(EnumeratedAction[IdempotenceRules, State]):
    """An action of the machine: one guard, one effect."""


def sent(machine: IdempotenceRules, state: State, request: ProduceRequest) -> State:
    """A request is on its way; in the order of sending where requests do not overtake each other."""
    change = with_one if machine.reordering else with_last
    return evolve(state, requests=change(state.requests, request))


def with_response(state: State, response: ProduceResponse) -> State:
    """The state with a response in flight, if a request still waits for it."""
    request = response.request
    if not is_awaited(state.producers[request.batch.producer].in_flight, request) or response in state.responses:
        return state
    return evolve(state, responses=with_one(state.responses, response))


@question
def is_awaited(in_flight: tuple[InFlight, ...], request: ProduceRequest) -> bool:
    """Whether the producer waits for the response to this attempt."""
    return awaiting(in_flight, request) is not None


@question
def awaiting(in_flight: tuple[InFlight, ...], request: ProduceRequest) -> InFlight | None:
    """The batch in line that waits for the response to this attempt."""
    sought = (request.batch, request.attempt, request.broker)
    return next((f for f in in_flight if (f.batch, f.attempt, f.sent_to) == sought), None)


@one_at_a_time
def with_one(values: tuple[M, ...], value: M) -> tuple[M, ...]:
    """The values, which are in order, with one more."""
    return tuple(sorted((*values, value), key=_FIELDS[type(value)]))


@one_at_a_time
def with_last(values: tuple[M, ...], value: M) -> tuple[M, ...]:
    """The values with one more behind them."""
    return (*values, value)


@one_at_a_time
def without_first(values: tuple[M, ...], value: M) -> tuple[M, ...]:
    """The values without the first that equals this one."""
    place = values.index(value)
    return values[:place] + values[place + 1 :]
