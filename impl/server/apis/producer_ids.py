"""InitProducerId: a producer that wants to be idempotent gets a producer id (KIP-98, KIP-360, KIP-939).

An idempotent producer begins at epoch 0 and raises it by itself (KIP-360). A producer with a transactional id has its
id and epoch from its transaction coordinator. One that prepares its transactions for a database needs a
right of its own for that; the next one may keep what was prepared, and is told which transaction that is.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v6.response import InitProducerIdResponse
from kio.schema.types import ProducerId

from tidegauge.impl.coordinators.transactions.messages import InitProducerId
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.primitives import NO_WAIT, i16, to_millis

if TYPE_CHECKING:
    from kio.schema.init_producer_id.v6.request import InitProducerIdRequest

    from tidegauge.impl.server.broker.producer_ids import ProducerIdAllocator
    from tidegauge.impl.server.broker.transactions import Transactions
    from tidegauge.impl.server.transport.context import RequestContext

NO_ID: Final = -1
NO_EPOCH: Final = -1
FENCED_KNOWN_FROM: Final = 4
"""The version from which producers know PRODUCER_FENCED (KIP-588)."""


async def handle_init_producer_id(
    request: InitProducerIdRequest,
    context: RequestContext,
    *,
    producer_ids: ProducerIdAllocator,
    transactions: Transactions,
) -> InitProducerIdResponse:
    """A new id with epoch 0, or those of a transactional id. Without one the former id and epoch do not count."""
    error = _error(request, context)
    if error is not ErrorCode.none:
        return _response(error)
    if request.transactional_id is not None:
        begin = InitProducerId(
            request.transactional_id,
            to_millis(request.transaction_timeout),
            request.producer_id,
            request.producer_epoch,
            request.keep_prepared_txn,
            request.enable2_pc,
        )
        given = await context.wait_briefly(partial(transactions.init_producer_id, begin))
        is_unknown = given.error is ErrorCode.producer_fenced and context.api_version < FENCED_KNOWN_FROM
        error = ErrorCode.invalid_producer_epoch if is_unknown else given.error
        return _response(error, given.producer_id, given.epoch, given.ongoing)
    allocated = await producer_ids.allocate()
    return _response(allocated) if isinstance(allocated, ErrorCode) else _response(ErrorCode.none, allocated, 0)


def _error(request: InitProducerIdRequest, context: RequestContext) -> ErrorCode:
    transactional_id = request.transactional_id
    if transactional_id is not None:
        if not context.allowed(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            return ErrorCode.transactional_id_authorization_failed
        may_prepare = not request.enable2_pc or context.allowed(
            Operation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, transactional_id
        )
        if not may_prepare:
            return ErrorCode.transactional_id_authorization_failed
    elif not (
        context.allowed(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
        or context.allowed_anywhere(Operation.WRITE, ResourceType.TOPIC)
    ):
        return ErrorCode.cluster_authorization_failed
    if (request.producer_id == NO_ID) != (request.producer_epoch == NO_EPOCH) or transactional_id == "":
        return ErrorCode.invalid_request
    return ErrorCode.none


def _response(
    error: ErrorCode, producer_id: int = NO_ID, epoch: int = NO_EPOCH, ongoing: tuple[int, int] = (NO_ID, NO_EPOCH)
) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time=NO_WAIT,
        error_code=error,
        producer_id=ProducerId(producer_id),
        producer_epoch=i16(epoch),
        ongoing_txn_producer_id=ProducerId(ongoing[0]),
        ongoing_txn_producer_epoch=i16(ongoing[1]),
    )
