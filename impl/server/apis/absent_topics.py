"""Requests about groups and transactions that name topics, where there are neither: the rights on topics come first.

What may not be done to a topic is told before anybody looks for the group or the transaction, as Kafka does it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from tidegauge.impl.server.apis.absent_coordinators import NO_GROUPS, group_error, on_transaction
from tidegauge.impl.server.error_responses.table import error_response
from tidegauge.impl.server.transport.authorization import Operation, ResourceType

if TYPE_CHECKING:
    from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnRequest, AddPartitionsToTxnTransaction
    from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
    from kio.schema.offset_delete.v0.request import OffsetDeleteRequest
    from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequest

    from tidegauge.impl.server.transport.context import RequestContext

ASKED_BY_BROKERS_FROM: Final = 4
"""The version of AddPartitionsToTxn from which it is for brokers, which verify with it (KIP-890)."""

NONE: Final = ErrorCode.none


async def handle_offset_delete(request: OffsetDeleteRequest, context: RequestContext) -> Any:
    """GROUP_AUTHORIZATION_FAILED, or TOPIC_AUTHORIZATION_FAILED where no topic may be read, or GROUP_ID_NOT_FOUND."""
    denied = group_error(Operation.DELETE, request.group_id, context)
    if denied is not NONE:
        return error_response(request, denied)
    forbidden = _forbidden((topic.name for topic in request.topics), Operation.READ, context)
    if request.topics and len(forbidden) == len(request.topics):
        return dataclasses.replace(error_response(request, ErrorCode.topic_authorization_failed), error_code=NONE)
    return error_response(request, ErrorCode.group_id_not_found)


async def handle_consumer_group_heartbeat(request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> Any:
    """GROUP_AUTHORIZATION_FAILED, or TOPIC_AUTHORIZATION_FAILED for a topic that may not be described, or
    UNSUPPORTED_VERSION.
    """
    denied = group_error(Operation.READ, request.group_id, context)
    if denied is not NONE:
        return error_response(request, denied)
    if _forbidden(request.subscribed_topic_names or (), Operation.DESCRIBE, context):
        return error_response(request, ErrorCode.topic_authorization_failed)
    return error_response(request, ErrorCode.unsupported_version, NO_GROUPS)


async def handle_txn_offset_commit(request: TxnOffsetCommitRequest, context: RequestContext) -> Any:
    """TOPIC_AUTHORIZATION_FAILED for topics that may not be read, INVALID_PRODUCER_ID_MAPPING for the others."""
    denied = on_transaction(Operation.WRITE, group=True)(request, context)
    if denied is not NONE:
        return error_response(request, denied)
    forbidden = _forbidden((topic.name for topic in request.topics), Operation.READ, context)

    def error_of(topic: str) -> ErrorCode:
        return ErrorCode.topic_authorization_failed if topic in forbidden else ErrorCode.invalid_producer_id_mapping

    answers = [
        error_response(dataclasses.replace(request, topics=(topic,)), error_of(topic.name)) for topic in request.topics
    ]
    topics = tuple(topic for answer in answers for topic in answer.topics)
    return dataclasses.replace(error_response(request, NONE), topics=topics)


async def handle_add_partitions_to_txn(request: AddPartitionsToTxnRequest, context: RequestContext) -> Any:
    """A client's request: TRANSACTIONAL_ID_AUTHORIZATION_FAILED; TOPIC_AUTHORIZATION_FAILED for topics that may not be
    written, and then OPERATION_NOT_ATTEMPTED for the others; INVALID_PRODUCER_ID_MAPPING. A broker's:
    CLUSTER_AUTHORIZATION_FAILED.
    """
    by_broker = context.api_version >= ASKED_BY_BROKERS_FROM
    if by_broker and not context.allowed(Operation.CLUSTER_ACTION, ResourceType.CLUSTER):
        return error_response(request, ErrorCode.cluster_authorization_failed)
    results: list[Any] = []
    for transaction in request.transactions:
        error_of = _errors_of(transaction, context, by_broker=by_broker)
        asked = dataclasses.replace(request, transactions=(transaction,))
        (result,) = error_response(asked, NONE).results_by_transaction
        topics = []
        for topic in transaction.topics:
            only = dataclasses.replace(transaction, topics=(topic,))
            one = error_response(dataclasses.replace(request, transactions=(only,)), error_of(topic.name))
            topics += one.results_by_transaction[0].topic_results
        results.append(dataclasses.replace(result, topic_results=tuple(topics)))
    answer = error_response(request, NONE)
    return dataclasses.replace(answer, results_by_transaction=tuple(results))


def _errors_of(
    transaction: AddPartitionsToTxnTransaction, context: RequestContext, *, by_broker: bool
) -> Callable[[str], ErrorCode]:
    denied = NONE if by_broker else on_transaction(Operation.WRITE)(transaction, context)
    if denied is not NONE:
        return lambda _: denied
    names = [topic.name for topic in transaction.topics]
    forbidden = set() if by_broker else _forbidden(names, Operation.WRITE, context)
    others = ErrorCode.operation_not_attempted if forbidden else ErrorCode.invalid_producer_id_mapping
    return lambda topic: ErrorCode.topic_authorization_failed if topic in forbidden else others


def _forbidden(topics: Iterable[str], operation: Operation, context: RequestContext) -> set[str]:
    return {topic for topic in topics if not context.allowed(operation, ResourceType.TOPIC, topic)}
