"""A node that runs: its task, and how it is ended."""

from __future__ import annotations

import trio

from impl.ports.network import Address
from impl.server.broker import Broker
from impl.server.controller_node import ControllerNode


class Running:
    """One process of a node."""

    def __init__(self, server: Broker | ControllerNode) -> None:
        self.server = server
        self._scope = trio.CancelScope()
        self._ended = trio.Event()

    @property
    def alive(self) -> bool:
        return not self._scope.cancel_called and not self._ended.is_set()

    async def run(self, task_status: trio.TaskStatus[Address] = trio.TASK_STATUS_IGNORED) -> None:
        """The node's task."""
        try:
            with self._scope:
                await self.server.run(task_status=task_status)
        finally:
            self._ended.set()

    async def kill(self) -> None:
        """End it now, and return when none of its tasks is left."""
        self._scope.cancel()
        await self._ended.wait()
