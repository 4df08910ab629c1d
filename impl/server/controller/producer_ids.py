"""AllocateProducerIds at the controller (KIP-730): a broker asks for a block when it has used the one before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.allocate_producer_ids.v0.response import AllocateProducerIdsResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import ProducerId

from tidegauge.impl.wire.primitives import NO_WAIT, i32

if TYPE_CHECKING:
    from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest

    from tidegauge.impl.server.controller.decisions import Decisions
    from tidegauge.impl.server.transport.context import RequestContext


async def handle_allocate_producer_ids(
    request: AllocateProducerIdsRequest, _: RequestContext, *, decisions: Decisions
) -> AllocateProducerIdsResponse:
    """The next block, once it is in the metadata log."""
    async with decisions.turn() as turn:
        block = await turn.commit(turn.controller.producer_ids.allocate(request.broker_id, request.broker_epoch))
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
