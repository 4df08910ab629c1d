"""A transaction begins in a partition if its coordinator verifies it: when a leader asks, and when that is void."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import Appended
from tidegauge.impl.partition.producer_state import InvalidTransactionStateError
from tidegauge.impl.partition.verification import Verification, Verifications
from tidegauge.impl.records.batches import BatchHeader
from tidegauge.impl.records.origin import Origin
from tidegauge.model_tests.partition.replicas import registration
from tidegauge.model_tests.partition.test_transactions import Pair, data, marker


class Asked(Pair):
    """Nobody lets a transaction in but the test."""

    def append(self, batch: bytes) -> Appended | ErrorCode:
        return self.leader.append(batch, -1, 0)


@pytest.fixture
def pair() -> Pair:
    return Asked()


def asked(pair: Pair, batch: bytes) -> Verification:
    question = pair.leader.verification(BatchHeader.parse(batch))
    assert question is not None
    return question


def is_asked(pair: Pair, batch: bytes) -> bool:
    return pair.leader.verification(BatchHeader.parse(batch)) is not None


def test_a_transaction_begins_by_the_coordinators_word_and_goes_on_without(pair: Pair) -> None:
    first, second = data(7), data(7, sequence=1)
    with pytest.raises(InvalidTransactionStateError, match="producer 7"):
        pair.append(first)
    assert pair.leader.confirm(asked(pair, first))
    assert not is_asked(pair, first)
    assert isinstance(pair.append(first), Appended)
    assert not is_asked(pair, second)
    assert isinstance(pair.append(second), Appended)
    assert not is_asked(pair, first), "it is in the log"


def test_records_outside_transactions_and_a_brokers_own_need_no_word(pair: Pair) -> None:
    assert not is_asked(pair, data(7, transactional=False))
    assert isinstance(pair.append(data(7, transactional=False)), Appended)
    assert isinstance(pair.leader.append(data(8), -1, 0, Origin.BROKER), Appended)


def test_without_the_setting_nobody_is_asked() -> None:
    assert isinstance(Pair().append(data(7)), Appended)


def test_the_word_is_of_one_epoch(pair: Pair) -> None:
    pair.leader.confirm(asked(pair, data(7, 1)))
    assert is_asked(pair, data(7, 2))
    with pytest.raises(InvalidTransactionStateError):
        pair.append(data(7, 2))
    pair.leader.confirm(asked(pair, data(7, 2)))
    assert isinstance(pair.append(data(7, 2)), Appended)


def test_an_open_transaction_of_another_epoch_is_not_the_records_own(pair: Pair) -> None:
    pair.leader.confirm(asked(pair, data(7, 1)))
    pair.append(data(7, 1))
    assert is_asked(pair, data(7, 2))
    with pytest.raises(InvalidTransactionStateError):
        pair.append(data(7, 2))


def test_a_marker_makes_a_word_void_also_one_that_was_only_asked_for(pair: Pair) -> None:
    """KAFKA-14884: what comes after the marker was true before it."""
    pair.leader.confirm(asked(pair, data(7)))
    pair.end(marker(7, commit=False))
    assert is_asked(pair, data(7))
    late = asked(pair, data(8))
    pair.end(marker(8, commit=False))
    assert not pair.leader.confirm(late)
    assert is_asked(pair, data(8))
    with pytest.raises(InvalidTransactionStateError):
        pair.append(data(8))


def test_a_record_uses_up_the_word(pair: Pair) -> None:
    question = asked(pair, data(7))
    assert asked(pair, data(7)) is question, "two requests wait for one response"
    pair.leader.confirm(question)
    pair.append(data(7))
    pair.end(marker(7, commit=True))
    assert is_asked(pair, data(7, sequence=1))
    assert not pair.leader.confirm(question)


def test_a_batch_that_is_sent_again_after_its_transaction_has_ended_is_not_verified(pair: Pair) -> None:
    """It is in the log: its producer is told so, whatever its coordinator says by now."""
    pair.leader.confirm(asked(pair, data(7)))
    pair.append(data(7))
    pair.end(marker(7, commit=True))
    assert not is_asked(pair, data(7))


def test_a_new_leader_epoch_knows_no_word(pair: Pair) -> None:
    pair.leader.confirm(asked(pair, data(7)))
    pair.leader.apply_metadata(registration(isr=(0, 1), replicas=(0, 1), leader_epoch=1, partition_epoch=1), 0, 0)
    with pytest.raises(InvalidTransactionStateError):
        pair.append(data(7))


def test_a_word_that_nobody_makes_use_of_is_forgotten(pair: Pair) -> None:
    question = asked(pair, data(7))
    assert pair.leader.confirm(question)
    for is_kept in (True, False):
        pair.leader.verifications.forget_old()
        assert pair.leader.verifications.is_verified(7, 0) is is_kept


def test_a_group_coordinators_batch_needs_the_transaction_or_the_word_too(pair: Pair) -> None:
    leader = pair.leader
    assert leader.coordinators_batch_error(7, 0) is ErrorCode.invalid_txn_state
    leader.confirm(leader.verifications.begin(7, 0))
    assert leader.coordinators_batch_error(7, 0) is ErrorCode.none
    pair.append(data(7))
    assert leader.coordinators_batch_error(7, 0) is ErrorCode.none, "it is open"
    assert leader.coordinators_batch_error(7, 1) is ErrorCode.invalid_txn_state
    pair.end(marker(7, epoch=1, commit=True), version=2)
    assert leader.coordinators_batch_error(7, 0) is ErrorCode.invalid_producer_epoch


def test_an_old_epochs_verification_is_forgotten_though_a_newer_one_is_there() -> None:
    known = Verifications()
    assert known.confirm(known.begin(7, 0))
    known.forget_old()
    known.begin(7, 1)
    assert known.is_verified(7, 0)
    known.forget_old()
    assert not known.is_verified(7, 0)
