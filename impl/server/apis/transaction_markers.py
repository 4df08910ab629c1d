"""WriteTxnMarkers: a coordinator ends transactions in the partitions that are led here (KIP-98)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from tidegauge.impl.records.markers import TransactionMarker
from tidegauge.impl.server.broker.appends import AppendOutcome, AppendState, PartitionMarker
from tidegauge.impl.server.broker.replica_manager import ReplicaManager
from tidegauge.impl.server.error_responses.chunks import refused, refusing
from tidegauge.impl.server.error_responses.transactions import write_txn_markers_error, write_txn_markers_response
from tidegauge.impl.server.rights import cluster_error
from tidegauge.impl.server.transport.authorization import Operation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WriteTxnMarkersRequest
    from kio.schema.write_txn_markers.v2.response import WriteTxnMarkersResponse

    from tidegauge.impl.server.transport.context import RequestContext

TIMEOUT_MS: Final = 30_000
"""How long the commit of a marker is waited for; Kafka takes its `request.timeout.ms`."""


async def handle_write_txn_markers(
    request: WriteTxnMarkersRequest, context: RequestContext, *, replicas: ReplicaManager
) -> WriteTxnMarkersResponse:
    """Append the markers, and respond when they are committed; each partition has an error of its own.

    Errors: CLUSTER_AUTHORIZATION_FAILED, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, REQUEST_TIMED_OUT, and
    those of an append with acks=all.
    """
    denied = cluster_error(Operation.CLUSTER_ACTION, context)
    if denied is not ErrorCode.none:
        return await refused(context.pace, request, write_txn_markers_error, denied)
    pace = context.pace
    appends = [append async for marker in pace.each(request.markers) async for append in pace.each(_appends(marker), 1)]
    outcomes = await replicas.append_markers(appends, timeout_ms=TIMEOUT_MS, pace=context.pace)
    outcome = iter(outcomes)
    return await pace.finish(refusing(request, lambda some: write_txn_markers_response(some, map(_error, outcome))))


def _appends(marker: WritableTxnMarker) -> Iterator[PartitionMarker]:
    end = TransactionMarker(
        marker.producer_id, marker.producer_epoch, marker.transaction_result, marker.coordinator_epoch
    )
    return (
        PartitionMarker(topic.name, index, end, marker.transaction_version)
        for topic in marker.topics
        for index in topic.partition_indexes
    )


def _error(outcome: AppendOutcome) -> ErrorCode:
    return ErrorCode.request_timed_out if outcome.state is AppendState.PENDING else outcome.error
