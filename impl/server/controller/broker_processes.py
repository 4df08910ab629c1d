"""Which brokers' processes are known to be gone: their connections to the controller have closed.

A session tells that a broker lives until it expires. A process that has died leaves earlier: the system closes its
connections. So a broker that was killed need not wait for its own session when it starts again, and a second process
with its id is refused as long as the first one is connected.
"""

from __future__ import annotations

from typing import Protocol

import attrs
import trio

from tidegauge.impl.ports.repeated_lines import RepeatedLines


class Closing(Protocol):
    """A connection that will be closed one day."""

    @property
    def is_open(self) -> bool: ...


@attrs.define
class _Process:
    broker_epoch: int
    connections: list[Closing]


class BrokerProcesses:
    """The connections of each broker's registered process."""

    def __init__(self) -> None:
        self._processes: dict[int, _Process] = {}
        self.refusals = RepeatedLines(trio.current_time)
        """The lines about registrations that are refused: a broker asks again and again."""

    def note(self, broker_id: int, broker_epoch: int, connection: Closing) -> None:
        """A process that registered in this epoch has sent something by a connection."""
        known = self._processes.get(broker_id)
        if known is None or known.broker_epoch < broker_epoch:
            known = self._processes[broker_id] = _Process(broker_epoch, [])
        if known.broker_epoch == broker_epoch and connection not in known.connections:
            known.connections = [one for one in known.connections if one.is_open] + [connection]

    def is_known(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether the process of this epoch has sent anything since the controller started."""
        known = self._processes.get(broker_id)
        return known is not None and known.broker_epoch == broker_epoch

    def is_gone(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether the process of this epoch was connected, and is not any more."""
        known = self._processes.get(broker_id)
        if known is None or known.broker_epoch != broker_epoch:
            return False
        return not any(one.is_open for one in known.connections)
