"""What an action of the transactions machine is, and what several of them share: records written, responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

import attrs

from tidegauge.spec.kernel.bounds import times
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import EnumeratedAction, Refusal
from tidegauge.spec.transactions.coordinator_rules import Ruling
from tidegauge.spec.transactions.rules import TransactionRules
from tidegauge.spec.transactions.state import (
    NONE,
    PREPARED,
    RETRIABLE,
    AddRequest,
    EndRequest,
    Error,
    InitRequest,
    Marker,
    MarkerRequest,
    Metadata,
    Partition,
    Pending,
    Phase,
    ProduceRequest,
    Record,
    State,
    Status,
    with_one,
)

CLOCK: Final = "TurnClockBack"
"""The perturbation that sets the coordinator's clock back."""
Waiting = InitRequest | AddRequest | ProduceRequest | EndRequest


@attrs.frozen
class TransactionAction(EnumeratedAction[TransactionRules, State]):
    """An action of the machine: one guard, one effect."""


@attrs.frozen
class ClientAction(TransactionAction):
    """What a client chooses to do."""

    fair: ClassVar[bool] = False


def refused(error: Error, *, late: bool) -> str:
    """Why a request has no effect at all: it is to be sent again, or nobody waits for the error."""
    if error in RETRIABLE or (late and error is not Error.NONE):
        return Refusal(f"the request is refused: {error.name}", error)
    return ""


def unavailable(state: State, transactional_id: int, *, pending: bool = True) -> Error:
    """Why the coordinator looks at no request of the id now."""
    one = state.coordination[transactional_id]
    if one.cached is None:
        return Error.COORDINATOR_LOAD_IN_PROGRESS
    return Error.CONCURRENT_TRANSACTIONS if pending and one.pending is not None else Error.NONE


# --- the coordinator's log -----------------------------------------------------------------------------------------


def written(
    machine: TransactionRules, state: State, transactional_id: int, metadata: Metadata, waiting: Waiting | None = None
) -> State:
    """The coordinator has appended a record; it is committed at once where nothing may come between."""
    given = state.producer_ids
    if given in (metadata.producer_id, metadata.next_producer_id):
        state = evolve(state, producer_ids=given + 1)
    one = state.coordination[transactional_id]
    assert one.cached is not None, "it writes of what it has loaded"
    metadata = evolve(metadata, started=started(one.cached, metadata, times(state.spent, CLOCK)))
    state = state.with_coordination(transactional_id, evolve(one, pending=Pending(metadata, waiting)))
    return state if machine.writes_in_two_steps else committed(machine, state, transactional_id)


def started(before: Metadata, after: Metadata, clock: int) -> int:
    """By which clock the transaction of a record began; NONE for a producer that has had none."""
    if after.status is Status.EMPTY:
        return NONE
    is_the_same = before.status is Status.ONGOING or after.status not in (Status.ONGOING, *PREPARED)
    return before.started if is_the_same else clock


def committed(machine: TransactionRules, state: State, transactional_id: int) -> State:
    """The coordinator's record is committed: it is the truth now, and who waited for it is told."""
    pending, known = state.coordination[transactional_id].pending, state.coordination[transactional_id].cached
    assert pending is not None, "nothing is pending"
    assert known is not None, "what is pending is its own"
    state = logged(machine, state, transactional_id, pending.metadata)
    if not machine.takes_in(known, pending.metadata):
        return state
    one = evolve(state.coordination[transactional_id], cached=pending.metadata, pending=None)
    state = state.with_coordination(transactional_id, one)
    return state if pending.waiting is None else succeeded(machine, state, pending.waiting, pending.metadata)


def logged(machine: TransactionRules, state: State, transactional_id: int, metadata: Metadata) -> State:
    """The transaction log with one more record; a prepare record decides."""
    one = evolve(state.coordination[transactional_id], logged=machine.in_log(metadata))
    state = state.with_coordination(transactional_id, one)
    if metadata.status in PREPARED:
        for number in metadata.transactions:
            state = state.with_fact(number, "outcome", metadata.decision)
    return state


def ruled(
    machine: TransactionRules, state: State, transactional_id: int, ruling: Ruling, request: Waiting, *, late: bool
) -> State:
    """The state after the coordinator's ruling on a request; a late one is carried out and nobody is told.

    One that is late and refused for good changes nothing: its guard has said so (`refused`).
    """
    error = ruling.error
    if error is not Error.NONE:
        if ruling.metadata is not None:
            state = written(machine, state, transactional_id, ruling.metadata)
        return state if error in RETRIABLE else failed(machine, state, request.producer, error)
    waiting = None if late and not isinstance(request, ProduceRequest) else request
    if ruling.metadata is not None:
        return written(machine, state, transactional_id, ruling.metadata, waiting)
    cached = state.coordination[transactional_id].cached
    assert cached is not None, "it rules on what it has loaded"
    return state if waiting is None else succeeded(machine, state, waiting, cached)


# --- responses -----------------------------------------------------------------------------------------------------


def failed(machine: TransactionRules, state: State, number: int, error: Error) -> State:
    """A producer is told that it can't go on."""
    return state.with_producer(number, machine.stopped(state.producers[number], Phase.FENCED))


def succeeded(machine: TransactionRules, state: State, request: Waiting, metadata: Metadata) -> State:
    """What a response without an error does, if its request is still waited for."""
    number = request.producer
    producer = state.producers[number]
    match request:
        case InitRequest():
            if machine.init_request(state, number) != request:
                return state
            if metadata.status is Status.ONGOING:
                found = state.transactions[metadata.transactions[0]]
                return state.with_producer(number, machine.taken_over(producer, metadata, found))
            begun = machine.initialised(producer, metadata.producer_id, metadata.epoch)
            return state.with_producer(number, begun)
        case AddRequest(partition=partition):
            if machine.add_request(state, number, partition) != request:
                return state
            slot = evolve(producer.slots[partition], added=True)
            return state.with_producer(number, producer.with_slot(partition, slot))
        case ProduceRequest(partition=partition, producer_id=producer_id, epoch=epoch):
            leader = state.partitions[partition]
            verified = with_one(leader.verified, (producer_id, epoch))
            return state.with_partition(partition, evolve(leader, verified=verified))
        case EndRequest(transaction=transaction, decision=decision):
            if machine.end_request(state, number) != request:
                return state
            state = state.with_fact(transaction, "told", decision)
            after = evolve(machine.after_end(producer, metadata), position=machine.position_after(producer, decision))
            return state.with_producer(number, after)


def given_up(machine: TransactionRules, state: State, request: ProduceRequest) -> State:
    """A producer is told that a record won't be taken: its transaction can only be aborted."""
    producer = state.producers[request.producer]
    slot = evolve(producer.slots[request.partition], in_flight=False, given_up=True, appended=NONE)
    return state.with_producer(request.producer, producer.with_slot(request.partition, slot))


# --- partitions ----------------------------------------------------------------------------------------------------


def appended(machine: TransactionRules, state: State, number: int, entry: Record | Marker) -> State:
    """A partition's leader has appended; it is committed at once where nothing may come between."""
    partition = state.partitions[number]
    offset = len(partition.log)
    if isinstance(entry, Record):
        memory = machine.with_record(partition.memory, entry, offset)
    else:
        memory = machine.with_marker(partition.memory, entry, offset)
    partition = Partition(
        (*partition.log, entry),
        partition.high_watermark,
        memory,
        machine.verified_after(partition, entry.producer_id),
    )
    state = state.with_partition(number, partition)
    return state if machine.appends_in_two_steps else replicated(machine, state, number)


def replicated(machine: TransactionRules, state: State, number: int) -> State:
    """A partition's log is committed to its end. Coordinators are told of their markers; records are told of apart."""
    partition = state.partitions[number]
    end = len(partition.log)
    new = partition.log[partition.high_watermark :]
    memory = machine.replicated(partition.memory, end)
    state = state.with_partition(number, evolve(partition, high_watermark=end, memory=memory))
    for entry in new:
        if isinstance(entry, Marker):
            state = marked(machine, state, number, entry)
    return state


def acknowledged(machine: TransactionRules, state: State, request: ProduceRequest) -> State:
    """The producer that waits for a record is told that it is in the log."""
    producer = state.producers[request.producer]
    slot = producer.slots[request.partition]
    slot = evolve(slot, in_flight=False, acknowledged=slot.acknowledged + 1, appended=NONE)
    return state.with_producer(request.producer, producer.with_slot(request.partition, slot))


def marked(machine: TransactionRules, state: State, partition: int, marker: Marker) -> State:
    """The coordinator that wrote a marker is told that it is in the log, if it still is the coordinator."""
    if marker.coordinator_epoch != state.coordinator_epoch:
        return state
    for number, one in enumerate(state.coordination):
        if one.cached is None or partition not in machine.unmarked(one.cached):
            continue
        request = MarkerRequest(
            number,
            partition,
            marker.producer_id,
            marker.epoch,
            marker.coordinator_epoch,
            marker.decision,
            marker.version,
        )
        after = machine.acknowledged(one.cached, request)
        if after != one.cached:
            is_missed = machine.completed(after) is not None and not machine.notices_the_last_marker(state)
            state = state.with_coordination(number, evolve(one, cached=after, unattended=is_missed))
    return state


# --- requests that are late ----------------------------------------------------------------------------------------


def own_produces(machine: TransactionRules, state: State) -> Iterator[ProduceRequest]:
    """The records that producers wait for."""
    for number in range(machine.producers):
        for partition in range(machine.partitions):
            request = machine.produce_request(state, number, partition)
            if request is not None:
                yield request


def own_markers(machine: TransactionRules, state: State) -> Iterator[MarkerRequest]:
    """The markers that the coordinator has to write."""
    for number, one in enumerate(state.coordination):
        if one.cached is not None and one.pending is None:
            for partition in machine.unmarked(one.cached):
                yield machine.marker(one.cached, number, partition, state.coordinator_epoch)
