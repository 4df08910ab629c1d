"""Links between the nodes of a cluster on the real host, and what befalls requests on them.

On the simulated host the network strikes frames. TCP cannot be struck, so on the real host requests are, at the server:
what a node has received counts as on its way until the link lets it through, and so does an answer that is ready. A
node is known by the client id that its requests carry; brokers carry theirs (`broker-0`), and real clients what they
were configured with.

A request that waits keeps its connection waiting, as its answers come in order: a delayed link answers one request of a
connection after the other.
"""

from __future__ import annotations

from random import Random
from typing import TypeAlias

import attrs
import trio

from tidegauge.impl.ports.link_faults import NO_FAULTS, LinkFaults

Link: TypeAlias = tuple[str, str]


@attrs.define(eq=False)
class Links:
    """All links between all nodes; the methods that `impl.ports.simulated_network` has mean the same."""

    seed: int
    _blocked: set[Link] = attrs.field(factory=set)
    _isolated: dict[str, tuple[bool, bool]] = attrs.field(factory=dict)
    _paused: set[str] = attrs.field(factory=set)
    _faults: dict[tuple[str | None, str | None], LinkFaults] = attrs.field(factory=dict)
    _numbers: dict[Link, int] = attrs.field(factory=dict)
    _opened: trio.Event = attrs.field(factory=trio.Event)
    """Set, and replaced, whenever something is let through again."""

    @property
    def quiet(self) -> bool:
        """Whether nothing befalls anything."""
        return not (self._faults or self._blocked or self._isolated or self._paused)

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
        self._let_through()

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
        self._let_through()

    def is_paused(self, node: str) -> bool:
        return node in self._paused

    def set_faults(self, faults: LinkFaults, source: str | None = None, destination: str | None = None) -> None:
        self._faults[source, destination] = faults

    def clear_faults(self) -> None:
        self._faults.clear()

    def rule(self, source: str | None = None, destination: str | None = None) -> LinkFaults:
        return self._faults.get((source, destination), NO_FAULTS)

    async def carry(self, source: str, destination: str) -> bool:
        """Return when a request or an answer gets through; False when it is lost."""
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

    def _let_through(self) -> None:
        self._opened.set()
        self._opened = trio.Event()
