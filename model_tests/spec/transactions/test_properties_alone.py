"""Properties of transactions are false of states in which what they forbid has happened; goals ask for all of it."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.reading import CommittedReads, ReadingState
from tidegauge.spec.transactions.state import (
    NONE,
    Coordination,
    Decision,
    Marker,
    Memory,
    Metadata,
    Partition,
    Phase,
    Producer,
    Record,
    Span,
    State,
    Status,
    Transaction,
)
from tidegauge.spec.transactions.symmetry import renamed_state

MACHINE = Transactions()
GROUP = Transactions(inputs=2)
COMMITTED = Transaction(0, Decision.COMMIT, Decision.COMMIT, Decision.COMMIT)
ABORTED = Transaction(0, Decision.NONE, Decision.ABORT)


def initial(machine: Transactions = MACHINE) -> State:
    return next(iter(machine.initial()))


def in_phases(machine: Transactions, *phases: Phase) -> State:
    return attrs.evolve(initial(machine), producers=tuple(map(Producer, phases)))


@pytest.mark.parametrize(
    ("consumed", "holds"),
    [((), True), ((0,), True), ((0, 1), True), ((1, 0), True), ((1,), False), ((0, 0), False), ((0, NONE), True)],
)
def test_each_record_of_the_input_is_consumed_once(consumed: tuple[int, ...], *, holds: bool) -> None:
    exactly_once = GROUP.invariants["ExactlyOnce"]
    transactions = tuple(attrs.evolve(COMMITTED, consumed=one) for one in consumed)
    assert exactly_once(attrs.evolve(initial(GROUP), transactions=transactions)) is holds
    aborted = attrs.evolve(ABORTED, consumed=7)
    assert exactly_once(attrs.evolve(initial(GROUP), transactions=(*transactions, aborted))) is holds


@pytest.mark.parametrize(("open_here", "holds"), [((), True), ((0,), True), ((0, 1), False)])
def test_no_two_transactions_are_open_at_the_coordinator(open_here: tuple[int, ...], *, holds: bool) -> None:
    one = Coordination(Metadata(Status.ONGOING, 7, 2, transactions=open_here))
    assert MACHINE.invariants["NoLateJoin"](attrs.evolve(initial(), coordination=(one,))) is holds


@pytest.mark.parametrize(
    ("log_version", "coordinator_epoch", "expiring", "transactions", "holds"),
    [
        (1, 0, True, (), False),
        (1, 1, True, (), False),
        (0, 0, True, (), False),
        (0, 1, True, (), True),
        (1, 0, True, (ABORTED,), True),
        (1, 0, False, (ABORTED,), False),
        (1, 0, True, (attrs.evolve(ABORTED, told=Decision.ABORT),), False),
    ],
)
def test_who_is_fenced_was_replaced_or_aborted_unasked_or_its_epoch_is_in_no_log(
    log_version: int, coordinator_epoch: int, transactions: tuple[Transaction, ...], *, expiring: bool, holds: bool
) -> None:
    machine = Transactions(version=1, log_version=log_version, expiring=expiring)
    fenced = in_phases(machine, Phase.FENCED, Phase.DOWN)
    fenced = attrs.evolve(fenced, coordinator_epoch=coordinator_epoch, transactions=transactions)
    only = machine.invariants["OnlyZombiesFenced"]
    assert only(fenced) is holds
    assert only(in_phases(machine, Phase.FENCED, Phase.INITIALISING))


@pytest.mark.parametrize(
    ("epoch", "is_an_ids", "is_a_producers"), [(2, True, True), (3, True, False), (4, False, False)]
)
def test_epochs_are_in_range_at_the_coordinator_and_at_producers(
    epoch: int, *, is_an_ids: bool, is_a_producers: bool
) -> None:
    machine = Transactions(max_epoch=3)
    holds = machine.invariants["EpochsAreInRange"]
    of_id = attrs.evolve(initial(machine), coordination=(Coordination(Metadata(epoch=epoch)),))
    of_producer = initial(machine).with_producer(0, Producer(epoch=epoch))
    assert (holds(of_id), holds(of_producer)) == (is_an_ids, is_a_producers)


# --- goals -----------------------------------------------------------------------------------------------------------


def test_a_marker_is_missing_while_the_coordinator_knows_of_it() -> None:
    goal = MACHINE.sometimes["a transaction is decided, and a marker is missing"]
    prepared = Metadata(Status.PREPARE_COMMIT, 7, 2, partitions=(0,))
    for cached, is_reached in ((prepared, True), (attrs.evolve(prepared, partitions=()), False), (None, False)):
        assert goal(attrs.evolve(initial(), coordination=(Coordination(prepared, cached),))) is is_reached


@pytest.mark.parametrize(
    ("phases", "is_reached"),
    [
        ((Phase.FENCED, Phase.READY, Phase.DOWN), True),
        ((Phase.DOWN, Phase.FENCED, Phase.READY), True),
        ((Phase.READY, Phase.READY, Phase.FENCED), False),
        ((Phase.FENCED, Phase.DOWN, Phase.READY), False),
        ((Phase.READY, Phase.READY, Phase.READY), False),
    ],
)
def test_a_zombie_is_fenced_by_the_next_process_of_its_id(phases: tuple[Phase, ...], *, is_reached: bool) -> None:
    """The last process of an id has none."""
    machine = Transactions(transactional_ids=2, incarnations=3)
    state = in_phases(machine, *phases, Phase.READY, Phase.READY, Phase.READY)
    assert machine.sometimes["a zombie is fenced"](state) is is_reached


@pytest.mark.parametrize(
    ("changes", "number", "older", "told", "is_reached"),
    [
        ({}, 1, Phase.CRASHED, Decision.COMMIT, True),
        ({}, 1, Phase.FENCED, Decision.COMMIT, True),
        ({}, 1, Phase.READY, Decision.COMMIT, False),
        ({}, 1, Phase.CRASHED, Decision.ABORT, False),
        ({}, 0, Phase.CRASHED, Decision.COMMIT, False),
        ({"phase": Phase.COMMITTING}, 1, Phase.CRASHED, Decision.COMMIT, False),
        ({"transaction": 0}, 1, Phase.CRASHED, Decision.COMMIT, False),
    ],
)
def test_a_new_process_has_committed_what_an_older_one_has_prepared(
    changes: dict[str, Any], number: int, older: Phase, told: Decision, *, is_reached: bool
) -> None:
    machine = Transactions(two_phase=True)
    begun_by = 0 if number else 1
    producers = [Producer(older), Producer(older)]
    producers[number] = attrs.evolve(Producer(Phase.READY), **changes)
    transaction = attrs.evolve(COMMITTED, producer=begun_by, told=told)
    state = attrs.evolve(initial(machine), producers=tuple(producers), transactions=(transaction,))
    goal = machine.sometimes["a new process commits what an older one has prepared"]
    assert goal(state) is is_reached


@pytest.mark.parametrize(
    ("first", "second", "is_reached"),
    [
        (COMMITTED, attrs.evolve(COMMITTED, producer=1), True),
        (COMMITTED, COMMITTED, False),
        (COMMITTED, attrs.evolve(ABORTED, producer=1), False),
        (ABORTED, attrs.evolve(COMMITTED, producer=1), False),
        (ABORTED, attrs.evolve(ABORTED, producer=1), False),
    ],
)
def test_a_member_goes_on_where_another_one_has_committed(
    first: Transaction, second: Transaction, *, is_reached: bool
) -> None:
    machine = Transactions(transactional_ids=2, inputs=2, bounds=Bounds(Rebalance=1))
    state = attrs.evolve(initial(machine), transactions=(first, second))
    assert machine.sometimes["a member goes on where another one was"](state) is is_reached


@pytest.mark.parametrize(
    ("status", "set_back", "is_reached"),
    [
        (Status.COMPLETE_COMMIT, 1, True),
        (Status.COMPLETE_ABORT, 1, True),
        (Status.COMPLETE_COMMIT, 0, False),
        (Status.PREPARE_COMMIT, 1, False),
        (Status.ONGOING, 1, False),
    ],
)
def test_a_transaction_that_began_by_another_clock_is_complete(
    status: Status, set_back: int, *, is_reached: bool
) -> None:
    machine = Transactions(bounds=Bounds(TurnClockBack=1))
    one = Coordination(Metadata(status, 7, 2, started=set_back))
    goal = machine.sometimes["a transaction that began after the clock was set back is complete"]
    assert goal(attrs.evolve(initial(machine), coordination=(one,))) is is_reached


@pytest.mark.parametrize(
    ("status", "coordinator_epoch", "marked_by", "is_reached"),
    [
        (Status.COMPLETE_COMMIT, 1, 1, True),
        (Status.COMPLETE_ABORT, 1, 1, True),
        (Status.COMPLETE_COMMIT, 0, 1, False),
        (Status.COMPLETE_COMMIT, 1, 0, False),
        (Status.PREPARE_COMMIT, 1, 1, False),
    ],
)
def test_a_new_coordinator_has_completed_what_it_has_written_a_marker_of(
    status: Status, coordinator_epoch: int, marked_by: int, *, is_reached: bool
) -> None:
    machine = Transactions(bounds=Bounds(FailOver=1))
    state = attrs.evolve(initial(machine), coordination=(Coordination(Metadata(status, 7, 2)),))
    state = attrs.evolve(state, coordinator_epoch=coordinator_epoch)
    state = state.with_partition(0, Partition((Marker(7, 2, marked_by, Decision.COMMIT, 2),), 1))
    goal = machine.sometimes["a new coordinator completes what the last one has prepared"]
    assert goal(state) is is_reached


# --- readers, what is shown, other names -----------------------------------------------------------------------------


def test_a_reader_was_given_records_of_committed_transactions_and_no_marker() -> None:
    machine = CommittedReads(partitions=1)
    log = (Record(7, 0, 0, 0), Record(7, 0, 1, 1), Marker(7, 1, 0, Decision.COMMIT, 2))
    holds = machine.invariants["ConsumedIsCommitted"]
    goal = machine.sometimes["a record is returned of a log in which another one was aborted"]
    for offset, is_right in ((0, True), (1, False), (2, False)):
        begun = initial(machine)
        assert isinstance(begun, ReadingState)
        read = attrs.evolve(begun, transactions=(COMMITTED, ABORTED), consumed=((0, offset),))
        assert holds(read.with_partition(0, Partition(log, 3))) is is_right
        assert not goal(read.with_partition(0, Partition(log, 3)))
        aborted = Partition(log, 3, Memory(aborted=(Span(7, 1, 2),)))
        assert goal(read.with_partition(0, aborted))
        assert not goal(begun.with_partition(0, aborted))


def test_logs_ids_and_transactions_are_shown() -> None:
    state = attrs.evolve(initial(), transactions=(COMMITTED,))
    shown = MACHINE.explain("NoLateJoin", state)
    assert shown == {
        "partition 0": (),
        "partition 1": (),
        "transactional id 0": Metadata(),
        "transaction 0": COMMITTED,
    }


def test_who_is_renamed_twice_is_who_it_was() -> None:
    """Nothing of a state is lost by other names, what only a wrong rule leaves in it included."""
    known = Metadata(Status.PREPARE_COMMIT, 7, 2, partitions=(0,))
    state = attrs.evolve(initial(), coordination=(Coordination(known, known, unattended=True),))
    renamed = renamed_state(state, (1, 0))
    assert renamed.coordination[0].logged.partitions == (1,)
    assert renamed_state(renamed, (1, 0)) == state
