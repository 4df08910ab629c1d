"""Requests that wait until something changes: acks=all produces, and fetches that found too little.

A waiting request is a task that sleeps on the keys (partitions) that it needs. Who changes a partition wakes its
waiters, and each looks again whether it is complete: no second place holds the rule for that. A deadline costs what a
trio timeout costs, O(log n) of what is waiting.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Generic, Protocol, TypeVar

import trio

from tidegauge.impl.ports.clock import Clock

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Wait(Protocol):
    """How a caller waits; one with a peer gives up when the peer is gone (`RequestContext.while_connected`)."""

    def __call__(self, wait: Callable[[], Awaitable[T]], /) -> Awaitable[T]:
        """Await what `wait` returns."""


def wait_here(wait: Callable[[], Awaitable[T]], /) -> Awaitable[T]:
    """The `Wait` of a caller without a peer."""
    return wait()


class Purgatory(Generic[K]):
    """Tasks that wait on keys, woken in the order in which they came."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.wakes = 0
        """How often any key was woken."""
        self._waiting: dict[K, dict[_Waiter, None]] = {}

    def __len__(self) -> int:
        """How many (waiter, key) pairs there are."""
        return sum(map(len, self._waiting.values()))

    def wake(self, key: K) -> None:
        """Let everyone who waits on `key` look again."""
        self.wakes += 1
        if waiters := self._waiting.get(key):
            for waiter in waiters:
                waiter.is_woken.set()

    async def until(
        self, keys: Iterable[K], ready: Callable[[], T | None], timeout_ms: float, *, since: int | None = None
    ) -> T | None:
        """The first result of `ready` that is not None; None when there was none within `timeout_ms`.

        `ready` is called whenever one of `keys` is woken, and never while the node is paused. `since` is the count of
        `wakes` when the caller last looked: had there been others before this wait began, `ready` is called at once.
        """
        deadline = trio.current_time() + timeout_ms / 1000 if timeout_ms < math.inf else math.inf
        waiter = _Waiter()
        if since is not None and since != self.wakes:
            waiter.is_woken.set()
        keys = tuple(dict.fromkeys(keys))
        for key in keys:
            self._waiting.setdefault(key, {})[waiter] = None
        try:
            while True:
                with trio.CancelScope(deadline=deadline) as scope:
                    await waiter.is_woken.wait()
                await self._clock.until_running()
                if scope.cancelled_caught and not waiter.is_woken.is_set():
                    return None
                waiter.is_woken = trio.Event()
                if (result := ready()) is not None:
                    return result
        finally:
            for key in keys:
                self._leave(key, waiter)

    def _leave(self, key: K, waiter: _Waiter) -> None:
        waiters = self._waiting[key]
        del waiters[waiter]
        if not waiters:
            del self._waiting[key]


class _Waiter:
    """One waiting task."""

    def __init__(self) -> None:
        self.is_woken = trio.Event()
