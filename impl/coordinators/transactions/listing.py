"""Which transactional ids ListTransactions tells of (KIP-664, KIP-994); their patterns are those of KIP-1152."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.transactions.messages import ListedTransaction, TransactionFilter, TransactionList
from tidegauge.impl.coordinators.transactions.metadata import PREPARED, TransactionMetadata, TransactionStatus
from tidegauge.impl.records.slices import Sliced

STATES: Final = {status.kafka_name: status for status in TransactionStatus}
OPEN: Final = (TransactionStatus.ONGOING, *PREPARED)


def listed(
    known: Iterable[tuple[str, TransactionMetadata | None]], wanted: TransactionFilter, now_ms: int
) -> Sliced[TransactionList]:
    """The ids that a filter lets through, in their order; one without metadata is not there yet."""
    unknown = sorted(wanted.states - STATES.keys())
    states = {STATES[name] for name in wanted.states & STATES.keys()}
    found = []
    for name, metadata in known:
        if (
            metadata is not None
            and (not wanted.states or metadata.status in states)
            and (not wanted.producer_ids or metadata.ongoing[0] in wanted.producer_ids)
            and (wanted.duration_ms < 0 or _is_open_for(metadata, wanted.duration_ms, now_ms))
        ):
            found.append(ListedTransaction(name, metadata.ongoing[0], metadata.status.kafka_name))
        yield 1
    return TransactionList(ErrorCode.none, found, unknown)


def _is_open_for(metadata: TransactionMetadata, duration_ms: int, now_ms: int) -> bool:
    return metadata.status in OPEN and now_ms - metadata.start_ms > duration_ms
