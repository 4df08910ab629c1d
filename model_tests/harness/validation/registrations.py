"""Which registrations of brokers have a reason: a process registers when the controller does not know its epoch.

Theory of operation
-------------------
A process registers when it begins. It registers again when a heartbeat shows that the controller does not know the
epoch that it has: the broker was removed, or the response to its last registration was lost or is late, and so the
controller has given it an epoch of which it has not learned. Its word on what it has learned is in the trace, and so is
each request to register that it sends. A request has a reason if, when it is sent, the process does not have the epoch
that the controller knows. Every registration is one of those requests, each of which is received once at most.
"""

from __future__ import annotations

from collections import Counter

from tidegauge.impl.server.trace import events
from tidegauge.impl.server.trace.tracer import TraceEvent


class Registrations:
    """What brokers' processes have asked for and learned, and what the controller has given them."""

    def __init__(self) -> None:
        self._learned: dict[int, int] = {}
        """Broker -> the last epoch that its process has learned."""
        self._of_process: dict[int, set[int]] = {}
        """Broker -> all that its process has learned."""
        self._given: dict[int, int] = {}
        """Broker -> its epoch as the controller knows it; absent when it is removed."""
        self._asked: Counter[int] = Counter()
        """Broker -> how many requests its processes have sent that the controller has not received."""

    def learned(self, broker: int) -> int | None:
        """The epoch that the broker's process goes on under; None when it has learned none."""
        return self._learned.get(broker)

    def has_learned(self, broker: int, epoch: int) -> bool:
        """Whether the broker's present process has had this epoch, be it that of an earlier registration."""
        return epoch in self._of_process.get(broker, ())

    def follow(self, event: TraceEvent) -> str:
        """Take an event; returns why it is no registration that a broker may send or the controller receive, or ""."""
        match event.decision:
            case events.SendRegistration():
                self._asked[event.node] += 1
                known = self._learned.get(event.node)
                if known is not None and known == self._given.get(event.node):
                    return f"broker {event.node} registers again, and has learned the epoch that the controller knows"
            case events.LearnBrokerEpoch(broker_epoch=epoch):
                self._learned[event.node] = epoch
                self._of_process.setdefault(event.node, set()).add(epoch)
            case events.Crash() | events.Stop():
                self._learned.pop(event.node, None)
                self._of_process.pop(event.node, None)
            case events.UnregisterBroker(broker=broker):
                self._given.pop(broker, None)
            case events.Register(broker=broker, broker_epoch=epoch):
                self._given[broker] = epoch
                self._asked[broker] -= 1
                if self._asked[broker] < 0:
                    return f"broker {broker} has not asked to be registered"
        return ""
