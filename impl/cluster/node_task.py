"""One process of a node: the task that runs it, and the ways to end it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from tidegauge.impl.ports.log_lines import logging_as
from tidegauge.impl.ports.network import Address
from tidegauge.impl.server.broker_server import Broker
from tidegauge.impl.server.controller.node import ControllerNode


class NodeEndedError(Exception):
    """A node has stopped by itself."""


class NodeTask:
    """One process of a node."""

    def __init__(self, server: Broker | ControllerNode, name: str) -> None:
        """`name` is the node's, `broker-1` or `controller`."""
        self.server = server
        self.name = name
        self._scope = trio.CancelScope()
        self._ended = trio.Event()
        self._killed = False
        self._has_files = True

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return not self._killed and not self._ended.is_set()

    @property
    def has_files(self) -> bool:
        """Whether its files are still open."""
        return self._has_files

    async def run(self, task_status: trio.TaskStatus[Address] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the node until it is killed or ends by itself."""
        try:
            with self._scope:
                try:
                    await self.server.run(task_status=task_status)
                except (Exception, BaseExceptionGroup):
                    if not self._has_files:  # what ran on until its next checkpoint has met closed files
                        await trio.lowlevel.checkpoint_if_cancelled()
                    raise
        finally:
            self._ended.set()

    async def wait_until_ended(self) -> None:
        """Return when none of its tasks is left."""
        await self._ended.wait()

    async def until_ended_or(self, wait: Callable[[], Awaitable[object]]) -> None:
        """Wait for something else that the node is to do. Raises NodeEndedError when it ends before that."""
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                await self.wait_until_ended()
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            await wait()
            nursery.cancel_scope.cancel()
        if self._ended.is_set():
            raise NodeEndedError(f"a node has stopped by itself: {self.server.halted or 'for an unknown reason'}")

    async def kill(self) -> None:
        """End it now, and return when none of its tasks is left."""
        self._killed = True
        self._scope.cancel()
        await self._ended.wait()

    def stop(self) -> None:
        """Flush and close its files: the last step of a clean shutdown, before its tasks are cancelled."""
        with logging_as(self.name):
            self.server.stop()
        self._has_files = False

    def abandon(self) -> None:
        """Close its files as they are, if they are open."""
        if self._has_files:
            self._has_files = False
            with logging_as(self.name):
                self.server.abandon()
