"""Faults of the links between a cluster's nodes, clients included.

Brokers are named by id; "controller" and client ids are names too. On TCP the faults are those of requests and
responses at the servers (`impl.faults.links`), on the simulated host those of frames.
"""

from __future__ import annotations

from typing import Any

import attrs

from tidegauge.impl.cluster.hosts import SimulatedHost
from tidegauge.impl.cluster.names import NodeName
from tidegauge.impl.cluster.nodes import Nodes
from tidegauge.impl.ports.link_faults import LinkFaults


class NetworkFaults:
    """Faults of links."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes

    def isolate(self, *nodes: NodeName, inbound: bool = True, outbound: bool = True) -> None:
        """Cut nodes off from all others, clients and controller included, in either or both directions."""
        if not nodes:
            raise ValueError("isolate names no node: give broker ids, 'controller' or client ids")
        for name in [self.nodes.name(node) for node in nodes]:
            self.nodes.host.links.isolate(name, inbound=inbound, outbound=outbound)

    def block(self, source: NodeName, destination: NodeName) -> None:
        """Let nothing pass from one node to another; the opposite direction stays open."""
        self.nodes.host.links.block(self.nodes.name(source), self.nodes.name(destination))

    def heal(self, *nodes: NodeName) -> None:
        """Undo `isolate` and `block`, for these nodes or for all."""
        if not nodes:
            self.nodes.host.links.heal()
        for name in [self.nodes.name(node) for node in nodes]:
            self.nodes.host.links.heal(name)

    def drop(self, loss: float = 1.0, source: NodeName | None = None, destination: NodeName | None = None) -> None:
        """Lose frames of the links from `source` to `destination` (None: any) with this probability.

        The connection stays open, and the response never comes.
        """
        self._set(source, destination, loss=loss)

    def delay(
        self, least_ms: float, most_ms: float, source: NodeName | None = None, destination: NodeName | None = None
    ) -> None:
        """Let frames of these links take between so many milliseconds, drawn for each.

        The order of a connection's frames is kept.
        """
        self._set(source, destination, delay_ms=(least_ms, most_ms))

    def duplicate(
        self, probability: float, source: NodeName | None = None, destination: NodeName | None = None
    ) -> None:
        """Deliver frames of these links twice with this probability. TCP never does; a retry above it may."""
        self.nodes.simulated("a frame that comes twice")
        self._set(source, destination, duplicate=probability)

    def reorder(self, probability: float, source: NodeName | None = None, destination: NodeName | None = None) -> None:
        """Let later frames of these links overtake a frame with this probability."""
        self.nodes.simulated("a frame that is overtaken")
        self._set(source, destination, reorder=probability)

    def reset_connections(self, node: NodeName, peer: NodeName | None = None) -> int:
        """Break the connections between two nodes, or all of one: what is in flight is lost. Returns how many."""
        ends = self.nodes.name(node), None if peer is None else self.nodes.name(peer)
        if isinstance(self.nodes.host, SimulatedHost):
            return self.nodes.host.links.reset(*ends)
        connections = self.nodes.request_faults.connections_of(*ends)
        for connection in connections:
            connection.reset()
        return len(connections)

    def _set(self, source: NodeName | None, destination: NodeName | None, **changes: Any) -> None:
        link = (
            None if source is None else self.nodes.name(source),
            None if destination is None else self.nodes.name(destination),
        )
        faults: LinkFaults = attrs.evolve(self.nodes.host.links.rule(*link), **changes)
        self.nodes.host.links.set_faults(faults, *link)
