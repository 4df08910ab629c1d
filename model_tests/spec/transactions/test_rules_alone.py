"""Rules of transactions asked alone, in states to which walks and small models seldom come."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.state import (
    NONE,
    AddRequest,
    Decision,
    EndRequest,
    Error,
    InitRequest,
    MarkerRequest,
    Metadata,
    Producer,
    ProducerEntry,
    Slot,
    Status,
)

MACHINE = Transactions(max_epoch=5, inputs=2)
LAST = 4
"""The last epoch that a producer may have: it is for fencing alone."""


@pytest.mark.parametrize(
    ("version", "open_from", "epoch", "entry_epoch", "is_taken"),
    [
        (1, 3, 2, 2, True),
        (2, 3, 2, 2, False),
        (2, NONE, 2, 2, True),
        (2, 3, 5, 5, True),
        (2, 3, 3, 2, True),
        (1, 3, 1, 2, False),
        (2, NONE, 1, 2, False),
    ],
)
def test_a_marker_has_a_later_epoch_or_repeats_one(
    version: int, open_from: int, epoch: int, entry_epoch: int, *, is_taken: bool
) -> None:
    entry = ProducerEntry(7, entry_epoch, open_from=open_from)
    request = MarkerRequest(0, 0, 7, epoch, 0, Decision.COMMIT, version)
    assert (MACHINE.marker_epoch_error(entry, request) is Error.NONE) is is_taken


@pytest.mark.parametrize(("status", "partitions"), [(Status.ONGOING, (0, 1)), (Status.COMPLETE_COMMIT, (1,))])
def test_a_partition_joins_the_open_transaction_or_opens_one(status: Status, partitions: tuple[int, ...]) -> None:
    before = Metadata(status, 7, 1, partitions=(0,), transactions=(0,))
    after = MACHINE.with_partition(before, AddRequest(0, 7, 1, 1, 1))
    assert (after.status, after.partitions, after.transactions) == (Status.ONGOING, partitions, partitions)


@pytest.mark.parametrize(
    ("slot", "offsets", "may"),
    [
        (Slot(acknowledged=1), Slot(acknowledged=1), True),
        (Slot(), Slot(acknowledged=1), True),
        (Slot(acknowledged=1), Slot(), False),
        (Slot(in_flight=True), Slot(acknowledged=1), False),
        (Slot(given_up=True), Slot(acknowledged=1), False),
    ],
)
def test_a_producer_commits_what_is_acknowledged_and_where_it_goes_on(slot: Slot, offsets: Slot, *, may: bool) -> None:
    slots = (slot, offsets) if MACHINE.offsets_partition else (offsets, slot)
    assert MACHINE.may_commit(Producer(slots=slots)) is may
    assert attrs.evolve(MACHINE, inputs=0).may_commit(Producer(slots=(Slot(), Slot())))


def test_a_member_goes_on_after_a_commit_and_asks_after_an_abort() -> None:
    found = [MACHINE.position_after(Producer(position=1), each) for each in (Decision.COMMIT, Decision.ABORT)]
    assert found == [2, NONE]
    assert MACHINE.position_after(Producer(), Decision.COMMIT) == NONE


def test_a_producer_that_was_not_told_its_epoch_gets_it_again_and_no_other() -> None:
    raised = Metadata(Status.EMPTY, 7, 2, last_epoch=1, previous_producer_id=7)
    assert MACHINE.init_ruling(raised, InitRequest(0, 7, 1), 9).metadata is None
    again = MACHINE.init_ruling(raised, InitRequest(0, 7, 2), 9).metadata
    assert again is not None
    assert (again.producer_id, again.epoch, again.last_epoch) == (7, 3, 2)


def test_where_epochs_are_used_up_the_next_producer_id_begins_at_epoch_zero() -> None:
    used_up = Metadata(Status.ONGOING, 7, LAST)
    open_still = MACHINE.keeping_ruling(used_up, 9).metadata
    assert open_still is not None
    assert (open_still.producer_id, open_still.epoch) == (9, 0)
    assert (open_still.ongoing_producer_id, open_still.ongoing_epoch) == (7, LAST)
    assert MACHINE.ending(open_still) == (7, LAST + 1)
    taken_over = attrs.evolve(used_up, ongoing_producer_id=5, ongoing_epoch=1)
    after = MACHINE.with_next_epoch(taken_over, 9)
    assert (after.producer_id, after.epoch, after.last_epoch, after.previous_producer_id) == (9, 0, LAST, 7)
    present = MACHINE.with_next_epoch(used_up, 9)
    assert (present.producer_id, present.epoch, present.next_producer_id) == (7, LAST + 1, 9)


@pytest.mark.parametrize(("epoch", "is_taken_over"), [(1, False), (2, True)])
def test_a_transaction_that_was_taken_over_keeps_its_id_and_the_next_epoch(epoch: int, *, is_taken_over: bool) -> None:
    before = Metadata(Status.ONGOING, 7, epoch, ongoing_producer_id=7, ongoing_epoch=1 if is_taken_over else NONE)
    kept = MACHINE.keeping_ruling(before, 9).metadata
    assert kept is not None
    assert (kept.producer_id, kept.epoch, kept.ongoing_epoch) == (7, epoch + 1, 1)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (Status.ONGOING, Error.INVALID_TXN_STATE),
        (Status.PREPARE_COMMIT, Error.CONCURRENT_TRANSACTIONS),
        (Status.EMPTY, Error.NONE),
    ],
)
def test_what_a_process_has_taken_over_it_can_only_end(status: Status, error: Error) -> None:
    ongoing = 1 if status is Status.ONGOING else NONE
    metadata = Metadata(status, 7, 2, ongoing_producer_id=7, ongoing_epoch=ongoing)
    assert MACHINE.request_error(metadata, AddRequest(0, 7, 2, 0, 0)) is error
    not_taken_over = Metadata(Status.ONGOING, 7, 2)
    assert MACHINE.request_error(not_taken_over, AddRequest(0, 7, 2, 0, 0)) is Error.NONE


@pytest.mark.parametrize(
    ("producer_id", "epoch", "is_next"), [(7, 5, True), (9, 0, True), (9, 1, False), (7, 0, False), (8, 0, False)]
)
def test_after_a_prepared_transaction_the_present_id_goes_on_or_the_next_one_at_epoch_zero(
    producer_id: int, epoch: int, *, is_next: bool
) -> None:
    metadata = Metadata(Status.PREPARE_COMMIT, 7, 5, next_producer_id=9)
    assert MACHINE.is_of_next(metadata, AddRequest(0, producer_id, epoch, 0, 0)) is is_next


@pytest.mark.parametrize(
    ("previous", "epoch", "sent_by", "is_repeated"),
    [(7, LAST, 7, True), (7, LAST, 8, False), (8, LAST, 7, False), (7, 2, 7, False), (7, 2, 9, True)],
)
def test_an_end_is_repeated_by_the_id_before_where_its_epochs_were_used_up(
    previous: int, epoch: int, sent_by: int, *, is_repeated: bool
) -> None:
    metadata = Metadata(Status.COMPLETE_COMMIT, 9, 0, last_epoch=epoch, previous_producer_id=previous)
    request = EndRequest(0, sent_by, epoch, Decision.COMMIT, transaction=0, version=2)
    assert MACHINE.is_end_repeated(metadata, request) is is_repeated
