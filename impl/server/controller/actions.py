"""What a controller does without a request: it expires sessions, moves leaders back, and checks its disk."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.requested_elections import misplaced_leaders
from tidegauge.impl.metadata.log import NotLeaderError
from tidegauge.impl.ports.log_lines import NODE, logging_as_its_node
from tidegauge.impl.server import trace
from tidegauge.impl.server.controller.held_elections import PREFERRED, elect

if TYPE_CHECKING:
    from tidegauge.impl.controller.controller import Controller
    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.server.controller.decisions import Decisions, Turn
    from tidegauge.impl.server.controller.metadata_log import ServedMetadataLog
    from tidegauge.impl.server.settings.server_config import ServerConfig

DISK_CHECK_INTERVAL_MS: Final = 5_000
"""How often a controller that decides nothing checks that it still could."""


class ControllerActions:
    """The actions of one controller: run by its timers, or one by one by a test."""

    def __init__(
        self,
        controller: Controller,
        decisions: Decisions,
        log: ServedMetadataLog,
        clock: Clock,
        config: ServerConfig,
        halt: Callable[[str], None],
    ) -> None:
        self._controller = controller
        self._decisions = decisions
        self._log = log
        self._clock = clock
        self._config = config
        self._halt = halt
        self.log_name = NODE.get()

    @logging_as_its_node
    async def expire_session(self, broker_id: int) -> bool:
        """Fence a broker as if its session had expired; False when it is fenced or unknown."""
        async with self._decisions.turn() as turn:
            return await self._fence(turn, broker_id)

    @logging_as_its_node
    async def expire_sessions(self) -> list[int]:
        """Fence the brokers whose sessions have expired; returns their ids."""
        fenced = []
        for broker_id in self._controller.expired_sessions(self._clock.steady_ms()):
            async with self._decisions.turn() as turn:
                still_expired = broker_id in turn.controller.expired_sessions(self._clock.steady_ms())
                if still_expired and await self._fence(turn, broker_id):
                    fenced.append(broker_id)
        return fenced

    async def _fence(self, turn: Turn, broker_id: int) -> bool:
        fenced = await turn.commit(turn.controller.members.fence(broker_id))
        if fenced and turn.is_traced:
            epoch = turn.controller.image.brokers[broker_id].broker_epoch
            expired = trace.events.ExpireSession
            turn.tracer.record(expired, broker=broker_id, broker_epoch=epoch, changed=turn.changed())
        return fenced

    @logging_as_its_node
    async def rebalance_leaders(self) -> int:
        """Elect preferred leaders where too many do not lead; returns how many elections succeeded."""
        limit = self._config.leader_imbalance_per_broker_percentage
        misplaced = misplaced_leaders(self._controller.image, limit)
        return [await elect(self._decisions, *one, PREFERRED) for one in misplaced].count(ErrorCode.none)

    @logging_as_its_node
    async def check_disk(self) -> bool:
        """Check that the metadata log can be written; one that cannot ends the controller."""
        try:
            await self._log.check()
        except OSError as error:
            self._halt(f"the metadata log cannot be written: {error}")
            return False
        return True

    # --- timers ------------------------------------------------------------------------------------------------

    async def run_timers(self) -> None:
        """Expire sessions on time until cancelled.

        A controller that has overslept cannot tell a broker that is gone from one that slept in the same process: it
        first waits for the next heartbeats, two of them since one may have been lost in the meantime.
        """
        interval = self._config.broker_heartbeat_interval_ms / 1000
        while True:
            deadline = self._controller.next_deadline_ms
            timeout_ms = self._config.broker_session_timeout_ms
            wait_ms = timeout_ms if deadline is None else deadline - self._clock.steady_ms()
            alarm = trio.current_time() + max(1, wait_ms) / 1000
            await trio.sleep_until(alarm)
            await self._clock.until_running()
            if trio.current_time() - alarm > interval:
                await trio.sleep(2 * interval)
            try:
                await self.expire_sessions()
            except NotLeaderError:
                await trio.sleep(interval)  # it is told soon that it decides no more, and has no sessions then

    async def run_disk_checks(self) -> None:
        """Check the disk on time until cancelled."""
        while True:
            await trio.sleep(self._clock.coalesced_ms(DISK_CHECK_INTERVAL_MS) / 1000)
            await self._clock.until_running()
            await self.check_disk()

    async def run_rebalancing(self) -> None:
        """Put preferred leaders back on time until cancelled."""
        while self._config.auto_leader_rebalance_enable:
            await trio.sleep(self._config.leader_imbalance_check_interval_seconds)
            await self._clock.until_running()
            with suppress(NotLeaderError):
                await self.rebalance_leaders()
