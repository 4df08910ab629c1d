"""Transactions, of which there are none here yet.

Nobody may use a transactional id (`impl.server.apis.absent_group_offsets`), and a request that would go on with a
transaction gets INVALID_PRODUCER_ID_MAPPING. The rights on topics come first: what may not be done to a topic is told
before anybody looks for the transaction, as Kafka does it.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from kio.schema.add_partitions_to_txn.v5.response import (
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kio.schema.describe_transactions.v0.response import DescribeTransactionsResponse, TransactionState
from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v2.response import ListTransactionsResponse
from kio.schema.txn_offset_commit.v5.response import TxnOffsetCommitResponse, TxnOffsetCommitResponseTopic

from tidegauge.impl.server.error_responses.transactions import (
    add_offsets_to_txn_error,
    add_partitions_to_txn_error,
    describe_transactions_error,
    end_txn_error,
    txn_offset_commit_error,
)
from tidegauge.impl.server.refusals import on_transaction, refuse
from tidegauge.impl.server.rights import cluster_error, denied_topics, group_error, transaction_error
from tidegauge.impl.server.transport.authorization import Operation
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
    from kio.schema.add_offsets_to_txn.v4.response import AddOffsetsToTxnResponse
    from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnRequest, AddPartitionsToTxnTransaction
    from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
    from kio.schema.list_transactions.v2.request import ListTransactionsRequest
    from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequest

    from tidegauge.impl.server.transport.context import RequestContext

NONE: Final = ErrorCode.none
NO_TRANSACTION: Final = ErrorCode.invalid_producer_id_mapping
SENT_BY_BROKERS_FROM: Final = 4
"""The version of AddPartitionsToTxn from which it is for brokers, which verify with it (KIP-890)."""
TRANSACTION_STATES: Final = frozenset(
    {"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence"}
)

handle_end_txn: Final = refuse(end_txn_error, on_transaction(Operation.WRITE), NO_TRANSACTION)


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


async def handle_add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, context: RequestContext
) -> AddPartitionsToTxnResponse:
    """A client's request: TRANSACTIONAL_ID_AUTHORIZATION_FAILED; TOPIC_AUTHORIZATION_FAILED for topics that may not be
    written, and then OPERATION_NOT_ATTEMPTED for the others; INVALID_PRODUCER_ID_MAPPING. A broker's:
    CLUSTER_AUTHORIZATION_FAILED.
    """
    by_broker = context.api_version >= SENT_BY_BROKERS_FROM
    if by_broker and (denied := cluster_error(Operation.CLUSTER_ACTION, context)) is not NONE:
        return add_partitions_to_txn_error(request, denied)
    return AddPartitionsToTxnResponse(
        throttle_time=NO_WAIT,
        error_code=NONE,
        results_by_transaction=tuple(
            [
                await _not_added(request, transaction, context, by_broker=by_broker)
                async for transaction in context.pace.each(request.transactions)
            ]
        ),
    )


async def _not_added(
    request: AddPartitionsToTxnRequest,
    transaction: AddPartitionsToTxnTransaction,
    context: RequestContext,
    *,
    by_broker: bool,
) -> AddPartitionsToTxnResult:
    """A transaction's topics, each with its error."""
    denied = NONE if by_broker else transaction_error(Operation.WRITE, transaction.transactional_id, context)
    names = [topic.name for topic in transaction.topics]
    forbidden = set() if by_broker else denied_topics(Operation.WRITE, names, context)
    others = ErrorCode.operation_not_attempted if forbidden else NO_TRANSACTION
    topics: list[AddPartitionsToTxnTopicResult] = []
    async for topic in context.pace.each(transaction.topics):
        error = ErrorCode.topic_authorization_failed if topic.name in forbidden else others
        part = dataclasses.replace(request, transactions=(dataclasses.replace(transaction, topics=(topic,)),))
        refused = add_partitions_to_txn_error(part, error if denied is NONE else denied)
        topics += refused.results_by_transaction[0].topic_results
    return AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=tuple(topics))


async def handle_describe_transactions(
    request: DescribeTransactionsRequest, context: RequestContext
) -> DescribeTransactionsResponse:
    """TRANSACTIONAL_ID_AUTHORIZATION_FAILED or TRANSACTIONAL_ID_NOT_FOUND, one by one."""
    states: list[TransactionState] = []
    async for transactional_id in context.pace.each(request.transactional_ids):
        denied = transaction_error(Operation.DESCRIBE, transactional_id, context)
        error = ErrorCode.transactional_id_not_found if denied is NONE else denied
        one = dataclasses.replace(request, transactional_ids=(transactional_id,))
        states += describe_transactions_error(one, error).transaction_states
    return DescribeTransactionsResponse(throttle_time=NO_WAIT, transaction_states=tuple(states))


async def handle_list_transactions(
    request: ListTransactionsRequest, context: RequestContext
) -> ListTransactionsResponse:
    """There are none; the response names the states of the request that Kafka does not have."""
    unknown = tuple(state for state in request.state_filters if state not in TRANSACTION_STATES)
    return ListTransactionsResponse(
        throttle_time=NO_WAIT, error_code=ErrorCode.none, unknown_state_filters=unknown, transaction_states=()
    )
