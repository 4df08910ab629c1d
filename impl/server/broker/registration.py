"""Who a broker's process is for the controller: its endpoints, its broker epoch, whether it is unfenced (KIP-631)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

import attrs
import trio

from tidegauge.impl.ports.network import Address

UNREGISTERED: Final = -1
"""The broker epoch of a process that has not registered."""


class Endpoint(NamedTuple):
    """One listener as the controller, and so every client, is told of it."""

    listener: str
    address: Address
    security_protocol: int


@attrs.define(eq=False, repr=False)
class Registration:
    """The registration of one process of a broker. `Membership` changes it; other parts of the broker read it."""

    broker_id: int
    cluster_id: str
    rack: str | None = None
    incarnation_id: UUID | None = None
    """Of this process, drawn at its start."""
    endpoints: Sequence[Endpoint] = ()
    """The listener for other brokers comes first. Empty until the listeners are open."""
    broker_epoch: int = UNREGISTERED
    """Of the latest registration; -1 before the first."""
    unfenced: trio.Event = attrs.field(factory=trio.Event)
    """Set when a heartbeat has first shown this process unfenced."""

    hindrance: str = ""
    """Why the controller has not let this process in at the latest try."""

    @property
    def is_registered(self) -> bool:
        return self.broker_epoch != UNREGISTERED
