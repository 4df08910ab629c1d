"""Producer ids: each one is given to one producer, by any broker, once (KIP-98, KIP-730).

The controller gives brokers blocks of ids (AllocateProducerIds). A broker gives out the ids of its block one by one,
and fetches the next block when that one is used up. While one request fetches it, others wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.wire.channel import NoResponseError, UnreachableError
from tidegauge.impl.wire.primitives import BrokerId, i64

if TYPE_CHECKING:
    from tidegauge.impl.server.broker.controller_link import ControllerLink
    from tidegauge.impl.server.broker.registration import Registration


class ProducerIdAllocator:
    """One broker's block of producer ids."""

    def __init__(self, registration: Registration, controller: ControllerLink) -> None:
        self._registration = registration
        self._controller = controller
        self._next = 0
        self._end = 0
        self._fetching = trio.Lock()

    async def allocate(self) -> int | ErrorCode:
        """An id that no producer had before; COORDINATOR_LOAD_IN_PROGRESS when the controller gives no block now."""
        async with self._fetching:
            if self._next == self._end and (error := await self._fetch_block()) is not ErrorCode.none:
                return error
            self._next += 1
            return self._next - 1

    async def _fetch_block(self) -> ErrorCode:
        from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest

        request = AllocateProducerIdsRequest(
            broker_id=BrokerId(self._registration.broker_id), broker_epoch=i64(self._registration.broker_epoch)
        )
        try:
            response = await self._controller.forward(request)
        except (UnreachableError, NoResponseError):
            return ErrorCode.coordinator_load_in_progress
        if response.error_code is not ErrorCode.none:
            # The broker may have registered again meanwhile: the client asks again, and gets an id.
            return ErrorCode.coordinator_load_in_progress
        self._next = response.producer_id_start
        self._end = response.producer_id_start + response.producer_id_len
        return ErrorCode.none
