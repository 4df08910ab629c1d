"""How far brokers are with the metadata log, as the controller sees it: they are its observers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from tidegauge.impl.server.controller.node import ControllerNode


@attrs.frozen
class ObserverState:
    """How far a broker is with the metadata log, by its last fetch; times in ms."""

    offset: int
    at_ms: int
    caught_up_ms: int
    """-1 before it has first fetched from the end."""


def observe(node: ControllerNode, broker_id: int, offset: int) -> None:
    """Note a broker's fetch of the metadata log from `offset`."""
    now_ms = node.clock.now_ms()
    before = node.observers.get(broker_id)
    caught_up_ms = now_ms if offset >= node.log.end_offset else -1 if before is None else before.caught_up_ms
    node.observers[broker_id] = ObserverState(offset, now_ms, caught_up_ms)
