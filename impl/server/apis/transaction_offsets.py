"""Offsets in transactions: AddOffsetsToTxn at the coordinator of the transaction, TxnOffsetCommit at that of the group.

The partition of `__consumer_offsets` that has the group is a partition of the transaction like any other: a client of
version 1 adds it by AddOffsetsToTxn, one of version 2 by TxnOffsetCommit itself (KIP-890). Its leader asks the
transaction's coordinator before it lets a transaction begin there, and the marker that ends the transaction decides
whether the offsets count.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from kio.schema.add_offsets_to_txn.v4.response import AddOffsetsToTxnResponse
from kio.schema.errors import ErrorCode
from kio.schema.txn_offset_commit.v5.response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

from tidegauge.impl.coordinators.groups.requests import Commit, NewOffset
from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS
from tidegauge.impl.records.payload import ProducerIdentity
from tidegauge.impl.server.broker.groups import Groups
from tidegauge.impl.server.broker.transaction_verifier import TransactionVerifier, Unverified
from tidegauge.impl.server.broker.transactions import Transactions
from tidegauge.impl.server.error_responses.refused import refused
from tidegauge.impl.server.error_responses.transactions import add_offsets_to_txn_error, txn_offset_commit_error
from tidegauge.impl.server.requests.deleted_topics import of_topics_there
from tidegauge.impl.server.requests.rights import group_error, topic_error, transaction_error
from tidegauge.impl.server.transport.authorization import Operation
from tidegauge.impl.wire.primitives import NO_WAIT, TopicName

if TYPE_CHECKING:
    from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
    from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequest

    from tidegauge.impl.server.broker.internal_topics import InternalTopics
    from tidegauge.impl.server.broker.metadata_cache import MetadataCache
    from tidegauge.impl.server.transport.context import RequestContext

NONE: Final = ErrorCode.none
FENCED_KNOWN_FROM: Final = 2
"""The version of AddOffsetsToTxn from which clients know PRODUCER_FENCED (KIP-588)."""
LOADING_KNOWN_FROM: Final = 2
"""The version of TxnOffsetCommit from which clients survive COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""
ABORTABLE_KNOWN_FROM: Final = 4
"""The version of TxnOffsetCommit from which clients know TRANSACTION_ABORTABLE."""
ADDS_FROM: Final = 5
"""The version of TxnOffsetCommit by which the group's partition joins the transaction."""
KNOWN_TO_PRODUCERS: Final[Mapping[ErrorCode, ErrorCode]] = {
    ErrorCode.stale_member_epoch: ErrorCode.illegal_generation,
    ErrorCode.rebalance_in_progress: ErrorCode.illegal_generation,
}
"""TxnOffsetCommit has one error for a member whose time is over: upon others producers give up, and do not abort."""


def _denied(transactional_id: str, group_id: str, context: RequestContext) -> ErrorCode:
    """The error of a client without the right to write the transactional id, or to read the group."""
    denied = transaction_error(Operation.WRITE, transactional_id, context)
    return group_error(Operation.READ, group_id, context) if denied is NONE else denied


async def handle_add_offsets_to_txn(
    request: AddOffsetsToTxnRequest,
    context: RequestContext,
    *,
    transactions: Transactions,
    groups: Groups,
    internal_topics: InternalTopics,
) -> AddOffsetsToTxnResponse:
    """The group's partition joins the transaction; its topic is created before, for some clients ask for this first.

    Errors: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, COORDINATOR_NOT_AVAILABLE while there is
    no such topic, and those of AddPartitionsToTxn.
    """
    denied = _denied(request.transactional_id, request.group_id, context)
    if denied is not NONE:
        return await refused(context.pace, request, add_offsets_to_txn_error, denied)
    if await context.wait_briefly(partial(internal_topics.require, CONSUMER_OFFSETS)):
        return await refused(context.pace, request, add_offsets_to_txn_error, ErrorCode.coordinator_not_available)
    who = request.transactional_id, request.producer_id, request.producer_epoch
    add = partial(transactions.add_offsets, *who, groups.partition_of(request.group_id))
    error = await context.wait_briefly(add)
    if error is ErrorCode.producer_fenced and context.api_version < FENCED_KNOWN_FROM:
        error = ErrorCode.invalid_producer_epoch
    return AddOffsetsToTxnResponse(throttle_time=NO_WAIT, error_code=error)


async def handle_txn_offset_commit(
    request: TxnOffsetCommitRequest,
    context: RequestContext,
    *,
    groups: Groups,
    metadata: MetadataCache,
    transaction_verifier: TransactionVerifier,
) -> TxnOffsetCommitResponse:
    """Commit offsets that count when the transaction does; each partition has an error of its own.

    Errors: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID;
    TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION; those of the core (`impl.coordinators.groups.coordinator`);
    INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE and what the transaction's coordinator says; and the coordinator's own.
    """
    denied = _denied(request.transactional_id, request.group_id, context)
    if denied is NONE and not request.group_id:
        denied = ErrorCode.invalid_group_id
    if denied is not NONE:
        return await refused(context.pace, request, txn_offset_commit_error, denied)
    offsets: list[NewOffset] = []
    errors: dict[tuple[str, int], ErrorCode] = {}
    for topic in request.topics:
        refusal = topic_error(Operation.READ, topic.name, context)
        async for one in context.pace.each(topic.partitions):
            error = refusal
            if error is NONE and metadata.image.partition(topic.name, one.partition_index) is None:
                error = ErrorCode.unknown_topic_or_partition
            if error is not NONE:
                errors[topic.name, one.partition_index] = error
            else:
                epoch, text = one.committed_leader_epoch, one.committed_metadata or ""
                offsets.append(NewOffset(topic.name, one.partition_index, one.committed_offset, epoch, text))
    if offsets:
        commit = Commit(
            request.group_id,
            offsets,
            generation=request.generation_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            is_transactional=True,
            version=context.api_version,
            topic_ids={name: metadata.image.topics[name].topic_id for name in {one.topic for one in offsets}},
        )
        for part in commit.parts():
            errors |= await _committed(part, request, context, groups, metadata, transaction_verifier)
    topics = []
    for topic in request.topics:
        partitions = [
            TxnOffsetCommitResponsePartition(
                partition_index=one.partition_index,
                error_code=errors.get((topic.name, one.partition_index), NONE),
            )
            async for one in context.pace.each(topic.partitions)
        ]
        topics.append(TxnOffsetCommitResponseTopic(name=TopicName(topic.name), partitions=tuple(partitions)))
    return TxnOffsetCommitResponse(throttle_time=NO_WAIT, topics=tuple(topics))


async def _committed(
    commit: Commit,
    request: TxnOffsetCommitRequest,
    context: RequestContext,
    groups: Groups,
    metadata: MetadataCache,
    verifier: TransactionVerifier,
) -> Mapping[tuple[str, int], ErrorCode]:
    """The errors of a commit, by topic and partition."""
    own: Mapping[tuple[str, int], ErrorCode] = {}
    error = await _verification_error(request, context, groups, verifier)
    commit, gone = of_topics_there(commit, metadata.image)
    if error is NONE:
        led = groups.led(commit.group)
        if isinstance(led, ErrorCode):
            error = led
        else:
            ruling = led.state.commit(commit, groups.now_ms)
            own = ruling.refused
            producer = ProducerIdentity(request.producer_id, request.producer_epoch)
            error = await context.wait_briefly(partial(groups.carry_out, led, ruling, producer))
    if error is ErrorCode.coordinator_load_in_progress and context.api_version < LOADING_KNOWN_FROM:
        error = ErrorCode.coordinator_not_available
    whole = {} if error is NONE else {(one.topic, one.partition): error for one in commit.offsets}
    errors = {**dict.fromkeys(gone, ErrorCode.unknown_topic_or_partition), **whole, **own}
    return {place: KNOWN_TO_PRODUCERS.get(error, error) for place, error in errors.items()}


async def _verification_error(
    request: TxnOffsetCommitRequest, context: RequestContext, groups: Groups, verifier: TransactionVerifier
) -> ErrorCode:
    """Have the transaction's coordinator verify it where the transaction has not begun in the group's partition."""
    led = groups.led(request.group_id)
    if isinstance(led, ErrorCode):
        return led
    partition = groups.hosted(led)
    who = request.producer_id, request.producer_epoch
    if partition is None or partition.replica.coordinators_batch_error(*who) is not ErrorCode.invalid_txn_state:
        return NONE
    refusals = await context.wait_briefly(
        lambda: verifier.verify(
            request.transactional_id,
            [Unverified(partition, *who)],
            adds=context.api_version >= ADDS_FROM,
            knows_abortable=context.api_version >= ABORTABLE_KNOWN_FROM,
        )
    )
    refusal = refusals.get(partition.key)
    if refusal is None:
        return NONE
    if refusal.error is ErrorCode.not_enough_replicas:
        return ErrorCode.coordinator_load_in_progress  # upon which clients ask again, and look for nobody else
    return refusal.error
