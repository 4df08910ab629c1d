"""A trace of the idempotence spec as the steps of a sequence diagram: producers on the left, brokers on the right."""

from __future__ import annotations

from collections.abc import Iterator

from tidegauge.model_tests.harness.report.diagram import CLIENT, broker_lane
from tidegauge.model_tests.harness.report.model import (
    Arrow,
    ClientView,
    ControllerView,
    Passage,
    Record,
    ReplicaView,
    Step,
)
from tidegauge.model_tests.harness.report.replication import Numbering, detail
from tidegauge.spec.idempotence.state import COMPLETED, NONE, Batch, InFlight, ProduceRequest, ProduceResponse, State
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.traces import Trace

Message = ProduceRequest | ProduceResponse
STANDING = {NONE: "to be sent again", COMPLETED: "completed"}


def steps(trace: Trace[State]) -> tuple[Step, ...]:
    """The initial state, then each action with the messages that moved and how everything stands after it."""
    numbers: Numbering[Message] = Numbering()
    rest = (
        view(action.name, detail(action, Message), after, tuple(arrows(numbers, before, action, after)))
        for before, action, after in trace.transitions()
    )
    return (view("initial state", "", trace.initial, ()), *rest)


def view(action: str, told: str, state: State, moved: tuple[Arrow, ...]) -> Step:
    replicas = tuple(replica_view(broker, state) for broker in range(len(state.replicas)))
    controller = ControllerView(state.leader, state.leader_epoch, NONE, state.in_sync)
    return Step(action, told, replicas, controller, ClientView(dict(in_flight(state))), moved)


def replica_view(broker: int, state: State) -> ReplicaView:
    """One box a record; what brokers know of producers is among the values of a violated invariant."""
    replica = state.replicas[broker]
    leads = state.leader == broker
    return ReplicaView(
        broker=broker,
        role="leader" if leads else f"follower of {state.leader}",
        log=tuple(
            Record(logged.leader_epoch, f"p{logged.batch.producer} r{logged.batch.first + nth}")
            for logged in replica.log
            for nth in range(logged.batch.count)
        ),
        high_watermark=replica.high_watermark,
        leader_epoch=state.leader_epoch,
        isr=state.in_sync if leads else None,
    )


def in_flight(state: State) -> Iterator[tuple[str, str]]:
    for producer in state.producers:
        for flight in producer.in_flight:
            yield words(flight.batch), standing(flight)
    for promised in state.acknowledged:
        yield words(promised.batch), f"acknowledged at offset {promised.base_offset}"


def standing(flight: InFlight) -> str:
    return STANDING.get(flight.sent_to, f"sent to broker {flight.sent_to}, attempt {flight.attempt + 1}")


def words(batch: Batch) -> str:
    last = "" if batch.count == 1 else f" to {batch.first + batch.count - 1}"
    numbered = "" if batch.sequence == NONE else f" (epoch {batch.epoch}, sequence {batch.sequence})"
    return f"p{batch.producer} r{batch.first}{last}{numbered}"


def arrows(numbers: Numbering[Message], before: State, action: Action, after: State) -> Iterator[Arrow]:
    old: tuple[Message, ...] = (*before.requests, *before.responses)
    new: tuple[Message, ...] = (*after.requests, *after.responses)
    arrived = getattr(action, "request", None) or getattr(action, "response", None)
    for message in old:
        if message == arrived:
            yield passing(message, Passage.DELIVERED, numbers.of(message))
        elif message not in new:
            yield passing(message, Passage.LOST, numbers.of(message))
    for message in new:
        if message not in old:
            yield passing(message, Passage.SENT, numbers.sent(message))


def passing(message: Message, passage: Passage, number: int | None) -> Arrow:
    if isinstance(message, ProduceRequest):
        return Arrow(CLIENT, broker_lane(message.broker), f"produce {words(message.batch)}", passage, number)
    again = ", as before" if message.repeated else ""
    told = message.error.name if message.error else f"at offset {message.base_offset}{again}"
    label = f"{words(message.request.batch)}: {told}"
    return Arrow(broker_lane(message.request.broker), CLIENT, label, passage, number)
