"""Controlled shutdown from the broker's side: it asks to be let go, and serves on until it is (KIP-841).

The controller moves what the broker leads at its first request. Where the broker is the last of an ISR it is asked to
wait, so that another replica can join; when it has asked controlled.shutdown.max.retries times again it leaves last,
and the partition waits for its return.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.wire.channel import NoAnswerError, UnreachableError

if TYPE_CHECKING:
    from tidegauge.impl.server.broker_server import Broker


async def leave(broker: Broker, *, patient: bool = True) -> bool:
    """Hand over and be let go; False when the broker has to stop without the controller's leave.

    Without `patient` it asks once, and waits for nobody.
    """
    config = broker.config.current
    if not config.controlled_shutdown_enable or broker.registration.broker_epoch < 0:
        return False
    retries = config.controlled_shutdown_max_retries if patient else 0
    for left in range(retries, -1, -1):
        try:
            answer = await broker.controller.heartbeat(
                broker.metadata.offset_in_force, want_fence=left == 0, want_shut_down=True
            )
        except (UnreachableError, NoAnswerError):
            answer = None
        if answer is not None and answer.error_code is not ErrorCode.none:
            return False
        if answer is not None and answer.should_shut_down:
            return True
        if left:
            await trio.sleep(config.controlled_shutdown_retry_backoff_ms / 1000)
    return False
