"""AllocateProducerIds at the controller (KIP-704): brokers ask for it when their block comes to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.allocate_producer_ids.v0.response import AllocateProducerIdsResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import ProducerId

from tidegauge.impl.wire.primitives import NO_WAIT, i32

if TYPE_CHECKING:
    from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest

    from tidegauge.impl.server.controller.node import ControllerNode
    from tidegauge.impl.server.transport.context import RequestContext


async def handle_allocate_producer_ids(
    request: AllocateProducerIdsRequest, _: RequestContext, *, node: ControllerNode
) -> AllocateProducerIdsResponse:
    """The next block, once it is in the metadata log."""
    with node.decision():
        block = node.controller.allocate_producer_ids(request.broker_id, request.broker_epoch)
    if isinstance(block, ErrorCode):
        return AllocateProducerIdsResponse(
            throttle_time=NO_WAIT, error_code=block, producer_id_start=ProducerId(-1), producer_id_len=i32(0)
        )
    return AllocateProducerIdsResponse(
        throttle_time=NO_WAIT,
        error_code=ErrorCode.none,
        producer_id_start=ProducerId(block.first),
        producer_id_len=i32(block.size),
    )
