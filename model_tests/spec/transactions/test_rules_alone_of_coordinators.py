"""Rules of the transaction coordinator asked alone: requests, its record of an id, and what it is told of markers."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tidegauge.spec.bugs.transactions import TRANSACTION_BUGS
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.transactions.actions import committed, marked, started, succeeded
from tidegauge.spec.transactions.coordinating import ExpireTransaction, near_epochs, near_producer_ids
from tidegauge.spec.transactions.coordinator_rules import Ruling
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.state import (
    NONE,
    PREPARED,
    AddRequest,
    Coordination,
    Decision,
    EndRequest,
    Error,
    InitRequest,
    Marker,
    MarkerRequest,
    Metadata,
    Pending,
    Phase,
    Producer,
    ProduceRequest,
    Slot,
    State,
    Status,
    Transaction,
)

MACHINE = Transactions(max_epoch=5)
LAST = 4
"""The last epoch that a producer may have: it is for fencing alone."""


def initial(machine: Transactions = MACHINE) -> State:
    return next(iter(machine.initial()))


# --- InitProducerId --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "asked", "is_repeated"),
    [
        ({}, {}, True),
        ({}, {"epoch": 2}, False),
        ({"last_epoch": NONE}, {"epoch": NONE}, False),
        ({}, {"producer_id": 9}, False),
        ({"last_epoch": LAST, "previous_producer_id": 9}, {"producer_id": 9, "epoch": LAST}, True),
        ({"last_epoch": LAST, "previous_producer_id": 8}, {"producer_id": 9, "epoch": LAST}, False),
        ({"previous_producer_id": 9}, {"producer_id": 9}, False),
    ],
)
def test_an_init_is_repeated_by_the_id_and_epoch_before(
    known: dict[str, Any], asked: dict[str, Any], *, is_repeated: bool
) -> None:
    metadata = attrs.evolve(Metadata(Status.EMPTY, 7, 3, last_epoch=1, previous_producer_id=7), **known)
    request = attrs.evolve(InitRequest(0, 7, 1), **asked)
    assert MACHINE.is_init_repeated(metadata, request) is is_repeated


def test_what_was_raised_for_a_producer_is_told_it_again() -> None:
    """Where its id is another one by now, too."""
    raised = Metadata(Status.EMPTY, 7, 2, last_epoch=1, previous_producer_id=7)
    assert MACHINE.init_ruling(raised, InitRequest(0, 7, 1), 9) == Ruling()
    another = Metadata(Status.EMPTY, 9, 0, last_epoch=LAST, previous_producer_id=7)
    assert MACHINE.init_ruling(another, InitRequest(0, 7, LAST), 9) == Ruling()
    begun = MACHINE.init_ruling(raised, InitRequest(0), 9).metadata
    assert begun is not None
    assert (begun.epoch, begun.last_epoch) == (3, NONE)


@pytest.mark.parametrize(
    ("epoch", "ongoing", "ending"),
    [(2, (NONE, NONE), (7, 2)), (2, (7, 1), (7, 2)), (3, (7, 1), (7, 3)), (0, (5, 3), (5, 4))],
)
def test_markers_have_the_id_that_partitions_know_and_no_epoch_before(
    epoch: int, ongoing: tuple[int, int], ending: tuple[int, int]
) -> None:
    metadata = Metadata(Status.ONGOING, 7, epoch, ongoing_producer_id=ongoing[0], ongoing_epoch=ongoing[1])
    assert MACHINE.ending(metadata) == ending


def test_what_is_taken_over_where_epochs_are_used_up_goes_on_at_epoch_zero() -> None:
    kept = MACHINE.keeping_ruling(Metadata(Status.ONGOING, 7, LAST), 9).metadata
    assert kept is not None
    assert (kept.producer_id, kept.epoch) == (9, 0)


# --- partitions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "partition", "is_written"),
    [(Status.ONGOING, 0, False), (Status.ONGOING, 1, True), (Status.COMPLETE_COMMIT, 0, True)],
)
def test_a_partition_that_has_joined_the_open_transaction_is_not_written_again(
    status: Status, partition: int, *, is_written: bool
) -> None:
    ruling = MACHINE.add_ruling(Metadata(status, 7, 1, partitions=(0,)), AddRequest(0, 7, 1, partition, 1))
    assert (ruling.error, ruling.metadata is not None) == (Error.NONE, is_written)


def test_who_is_of_the_next_id_waits_while_the_present_one_is_prepared() -> None:
    prepared = Metadata(Status.PREPARE_COMMIT, 7, LAST + 1, next_producer_id=9)
    assert MACHINE.request_error(prepared, AddRequest(0, 9, 0, 0, 0)) is Error.CONCURRENT_TRANSACTIONS
    assert MACHINE.request_error(prepared, AddRequest(0, 8, 0, 0, 0)) is Error.INVALID_PRODUCER_ID_MAPPING
    complete = attrs.evolve(prepared, status=Status.COMPLETE_COMMIT)
    assert MACHINE.request_error(complete, AddRequest(0, 9, 0, 0, 0)) is Error.INVALID_PRODUCER_ID_MAPPING


# --- EndTxn ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "asked", "is_repeated"),
    [
        ({}, {}, True),
        ({"previous_producer_id": 8}, {}, False),
        ({"last_epoch": 2}, {"epoch": 2}, False),
        ({"epoch": 1}, {}, False),
        ({}, {"producer_id": 9}, True),
        ({"epoch": 1, "last_epoch": 2}, {"producer_id": 9, "epoch": 2}, True),
        ({}, {"producer_id": 8}, False),
    ],
)
def test_of_a_new_id_the_one_before_may_repeat_its_last_end(
    known: dict[str, Any], asked: dict[str, Any], *, is_repeated: bool
) -> None:
    complete = Metadata(Status.COMPLETE_COMMIT, 9, 0, last_epoch=LAST, previous_producer_id=7)
    request = attrs.evolve(EndRequest(0, 7, LAST, Decision.COMMIT, 0, 2), **asked)
    assert MACHINE.is_end_repeated(attrs.evolve(complete, **known), request) is is_repeated


@pytest.mark.parametrize(
    ("epoch", "is_taken_over", "after"),
    [
        (LAST, True, (9, 0, NONE)),
        (LAST, False, (7, LAST + 1, 9)),
        (2, True, (7, 3, NONE)),
        (2, False, (7, 3, NONE)),
    ],
)
def test_the_epoch_after_a_transaction_is_the_next_or_that_of_another_id(
    epoch: int, after: tuple[int, int, int], *, is_taken_over: bool
) -> None:
    before = Metadata(Status.PREPARE_COMMIT, 7, epoch, ongoing_epoch=1 if is_taken_over else NONE)
    found = MACHINE.with_next_epoch(before, 9)
    assert (found.producer_id, found.epoch, found.next_producer_id) == after
    assert (found.last_epoch, found.previous_producer_id) == (epoch, 7)


# --- markers and the end ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "changes", "left"),
    [
        (Status.PREPARE_COMMIT, {}, (1,)),
        (Status.PREPARE_COMMIT, {"decision": Decision.ABORT}, (0, 1)),
        (Status.PREPARE_COMMIT, {"epoch": 1}, (0, 1)),
        (Status.COMPLETE_COMMIT, {}, (0, 1)),
    ],
)
def test_a_marker_of_this_very_end_is_acknowledged_while_it_is_prepared(
    status: Status, changes: dict[str, Any], left: tuple[int, ...]
) -> None:
    metadata = Metadata(status, 7, 2, partitions=(0, 1))
    request = attrs.evolve(MarkerRequest(0, 0, 7, 2, 0, Decision.COMMIT, 2), **changes)
    assert MACHINE.acknowledged(metadata, request).partitions == left


def test_a_new_id_begins_at_epoch_zero_when_the_transaction_is_complete() -> None:
    prepared = Metadata(Status.PREPARE_ABORT, 7, LAST + 1, next_producer_id=9, last_epoch=LAST)
    complete = MACHINE.completed(prepared)
    assert complete is not None
    assert (complete.producer_id, complete.epoch, complete.previous_producer_id) == (9, 0, 7)
    assert (complete.status, complete.next_producer_id) == (Status.COMPLETE_ABORT, NONE)


@pytest.mark.parametrize(("previous", "last"), [(NONE, NONE), (7, 2), (5, LAST)])
def test_the_epoch_before_is_one_less_or_of_another_id_the_last_one(previous: int, last: int) -> None:
    logged = Metadata(Status.EMPTY, 7, 3, previous_producer_id=previous)
    assert MACHINE.last_epoch_of(logged) == last
    assert MACHINE.loaded(logged).last_epoch == last


@pytest.mark.parametrize(("log_version", "ongoing", "is_whole"), [(1, NONE, True), (0, NONE, False), (0, 5, True)])
def test_version_0_of_the_log_says_less_but_of_what_was_taken_over(
    log_version: int, ongoing: int, *, is_whole: bool
) -> None:
    machine = Transactions(version=1, log_version=log_version)
    known = Metadata(Status.ONGOING, 7, 2, 1, 6, version=2, ongoing_producer_id=ongoing)
    less = Metadata(Status.ONGOING, 7, 2, ongoing_producer_id=ongoing)
    assert machine.in_log(known) == (known if is_whole else less)


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (Status.EMPTY, Status.ONGOING, 3),
        (Status.ONGOING, Status.ONGOING, 1),
        (Status.ONGOING, Status.PREPARE_COMMIT, 1),
        (Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT, 1),
        (Status.EMPTY, Status.PREPARE_ABORT, 3),
        (Status.COMPLETE_COMMIT, Status.EMPTY, NONE),
    ],
)
def test_a_transaction_began_when_it_was_opened_by_the_clock_of_then(before: Status, after: Status, found: int) -> None:
    assert started(Metadata(before, started=1), Metadata(after), 3) == found


TWO = Transactions(transactional_ids=2, incarnations=1, bounds=Bounds(FailOver=1))
PREPARED_IN_BOTH = Metadata(Status.PREPARE_COMMIT, 7, 2, partitions=(0, 1))


@pytest.mark.parametrize(("coordinator_epoch", "partition", "left"), [(1, 0, (1,)), (1, 1, (0,)), (0, 0, (0, 1))])
def test_a_coordinator_is_told_of_its_own_markers_whatever_else_it_has_yet_to_load(
    coordinator_epoch: int, partition: int, left: tuple[int, ...]
) -> None:
    loading, loaded = Coordination(PREPARED_IN_BOTH, None), Coordination(PREPARED_IN_BOTH, PREPARED_IN_BOTH)
    state = attrs.evolve(initial(TWO), coordination=(loading, loaded), coordinator_epoch=1)
    after = marked(TWO, state, partition, Marker(7, 2, coordinator_epoch, Decision.COMMIT, 2))
    assert after.coordination[0] == loading
    assert after.coordination[1].cached == attrs.evolve(PREPARED_IN_BOTH, partitions=left)
    assert not after.coordination[1].unattended
    again = marked(TWO, after, partition, Marker(7, 2, coordinator_epoch, Decision.COMMIT, 2))
    assert again == after


def test_only_a_last_marker_is_missed_by_who_does_not_look() -> None:
    machine = attrs.evolve(TRANSACTION_BUGS["kafka_9777"].machine(), partitions=2)
    loading, loaded = Coordination(PREPARED_IN_BOTH, None), Coordination(PREPARED_IN_BOTH, PREPARED_IN_BOTH)
    state = attrs.evolve(initial(machine), coordination=(loading, loaded), coordinator_epoch=1)
    assert not machine.notices_the_last_marker(state)
    first = marked(machine, state, 0, Marker(7, 2, 1, Decision.COMMIT, 2))
    last = marked(machine, first, 1, Marker(7, 2, 1, Decision.COMMIT, 2))
    assert [one.coordination[1].unattended for one in (first, last)] == [False, True]


def test_a_coordinator_that_goes_by_the_clock_never_knows_what_it_has_written() -> None:
    """What is committed is in the log all the same (KAFKA-8803); the right rules take all of it in."""
    known, written = Metadata(Status.EMPTY, 7, 2, started=0), Metadata(Status.ONGOING, 7, 2, started=1)
    state = attrs.evolve(initial(), coordination=(Coordination(known, known, Pending(written)),))
    one = committed(MACHINE, state, 0).coordination[0]
    assert one == Coordination(written, written)
    one = committed(TRANSACTION_BUGS["kafka_8803"].machine(), state, 0).coordination[0]
    assert one == Coordination(written, known, Pending(written))


# --- responses -------------------------------------------------------------------------------------------------------

DONE = Metadata(Status.COMPLETE_COMMIT, 7, 3)


@pytest.mark.parametrize(("decision", "is_told"), [(Decision.COMMIT, True), (Decision.ABORT, False)])
def test_a_producer_is_told_of_the_end_that_it_waits_for(decision: Decision, *, is_told: bool) -> None:
    producer = Producer(Phase.COMMITTING, 2, 7, 2, transaction=0, sequences=(0, 0), slots=(Slot(), Slot()))
    state = attrs.evolve(initial(), transactions=(Transaction(0, Decision.COMMIT),)).with_producer(0, producer)
    after = succeeded(MACHINE, state, EndRequest(0, 7, 2, decision, 0, 2), DONE)
    assert (after.producers[0].phase is Phase.READY) is is_told
    assert (after.transactions[0].told is decision) is is_told


@pytest.mark.parametrize(("epoch", "is_told"), [(2, True), (1, False)])
def test_a_producer_is_told_of_the_partition_that_it_has_yet_to_add(epoch: int, *, is_told: bool) -> None:
    producer = Producer(Phase.IN_TRANSACTION, 1, 7, 2, transaction=0, sequences=(0, 0), slots=(Slot(), Slot()))
    state = initial().with_producer(0, producer)
    after = succeeded(MACHINE, state, AddRequest(0, 7, epoch, 1, 0), DONE)
    assert [slot.added for slot in after.producers[0].slots] == [False, is_told]


@pytest.mark.parametrize(("epoch", "is_told"), [(NONE, True), (1, False)])
def test_a_producer_is_told_of_the_epoch_that_it_waits_for(epoch: int, *, is_told: bool) -> None:
    state = initial().with_producer(0, Producer(Phase.INITIALISING))
    after = succeeded(MACHINE, state, InitRequest(0, NONE, epoch), Metadata(Status.EMPTY, 7, 3))
    assert (after.producers[0].phase is Phase.READY) is is_told


def test_a_leader_is_told_whose_record_it_may_let_in() -> None:
    request = ProduceRequest(0, 7, 2, 1, 0, 0, 2)
    after = succeeded(MACHINE, initial(), request, Metadata(Status.ONGOING, 7, 2))
    assert [partition.verified for partition in after.partitions] == [(), ((7, 2),)]


# --- what is attempted, and what expires -----------------------------------------------------------------------------


def test_requests_are_attempted_with_the_epochs_around_and_the_first_of_the_next_id() -> None:
    known = Metadata(Status.ONGOING, 7, 4)
    assert near_epochs(known, 1) == (3, 4, 5)
    rotating = attrs.evolve(known, next_producer_id=9)
    assert near_epochs(rotating, 1) == (0, 3, 4, 5)
    state = attrs.evolve(initial(), producer_ids=8)
    assert [near_producer_ids(state, one) for one in (known, rotating)] == [(7, 8), (7, 8, 9)]


@pytest.mark.parametrize(
    ("expiring", "status", "expires"),
    [(True, Status.ONGOING, True), (False, Status.ONGOING, False), *((True, one, False) for one in PREPARED)],
)
def test_an_open_transaction_expires_where_the_model_lets_it(status: Status, *, expiring: bool, expires: bool) -> None:
    machine = Transactions(expiring=expiring)
    known = Metadata(status, 7, 2, partitions=(0,))
    state = attrs.evolve(initial(machine), coordination=(Coordination(known, known),))
    assert (ExpireTransaction(0).guard(machine, state) == "") is expires
