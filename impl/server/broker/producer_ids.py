"""InitProducerId: a producer that wants to be idempotent gets an id that nobody else has or had (KIP-98, KIP-704).

A broker gives ids out of a block that it has from the controller, and fetches the next one when that is used up; while
one request fetches it, others wait for it. An idempotent producer begins at epoch 0 and raises it by itself (KIP-360).

With a transactional id the request is for a transaction coordinator, which this broker is for none: NOT_COORDINATOR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio
from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse
from kio.schema.types import ProducerId

from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.channel import NoAnswerError, UnreachableError
from tidegauge.impl.wire.primitives import NO_WAIT, BrokerId, i16, i64

if TYPE_CHECKING:
    from kio.schema.init_producer_id.v5.request import InitProducerIdRequest

    from tidegauge.impl.server.broker_server import Broker
    from tidegauge.impl.server.transport.context import RequestContext

NO_ID: Final = -1
NO_EPOCH: Final = -1


class ProducerIdAllocator:
    """One broker's block of producer ids."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._next = 0
        self._end = 0
        self._fetching = trio.Lock()

    async def allocate(self) -> int | ErrorCode:
        """An id that was never given before; COORDINATOR_LOAD_IN_PROGRESS when no block can be had now."""
        async with self._fetching:
            if self._next == self._end and (error := await self._fetch_block()) is not ErrorCode.none:
                return error
            self._next += 1
            return self._next - 1

    async def _fetch_block(self) -> ErrorCode:
        broker = self._broker
        request = AllocateProducerIdsRequest(
            broker_id=BrokerId(broker.id), broker_epoch=i64(broker.registration.broker_epoch)
        )
        try:
            answer = await broker.controller.forward(request)
        except (UnreachableError, NoAnswerError):
            return ErrorCode.coordinator_load_in_progress
        if answer.error_code is not ErrorCode.none:
            # The broker may just have registered anew: a client asks again, and gets an id.
            return ErrorCode.coordinator_load_in_progress
        self._next = answer.producer_id_start
        self._end = answer.producer_id_start + answer.producer_id_len
        return ErrorCode.none


async def handle_init_producer_id(
    request: InitProducerIdRequest, context: RequestContext, *, producer_ids: ProducerIdAllocator
) -> InitProducerIdResponse:
    """A new id in epoch 0; what id and epoch the producer had before does not matter without a transactional id."""
    error = _error(request, context)
    if error is not ErrorCode.none:
        return _answer(error)
    allocated = await producer_ids.allocate()
    return _answer(allocated) if isinstance(allocated, ErrorCode) else _answer(ErrorCode.none, allocated, 0)


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


def _answer(error: ErrorCode, producer_id: int = NO_ID, epoch: int = NO_EPOCH) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time=NO_WAIT, error_code=error, producer_id=ProducerId(producer_id), producer_epoch=i16(epoch)
    )
