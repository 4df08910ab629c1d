"""Error responses: producer ids and transactions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import TYPE_CHECKING

from kio.schema.add_offsets_to_txn.v4.response import AddOffsetsToTxnResponse
from kio.schema.add_partitions_to_txn.v5.response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kio.schema.describe_transactions.v0.response import DescribeTransactionsResponse, TransactionState
from kio.schema.end_txn.v5.response import EndTxnResponse
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v6.response import InitProducerIdResponse
from kio.schema.list_transactions.v2.response import ListTransactionsResponse
from kio.schema.txn_offset_commit.v5.response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kio.schema.types import ProducerId
from kio.schema.write_txn_markers.v2.response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

from tidegauge.impl.records.slices import Sliced, done, mapped, mapped_in_slices
from tidegauge.impl.wire.message_classes import EPOCH
from tidegauge.impl.wire.primitives import NO_WAIT, i16

if TYPE_CHECKING:
    from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
    from kio.schema.add_partitions_to_txn.v5.request import (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnTopic,
        AddPartitionsToTxnTransaction,
    )
    from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
    from kio.schema.end_txn.v5.request import EndTxnRequest
    from kio.schema.init_producer_id.v6.request import InitProducerIdRequest
    from kio.schema.list_transactions.v2.request import ListTransactionsRequest
    from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic
    from kio.schema.write_txn_markers.v2.request import (
        WritableTxnMarker,
        WritableTxnMarkerTopic,
        WriteTxnMarkersRequest,
    )


def init_producer_id_error(
    _: InitProducerIdRequest, error: ErrorCode, _message: str = ""
) -> Sliced[InitProducerIdResponse]:
    """The error alone."""
    return done(InitProducerIdResponse(throttle_time=NO_WAIT, error_code=error, producer_epoch=i16(-1)))


def add_partitions_to_txn_error(
    request: AddPartitionsToTxnRequest, error: ErrorCode, _: str = ""
) -> Sliced[AddPartitionsToTxnResponse]:
    """The error, for the request and for every partition of it."""

    def of_transaction(transaction: AddPartitionsToTxnTransaction) -> Sliced[AddPartitionsToTxnResult]:
        def of_topic(topic: AddPartitionsToTxnTopic) -> Sliced[AddPartitionsToTxnTopicResult]:
            results_by_partition = yield from mapped(
                topic.partitions,
                lambda index: AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error),
            )
            return AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=results_by_partition)

        topic_results = yield from mapped_in_slices(transaction.topics, of_topic)
        return AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=topic_results)

    results_by_transaction = yield from mapped_in_slices(request.transactions, of_transaction)
    return AddPartitionsToTxnResponse(
        throttle_time=NO_WAIT, error_code=error, results_by_transaction=results_by_transaction
    )


def add_offsets_to_txn_error(
    _: AddOffsetsToTxnRequest, error: ErrorCode, _message: str = ""
) -> Sliced[AddOffsetsToTxnResponse]:
    """The error alone."""
    return done(AddOffsetsToTxnResponse(throttle_time=NO_WAIT, error_code=error))


def end_txn_error(_: EndTxnRequest, error: ErrorCode, _message: str = "") -> Sliced[EndTxnResponse]:
    """The error alone."""
    return done(EndTxnResponse(throttle_time=NO_WAIT, error_code=error))


def write_txn_markers_error(
    request: WriteTxnMarkersRequest, error: ErrorCode, _: str = ""
) -> Sliced[WriteTxnMarkersResponse]:
    """Every partition of the request, with the error."""
    return write_txn_markers_response(request, repeat(error))


def write_txn_markers_response(
    request: WriteTxnMarkersRequest, errors: Iterator[ErrorCode]
) -> Sliced[WriteTxnMarkersResponse]:
    """Every partition of the request in its order, each with the next of these errors."""

    def of_marker(marker: WritableTxnMarker) -> Sliced[WritableTxnMarkerResult]:
        def of_topic(topic: WritableTxnMarkerTopic) -> Sliced[WritableTxnMarkerTopicResult]:
            partitions = yield from mapped(
                topic.partition_indexes,
                lambda index: WritableTxnMarkerPartitionResult(partition_index=index, error_code=next(errors)),
            )
            return WritableTxnMarkerTopicResult(name=topic.name, partitions=partitions)

        topics = yield from mapped_in_slices(marker.topics, of_topic)
        return WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics)

    markers = yield from mapped_in_slices(request.markers, of_marker)
    return WriteTxnMarkersResponse(markers=markers)


def txn_offset_commit_error(
    request: TxnOffsetCommitRequest, error: ErrorCode, _: str = ""
) -> Sliced[TxnOffsetCommitResponse]:
    """Every partition of the request, with the error."""

    def of_topic(topic: TxnOffsetCommitRequestTopic) -> Sliced[TxnOffsetCommitResponseTopic]:
        partitions = yield from mapped(
            topic.partitions,
            lambda partition: TxnOffsetCommitResponsePartition(
                partition_index=partition.partition_index, error_code=error
            ),
        )
        return TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions)

    topics = yield from mapped_in_slices(request.topics, of_topic)
    return TxnOffsetCommitResponse(throttle_time=NO_WAIT, topics=topics)


def describe_transactions_error(
    request: DescribeTransactionsRequest, error: ErrorCode, _: str = ""
) -> Sliced[DescribeTransactionsResponse]:
    """Every transactional id of the request, with the error."""
    transaction_states = yield from mapped(
        request.transactional_ids,
        lambda transactional_id: TransactionState(
            error_code=error,
            transactional_id=transactional_id,
            transaction_state="",
            transaction_timeout=NO_WAIT,
            transaction_start_time=EPOCH,
            producer_id=ProducerId(0),
            producer_epoch=i16(0),
            topics=(),
        ),
    )
    return DescribeTransactionsResponse(throttle_time=NO_WAIT, transaction_states=transaction_states)


def list_transactions_error(
    _: ListTransactionsRequest, error: ErrorCode, _message: str = ""
) -> Sliced[ListTransactionsResponse]:
    """The error alone."""
    return done(ListTransactionsResponse(throttle_time=NO_WAIT, error_code=error, transaction_states=()))
