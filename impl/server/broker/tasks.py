"""The tasks of a broker: they run in one nursery, from the broker's start to its end."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio

from tidegauge.impl.ports.log_lines import log_event

LOGGER: Final = logging.getLogger(__name__)


class BrokerTasks:
    """One broker's nursery, for the parts of the broker that start tasks of their own."""

    def __init__(self) -> None:
        self.nursery: trio.Nursery
        """Set when the broker begins to run; no task starts before."""
        self.halted: str | None = None
        """Why the broker has stopped by itself; None while it has not."""

    def start_soon(self, task: Callable[..., Awaitable[Any]], *args: Any) -> None:
        """Run a task until it returns or the broker ends. An error of the task ends the broker."""
        self.nursery.start_soon(task, *args)

    def halt(self, reason: str) -> None:
        """End the broker at once, as a crash does: there is nothing that it could still do."""
        if self.halted is None:
            log_event(LOGGER, logging.ERROR, "broker stopped", why=reason, next="mend that, and start it again")
            self.halted = reason
        self.nursery.cancel_scope.cancel()
