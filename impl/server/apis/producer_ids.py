"""InitProducerId: a producer that wants to be idempotent gets a producer id (KIP-98, KIP-360).

An idempotent producer begins at epoch 0 and raises it by itself (KIP-360). A request with a transactional id is for a
transaction coordinator, which this broker is for none: NOT_COORDINATOR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse
from kio.schema.types import ProducerId

from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.primitives import NO_WAIT, i16

if TYPE_CHECKING:
    from kio.schema.init_producer_id.v5.request import InitProducerIdRequest

    from tidegauge.impl.server.broker.producer_ids import ProducerIdAllocator
    from tidegauge.impl.server.transport.context import RequestContext

NO_ID: Final = -1
NO_EPOCH: Final = -1


async def handle_init_producer_id(
    request: InitProducerIdRequest, context: RequestContext, *, producer_ids: ProducerIdAllocator
) -> InitProducerIdResponse:
    """A new id with epoch 0. Without a transactional id the producer's former id and epoch do not count."""
    error = _error(request, context)
    if error is not ErrorCode.none:
        return _response(error)
    allocated = await producer_ids.allocate()
    return _response(allocated) if isinstance(allocated, ErrorCode) else _response(ErrorCode.none, allocated, 0)


def _error(request: InitProducerIdRequest, context: RequestContext) -> ErrorCode:
    transactional_id = request.transactional_id
    if transactional_id is not None:
        if not context.allowed(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            return ErrorCode.transactional_id_authorization_failed
    elif not (
        context.allowed(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
        or context.allowed_anywhere(Operation.WRITE, ResourceType.TOPIC)
    ):
        return ErrorCode.cluster_authorization_failed
    if (request.producer_id == NO_ID) != (request.producer_epoch == NO_EPOCH) or transactional_id == "":
        return ErrorCode.invalid_request
    return ErrorCode.none if transactional_id is None else ErrorCode.not_coordinator


def _response(error: ErrorCode, producer_id: int = NO_ID, epoch: int = NO_EPOCH) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time=NO_WAIT, error_code=error, producer_id=ProducerId(producer_id), producer_epoch=i16(epoch)
    )
