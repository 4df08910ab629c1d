"""Who this process is for the controller: its broker epoch, and whether it is fenced (KIP-631, KIP-841)."""

from __future__ import annotations

from typing import Final

import attrs
import trio

UNREGISTERED: Final = -1


@attrs.define(eq=False)
class Registration:
    """The registration of one process of a broker. It begins without one; `BrokerMembership` changes it."""

    broker_id: int
    broker_epoch: int = UNREGISTERED
    """-1 until this process has registered."""
    unfenced: trio.Event = attrs.field(factory=trio.Event)
    """Set when a heartbeat has first shown this process unfenced."""

    @property
    def is_registered(self) -> bool:
        return self.broker_epoch != UNREGISTERED
