"""The trace of a cluster: every decision of its nodes, as typed events (`events`), recorded by each node's `Tracer`.

`events` is imported when an event is first recorded: a node that keeps no trace needs none of its classes to start.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegauge.impl.server.trace import events as events


def __getattr__(name: str) -> Any:
    if name != "events":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.events")
