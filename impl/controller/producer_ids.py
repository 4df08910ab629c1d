"""Producer ids: the controller hands them out to brokers in blocks of a thousand (KIP-704).

A block is a record in the metadata log before anybody has it, so that no id is given twice, whoever is controller. A
broker that stops loses what is left of its block.
"""

from __future__ import annotations

from typing import Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.state import ControllerState
from tidegauge.impl.metadata.records import ProducerIdsRecord

BLOCK_SIZE: Final = 1_000
LAST_PRODUCER_ID: Final = (1 << 63) - 1


@attrs.frozen
class ProducerIdsBlock:
    """The ids [first, first + size)."""

    first: int
    size: int = BLOCK_SIZE


class ProducerIds(ControllerState):
    """The controller's part in producer ids."""

    def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> ProducerIdsBlock | ErrorCode:
        """The next block, for this process of a broker.

        BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH, or UNKNOWN_SERVER_ERROR when all ids have been given.
        """
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            return ErrorCode.broker_id_not_registered
        if broker.broker_epoch != broker_epoch:
            return ErrorCode.stale_broker_epoch
        first = self.image.next_producer_id
        if first > LAST_PRODUCER_ID - BLOCK_SIZE:
            return ErrorCode.unknown_server_error
        self._write(ProducerIdsRecord(broker_id, broker_epoch, first + BLOCK_SIZE))
        self._commit()
        return ProducerIdsBlock(first)
