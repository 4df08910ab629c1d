"""Which brokers' processes are connected to the controller.

A session tells that a broker lives until it expires. A process that has died leaves earlier: the system closes its
connections. That is one of the proofs by which a broker that was killed need not wait for its own session when it
starts again (`RegistrationRules.has_died`). A second process with its id is refused as long as the first is connected.
"""

from __future__ import annotations

from typing import Protocol

import attrs
import trio

from tidegauge.impl.controller.membership import Contact
from tidegauge.impl.ports.repeated_lines import RepeatedLines


class Closing(Protocol):
    """A connection that will be closed one day."""

    @property
    def is_open(self) -> bool: ...


@attrs.define(eq=False, repr=False)
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

    def contact(self, broker_id: int, broker_epoch: int) -> Contact:
        """What there is of the connections of the process that registered in this epoch, since the controller started.

        Several connections are one process's: they are closed when all of them are.
        """
        known = self._processes.get(broker_id)
        if known is None or known.broker_epoch != broker_epoch:
            return Contact.NONE
        return Contact.OPEN if any(one.is_open for one in known.connections) else Contact.CLOSED
