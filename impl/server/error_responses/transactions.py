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

from tidegauge.impl.wire.message_classes import EPOCH
from tidegauge.impl.wire.primitives import NO_WAIT, i16

if TYPE_CHECKING:
    from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
    from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnRequest
    from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
    from kio.schema.end_txn.v5.request import EndTxnRequest
    from kio.schema.init_producer_id.v6.request import InitProducerIdRequest
    from kio.schema.list_transactions.v2.request import ListTransactionsRequest
    from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequest
    from kio.schema.write_txn_markers.v2.request import WriteTxnMarkersRequest


def init_producer_id_error(_: InitProducerIdRequest, error: ErrorCode, _message: str = "") -> InitProducerIdResponse:
    """The error alone."""
    return InitProducerIdResponse(throttle_time=NO_WAIT, error_code=error, producer_epoch=i16(-1))


def add_partitions_to_txn_error(
    request: AddPartitionsToTxnRequest, error: ErrorCode, _: str = ""
) -> AddPartitionsToTxnResponse:
    """The error, for the request and for every partition of it."""
    return AddPartitionsToTxnResponse(
        throttle_time=NO_WAIT,
        error_code=error,
        results_by_transaction=tuple(
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=tuple(
                    AddPartitionsToTxnTopicResult(
                        name=topic.name,
                        results_by_partition=tuple(
                            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
                            for index in topic.partitions
                        ),
                    )
                    for topic in transaction.topics
                ),
            )
            for transaction in request.transactions
        ),
    )


def add_offsets_to_txn_error(
    _: AddOffsetsToTxnRequest, error: ErrorCode, _message: str = ""
) -> AddOffsetsToTxnResponse:
    """The error alone."""
    return AddOffsetsToTxnResponse(throttle_time=NO_WAIT, error_code=error)


def end_txn_error(_: EndTxnRequest, error: ErrorCode, _message: str = "") -> EndTxnResponse:
    """The error alone."""
    return EndTxnResponse(throttle_time=NO_WAIT, error_code=error)


def write_txn_markers_error(request: WriteTxnMarkersRequest, error: ErrorCode, _: str = "") -> WriteTxnMarkersResponse:
    """Every partition of the request, with the error."""
    return write_txn_markers_response(request, repeat(error))


def write_txn_markers_response(request: WriteTxnMarkersRequest, errors: Iterator[ErrorCode]) -> WriteTxnMarkersResponse:
    """Every partition of the request in its order, each with the next of these errors."""
    return WriteTxnMarkersResponse(
        markers=tuple(
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=tuple(
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=tuple(
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=next(errors))
                            for index in topic.partition_indexes
                        ),
                    )
                    for topic in marker.topics
                ),
            )
            for marker in request.markers
        )
    )


def txn_offset_commit_error(request: TxnOffsetCommitRequest, error: ErrorCode, _: str = "") -> TxnOffsetCommitResponse:
    """Every partition of the request, with the error."""
    return TxnOffsetCommitResponse(
        throttle_time=NO_WAIT,
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def describe_transactions_error(
    request: DescribeTransactionsRequest, error: ErrorCode, _: str = ""
) -> DescribeTransactionsResponse:
    """Every transactional id of the request, with the error."""
    return DescribeTransactionsResponse(
        throttle_time=NO_WAIT,
        transaction_states=tuple(
            TransactionState(
                error_code=error,
                transactional_id=transactional_id,
                transaction_state="",
                transaction_timeout=NO_WAIT,
                transaction_start_time=EPOCH,
                producer_id=ProducerId(0),
                producer_epoch=i16(0),
                topics=(),
            )
            for transactional_id in request.transactional_ids
        ),
    )


def list_transactions_error(
    _: ListTransactionsRequest, error: ErrorCode, _message: str = ""
) -> ListTransactionsResponse:
    """The error alone."""
    return ListTransactionsResponse(throttle_time=NO_WAIT, error_code=error, transaction_states=())
