"""Histories of topics without transactions: which record is which, what others sent, and what nobody knows."""

from __future__ import annotations

import pytest

from tidegauge.linearizability.history import Kind, Outcome
from tidegauge.linearizability.tapped.logs import MOST_UNKNOWN
from tidegauge.model_tests.linearizability.tapped.recorded import IDEMPOTENT, Recorded

A, B, C = 100, 200, 300
"""Values of records whose contents others may have as well."""


def test_what_was_acknowledged_and_read_holds_and_what_was_lost_does_not() -> None:
    recorded = Recorded()
    recorded.sent(A, B, offset=0)
    recorded.read(0, A, B)
    assert recorded.verdicts(alone=True).valid
    recorded.sent(C, offset=1)
    assert "inconsistent-offsets" in recorded.names()


@pytest.mark.parametrize("alone", [False, True])
def test_records_of_equal_contents_are_told_apart_by_where_they_are(alone: bool) -> None:
    recorded = Recorded()
    for offset in range(3):
        recorded.sent(A, offset=offset)
    recorded.read(0, A, A, A)
    assert recorded.resolved(alone=alone).others == 0
    assert recorded.verdicts(alone=alone).valid
    recorded.read(0, A, B, A)
    assert "inconsistent-offsets" in recorded.names(alone=alone)


def test_a_batch_without_a_response_is_where_it_was_read() -> None:
    recorded = Recorded()
    recorded.lost(A, B)
    recorded.sent(A, offset=2)
    recorded.read(0, A, B, A)
    assert recorded.resolved(alone=True).others == 0
    assert recorded.verdicts(alone=True).valid
    unknown, acknowledged, *_ = recorded.rows(alone=True)
    assert unknown.outcome is Outcome.INFO
    assert acknowledged.values[0] != unknown.values[0], "equal contents, and two records"


def test_a_record_that_was_read_before_it_was_sent_is_another() -> None:
    recorded = Recorded()
    recorded.read(0, A)
    recorded.lost(A)
    assert recorded.resolved().others == 1
    assert recorded.verdicts().valid
    assert not recorded.verdicts(alone=True).valid


def test_more_copies_than_were_sent_are_an_anomaly_where_nobody_else_sends() -> None:
    recorded = Recorded()
    recorded.sent(A, offset=0)
    recorded.lost(A)
    recorded.read(0, A, A)
    assert recorded.verdicts(alone=True).valid
    recorded.read(0, A, A, A)
    assert not recorded.verdicts(alone=True).valid
    assert recorded.verdicts().valid, "another may have sent the third"


def test_lost_batches_of_equal_contents_are_no_record_twice() -> None:
    recorded = Recorded()
    recorded.lost(B)
    recorded.lost(*[A] * 6)
    recorded.lost(*[A] * 3)
    values = [value for row in recorded.rows() for value in row.values]
    assert len(set(values)) == len(values) == 10


def test_a_part_of_a_batch_that_was_too_large_may_be_there_without_a_response() -> None:
    recorded = Recorded()
    first, second = A | IDEMPOTENT, B | IDEMPOTENT
    recorded.sent(first, second, error=10, producer=(7, 0, 0))
    recorded.lost(first, producer=(7, 0, 0))
    recorded.sent(second, offset=1, producer=(7, 0, 1))
    recorded.read(0, first, second)
    assert recorded.resolved(alone=True).others == 0
    assert recorded.verdicts(alone=True).valid


def test_an_idempotent_producers_attempts_are_one_operation() -> None:
    recorded = Recorded()
    value, producer = A | IDEMPOTENT, [7, 0, 0]
    recorded.lost(value, producer=producer)
    recorded.sent(value, producer=producer, error=6)
    recorded.sent(value, producer=producer, offset=4, process=1)
    recorded.read(4, value)
    (produce, fetch) = recorded.rows(alone=True)
    assert (produce.kind, produce.outcome, produce.offset) == (Kind.PRODUCE, Outcome.OK, 4)
    assert produce.call == 10 < fetch.call
    assert recorded.verdicts(alone=True).valid


def test_an_idempotent_producers_record_that_is_there_twice_is_an_anomaly() -> None:
    recorded = Recorded()
    value, producer = A | IDEMPOTENT, [7, 0, 0]
    recorded.sent(value, producer=producer, offset=0)
    recorded.read(0, value, value)
    assert "duplicate" in recorded.names()
    recorded = Recorded()
    recorded.sent(value, producer=producer, offset=0)
    recorded.sent(value, producer=producer, offset=1)
    assert "duplicate" in recorded.names(), "acknowledged twice"


def test_a_batch_that_was_too_large_and_is_sent_in_parts_is_its_parts() -> None:
    recorded = Recorded()
    first, second = A | IDEMPOTENT, B | IDEMPOTENT
    recorded.sent(first, second, producer=[7, 0, 0], error=10)
    recorded.sent(first, producer=[7, 0, 0], offset=0)
    recorded.sent(second, producer=[7, 0, 1], offset=1)
    recorded.read(0, first, second)
    assert recorded.verdicts(alone=True).valid


@pytest.mark.parametrize(("error", "outcome"), [(19, "fail"), (20, "info"), (7, "info"), (6, "info"), (10, "fail")])
def test_an_error_says_whether_anything_was_appended(error: int, outcome: str) -> None:
    recorded = Recorded()
    recorded.sent(A, error=error)
    (row,) = recorded.rows()
    assert row.outcome.name.lower() == outcome
    recorded.read(0, A)
    assert recorded.verdicts(alone=True).valid is (outcome == "info")


def test_acks_0_claims_nothing_of_where() -> None:
    recorded = Recorded()
    recorded.add("produce", topic="orders", partition=0, acks=0, values=[A], **{"return": 1000})
    recorded.read(5, A)
    assert recorded.verdicts(alone=True).valid
    assert recorded.rows(alone=True)[0].outcome is Outcome.OK


def test_records_of_others_must_agree_as_well() -> None:
    recorded = Recorded()
    recorded.read(0, A, B)
    recorded.read(0, A, B)
    assert recorded.resolved().others == 2
    assert recorded.verdicts().valid
    recorded.read(0, A, C)
    assert "inconsistent-offsets" in recorded.names()


def test_offsets_that_nobody_knows_are_others_unless_there_are_none() -> None:
    recorded = Recorded()
    recorded.sent(A, offset=0)
    recorded.sent(B, offset=50)
    assert recorded.verdicts().valid
    assert not recorded.verdicts(alone=True).valid


def test_a_log_of_which_much_is_unknown_is_checked_above_and_below() -> None:
    recorded = Recorded()
    far = 10 * MOST_UNKNOWN
    recorded.sent(A, offset=0)
    recorded.sent(B, offset=far)
    recorded.read(0, A, high_watermark=far + 1)
    recorded.read(far, B)
    resolved = recorded.resolved()
    assert len(set(resolved.operations.history.tolist())) == 2
    assert sum(len(row.values) for row in resolved.operations) < MOST_UNKNOWN
    assert recorded.verdicts().valid
    recorded.read(far, C)
    assert "inconsistent-offsets" in recorded.names()
    recorded.read(0, C)
    assert len([one for one in recorded.verdicts().anomalies if one.name.value == "inconsistent-offsets"]) == 2


def test_a_compacted_topic_may_lack_records() -> None:
    recorded = Recorded()
    for offset, value in enumerate((A, B, C)):
        recorded.sent(value, offset=offset)
    recorded.read(0, A, C, offsets=[0, 2])
    assert not recorded.verdicts().valid
    recorded.add("compacted", topic="orders")
    assert recorded.verdicts().valid
    recorded.read(1, A)
    assert not recorded.verdicts().valid, "but not have others"


def test_a_fetch_of_which_nobody_knows_where_it_began_may_have_begun_anywhere() -> None:
    recorded = Recorded()
    recorded.sent(A, B, offset=0)
    recorded.read(1, B, position=None)
    assert recorded.verdicts(alone=True).valid
    recorded.sent(C, offset=2)
    recorded.read(0, A)
    recorded.read(2, C, position=None)
    assert recorded.verdicts(alone=True).valid, "it does not go on from where the one before has ended"
    recorded.read(1, B, position=0)
    assert not recorded.verdicts(alone=True).valid


def test_a_batch_that_could_not_be_read_may_be_any_record() -> None:
    recorded = Recorded()
    recorded.add("produce", topic="orders", partition=0, acks=-1, note="not read")
    recorded.read(0, A)
    assert recorded.verdicts(alone=True).valid
    recorded = Recorded()
    recorded.add("unread", api="PRODUCE", version=99, why="unknown")
    recorded.read(0, A)
    assert recorded.verdicts(alone=True).valid
    assert recorded.resolved().remarks == ("PRODUCE 99: unknown",)


def test_topics_are_histories_of_their_own() -> None:
    recorded = Recorded()
    recorded.sent(A, offset=0)
    recorded.sent(A, offset=0, topic="payments")
    assert set(recorded.resolved().operations.history.tolist()) == {0, 1}
    assert recorded.verdicts(alone=True).valid
