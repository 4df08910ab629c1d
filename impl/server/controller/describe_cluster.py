"""DescribeCluster at a controller (KIP-919): the cluster's id, and the controllers that are known.

A broker asks for the id before it opens its directories, which may be another cluster's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kio.schema.describe_cluster.v2.response import DescribeClusterBroker, DescribeClusterResponse
from kio.schema.errors import ErrorCode

from tidegauge.impl.records.slices import at_once
from tidegauge.impl.server.error_responses.cluster import describe_cluster_error
from tidegauge.impl.wire.primitives import NO_WAIT, BrokerId, i32

if TYPE_CHECKING:
    from kio.schema.describe_cluster.v2.request import DescribeClusterRequest

    from tidegauge.impl.controller.controller import Controller
    from tidegauge.impl.server.transport.context import RequestContext

CONTROLLERS: Final = 2


async def handle_describe_cluster(
    request: DescribeClusterRequest, _: RequestContext, *, controller: Controller, cluster_id: str
) -> DescribeClusterResponse:
    """The controllers that have been active. A controller does not list brokers: MISMATCHED_ENDPOINT_TYPE."""
    if request.endpoint_type != CONTROLLERS:
        error = ErrorCode.mismatched_endpoint_type
        return at_once(describe_cluster_error(request, error, "a controller describes controllers: ask for type 2"))
    known = sorted(controller.image.controllers.items())
    return DescribeClusterResponse(
        throttle_time=NO_WAIT,
        error_code=ErrorCode.none,
        endpoint_type=request.endpoint_type,
        cluster_id=cluster_id,
        controller_id=BrokerId(controller.image.controller_id),
        brokers=tuple(
            DescribeClusterBroker(broker_id=BrokerId(one), host=where.host, port=i32(where.port), is_fenced=False)
            for one, where in known
        ),
    )
