"""Transactions at their coordinator: what producers, leaders and operators ask of it (KIP-98, KIP-664, KIP-890).

The rights come first: what may not be done to a topic is told before anybody looks for the transaction, as Kafka does
it. Clients of versions that do not know PRODUCER_FENCED are told INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from kio.schema.add_partitions_to_txn.v5.response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kio.schema.describe_transactions.v0.response import DescribeTransactionsResponse, TopicData
from kio.schema.describe_transactions.v0.response import TransactionState as DescribedTransaction
from kio.schema.end_txn.v5.response import EndTxnResponse
from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v2.response import ListTransactionsResponse
from kio.schema.list_transactions.v2.response import TransactionState as ListedTransaction
from kio.schema.types import ProducerId, TransactionalId

from tidegauge.impl.coordinators.name_patterns import NamePattern, PatternError
from tidegauge.impl.coordinators.transactions.messages import AddPartitions, EndTxn, TransactionFilter, VerifyPartitions
from tidegauge.impl.coordinators.transactions.metadata import EPOCH_PER_TRANSACTION, TopicPartition
from tidegauge.impl.metadata.features import TRANSACTION_VERSION
from tidegauge.impl.records.slices import at_once
from tidegauge.impl.server.error_responses.refused import refused
from tidegauge.impl.server.error_responses.transactions import (
    add_partitions_to_txn_error,
    describe_transactions_error,
    end_txn_error,
    list_transactions_error,
)
from tidegauge.impl.server.requests.rights import cluster_error, denied_topics, topic_error, transaction_error
from tidegauge.impl.server.transport.authorization import Operation
from tidegauge.impl.wire.message_classes import moment
from tidegauge.impl.wire.primitives import NO_WAIT, TopicName, i16, i32, millis

if TYPE_CHECKING:
    from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnRequest, AddPartitionsToTxnTransaction
    from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
    from kio.schema.end_txn.v5.request import EndTxnRequest
    from kio.schema.list_transactions.v2.request import ListTransactionsRequest

    from tidegauge.impl.coordinators.transactions.metadata import TransactionMetadata
    from tidegauge.impl.server.broker.metadata_cache import MetadataCache
    from tidegauge.impl.server.broker.transactions import Transactions
    from tidegauge.impl.server.transport.context import RequestContext

NONE: Final = ErrorCode.none
FENCED_KNOWN_FROM: Final = 2
"""The version of AddPartitionsToTxn and EndTxn from which clients know PRODUCER_FENCED (KIP-588)."""
SENT_BY_BROKERS_FROM: Final = 4
"""The version of AddPartitionsToTxn from which it is for brokers (KIP-890)."""
ABORTABLE_KNOWN_FROM: Final = 5
"""The version of AddPartitionsToTxn from which leaders know TRANSACTION_ABORTABLE."""
EPOCH_PER_TRANSACTION_FROM: Final = 5
"""The version of EndTxn whose response has the epoch of the next transaction."""


# --- partitions of a transaction -------------------------------------------------------------------------------------


async def handle_add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, context: RequestContext, *, transactions: Transactions, metadata: MetadataCache
) -> AddPartitionsToTxnResponse:
    """Partitions join transactions, or are only verified to be in them; a client's request names one transaction."""
    by_broker = context.api_version >= SENT_BY_BROKERS_FROM
    if by_broker and (denied := cluster_error(Operation.CLUSTER_ACTION, context)) is not NONE:
        return await refused(context.pace, request, add_partitions_to_txn_error, denied)
    results = []
    async for one in context.pace.each(request.transactions):
        asked = frozenset(
            [
                TopicPartition(topic.name, index)
                async for topic in context.pace.each(one.topics)
                for index in topic.partitions
            ]
        )
        errors: Mapping[TopicPartition, ErrorCode] = {} if by_broker else _refused(one, asked, context, metadata)
        if not errors:
            errors = await _joined(one, asked, context, transactions, by_broker=by_broker)
        results.append(_result(one, errors))
    return AddPartitionsToTxnResponse(throttle_time=NO_WAIT, error_code=NONE, results_by_transaction=tuple(results))


def _refused(
    transaction: AddPartitionsToTxnTransaction,
    asked: frozenset[TopicPartition],
    context: RequestContext,
    metadata: MetadataCache,
) -> dict[TopicPartition, ErrorCode]:
    """The error of each partition of a client's request, if one of them cannot join; nothing is attempted then."""
    denied = transaction_error(Operation.WRITE, transaction.transactional_id, context)
    if denied is not NONE:
        return dict.fromkeys(asked, denied)
    forbidden = denied_topics(Operation.WRITE, {one.topic for one in asked}, context)
    errors = {one: ErrorCode.topic_authorization_failed for one in asked if one.topic in forbidden}
    for one in asked:
        if one not in errors and metadata.image.partition(one.topic, one.partition) is None:
            errors[one] = ErrorCode.unknown_topic_or_partition
    if not errors:
        return {}
    return {one: errors.get(one, ErrorCode.operation_not_attempted) for one in asked}


async def _joined(
    transaction: AddPartitionsToTxnTransaction,
    asked: frozenset[TopicPartition],
    context: RequestContext,
    transactions: Transactions,
    *,
    by_broker: bool,
) -> Mapping[TopicPartition, ErrorCode]:
    who = transaction.transactional_id, transaction.producer_id, transaction.producer_epoch
    if transaction.verify_only:
        verified = transactions.verify(VerifyPartitions(*who, asked))
        return {one: _verification_error(error, context) for one, error in verified.items()}
    version = EPOCH_PER_TRANSACTION if by_broker else 0
    join = partial(transactions.add_partitions, AddPartitions(*who, asked, version))
    return dict.fromkeys(asked, _known(await context.wait_briefly(join), context, FENCED_KNOWN_FROM))


def _verification_error(error: ErrorCode, context: RequestContext) -> ErrorCode:
    is_unknown = error is ErrorCode.transaction_abortable and context.api_version < ABORTABLE_KNOWN_FROM
    return ErrorCode.invalid_txn_state if is_unknown else error


def _result(
    transaction: AddPartitionsToTxnTransaction, errors: Mapping[TopicPartition, ErrorCode]
) -> AddPartitionsToTxnResult:
    return AddPartitionsToTxnResult(
        transactional_id=transaction.transactional_id,
        topic_results=tuple(
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=tuple(
                    AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=errors[TopicPartition(topic.name, index)]
                    )
                    for index in topic.partitions
                ),
            )
            for topic in transaction.topics
        ),
    )


def _known(error: ErrorCode, context: RequestContext, fenced_from: int) -> ErrorCode:
    """The error in a word that the client's version has."""
    is_unknown = error is ErrorCode.producer_fenced and context.api_version < fenced_from
    return ErrorCode.invalid_producer_epoch if is_unknown else error


# --- the end ---------------------------------------------------------------------------------------------------------


async def handle_end_txn(
    request: EndTxnRequest, context: RequestContext, *, transactions: Transactions, metadata: MetadataCache
) -> EndTxnResponse:
    """Commit or abort: the response comes when that is in the log, and markers follow."""
    denied = transaction_error(Operation.WRITE, request.transactional_id, context)
    if denied is not NONE:
        return await refused(context.pace, request, end_txn_error, denied)
    per_transaction = (
        context.api_version >= EPOCH_PER_TRANSACTION_FROM
        and metadata.image.feature_level(TRANSACTION_VERSION) >= EPOCH_PER_TRANSACTION
    )
    end = EndTxn(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        EPOCH_PER_TRANSACTION if per_transaction else 0,
    )
    ended = await context.wait_briefly(partial(transactions.end, end))
    return EndTxnResponse(
        throttle_time=NO_WAIT,
        error_code=_known(ended.error, context, FENCED_KNOWN_FROM),
        producer_id=ProducerId(ended.producer_id),
        producer_epoch=i16(ended.epoch),
    )


# --- what operators ask ----------------------------------------------------------------------------------------------


async def handle_describe_transactions(
    request: DescribeTransactionsRequest, context: RequestContext, *, transactions: Transactions
) -> DescribeTransactionsResponse:
    """The state of each transactional id, with those of its partitions that the client may describe.

    One that is named twice is described once.
    """
    states = []
    async for transactional_id in context.pace.each(dict.fromkeys(request.transactional_ids)):
        denied = transaction_error(Operation.DESCRIBE, transactional_id, context)
        error, found = (denied, None) if denied is not NONE else transactions.core().describe(transactional_id)
        if found is not None:
            states.append(await _described(transactional_id, found, context))
        else:
            one = dataclasses.replace(request, transactional_ids=(transactional_id,))
            states += at_once(describe_transactions_error(one, error)).transaction_states
    return DescribeTransactionsResponse(throttle_time=NO_WAIT, transaction_states=tuple(states))


async def _described(
    transactional_id: TransactionalId, metadata: TransactionMetadata, context: RequestContext
) -> DescribedTransaction:
    producer_id, epoch = metadata.ongoing
    topics: dict[str, list[i32]] = defaultdict(list)
    async for one in context.pace.each(sorted(metadata.partitions)):
        topics[one.topic].append(i32(one.partition))
    return DescribedTransaction(
        error_code=NONE,
        transactional_id=transactional_id,
        transaction_state=metadata.status.kafka_name,
        transaction_timeout=millis(metadata.timeout_ms),
        transaction_start_time=moment(metadata.start_ms),
        producer_id=ProducerId(producer_id),
        producer_epoch=i16(epoch),
        topics=tuple(
            TopicData(topic=TopicName(name), partitions=tuple(indexes))
            for name, indexes in topics.items()
            if topic_error(Operation.DESCRIBE, name, context) is NONE
        ),
    )


async def handle_list_transactions(
    request: ListTransactionsRequest, context: RequestContext, *, transactions: Transactions
) -> ListTransactionsResponse:
    """The transactional ids that this broker coordinates, as far as the filters and the client's rights let through.

    Errors: COORDINATOR_LOAD_IN_PROGRESS, INVALID_REGULAR_EXPRESSION.
    """
    try:
        pattern = NamePattern(request.transactional_id_pattern or ".*")
    except PatternError:
        return await refused(context.pace, request, list_transactions_error, ErrorCode.invalid_regular_expression)
    wanted = TransactionFilter(
        frozenset(request.state_filters),
        frozenset(request.producer_id_filters),
        request.duration_filter,
    )
    found = await context.pace.finish(transactions.core().list_transactions(wanted, transactions.now_ms))
    return ListTransactionsResponse(
        throttle_time=NO_WAIT,
        error_code=found.error,
        unknown_state_filters=tuple(found.unknown_states),
        transaction_states=tuple(
            [
                ListedTransaction(
                    transactional_id=TransactionalId(one.transactional_id),
                    producer_id=ProducerId(one.producer_id),
                    transaction_state=one.state,
                )
                async for one in context.pace.each(found.transactions)
                if await _matches(pattern, one.transactional_id, context)
                and transaction_error(Operation.DESCRIBE, one.transactional_id, context) is NONE
            ]
        ),
    )


async def _matches(pattern: NamePattern, transactional_id: str, context: RequestContext) -> bool:
    return await context.pace.finish(pattern.matching(transactional_id))
