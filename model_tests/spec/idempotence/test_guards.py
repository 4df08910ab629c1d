"""An action of the idempotence machine that may not happen says why."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.idempotence.partition import Crash, DeleteRecords, Elect, Expire, Fetch, ReceiveProduce
from tidegauge.spec.idempotence.producer import (
    GiveUp,
    LoseConnection,
    ReceiveProduceResponse,
    RefreshMetadata,
    Retry,
    Send,
)
from tidegauge.spec.idempotence.state import NONE, Batch, ProduceRequest, ProduceResponse, State
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.machine import Action, NotEnabled

REQUEST = ProduceRequest(Batch(0, 0, 0, 0, 1), 0, 0)
EVERYTHING = Bounds(dict.fromkeys(Idempotence().perturbations, 3))
MACHINE = Idempotence(bounds=EVERYTHING, segments=True)


def initial(machine: Idempotence = MACHINE) -> State:
    return next(iter(machine.initial()))


@pytest.mark.parametrize(
    ("action", "why"),
    [
        (Send(0, 2), "no 2 records are left in this model"),
        (Retry(0, 0), "batch 0 of producer 0 is not to be sent again"),
        (LoseConnection(0, 1), "producer 0 waits for nothing from broker 1"),
        (RefreshMetadata(0), "producer 0 knows that broker 0 leads"),
        (GiveUp(0), "producer 0 has nothing in flight"),
        (ReceiveProduce(REQUEST), r"no such request is on its way: ProduceRequest\("),
        (ReceiveProduceResponse(ProduceResponse(REQUEST)), r"no such response is on its way: ProduceResponse\("),
        (Fetch(0), "broker 0 leads"),
        (Elect(0), "broker 0 leads, or is not in sync"),
        (DeleteRecords(0, 1), r"\[0, 0\) does not reach to offset 1"),
    ],
)
def test_an_action_that_may_not_happen_says_why(action: Action, why: str) -> None:
    with pytest.raises(NotEnabled, match=why):
        MACHINE.step(initial(), action)


@pytest.mark.parametrize(
    ("action", "why"),
    [
        (LoseConnection(0, 0), "no more connections are lost in this model"),
        (GiveUp(0), "no more producers give up in this model"),
        (ReceiveProduce(REQUEST, duplicate=True), "no more duplicates in this model"),
        (Elect(1), "no more elections in this model"),
        (Crash(0, 0), "no more crashes in this model"),
        (DeleteRecords(0, 1), "no more records are deleted in this model"),
        (Expire(0, 0), "no more producers expire in this model"),
    ],
)
def test_what_the_bounds_rule_out_does_not_happen(action: Action, why: str) -> None:
    machine = Idempotence(bounds=Bounds())
    with pytest.raises(NotEnabled, match=why):
        machine.step(machine.step(initial(machine), Send(0)), action)


def test_a_producer_that_can_not_go_on_neither_sends_nor_repeats() -> None:
    state = MACHINE.step(initial(), Send(0))
    producer = state.producers[0]
    waiting = attrs.evolve(producer.in_flight[0], sent_to=NONE)
    state = state.with_producer(0, attrs.evolve(producer, in_flight=(waiting,), desynchronised=True))
    for action in (Send(0), Retry(0, 0)):
        with pytest.raises(NotEnabled, match="producer 0 can't go on"):
            MACHINE.step(state, action)


def test_a_response_that_nobody_waits_for_changes_nothing() -> None:
    state = initial()
    late = attrs.evolve(state, responses=(ProduceResponse(REQUEST, base_offset=0),))
    assert MACHINE.step(late, ReceiveProduceResponse(late.responses[0])) == state


def test_records_are_deleted_between_batches_that_every_replica_has() -> None:
    machine = Idempotence(brokers=2, bounds=EVERYTHING, batch_sizes=(2, 1))
    state = initial(machine)
    for count in (2, 1):
        state = machine.step(state, Send(0, count))
        state = machine.step(state, ReceiveProduce(state.requests[0]))
    with pytest.raises(NotEnabled, match=r"\[0, 0\) does not reach to offset 2"):
        machine.step(state, DeleteRecords(0, 2))
    for _ in range(4):
        state = machine.step(state, Fetch(1))
    with pytest.raises(NotEnabled, match="no batch ends there"):
        machine.step(state, DeleteRecords(0, 1))
    with pytest.raises(NotEnabled, match="would be left with nothing to compare"):
        machine.step(state, DeleteRecords(0, 3))
    deleted = machine.step(state, DeleteRecords(0, 2))
    assert deleted.replicas[0].log_start == 2
    assert deleted.replicas[0].producers == state.replicas[0].producers


def test_a_request_that_arrives_again_before_it_is_committed_waits_once() -> None:
    state = MACHINE.step(initial(), Send(0))
    (request,) = state.requests
    for _ in range(2):
        state = MACHINE.step(state, ReceiveProduce(request, duplicate=True))
    waiting = state.replicas[0].waiting
    assert [one.repeated for one in waiting] == [False, True]
    state = MACHINE.step(state, ReceiveProduce(request))
    assert state.replicas[0].waiting == waiting
    assert len(state.replicas[0].log) == 1
