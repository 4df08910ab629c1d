"""Rules of producers, of partitions' leaders and of a group's members asked alone, and what readers are returned."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.transactions.consuming import FetchOffset
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.partitioning import Append, Verify, forgotten
from tidegauge.spec.transactions.producing import Begin, DelayEnd, End
from tidegauge.spec.transactions.reading import CommittedReads, FinishRead, StartRead
from tidegauge.spec.transactions.state import (
    NONE,
    AddRequest,
    Decision,
    Group,
    Late,
    Marker,
    Memory,
    Metadata,
    Partition,
    Phase,
    Producer,
    ProducerEntry,
    ProduceRequest,
    Record,
    Slot,
    Span,
    State,
    Transaction,
)
from tidegauge.spec.transactions.unclean import UncleanTransactions

MACHINE = Transactions()
GROUP = Transactions(inputs=2)
OFFSETS = 1
"""The partition of the group's offsets."""


def initial(machine: Transactions) -> State:
    return next(iter(machine.initial()))


def producer(phase: Phase = Phase.IN_TRANSACTION, **changes: Any) -> Producer:
    """One with epoch 2 of id 7."""
    return attrs.evolve(Producer(phase, 2, 7, 2, 0, (0, 0), (Slot(), Slot())), **changes)


def with_slots(*slots: Slot, **changes: Any) -> Producer:
    return producer(slots=slots, **changes)


# --- what a producer may do ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("position", "may"), [(NONE, False), (0, True), (1, True), (2, False)])
def test_a_member_begins_while_there_is_something_to_consume(position: int, *, may: bool) -> None:
    state = initial(GROUP).with_producer(0, producer(Phase.READY, position=position))
    assert (Begin(0).guard(GROUP, state) == "") is may


@pytest.mark.parametrize(("version", "begun", "may"), [(1, 0, True), (1, 1, False), (2, 1, True), (2, 2, False)])
def test_a_producer_of_version_1_upgrades_before_it_begins_one_more(version: int, begun: int, *, may: bool) -> None:
    machine = Transactions(transactions_before_upgrade=1, transactions=2)
    state = initial(machine).with_producer(0, producer(Phase.READY, version=version))
    state = attrs.evolve(state, transactions=(Transaction(0),) * begun)
    assert (Begin(0).guard(machine, state) == "") is may


@pytest.mark.parametrize(
    ("one_connection", "added_by", "may"), [(True, 0, False), (True, 1, True), (True, NONE, True), (False, 0, True)]
)
def test_a_producer_of_one_connection_ends_nothing_while_a_partition_is_on_its_way(
    added_by: int, *, one_connection: bool, may: bool
) -> None:
    machine = Transactions(version=1, one_connection=one_connection)
    late = () if added_by == NONE else (AddRequest(0, 7, 2, 1, added_by),)
    state = initial(machine).with_producer(0, with_slots(Slot(added=True), Slot(), version=1))
    state = attrs.evolve(state, late=Late(adds=late))
    assert (End(0, Decision.ABORT).guard(machine, state) == "") is may
    assert machine.may_end(late, 0) is may


@pytest.mark.parametrize(("guesses", "epochs"), [(False, [2]), (True, [2, 3])])
def test_who_guesses_an_epoch_guesses_the_next_one(epochs: list[int], *, guesses: bool) -> None:
    machine = Transactions(guesses_epochs=guesses, bounds=Bounds(DelayEnd=1))
    state = initial(machine).with_producer(0, producer(Phase.COMMITTING))
    assert [request.epoch for request in DelayEnd.waiting(machine, state)] == epochs


@pytest.mark.parametrize(
    ("version", "given_up", "next_id", "after"),
    [
        (2, (False, False), NONE, (Phase.READY, 7, 3)),
        (2, (False, False), 9, (Phase.READY, 9, 0)),
        (1, (False, False), NONE, (Phase.READY, 7, 2)),
        (1, (False, True), NONE, (Phase.INITIALISING, 7, 2)),
    ],
)
def test_a_producer_goes_on_with_the_epoch_of_the_response_or_asks_for_one_after_a_loss(
    version: int, given_up: tuple[bool, ...], next_id: int, after: tuple[Phase, int, int]
) -> None:
    ending = with_slots(*(Slot(given_up=one) for one in given_up), version=version)
    found = MACHINE.after_end(ending, Metadata(producer_id=7, epoch=3, next_producer_id=next_id))
    assert (found.phase, found.producer_id, found.epoch) == after


def test_a_producer_that_does_not_raise_its_epoch_after_a_loss_goes_on_at_once() -> None:
    """KIP-360 is for that; the rule of it is asked."""

    class GoesOn(Transactions):
        def raises_epoch_after_loss(self) -> bool:
            return False

    lossy = with_slots(Slot(given_up=True), Slot(), version=1)
    phases = [machine.after_end(lossy, Metadata()).phase for machine in (MACHINE, GoesOn())]
    assert phases == [Phase.INITIALISING, Phase.READY]


@pytest.mark.parametrize(
    ("position", "decision", "after"),
    [(1, Decision.COMMIT, 2), (1, Decision.ABORT, NONE), (NONE, Decision.COMMIT, NONE), (0, Decision.COMMIT, 1)],
)
def test_a_member_goes_on_with_the_next_record(position: int, decision: Decision, after: int) -> None:
    assert GROUP.position_after(producer(position=position), decision) == after


# --- a group's members -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("position", "generation", "owner", "phase", "may"),
    [
        (NONE, 1, 0, Phase.READY, True),
        (0, 0, 0, Phase.READY, True),
        (0, 1, 0, Phase.READY, False),
        (NONE, 0, 0, Phase.READY, True),
        (NONE, 1, 1, Phase.READY, False),
        (NONE, 1, 0, Phase.IN_TRANSACTION, False),
    ],
)
def test_the_owner_of_the_input_asks_where_to_go_on_if_it_does_not_know(
    position: int, generation: int, owner: int, phase: Phase, *, may: bool
) -> None:
    member = producer(phase, position=position, generation=generation)
    state = attrs.evolve(initial(GROUP), group=Group(1, owner)).with_producer(0, member)
    assert (FetchOffset(0).guard(GROUP, state) == "") is may


def test_without_an_input_nobody_asks_where_to_go_on() -> None:
    state = initial(MACHINE).with_producer(0, producer(Phase.READY))
    assert FetchOffset(0).guard(MACHINE, state)
    assert [FetchOffset.is_possible(machine) for machine in (MACHINE, GROUP)] == [False, True]


def test_a_group_goes_on_where_the_last_committed_transaction_says() -> None:
    log = (
        Record(7, 0, NONE, 0, 1),
        Marker(7, 1, 0, Decision.COMMIT, 2),
        Record(7, 1, NONE, 1, 2),
        Record(8, 0, NONE, 2, 9),
    )
    committed = (*log[:3], Marker(7, 2, 0, Decision.COMMIT, 2))
    for entries, offset in (((), 0), (log[:2], 1), (log, 1), (committed, 2)):
        partition = Partition(entries, len(entries), GROUP.rebuilt(entries, len(entries)))
        assert GROUP.committed_offset(partition) == offset


# --- a partition's leader --------------------------------------------------------------------------------------------

TWICE = Transactions(inputs=1, bounds=Bounds(Elect=1))
"""What is appended is committed in a step of its own."""


def sent(partition: int = 0, sequence: int = 0, generation: int = NONE) -> ProduceRequest:
    offset = 1 if partition == OFFSETS else NONE
    return ProduceRequest(0, 7, 2, partition, sequence, 0, 2, generation, offset)


def waiting(log: tuple[Record | Marker, ...], high_watermark: int, number: int = 0, **slot: Any) -> State:
    """A producer waits for the response to a record, which the log of partition `number` has perhaps."""
    slots = [Slot(), Slot()]
    slots[number] = attrs.evolve(Slot(in_flight=True), **slot)
    state = initial(TWICE).with_producer(0, with_slots(*slots, sequences=(1, 0), generation=0, position=0))
    memory = TWICE.rebuilt(log, high_watermark)
    return state.with_partition(number, Partition(log, high_watermark, memory))


BEFORE = (Record(7, 1, 0, 5), Record(8, 2, 0, 6))
"""Of the same id and of another one, neither of them what is sent."""
OWN = Record(7, 2, 0, 0)


@pytest.mark.parametrize(("high_watermark", "is_told"), [(1, False), (2, False), (3, True)])
def test_a_record_in_the_log_is_acknowledged_once_it_is_committed(high_watermark: int, *, is_told: bool) -> None:
    state = waiting((*BEFORE, OWN), high_watermark)
    append = Append(sent())
    assert append.offset(state.partitions[0]) == 2
    assert (append.guard(TWICE, state) == "") is is_told
    after = append.effect(TWICE, state)
    assert after.partitions == state.partitions
    assert after.producers[0].slots[0] == Slot(acknowledged=1)


def test_a_record_that_is_not_in_the_log_is_nowhere() -> None:
    state = waiting(BEFORE, 2)
    assert Append(sent()).offset(state.partitions[0]) == NONE


@pytest.mark.parametrize(("high_watermark", "is_told"), [(0, False), (1, True)])
def test_an_offset_is_acknowledged_once_it_is_committed_and_not_appended_again(
    high_watermark: int, *, is_told: bool
) -> None:
    commit = Record(7, 2, NONE, 0, 1)
    state = waiting((commit,), high_watermark, OFFSETS, appended=0)
    append = Append(sent(OFFSETS, NONE, 0))
    assert (append.guard(TWICE, state) == "") is is_told
    assert Verify(append.request).guard(TWICE, state)
    after = append.effect(TWICE, state)
    assert after.partitions == state.partitions
    assert after.producers[0].slots[OFFSETS] == Slot(acknowledged=1)


def test_a_late_offset_is_verified_while_its_sender_waits() -> None:
    state = attrs.evolve(waiting((), 0, OFFSETS, appended=0), late=Late(produces=(sent(OFFSETS, NONE, 0),)))
    verify = Verify(sent(OFFSETS, NONE, 0))
    assert verify.reason(TWICE, state) == "nothing is to be asked: it waits for its response"
    assert attrs.evolve(verify, late=True).reason(TWICE, state) != verify.reason(TWICE, state)


@pytest.mark.parametrize(("is_member", "phase"), [(True, Phase.IN_TRANSACTION), (False, Phase.FENCED)])
def test_a_member_of_an_older_generation_can_only_abort_and_who_is_none_ends(phase: Phase, *, is_member: bool) -> None:
    state = attrs.evolve(waiting((), 0, OFFSETS), group=Group(1, 0))
    request = attrs.evolve(sent(OFFSETS, NONE, 0), is_member=is_member)
    after = Append(request).effect(TWICE, state).producers[0]
    assert after.phase is phase
    assert [slot.given_up for slot in after.slots] == ([False, True] if is_member else [])


def test_a_new_coordinator_of_the_group_responds_to_nobody() -> None:
    state = waiting((), 0, OFFSETS, appended=3)
    after = forgotten(state, OFFSETS)
    assert after.producers[0].slots[OFFSETS] == Slot(in_flight=True)
    assert after.producers[1:] == state.producers[1:]
    assert forgotten(after, OFFSETS) is after


def test_a_leader_that_was_elected_uncleanly_goes_on_where_the_first_open_transaction_begins() -> None:
    machine = UncleanTransactions()
    log = (Record(7, 0, 0, 0), Record(8, 0, 0, 1), Record(9, 0, 0, 2), Marker(7, 1, 0, Decision.COMMIT, 2))
    assert machine.log_of_the_unclean(log) == log[:1]
    ended = (*log[:2], Marker(7, 1, 0, Decision.ABORT, 2), Marker(8, 1, 0, Decision.ABORT, 2))
    assert machine.log_of_the_unclean(ended) == ended
    assert machine.log_of_the_unclean(()) == ()


# --- reads that take their time --------------------------------------------------------------------------------------

READS = CommittedReads(transactional_ids=1, incarnations=1, partitions=1, expiring=False)


def test_a_fetch_is_served_that_waits() -> None:
    log = (Record(7, 0, 0, 0), Marker(7, 1, 0, Decision.COMMIT, 2))
    state = initial(READS).with_partition(0, Partition(log, 2, READS.rebuilt(log, 2)))
    assert FinishRead(0).guard(READS, state) == "no fetch waits"
    assert FinishRead(0).guard(READS, StartRead(0).effect(READS, state)) == ""


def test_a_fetch_finds_what_is_open_and_what_may_yet_be_lost() -> None:
    open_here = ProducerEntry(7, 0, open_from=3)
    ended = Span(8, 1, 4)
    for producers, unreplicated, first in (
        ((), (), NONE),
        ((open_here,), (), 3),
        ((), (ended,), 1),
        ((open_here, ProducerEntry(9, 0)), (ended,), 1),
    ):
        partition = Partition(memory=Memory(producers, (ended,), unreplicated))
        reading = READS.found(partition)
        assert (reading.first_undecided, reading.aborted) == (first, (ended,))
