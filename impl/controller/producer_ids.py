"""Producer ids: the controller gives them to brokers in blocks of 1,000 (KIP-730).

A block is in the metadata log before a broker has it, so that no id is given twice, whichever node is the controller. A
broker that stops loses what is left of its block.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.decision import Decision, Proposal
from tidegauge.impl.controller.membership import broker_error
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.records import ProducerIdsRecord

BLOCK_SIZE: Final = 1_000
LAST_PRODUCER_ID: Final = (1 << 63) - 1


class ProducerIdsBlock(NamedTuple):
    """The ids [first, first + size)."""

    first: int
    size: int = BLOCK_SIZE


class ProducerIds:
    """Decides which producer ids a broker may give to producers."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image

    def allocate(self, broker_id: int, broker_epoch: int) -> Proposal[ProducerIdsBlock | ErrorCode]:
        """The next block, for this process of a broker.

        Errors: BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH, UNKNOWN_SERVER_ERROR (no ids are left).
        """
        decision = Decision(self._image)
        error = broker_error(self._image, broker_id, broker_epoch)
        if error is not ErrorCode.none:
            return decision.propose(error)
        first = self._image.next_producer_id
        if first > LAST_PRODUCER_ID - BLOCK_SIZE:
            return decision.propose(ErrorCode.unknown_server_error)
        decision.write(ProducerIdsRecord(broker_id, broker_epoch, first + BLOCK_SIZE))
        return decision.propose(ProducerIdsBlock(first))
