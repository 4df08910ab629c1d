"""WriteTxnMarkers: a coordinator ends transactions in the partitions that are led here (KIP-98)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS
from tidegauge.impl.records.markers import TransactionMarker
from tidegauge.impl.server.broker.appends import AppendOutcome, AppendState, PartitionMarker
from tidegauge.impl.server.broker.groups import Groups
from tidegauge.impl.server.broker.replica_manager import ReplicaManager
from tidegauge.impl.server.error_responses.refused import refused
from tidegauge.impl.server.error_responses.transactions import write_txn_markers_error, write_txn_markers_response
from tidegauge.impl.server.requests.rights import cluster_error
from tidegauge.impl.server.transport.authorization import Operation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WriteTxnMarkersRequest
    from kio.schema.write_txn_markers.v2.response import WriteTxnMarkersResponse

    from tidegauge.impl.server.transport.context import RequestContext

TIMEOUT_MS: Final = 30_000
"""How long the commit of a marker is waited for; Kafka takes its `request.timeout.ms`."""


async def handle_write_txn_markers(
    request: WriteTxnMarkersRequest, context: RequestContext, *, replicas: ReplicaManager, groups: Groups
) -> WriteTxnMarkersResponse:
    """Append the markers, and respond when they are committed; each partition has an error of its own.

    A marker in a partition of `__consumer_offsets` goes by the coordinator of groups, whose offsets it decides.
    Errors: CLUSTER_AUTHORIZATION_FAILED, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, REQUEST_TIMED_OUT, and
    those of an append with acks=all.
    """
    # A coordinator's, or that of an operator who ends a hanging transaction (KIP-1037).
    denied = cluster_error(Operation.CLUSTER_ACTION, context)
    if denied is not ErrorCode.none and cluster_error(Operation.ALTER, context) is not ErrorCode.none:
        return await refused(context.pace, request, write_txn_markers_error, denied)
    pace = context.pace
    appends = [append async for marker in pace.each(request.markers) async for append in pace.each(_appends(marker), 1)]
    errors: dict[int, ErrorCode] = {}
    async with trio.open_nursery() as nursery:
        others: list[int] = []
        async for place in pace.each(range(len(appends)), 1):
            if appends[place].topic == CONSUMER_OFFSETS:
                nursery.start_soon(_end_in_group_offsets, appends[place], groups, errors, place)
            else:
                others.append(place)
        outcomes = await replicas.append_markers([appends[place] for place in others], timeout_ms=TIMEOUT_MS, pace=pace)
    errors.update(zip(others, map(_error, outcomes), strict=True))
    in_order = map(errors.__getitem__, range(len(appends)))
    return await pace.finish(write_txn_markers_response(request, in_order))


async def _end_in_group_offsets(
    append: PartitionMarker, groups: Groups, errors: dict[int, ErrorCode], place: int
) -> None:
    errors[place] = await groups.append_marker(append, TIMEOUT_MS)


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
