"""Which transactional ids ListTransactions tells of (KIP-664, KIP-994); `id_patterns` is KIP-1152."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.transactions.messages import ListedTransaction, TransactionFilter, TransactionList
from tidegauge.impl.coordinators.transactions.metadata import PREPARED, TransactionMetadata, TransactionStatus

STATES: Final = {status.kafka_name: status for status in TransactionStatus}
OPEN: Final = (TransactionStatus.ONGOING, *PREPARED)


def listed(known: Mapping[str, TransactionMetadata], wanted: TransactionFilter, now_ms: int) -> TransactionList:
    """The ids that a filter lets through, in the order of their names."""
    unknown = sorted(wanted.states - STATES.keys())
    states = {STATES[name] for name in wanted.states & STATES.keys()}
    found = [
        ListedTransaction(name, metadata.producer_id, metadata.status.kafka_name)
        for name, metadata in sorted(known.items())
        if (not wanted.states or metadata.status in states)
        and (not wanted.producer_ids or metadata.producer_id in wanted.producer_ids)
        and (wanted.duration_ms < 0 or _is_open_for(metadata, wanted.duration_ms, now_ms))
    ]
    return TransactionList(ErrorCode.none, found, unknown)


def _is_open_for(metadata: TransactionMetadata, duration_ms: int, now_ms: int) -> bool:
    return metadata.status in OPEN and now_ms - metadata.start_ms > duration_ms
