"""A node that runs: its task, and how it is ended."""

from __future__ import annotations

import trio

from tidegauge.impl.ports.network import Address
from tidegauge.impl.server.broker_server import Broker
from tidegauge.impl.server.controller.node import ControllerNode


class Running:
    """One process of a node."""

    def __init__(self, server: Broker | ControllerNode) -> None:
        self.server = server
        self._scope = trio.CancelScope()
        self._ended = trio.Event()
        self._killed = False
        self._has_files = True

    @property
    def alive(self) -> bool:
        return not self._killed and not self._ended.is_set()

    async def run(self, task_status: trio.TaskStatus[Address] = trio.TASK_STATUS_IGNORED) -> None:
        """The node's task."""
        try:
            with self._scope:
                await self.server.run(task_status=task_status)
        finally:
            self._ended.set()

    @property
    def has_files(self) -> bool:
        """Whether it has neither stopped cleanly nor let go of its files."""
        return self._has_files

    def stop(self) -> None:
        """A clean shutdown's last act, before its tasks are cancelled."""
        self.server.stop()
        self._has_files = False

    def abandon(self) -> None:
        """Let go of its files as they are, unless that was done."""
        if self._has_files:
            self._has_files = False
            self.server.abandon()

    async def wait_until_ended(self) -> None:
        """Return when none of its tasks is left."""
        await self._ended.wait()

    async def kill(self) -> None:
        """End it now, and return when none of its tasks is left."""
        self._killed = True
        self._scope.cancel()
        await self._ended.wait()
