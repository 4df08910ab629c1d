"""Faults of the links between the nodes of a cluster on the real host.

The simulated network injects faults into frames. TCP offers no such place, so on the real host the server injects them
into requests: a request that was received counts as on its way until the link lets it through, and so does a response
that is ready to be sent. The client id of a request names the node that sent it: `broker-0` for a broker, the
configured `client.id` for a client.

A request that waits keeps its connection waiting, because responses are sent in order. A delayed link therefore handles
the requests of a connection one after the other.
"""

from __future__ import annotations

from random import Random
from typing import TypeAlias

import attrs
import trio

from tidegauge.impl.ports.link_faults import NO_FAULTS, LinkFaults

Link: TypeAlias = tuple[str, str]


@attrs.define(eq=False, repr=False)
class Links:
    """The links between all nodes; methods that `impl.ports.simulated_network` has too mean the same there."""

    seed: int
    _blocked: set[Link] = attrs.field(factory=set)
    _isolated: dict[str, tuple[bool, bool]] = attrs.field(factory=dict)
    _paused: set[str] = attrs.field(factory=set)
    _faults: dict[tuple[str | None, str | None], LinkFaults] = attrs.field(factory=dict)
    _numbers: dict[Link, int] = attrs.field(factory=dict)
    _opened: trio.Event = attrs.field(factory=trio.Event)
    """Set and replaced when a link lets messages through again."""

    @property
    def has_faults(self) -> bool:
        """Whether any link has a fault."""
        return bool(self._faults or self._blocked or self._isolated or self._paused)

    def block(self, source: str, destination: str) -> None:
        self._blocked.add((source, destination))

    def isolate(self, node: str, *, inbound: bool = True, outbound: bool = True) -> None:
        self._isolated[node] = inbound, outbound

    def heal(self, node: str | None = None) -> None:
        if node is None:
            self._blocked.clear()
            self._isolated.clear()
        else:
            self._blocked = {link for link in self._blocked if node not in link}
            self._isolated.pop(node, None)
        self._reopen()

    def is_blocked(self, source: str, destination: str) -> bool:
        return (
            (source, destination) in self._blocked
            or self._isolated.get(source, (False, False))[1]
            or self._isolated.get(destination, (False, False))[0]
        )

    def pause(self, node: str) -> None:
        self._paused.add(node)

    def resume(self, node: str) -> None:
        self._paused.discard(node)
        self._reopen()

    def is_paused(self, node: str) -> bool:
        return node in self._paused

    def set_faults(self, faults: LinkFaults, source: str | None = None, destination: str | None = None) -> None:
        self._faults[source, destination] = faults

    def clear_faults(self) -> None:
        self._faults.clear()

    def rule(self, source: str | None = None, destination: str | None = None) -> LinkFaults:
        return self._faults.get((source, destination), NO_FAULTS)

    async def carry(self, source: str, destination: str) -> bool:
        """Return True when a request or response gets through, False when the link loses it."""
        faults = self._faults_of(source, destination)
        if faults is not NO_FAULTS:
            number = self._numbers[source, destination] = self._numbers.get((source, destination), -1) + 1
            draws = Random(f"{self.seed}/{source}/{destination}/{number}")
            if draws.random() < faults.loss:
                return False
            await trio.sleep(draws.uniform(*faults.delay_ms) / 1000)
        while self._stops(source, destination):
            await self._opened.wait()
        return True

    def _stops(self, source: str, destination: str) -> bool:
        return self.is_blocked(source, destination) or source in self._paused or destination in self._paused

    def _faults_of(self, source: str, destination: str) -> LinkFaults:
        if self._faults:
            for rule in ((source, destination), (source, None), (None, destination), (None, None)):
                if (faults := self._faults.get(rule)) is not None:
                    return faults
        return NO_FAULTS

    def _reopen(self) -> None:
        self._opened.set()
        self._opened = trio.Event()
