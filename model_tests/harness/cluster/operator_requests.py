"""Requests that an operator sends to a cluster: to the controller or to one broker, over the wire."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import trio

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.ports.network import Address
from tidegauge.impl.server.transport.security.logins import Login
from tidegauge.impl.wire.channel import Channel, NoResponseError


def login_at(cluster: Cluster, address: Address, name: str = "operator") -> Login | None:
    """How one of the cluster's own authenticates at a node's listener for nodes; None where there is no need."""
    nodes = cluster.parts.nodes
    if address != cluster.controller.address:
        return nodes.ways(name).login()
    return nodes.secret.login(name, cluster.host.randomness(name))


async def ask_at(cluster: Cluster, address: Address, request: Any, version: int | None = None) -> Any:
    """The response to an operator's request; None when none comes. `version`: for messages of one class for all."""
    response = None
    async with trio.open_nursery() as nursery:
        channel = Channel(
            cluster.host.network("operator"), address, "operator", nursery, handshake=login_at(cluster, address)
        )
        try:
            with suppress(NoResponseError):
                response = await channel.request(request, version=version)
        finally:
            with trio.CancelScope(shield=True):
                await channel.aclose()
        nursery.cancel_scope.cancel()
    return response
