"""What a coordinator of groups has decided and is to be written, in one line: the log has it in that order.

A group may go over from one protocol to the other, so the decisions about both stand in the same line. What is in line
is appended when its task runs; a decision about a whole group, such as its deletion, is made when the line is empty.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator
    from tidegauge.impl.server.broker.coordinator_log import Led
    from tidegauge.impl.server.broker.tasks import BrokerTasks

    Write = Callable[[], Awaitable[None]]
    GiveUp = Callable[[], None]


class WriteLine:
    """The decisions of one broker."""

    def __init__(self, tasks: BrokerTasks) -> None:
        self._tasks = tasks
        self._line: deque[tuple[Led[GroupCoordinator], str, Write, GiveUp]] = deque()

    def add(self, led: Led[GroupCoordinator], group: str, write: Write, give_up: GiveUp) -> None:
        """A decision about a group is in line; nothing is awaited.

        `write` appends it before it first waits, and tells the core what becomes of it; `give_up` tells that it never
        will be in the log.
        """
        self._line.append((led, group, write, give_up))
        self._tasks.start_soon(self._write_next)

    def give_up(self, led: Led[GroupCoordinator], group: str) -> None:
        """What was decided on after what will never be in the log will not be either."""
        for later in [one for one in self._line if one[0] is led and one[1] == group]:
            self._line.remove(later)
            later[3]()

    async def settled(self) -> None:
        """Return when all that was decided is in the log, or on its way."""
        while self._line:
            await trio.lowlevel.checkpoint()

    async def _write_next(self) -> None:
        if self._line:  # else it was given up with what was decided before it
            _, _, write, _ = self._line.popleft()
            await write()
