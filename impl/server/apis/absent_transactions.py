"""Offsets in transactions, which nobody keeps here yet.

A request that would add some gets INVALID_PRODUCER_ID_MAPPING. The rights come first: what may not be done to a topic
is told before anybody looks for the transaction, as Kafka does it.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode
from kio.schema.txn_offset_commit.v5.response import TxnOffsetCommitResponse, TxnOffsetCommitResponseTopic

from tidegauge.impl.server.error_responses.transactions import (
    add_offsets_to_txn_error,
    txn_offset_commit_error,
)
from tidegauge.impl.server.rights import denied_topics, group_error, transaction_error
from tidegauge.impl.server.transport.authorization import Operation
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
    from kio.schema.add_offsets_to_txn.v4.response import AddOffsetsToTxnResponse
    from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequest

    from tidegauge.impl.server.transport.context import RequestContext

NONE: Final = ErrorCode.none
NO_TRANSACTION: Final = ErrorCode.invalid_producer_id_mapping
SENT_BY_BROKERS_FROM: Final = 4
"""The version of AddPartitionsToTxn from which it is for brokers, which verify with it (KIP-890)."""
TRANSACTION_STATES: Final = frozenset(
    {"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence"}
)


async def handle_add_offsets_to_txn(
    request: AddOffsetsToTxnRequest, context: RequestContext
) -> AddOffsetsToTxnResponse:
    """TRANSACTIONAL_ID_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED or INVALID_PRODUCER_ID_MAPPING."""
    denied = _denied(request.transactional_id, request.group_id, context)
    return add_offsets_to_txn_error(request, NO_TRANSACTION if denied is NONE else denied)


async def handle_txn_offset_commit(request: TxnOffsetCommitRequest, context: RequestContext) -> TxnOffsetCommitResponse:
    """TOPIC_AUTHORIZATION_FAILED for topics that may not be read, INVALID_PRODUCER_ID_MAPPING for the others."""
    denied = _denied(request.transactional_id, request.group_id, context)
    if denied is not NONE:
        return txn_offset_commit_error(request, denied)
    forbidden = denied_topics(Operation.READ, (topic.name for topic in request.topics), context)
    topics: list[TxnOffsetCommitResponseTopic] = []
    async for topic in context.pace.each(request.topics):
        error = ErrorCode.topic_authorization_failed if topic.name in forbidden else NO_TRANSACTION
        topics += txn_offset_commit_error(dataclasses.replace(request, topics=(topic,)), error).topics
    return TxnOffsetCommitResponse(throttle_time=NO_WAIT, topics=tuple(topics))


def _denied(transactional_id: str, group_id: str, context: RequestContext) -> ErrorCode:
    """The error of a client without the right to write the transactional id, or to read the group."""
    denied = transaction_error(Operation.WRITE, transactional_id, context)
    return group_error(Operation.READ, group_id, context) if denied is NONE else denied
