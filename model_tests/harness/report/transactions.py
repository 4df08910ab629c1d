"""A transaction's life as the steps of a sequence diagram: producers, coordinators, and partitions with their readers.

Each partition has its log with its markers, the high watermark, the last stable offset, and what a reader of either
isolation level sees. A request, what it does and its response are one step; so a dashed arrow is a copy that may arrive
later, and a solid one whose label says *late* is where it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from tidegauge.model_tests.harness.report.model import Arrow, PartyView, Passage, Step
from tidegauge.model_tests.harness.report.replication import Numbering, detail
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.traces import Trace
from tidegauge.spec.transactions.coordinating import ReceiveAdd, ReceiveEnd, ReceiveInit
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.partitioning import Append, Verify, WriteMarker
from tidegauge.spec.transactions.producing import Delay
from tidegauge.spec.transactions.state import (
    NONE,
    AddRequest,
    Coordination,
    Decision,
    EndRequest,
    InitRequest,
    Marker,
    MarkerRequest,
    Metadata,
    Partition,
    Producer,
    ProduceRequest,
    Record,
    State,
)

Message: TypeAlias = InitRequest | AddRequest | ProduceRequest | EndRequest | MarkerRequest
RULES: Final = Transactions()
"""By which it is said where read_committed ends and what it returns: those of the machine without a bug."""
Receiving: TypeAlias = ReceiveInit | ReceiveAdd | ReceiveEnd | Verify | Append | WriteMarker


def producer_lane(number: int) -> str:
    return f"producer {number}"


def coordinator_lane(transactional_id: int) -> str:
    return f"coordinator of id {transactional_id}"


def partition_lane(number: int) -> str:
    return f"partition {number}"


def steps(trace: Trace[State]) -> tuple[Step, ...]:
    """The initial state, then each action with the requests that moved and how everything stands after it."""
    numbers: Numbering[Message] = Numbering()
    rest = (
        Step(action.name, detail(action, Message), (), None, None, tuple(arrows(numbers, before, action)), views(after))
        for before, action, after in trace.transitions()
    )
    return (Step("initial state", "", (), parties=views(trace.initial)), *rest)


def views(state: State) -> tuple[PartyView, ...]:
    """Every lane."""
    return (
        *(PartyView(producer_lane(n), dict(of_producer(one, state))) for n, one in enumerate(state.producers)),
        *(PartyView(coordinator_lane(n), dict(of_coordinator(one))) for n, one in enumerate(state.coordination)),
        *(PartyView(partition_lane(n), dict(of_partition(one))) for n, one in enumerate(state.partitions)),
    )


def of_producer(producer: Producer, state: State) -> Iterator[tuple[str, str]]:
    yield "is", producer.phase.name.lower().replace("_", " ")
    if producer.producer_id != NONE:
        yield "id, epoch", f"{producer.producer_id}, {producer.epoch}"
    if producer.transaction != NONE:
        one = state.transactions[producer.transaction]
        yield "in", f"T{producer.transaction}"
        yield "asked for", word(one.asked)
        yield "was told", word(one.told)


def of_coordinator(one: Coordination) -> Iterator[tuple[str, str]]:
    """The record in the log is the truth; what is loaded of it loses partitions as they have their marker."""
    yield "state", status(one.logged)
    known = one.logged.producer_id != NONE
    yield "id, epoch", f"{one.logged.producer_id}, {one.logged.epoch}" if known else "none"
    if one.cached is None:
        yield "loaded", "no"
    elif one.cached.partitions:
        waits = one.cached.decision is not Decision.NONE
        yield "markers to come in" if waits else "partitions", ", ".join(map(str, one.cached.partitions))
    if one.pending is not None:
        yield "not committed yet", status(one.pending.metadata)


def of_partition(partition: Partition) -> Iterator[tuple[str, str]]:
    stable = RULES.last_stable_offset(partition)
    returned = RULES.returned(partition)
    below = [offset for offset, one in enumerate(partition.log[: partition.high_watermark]) if isinstance(one, Record)]
    yield "log", ", ".join(f"{offset}: {entry(one)}" for offset, one in enumerate(partition.log)) or "empty"
    yield "HW", str(partition.high_watermark)
    yield "LSO", str(stable)
    yield "read_committed", offsets(returned)
    yield "read_uncommitted", offsets(tuple(below))


def entry(one: Record | Marker) -> str:
    if isinstance(one, Record):
        return f"T{one.transaction}"
    return f"{word(one.decision)} of {one.producer_id}, epoch {one.epoch}"


def offsets(seen: tuple[int, ...]) -> str:
    """The records that a reader gets."""
    return ", ".join(map(str, seen)) or "nothing"


def status(metadata: Metadata) -> str:
    return metadata.status.name.lower().replace("_", " ")


def word(decision: Decision) -> str:
    return "nothing" if decision is Decision.NONE else decision.name.lower()


# --- requests --------------------------------------------------------------------------------------------------------


def arrows(numbers: Numbering[Message], before: State, action: Action) -> Iterator[Arrow]:
    if isinstance(action, Delay):
        yield passing(before, action, action.request, Passage.SENT, numbers.sent(action.request))
    elif isinstance(action, Receiving):
        request = action.request
        yield passing(before, action, request, Passage.DELIVERED, numbers.of(request) if late(action) else None)


def passing(state: State, action: Action, request: Message, passage: Passage, number: int | None) -> Arrow:
    again = "late: " if late(action) else ""
    if isinstance(request, MarkerRequest):
        label = f"{again}{word(request.decision)} marker, epoch {request.epoch}"
        source, target = coordinator_lane(request.transactional_id), partition_lane(request.partition)
        return Arrow(source, target, label, passage, number)
    coordinator = coordinator_lane(request.producer * len(state.coordination) // len(state.producers))
    sender = producer_lane(request.producer)
    if isinstance(request, ProduceRequest):
        partition, label = partition_lane(request.partition), f"{again}T{request.transaction}, epoch {request.epoch}"
        if isinstance(action, Verify):
            return Arrow(partition, coordinator, f"may it begin? {label}", passage, number)
        return Arrow(sender, partition, f"produce {label}", passage, number)
    return Arrow(sender, coordinator, again + asked(request), passage, number)


def asked(request: InitRequest | AddRequest | EndRequest) -> str:
    """A client's request to its coordinator."""
    match request:
        case InitRequest():
            return "InitProducerId" + ("" if request.epoch == NONE else f", epoch {request.epoch}")
        case AddRequest():
            return f"add partition {request.partition}, epoch {request.epoch}"
        case EndRequest():
            return f"{word(request.decision)} T{request.transaction}, epoch {request.epoch}"


def late(action: Action) -> bool:
    """Whether it is a copy that arrives."""
    return bool(getattr(action, "late", False))
