"""A broker's membership in its cluster: it registers, renews its session by heartbeats, and leaves (KIP-631, KIP-841).

Controlled shutdown: a broker asks the controller for permission to stop, and serves until it has it. The controller
moves what the broker leads at its first request. Where the broker is the last member of an ISR, the controller tells it
to wait, so that another replica can join. After controlled.shutdown.max.retries further requests it leaves all the
same, and the partition is offline until it returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.server import trace
from tidegauge.impl.wire.channel import NoResponseError, UnreachableError

if TYPE_CHECKING:
    from tidegauge.impl.server.broker.controller_link import ControllerLink
    from tidegauge.impl.server.broker.dynamic_config import DynamicConfig
    from tidegauge.impl.server.broker.metadata_cache import MetadataCache
    from tidegauge.impl.server.broker.registration import Registration
    from tidegauge.impl.server.trace.tracer import Tracer

REGISTER_AGAIN: Final = (ErrorCode.broker_id_not_registered, ErrorCode.stale_broker_epoch)
"""Errors of a heartbeat after which the broker registers again."""


class Membership:
    """The membership of one broker's process; the one owner of its `Registration`."""

    def __init__(
        self,
        registration: Registration,
        controller: ControllerLink,
        metadata: MetadataCache,
        config: DynamicConfig,
        tracer: Tracer,
    ) -> None:
        self._registration = registration
        self._controller = controller
        self._metadata = metadata
        self._config = config
        self._tracer = tracer
        self._sent = 0
        self._taken = 0
        """How many registrations were sent, and the last of them whose response was taken."""

    async def register(self) -> int:
        """Register this process with the controller; returns its broker epoch.

        A response may come after that of a later registration. The controller knows the later one alone. A lesser epoch
        than the known one is taken where it is news: the controller that gave the other has lost it.
        Raises UnreachableError, NoResponseError or RegistrationRefusedError.
        """
        self._sent += 1
        number = self._sent
        if self._tracer.trace is not None:
            self._tracer.record(trace.events.SendRegistration)
        broker_epoch = await self._controller.register()
        if number > self._taken or broker_epoch > self._registration.broker_epoch:
            self._taken = max(number, self._taken)
            self._registration.broker_epoch = broker_epoch
            if self._tracer.trace is not None:
                self._tracer.record(trace.events.LearnBrokerEpoch, broker_epoch=broker_epoch)
        return self._registration.broker_epoch

    async def heartbeat(self) -> bool:
        """Renew the session; True when the controller says that this broker is unfenced.

        It registers again where the controller does not know the epoch that it still has: another registration may have
        given it one since the heartbeat was sent. Raises UnreachableError, NoResponseError or RegistrationRefusedError.
        """
        broker_epoch = self._registration.broker_epoch
        response = await self._controller.heartbeat(self._metadata.offset_in_force)
        if response.error_code in REGISTER_AGAIN:
            if broker_epoch == self._registration.broker_epoch:
                await self.register()
            return False
        if response.error_code is ErrorCode.none and not response.is_fenced:
            self._registration.unfenced.set()
            return True
        return False

    async def leave(self, *, patient: bool = True) -> bool:
        """Hand over what the broker leads; True when the controller permits the broker to stop.

        Without `patient` it asks once, and waits for no other replica.
        """
        config = self._config.current
        if not config.controlled_shutdown_enable or not self._registration.is_registered:
            return False
        retries = config.controlled_shutdown_max_retries if patient else 0
        for left in range(retries, -1, -1):
            try:
                response = await self._controller.heartbeat(
                    self._metadata.offset_in_force, want_fence=left == 0, want_shut_down=True
                )
            except (UnreachableError, NoResponseError):
                response = None
            if response is not None and response.error_code is not ErrorCode.none:
                return False
            if response is not None and response.should_shut_down:
                return True
            if left:
                await trio.sleep(config.controlled_shutdown_retry_backoff_ms / 1000)
        return False
