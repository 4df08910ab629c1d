"""The history of topics with transactions: where they begin, how they end, and those of others."""

from __future__ import annotations

from typing import Any

import pytest

from tidegauge.linearizability.history import Kind, Operation, Outcome
from tidegauge.model_tests.linearizability.tapped.recorded import IN_TRANSACTION, Recorded

A, B, C = 100 | IN_TRANSACTION, 200 | IN_TRANSACTION, 300 | IN_TRANSACTION
PRODUCER = (7, 0)


def in_transaction(recorded: Recorded, value: int, offset: int, sequence: int) -> None:
    recorded.sent(value, offset=offset, producer=[*PRODUCER, sequence], transactional=True)


def committed(recorded: Recorded, offset: int, *values: int, **fields: Any) -> None:
    recorded.read(offset, *values, isolation=1, transactional=True, **fields)


def ends(recorded: Recorded) -> list[Operation]:
    return [row for row in recorded.rows() if row.kind in (Kind.COMMIT, Kind.ABORT)]


def test_what_is_committed_may_be_read_and_what_is_aborted_may_not() -> None:
    recorded = Recorded()
    in_transaction(recorded, A, 0, 0)
    recorded.ended(PRODUCER)
    in_transaction(recorded, B, 2, 1)
    recorded.ended(PRODUCER, commit=False)
    committed(recorded, 0, A)
    assert recorded.verdicts(alone=True).valid
    committed(recorded, 2, B)
    assert recorded.names(alone=True) == {"aborted-read"}


def test_a_transaction_without_an_end_is_read_too_soon() -> None:
    recorded = Recorded()
    in_transaction(recorded, A, 0, 0)
    committed(recorded, 0, A)
    recorded.ended(PRODUCER)
    assert "precommitted-read" in recorded.names(alone=True)


@pytest.mark.parametrize(
    ("tries", "kind", "outcome"),
    [
        ([(True, None), (True, 0)], Kind.COMMIT, Outcome.OK),
        ([(True, None)], Kind.COMMIT, Outcome.INFO),
        ([(True, 51), (True, 16), (True, 0)], Kind.COMMIT, Outcome.OK),
        ([(True, 14)], Kind.COMMIT, Outcome.INFO),
        ([(True, 15)], Kind.COMMIT, Outcome.INFO),
        ([(True, 16)], Kind.COMMIT, Outcome.INFO),
        ([(True, 90)], Kind.COMMIT, Outcome.FAIL),
        ([(True, None), (True, 47)], Kind.COMMIT, Outcome.INFO),
        ([(True, 48), (False, 0)], Kind.ABORT, Outcome.OK),
    ],
)
def test_an_end_that_is_tried_again_is_one_end(
    tries: list[tuple[bool, int | None]], kind: Kind, outcome: Outcome
) -> None:
    recorded = Recorded()
    in_transaction(recorded, A, 0, 0)
    for commit, error in tries:
        recorded.ended(PRODUCER, commit=commit, error=error)
    (end,) = ends(recorded)
    assert (end.kind, end.outcome) == (kind, outcome)
    assert recorded.verdicts(alone=True).valid


def test_what_comes_after_an_end_is_the_next_transaction() -> None:
    recorded = Recorded()
    for number in range(3):
        in_transaction(recorded, A + 4 * number, 2 * number, number)
        recorded.ended(PRODUCER)
    rows = recorded.rows()
    assert [row.transaction for row in rows] == [0, 0, 1, 1, 2, 2]
    assert len({row.process for row in rows}) == 1


def test_a_producer_that_is_fenced_ends_nothing() -> None:
    recorded = Recorded()
    in_transaction(recorded, A, 0, 0)
    recorded.sent(B, offset=2, producer=[7, 1, 0], transactional=True)
    recorded.ended((7, 1))
    committed(recorded, 2, B)
    assert recorded.verdicts(alone=True).valid
    committed(recorded, 0, A)
    assert "aborted-read" in recorded.names(alone=True)


def test_transactions_of_others_may_have_ended_either_way() -> None:
    recorded = Recorded()
    committed(recorded, 0, A)
    recorded.read(0, A, B, C, transactional=True)
    committed(recorded, 0, A, C, offsets=[0, 2])
    assert recorded.resolved().others == 3
    assert recorded.verdicts().valid
    assert not recorded.verdicts(alone=True).valid
    committed(recorded, 0, A)
    committed(recorded, 0, A, 500, offsets=[0, 2])
    assert not recorded.verdicts().valid, "two records at one offset"


def test_the_beginning_of_the_recording_may_be_within_a_transaction() -> None:
    recorded = Recorded()
    recorded.ended(PRODUCER)
    in_transaction(recorded, A, 1, 5)
    recorded.ended(PRODUCER)
    committed(recorded, 1, A)
    assert len(ends(recorded)) == 1
    assert recorded.verdicts(alone=True).valid


def test_topics_without_transactions_are_not_part_of_it() -> None:
    recorded = Recorded()
    in_transaction(recorded, A, 0, 0)
    recorded.ended(PRODUCER)
    recorded.sent(400, offset=0, topic="plain")
    histories = {(row.history, row.topic) for row in recorded.rows()}
    assert histories == {(0, "plain"), (1, "orders"), (1, "")}
