"""A simulated cluster in a guest run: between two calls nothing in it moves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import trio
from trio.testing import wait_all_tasks_blocked

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.ports.network import Address
from tidegauge.model_tests.harness.cluster.operator_requests import ask_at
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

    async def asked(self, address: Address, request: Any, version: int | None = None) -> list[Any]:
        """A request is on its way: its response is put into the list when it comes, None if the connection ends."""
        responses: list[Any] = []

        async def ask() -> None:
            responses.append(await ask_at(self.cluster, address, request, version))

        self.nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        return responses

    async def told_at_once(self, address: Address, request: Any, version: int | None = None) -> Any:
        """The response to a request; None while there is none. Raises AssertionError if the connection ends first."""
        responses = await self.asked(address, request, version)
        if responses == [None]:
            raise AssertionError(f"{type(request).__name__} has no response, and its connection is closed")
        return responses[0] if responses else None

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
