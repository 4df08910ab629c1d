"""How far brokers are with the metadata log: they are its observers (KIP-595)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tidegauge.impl.ports.clock import Clock


class ObserverState(NamedTuple):
    """How far a broker is with the metadata log, by its last fetch; times in ms."""

    offset: int
    at_ms: int
    caught_up_ms: int
    """-1 before it has first fetched from the end."""


class Observers:
    """The last fetch of each broker."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._states: dict[int, ObserverState] = {}

    @property
    def states(self) -> Mapping[int, ObserverState]:
        """By broker id."""
        return self._states

    def record_fetch(self, broker_id: int, offset: int, end_offset: int) -> None:
        """A broker has fetched from `offset` of a log that ends at `end_offset`."""
        now_ms = self._clock.now_ms()
        before = self._states.get(broker_id)
        caught_up_ms = now_ms if offset >= end_offset else -1 if before is None else before.caught_up_ms
        self._states[broker_id] = ObserverState(offset, now_ms, caught_up_ms)
