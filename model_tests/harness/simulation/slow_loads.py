"""Coordinators that take their time to load their logs: members ask meanwhile, and the cleaner overtakes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Final
from unittest.mock import patch

import trio

from tidegauge.impl.server.broker import coordinator_log
from tidegauge.impl.server.pace import Pace

BATCH_S: Final = 0.02
"""On average, to read one batch."""
SETTINGS: Final = {"offsets.load.buffer.size": 1, "log.cleaner.backoff.ms": 1_000}
"""A batch is read at a time, when the ones before it are in memory; and the cleaner leaves something for later."""


@contextmanager
def slow_loads(seed: int) -> Iterator[None]:
    """The brokers that run meanwhile read their coordinators' logs batch by batch; `SETTINGS` have to be theirs."""
    rng = Random(f"loads/{seed}")

    class Slow(Pace):
        def __init__(self, *, until_running: Callable[[], Awaitable[None]]) -> None:
            super().__init__(until_running=until_running)
            self._resume = until_running

        async def did(self, units: int) -> None:
            await super().did(units)
            await trio.sleep(rng.uniform(0, 2 * BATCH_S))
            await self._resume()

    with patch.object(coordinator_log, "Pace", Slow):
        yield
