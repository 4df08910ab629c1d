"""The timers of a broker: they join the cluster, then call the broker's actions on time.

Timers hold no state and decide nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.server.broker.controller_link import RegistrationRefusedError, wrong_cluster
from tidegauge.impl.wire.channel import NoResponseError, UnreachableError

if TYPE_CHECKING:
    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.server.broker.actions import BrokerActions
    from tidegauge.impl.server.broker.directory_failures import DirectoryFailures
    from tidegauge.impl.server.broker.log_cleaner import LogCleaner
    from tidegauge.impl.server.broker.log_upkeep import LogUpkeep
    from tidegauge.impl.server.broker.metadata_loader import MetadataLoader
    from tidegauge.impl.server.broker.registration import Registration
    from tidegauge.impl.server.broker.tasks import BrokerTasks
    from tidegauge.impl.server.settings.server_config import ServerConfig

LOGGER: Final = logging.getLogger(__name__)


class BrokerTimers:
    """The timers of one broker."""

    def __init__(
        self,
        actions: BrokerActions,
        registration: Registration,
        loader: MetadataLoader,
        failures: DirectoryFailures,
        upkeep: LogUpkeep,
        cleaner: LogCleaner,
        tasks: BrokerTasks,
        config: ServerConfig,
        clock: Clock,
    ) -> None:
        self._actions = actions
        self._registration = registration
        self._loader = loader
        self._failures = failures
        self._upkeep = upkeep
        self._cleaner = cleaner
        self._config = config
        self._clock = clock
        self._tasks = tasks
        self._refused_since: float | None = None
        """Since when another process has the broker's id, in trio's time."""

    async def run(self) -> None:
        """Join the cluster, then act on time until cancelled."""
        config = self._config
        await self._join()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._loader.pull)
            nursery.start_soon(self._every, config.broker_heartbeat_interval_ms, self._heartbeat)
            nursery.start_soon(self._every, max(1, config.replica_lag_time_max_ms // 2), self._shrink_isrs)
            checkpoint_ms = config.replica_high_watermark_checkpoint_interval_ms
            nursery.start_soon(self._every, checkpoint_ms, self._upkeep.checkpoint_high_watermarks)
            nursery.start_soon(self._upkeep.run)
            nursery.start_soon(self._every, config.producer_id_expiration_check_interval_ms, self._expire_producers)
            nursery.start_soon(self._cleaner.run)

    async def _join(self) -> None:
        """Register, catch up, and be unfenced; repeat until it succeeds."""
        while not self._registration.unfenced.is_set():
            try:
                if not self._registration.is_registered:
                    await self._actions.register()
                    self._refused_since = None
                await self._actions.apply_metadata()
                await self._failures.assign()  # what is lost is told before anything of it may lead
                if await self._actions.heartbeat():
                    self._failures.settle()
                    return
            except (UnreachableError, NoResponseError) as error:
                self._registration.hindrance = str(error)
            except RegistrationRefusedError as error:
                self._registration.hindrance = str(error)
                self._refused(error)
            await self._sleep(self._config.retry_backoff_ms)

    async def _sleep(self, interval_ms: int) -> None:
        await trio.sleep(interval_ms / 1000)
        await self._clock.until_running()

    async def _every(self, interval_ms: int, action: Callable[[], Awaitable[object]]) -> None:
        while True:
            await self._sleep(self._clock.coalesced_ms(interval_ms))
            await action()

    async def _heartbeat(self) -> None:
        try:
            await self._failures.assign()
            await self._actions.heartbeat()
            self._refused_since = None
        except (UnreachableError, NoResponseError):
            return
        except RegistrationRefusedError as error:
            self._refused(error)

    def _refused(self, error: RegistrationRefusedError) -> None:
        """End the broker where waiting is of no use.

        Another process with its id may be its own predecessor, whose session has yet to expire. One that lives longer
        is another one.
        """
        if error.error is ErrorCode.inconsistent_cluster_id:
            self._tasks.halt(wrong_cluster(error.address, self._registration.cluster_id))
            return
        now, session_ms = trio.current_time(), self._config.broker_session_timeout_ms
        if self._refused_since is None:
            self._refused_since = now
            is_duplicate = error.error is ErrorCode.duplicate_broker_registration
            until = f" until the session of the last process with its id expires, {session_ms} ms at most"
            log_event(LOGGER, logging.WARNING, "broker refused", why=error, next="it asks again" + until * is_duplicate)
        patience_ms = 2 * session_ms
        if error.error is ErrorCode.duplicate_broker_registration and now - self._refused_since > patience_ms / 1000:
            self._tasks.halt(
                f"DUPLICATE_BROKER_REGISTRATION: another process is registered as broker {error.broker_id} at the "
                f"controller at {error.address}, and lives: stop that one, or give this one an id of its own"
            )

    async def _shrink_isrs(self) -> None:
        self._actions.shrink_isr()

    async def _expire_producers(self) -> None:
        self._actions.expire_producers()
