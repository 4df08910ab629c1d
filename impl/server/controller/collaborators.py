"""What the handlers of a controller's requests may name as their collaborators.

A keyword-only parameter of a handler is bound to the field of the same name, and has its type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from tidegauge.impl.controller.controller import Controller
    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.server.controller.broker_processes import BrokerProcesses
    from tidegauge.impl.server.controller.decisions import Decisions
    from tidegauge.impl.server.controller.draws import Draws
    from tidegauge.impl.server.controller.metadata_fetches import MetadataFetches
    from tidegauge.impl.server.settings.server_config import ServerConfig


@attrs.frozen(eq=False, repr=False)
class ControllerCollaborators:
    """A controller's parts, by the names that handlers call them."""

    controller: Controller
    decisions: Decisions
    fetches: MetadataFetches
    draws: Draws
    config: ServerConfig
    clock: Clock
    cluster_id: str
    processes: BrokerProcesses
    timers: bool
    """Whether sessions expire by themselves."""
