"""Deadlines of many things, of which most are put off again and again before they end.

A session ends if no heartbeat comes, and heartbeats come: its deadline is set anew each time, and rarely reached. So a
later deadline only replaces the number that is known; the heap keeps the earlier one, and when that is reached, the
later one goes in. To put off and to cancel take O(1), and each thing is in the heap once; what was cancelled stays
there until its time comes, or until half of the heap is such.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
SMALL: Final = 64
"""Entries that are not worth to be sorted out."""


class Deadlines(Generic[K]):
    """By key, in ms; of two that are due at once the one that was set first comes first."""

    def __init__(self) -> None:
        self._deadlines: dict[K, int] = {}
        self._queued: dict[K, tuple[int, int]] = {}
        """The entry of the heap that counts for a key."""
        self._heap: list[tuple[int, int, K]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._deadlines)

    def get(self, key: K) -> int | None:
        """When it ends; None if it does not."""
        return self._deadlines.get(key)

    @property
    def entries(self) -> int:
        """How long the heap is."""
        return len(self._heap)

    def set(self, key: K, deadline: int) -> None:
        """It ends at this time, whatever was known before."""
        self._deadlines[key] = deadline
        queued = self._queued.get(key)
        if queued is None or deadline < queued[0]:
            self._queue(key, deadline)

    def cancel(self, key: K) -> None:
        """It does not end."""
        self._deadlines.pop(key, None)
        if len(self._heap) > 2 * len(self._deadlines) + SMALL:
            self._sort_out()

    def first(self) -> int | None:
        """When to look for what is due: no later than the first deadline; None where there is none."""
        return self._heap[0][0] if self._heap else None

    def due(self, now_ms: int) -> Iterator[K]:
        """What has ended, one after the other, each no longer known when it is yielded."""
        while self._heap and self._heap[0][0] <= now_ms:
            at, number, key = heappop(self._heap)
            if self._queued.get(key) != (at, number):
                continue
            del self._queued[key]
            deadline = self._deadlines.get(key)
            if deadline is None:
                continue
            if deadline > now_ms:
                self._queue(key, deadline)
                continue
            del self._deadlines[key]
            yield key

    def _queue(self, key: K, deadline: int) -> None:
        number = next(self._numbers)
        self._queued[key] = deadline, number
        heappush(self._heap, (deadline, number, key))

    def _sort_out(self) -> None:
        self._queued = {key: queued for key, queued in self._queued.items() if key in self._deadlines}
        self._heap = [entry for entry in self._heap if self._queued.get(entry[2]) == entry[:2]]
        heapify(self._heap)
