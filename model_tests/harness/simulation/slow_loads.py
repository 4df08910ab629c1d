"""Coordinators that take their time to load their logs: members ask meanwhile, and the cleaner overtakes them.

A load is overtaken where it has read what the cleaner then takes, and has yet to read what came after: the log is
cleaned once between two of its batches. So little is cleaned before.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Final
from unittest.mock import patch
from weakref import WeakKeyDictionary

import trio

from tidegauge.impl.server.broker import coordinator_log
from tidegauge.impl.server.broker.coordinator_log import CoordinatorLog
from tidegauge.impl.server.broker.log_cleaner import LogCleaner
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.server.broker.replica_manager import ReplicaManager
from tidegauge.impl.server.pace import Pace

BATCH_S: Final = 0.02
"""On average, to read one batch."""
OVERTAKES_SHARE: Final = 0.1
"""Of the batches that are read, until the load is overtaken."""
SETTINGS: Final = {
    "offsets.load.buffer.size": 1,
    "log.cleaner.backoff.ms": 10_000,
    "offsets.topic.segment.bytes": 1_500,
}
"""A batch is read at a time, when the ones before it are in memory; and the cleaner leaves much for later."""


@contextmanager
def slow_loads(seed: int) -> Iterator[None]:
    """The brokers that run meanwhile read their coordinators' logs batch by batch; `SETTINGS` have to be theirs."""
    rng = Random(f"loads/{seed}")
    cleaners: WeakKeyDictionary[ReplicaManager, LogCleaner] = WeakKeyDictionary()
    run, replay = LogCleaner.run, CoordinatorLog._replay

    class Slow(Pace):
        cleaner: LogCleaner | None = None
        """That overtakes the load, and has not yet."""

        def __init__(self, *, until_running: Callable[[], Awaitable[None]]) -> None:
            super().__init__(until_running=until_running)
            self._resume = until_running

        async def did(self, units: int) -> None:
            await super().did(units)
            await trio.sleep(rng.uniform(0, 2 * BATCH_S))
            await self._resume()
            if self.cleaner is not None and rng.random() < OVERTAKES_SHARE:
                cleaner, self.cleaner = self.cleaner, None
                while await cleaner.clean_dirtiest():
                    await self._resume()

    def pace(*, until_running: Callable[[], Awaitable[None]] | None = None) -> Pace:
        """Markers are appended at the pace of all appends."""
        return Pace() if until_running is None else Slow(until_running=until_running)

    async def running(cleaner: LogCleaner) -> None:
        cleaners[cleaner._replicas] = cleaner
        await run(cleaner)

    async def replaying(log: CoordinatorLog[Any], partition: Partition, led: Any, end: int, pace: Slow) -> int:
        pace.cleaner = cleaners.get(log._replicas)
        return await replay(log, partition, led, end, pace)

    with (
        patch.object(coordinator_log, "Pace", pace),
        patch.object(LogCleaner, "run", running),
        patch.object(CoordinatorLog, "_replay", replaying),
    ):
        yield
