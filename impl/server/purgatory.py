"""Requests that wait until something changes: acks=all produces, and fetches that found too little.

A waiting request is a task that sleeps on the keys (partitions) that it needs. Who changes a partition wakes its
waiters, and each looks again whether it is complete: no second place holds the rule for that. A deadline costs O(log n)
of what is waiting (`ports.deadlines`).

A `Watch` is for one who waits again and again on many keys, most of which do not change: it is told of each change,
also between two waits, and so has to look at nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Generic, Protocol, TypeVar

from tidegauge.impl.ports.clock import Clock
from tidegauge.impl.ports.deadlines import Signal, deadlines

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
        self._waiting: dict[K, dict[Waiter[K], None]] = {}

    def __len__(self) -> int:
        """How many (waiter, key) pairs there are."""
        return sum(map(len, self._waiting.values()))

    def wake(self, key: K) -> None:
        """Let everyone who waits on `key` look again."""
        self.wakes += 1
        if waiters := self._waiting.get(key):
            for waiter in waiters:
                waiter.changed(key)
                waiter.is_woken.set()

    def note(self, key: K) -> None:
        """`key` has changed in a way that nobody waits for: watches look at it when they look next."""
        if waiters := self._waiting.get(key):
            for waiter in waiters:
                waiter.changed(key)

    async def until(
        self,
        keys: Iterable[K],
        ready: Callable[[], T | None],
        timeout_ms: float,
        *,
        since: int | None = None,
        watch: Watch[K] | None = None,
    ) -> T | None:
        """The first result of `ready` that is not None; None when there was none within `timeout_ms`.

        `ready` is called whenever one of `keys` is woken, and never while the node is paused. `since` is the count of
        `wakes` when the caller last looked: had there been others before this wait began, `ready` is called at once.
        With `watch`, what that one watches wakes it too.
        """
        waits = deadlines()
        deadline = waits.time() + timeout_ms / 1000 if timeout_ms < math.inf else math.inf
        waiter: Waiter[K] = Waiter() if watch is None else watch
        if since is not None and since != self.wakes:
            waiter.is_woken.set()
        keys = tuple(dict.fromkeys(keys))
        waiting = self._waiting
        for key in keys:
            waiting.setdefault(key, {})[waiter] = None
        try:
            while True:
                await waits.wait(waiter.is_woken, deadline)
                if self._clock.is_stopped:
                    await self._clock.until_running()
                if not waiter.is_woken.is_set:
                    return None
                waiter.is_woken.clear()
                if (result := ready()) is not None:
                    return result
        finally:
            for key in keys:
                if watch is None or key not in watch:
                    self.leave(key, waiter)

    def join(self, key: K, waiter: Waiter[K]) -> None:
        """Tell the waiter when `key` is woken."""
        self._waiting.setdefault(key, {})[waiter] = None

    def leave(self, key: K, waiter: Waiter[K]) -> None:
        """Tell it no more."""
        waiters = self._waiting.get(key, {})
        waiters.pop(waiter, None)
        if not waiters:
            self._waiting.pop(key, None)


class Waiter(Generic[K]):
    """One who waits."""

    def __init__(self) -> None:
        self.is_woken = Signal()

    def changed(self, key: K) -> None:
        """A key that it waits for has changed."""


class Watch(Waiter[K]):
    """One who waits again and again, and calls `on_change` with each of its keys that changes, at that moment."""

    def __init__(self, purgatory: Purgatory[K]) -> None:
        super().__init__()
        self._purgatory = purgatory
        self._keys: set[K] = set()
        self.on_change: Callable[[K], None] | None = None

    def __contains__(self, key: K) -> bool:
        return key in self._keys

    def add(self, key: K) -> None:
        """Watch a key."""
        self._keys.add(key)
        self._purgatory.join(key, self)

    def discard(self, key: K) -> None:
        """Watch it no more."""
        if key in self._keys:
            self._keys.remove(key)
            self._purgatory.leave(key, self)

    def close(self) -> None:
        """Watch nothing more."""
        for key in list(self._keys):
            self.discard(key)

    def changed(self, key: K) -> None:
        if self.on_change is not None:
            self.on_change(key)
