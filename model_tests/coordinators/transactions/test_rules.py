"""What a coordinator rules, one state at a time, where no walk of its machine comes to tell two rules apart."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.transactions.messages import AddPartitions, Marker
from tidegauge.impl.coordinators.transactions.metadata import TopicPartition, TransactionMetadata, TransactionStatus
from tidegauge.impl.coordinators.transactions.rules import TransactionRules

ID = "tide-tables"
RULES = TransactionRules()
PARTITIONS = frozenset({TopicPartition("tide", 0)})
COMMIT = Marker(ID, 0, 1, 7, 3, True, 2, PARTITIONS)


@pytest.mark.parametrize(
    ("marker", "is_awaited"),
    [
        (COMMIT, True),
        (COMMIT._replace(epoch=2), False),
        (COMMIT._replace(producer_id=8), False),
        (COMMIT._replace(is_commit=False), False),
    ],
    ids=["of this end", "of an earlier epoch", "of another producer id", "of an abort"],
)
def test_kafka_16352_a_prepared_transaction_awaits_the_marker_of_its_own_end(marker: Marker, is_awaited: bool) -> None:
    prepared = TransactionMetadata(7, 3, TransactionStatus.PREPARE_COMMIT, partitions=PARTITIONS)
    assert RULES.awaits(prepared, marker) is is_awaited


@pytest.mark.parametrize("status", [TransactionStatus.COMPLETE_COMMIT, TransactionStatus.EMPTY])
def test_a_transaction_that_is_not_prepared_awaits_no_marker(status: TransactionStatus) -> None:
    """The marker of the last transaction may come late: with version 1 the next one has the same epoch."""
    rests = TransactionMetadata(7, 3, status)
    assert not RULES.awaits(rests, COMMIT._replace(is_commit=rests.is_commit))


def test_a_transaction_begins_with_a_request_that_names_no_partition() -> None:
    request = AddPartitions(ID, 7, 3, frozenset())
    ruling = RULES.add_ruling(TransactionMetadata(7, 3), request, now_ms=9)
    assert ruling.metadata is not None
    assert (ruling.error, ruling.metadata.status, ruling.metadata.partitions, ruling.metadata.start_ms) == (
        ErrorCode.none,
        TransactionStatus.ONGOING,
        frozenset(),
        9,
    )
    assert RULES.add_ruling(ruling.metadata, request, now_ms=10).metadata is None, "the same again changes nothing"
