"""The trace of a cluster: every decision of its nodes, as typed events, recorded by each node's `Tracer`.

`events` are those of nodes and replicas, `coordination` those of transaction coordinators, `groups`, `consumer_groups`
and `group_offsets` those of group coordinators, where they are asked for (`Trace.of_groups`). Each is imported when an
event of it is first recorded: a node that keeps no trace needs none of their classes to start.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tidegauge.impl.server.trace import consumer_groups as consumer_groups
    from tidegauge.impl.server.trace import coordination as coordination
    from tidegauge.impl.server.trace import events as events
    from tidegauge.impl.server.trace import group_offsets as group_offsets
    from tidegauge.impl.server.trace import groups as groups

_LAZY: Final = ("consumer_groups", "coordination", "events", "group_offsets", "groups")


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
