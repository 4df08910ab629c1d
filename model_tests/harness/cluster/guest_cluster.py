"""A simulated cluster in a guest run: between two calls nothing in it moves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import trio

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.model_tests.harness.deterministic import GuestRun


class GuestCluster:
    """A cluster, and a nursery beside it for what goes on between calls. Close it in the end."""

    nursery: trio.Nursery

    def __init__(self, seed: int, make: Callable[[], Cluster], prepare: Callable[[Cluster], Awaitable[None]]) -> None:
        self._stack = AsyncExitStack()
        self.run = GuestRun(seed)
        self.run.__enter__()
        try:
            self.cluster = self.run.call(self._start, make, prepare)
        except BaseException:
            self.close()
            raise

    async def _start(self, make: Callable[[], Cluster], prepare: Callable[[Cluster], Awaitable[None]]) -> Cluster:
        cluster = make()
        await self._stack.enter_async_context(cluster)
        self.nursery = await self._stack.enter_async_context(trio.open_nursery())
        await prepare(cluster)
        return cluster

    def close(self) -> None:
        """Stop the cluster."""

        async def stop() -> None:
            if hasattr(self, "nursery"):
                self.nursery.cancel_scope.cancel()
            await self._stack.aclose()

        try:
            self.run.call(stop)
        finally:
            self.run.__exit__(None, None, None)
