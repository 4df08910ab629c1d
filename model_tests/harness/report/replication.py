"""A trace of the replication spec as the steps of a sequence diagram.

The spec's states hold the messages that are on their way; a message that shows up between two states was sent in that
step, one that an action names was delivered, and one that is gone without was lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Generic, TypeVar

import attrs

from tidegauge.model_tests.harness.report.diagram import CLIENT, CONTROLLER, broker_lane
from tidegauge.model_tests.harness.report.model import (
    Arrow,
    ClientView,
    ControllerView,
    Counterexample,
    Passage,
    Record,
    ReplicaView,
    Step,
)
from tidegauge.spec.kernel.changes import plain
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.meaning import property_meaning
from tidegauge.spec.kernel.traces import Trace, Violation
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import (
    NONE,
    Acks,
    AlterPartitionRequest,
    AlterPartitionResponse,
    Controller,
    Error,
    FetchRequest,
    FetchResponse,
    Replica,
    State,
)

Message = FetchRequest | FetchResponse | AlterPartitionRequest | AlterPartitionResponse
M = TypeVar("M")
ASKED = {Acks.ALL: "acks=all", Acks.LEADER: "acks=1", Acks.NOTHING: "acks=0"}


def counterexample(machine: Replication, violation: Violation[State], *, title: str, replay: str) -> Counterexample:
    """The violation as a figure; `replay` is the command that shows it again."""
    return Counterexample(
        title=title,
        machine=machine.name,
        invariant=violation.invariant,
        explanation=property_meaning(machine, violation.invariant),
        values={name: plain(value) for name, value in violation.values.items()},
        steps=steps(violation.trace),
        replay=replay,
    )


def steps(trace: Trace[State]) -> tuple[Step, ...]:
    """The initial state, then each action with the messages that moved and how everything stands after it."""
    numbers: Numbering[Message] = Numbering()
    first = view("initial state", "", trace.initial, ())
    rest = (
        view(action.name, detail(action), after, tuple(arrows(numbers, before, action, after)))
        for before, action, after in trace.transitions()
    )
    return (first, *rest)


class Numbering(Generic[M]):
    """A number for each message on its way, the same where it is sent and where it arrives."""

    def __init__(self) -> None:
        self.numbers: dict[M, int] = {}
        self.last = 0

    def sent(self, message: M) -> int:
        self.last += 1
        self.numbers[message] = self.last
        return self.last

    def of(self, message: M) -> int | None:
        return self.numbers.get(message)


def view(action: str, told: str, state: State, moved: tuple[Arrow, ...]) -> Step:
    replicas = tuple(replica_view(broker, replica, state.controller) for broker, replica in enumerate(state.replicas))
    return Step(action, told, replicas, controller_view(state.controller), client_view(state), moved)


def replica_view(broker: int, replica: Replica, controller: Controller) -> ReplicaView:
    leads = replica.leader == broker
    return ReplicaView(
        broker=broker,
        role=role(broker, replica, controller),
        log=tuple(Record(record.epoch, f"v{record.value}") for record in replica.log),
        high_watermark=replica.high_watermark,
        leader_epoch=replica.leader_epoch,
        isr=replica.isr if leads else None,
        pending_isr=replica.pending_isr if leads and replica.pending_isr else None,
        flushed=replica.flushed,
        broker_epoch=replica.broker_epoch,
    )


def role(broker: int, replica: Replica, controller: Controller) -> str:
    if not replica.running:
        return "down"
    if replica.leader == NONE:
        believed = "no leader known"
    elif replica.leader != broker:
        believed = f"follower of {replica.leader}"
    else:
        believed = "leader" if controller.leader_epoch == replica.leader_epoch else "leader (superseded)"
    return f"paused {believed}" if replica.paused else believed


def controller_view(controller: Controller) -> ControllerView:
    return ControllerView(
        leader=None if controller.leader == NONE else controller.leader,
        leader_epoch=controller.leader_epoch,
        partition_epoch=controller.partition_epoch,
        isr=controller.isr,
        elr=controller.elr,
        controller_epoch=controller.epoch,
        fenced=tuple(broker for broker, session in enumerate(controller.sessions) if session.fenced),
    )


def client_view(state: State) -> ClientView:
    history = state.history
    values: dict[str, str] = {}
    for value, acks in enumerate(history.acks):
        acknowledged = value in history.acknowledged
        standing = "acknowledged" if acknowledged else "waiting" if acks is Acks.ALL else "sent"
        values[f"v{value} {ASKED[acks]}"] = "declared lost" if value in history.lost else standing
    return ClientView(values)


def detail(action: Action, message: Any = Message) -> str:
    """The action's fields as text, without messages, which are arrows."""
    told = []
    for field in attrs.fields(type(action)):
        value = getattr(action, field.name)
        if not isinstance(value, message) and value is not False:
            told.append(f"{field.name.replace('_', ' ')} {plain(value)}" if value is not True else field.name)
    return ", ".join(told)


def arrows(numbers: Numbering[Message], before: State, action: Action, after: State) -> Iterator[Arrow]:
    yield from of_action(before, action, after)
    old, new = set(messages(before)), set(messages(after))
    arrived = {
        value for field in attrs.fields(type(action)) if isinstance(value := getattr(action, field.name), Message)
    }
    for message in messages(before):
        if message in arrived:
            yield passing(message, Passage.DELIVERED, numbers.of(message))
        elif message not in new:
            yield passing(message, Passage.LOST, numbers.of(message))
    for message in messages(after):
        if message not in old:
            yield passing(message, Passage.SENT, numbers.sent(message))
    for broker in newly_acknowledging(before, after):
        gained = sorted(set(after.history.acknowledged) - set(before.history.acknowledged))
        yield Arrow(broker_lane(broker), CLIENT, f"acknowledged {', '.join(f'v{value}' for value in gained)}")


def of_action(before: State, action: Action, after: State) -> Iterator[Arrow]:
    """Requests that the spec treats as one moment, so that they are never on their way in a state."""
    broker = getattr(action, "broker", NONE)
    match action.name:
        case "Append":
            value = len(before.history.acks)
            yield Arrow(CLIENT, broker_lane(broker), f"produce v{value}, {ASKED[after.history.acks[value]]}")
        case "ApplyMetadata":
            yield Arrow(CONTROLLER, broker_lane(broker), f"metadata: {metadata_label(before.controller)}")
        case "Register":
            epoch = after.controller.sessions[broker].broker_epoch
            yield Arrow(broker_lane(broker), CONTROLLER, f"register: broker epoch {epoch}")
        case "Unfence":
            yield Arrow(broker_lane(broker), CONTROLLER, "heartbeat: caught up")


def metadata_label(controller: Controller) -> str:
    leader = "no leader" if controller.leader == NONE else f"leader {controller.leader}"
    return f"{leader}, epoch {controller.leader_epoch}, ISR {ids(controller.isr)}"


def messages(state: State) -> Iterator[Message]:
    network = state.network
    return chain(network.fetches, network.fetch_responses, network.alters, network.alter_responses)


def newly_acknowledging(before: State, after: State) -> Iterator[int]:
    """The leader whose high watermark passed something that a producer waits for, if one did in this step."""
    if set(after.history.acknowledged) <= set(before.history.acknowledged):
        return
    for broker, (old, new) in enumerate(zip(before.replicas, after.replicas, strict=True)):
        if new.leader == broker and new.high_watermark > old.high_watermark:
            yield broker


def passing(message: Message, passage: Passage, number: int | None) -> Arrow:
    source, target = ends(message)
    return Arrow(source, target, label(message), passage, number)


def ends(message: Message) -> tuple[str, str]:
    match message:
        case FetchRequest():
            return broker_lane(message.follower), broker_lane(message.leader)
        case FetchResponse():
            return broker_lane(message.request.leader), broker_lane(message.request.follower)
        case AlterPartitionRequest():
            return broker_lane(message.leader), CONTROLLER
        case AlterPartitionResponse():
            return CONTROLLER, broker_lane(message.leader)


def label(message: Message) -> str:
    """A message as short as an arrow's label must be."""
    match message:
        case FetchRequest():
            return f"fetch from {message.offset}, epoch {message.leader_epoch}{last_epoch(message)}"
        case FetchResponse():
            return response_label(message)
        case AlterPartitionRequest():
            proposed = ids(tuple(broker for broker, _ in message.isr))
            return f"propose ISR {proposed} on partition epoch {message.partition_epoch}"
        case AlterPartitionResponse():
            if message.error:
                return Error(message.error).name
            return f"ISR {ids(message.isr)}, partition epoch {message.partition_epoch}"


def last_epoch(request: FetchRequest) -> str:
    return "" if request.last_fetched_epoch == NONE else f", last fetched {request.last_fetched_epoch}"


def response_label(response: FetchResponse) -> str:
    if response.error:
        return Error(response.error).name
    if response.diverging_end_offset != NONE:
        return f"diverges: epoch {response.diverging_epoch} ends at {response.diverging_end_offset}"
    records = " ".join(f"v{record.value}" for record in response.records)
    return f"{records or 'no records'}, HW {response.high_watermark}"


def ids(brokers: tuple[int, ...] | Mapping[int, object]) -> str:
    return "{" + ", ".join(map(str, brokers)) + "}"
