"""The native clients of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.impl.cluster.names import broker_name
from tidegauge.impl.cluster.nodes import Nodes
from tidegauge.impl.metadata.topic_configs import config_value

if TYPE_CHECKING:
    from tidegauge.impl.client.client import Client, ClientConfig
    from tidegauge.impl.client.observer import Observer

ENDED: Final = "the cluster has ended with its `async with`: make a new one"


class Clients:
    """Makes clients of a cluster."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes

    def client(
        self,
        client_id: str | None = None,
        *,
        config: ClientConfig | None = None,
        observer: Observer | None = None,
    ) -> Client:
        """A client, to be used as `async with`; on the simulated host its id is its name in the network.

        Without a `config` of its own it sends batches up to the cluster's message.max.bytes. Raises RuntimeError when
        the cluster has ended.
        """
        if self.nodes.have_ended:
            raise RuntimeError(ENDED)
        from tidegauge.impl.client.client import Client, ClientConfig  # callers with a client of their own do not wait

        nodes = self.nodes
        name = client_id or f"client-{len(nodes.client_ids) + 1}"
        nodes.client_ids.add(name)
        if config is None:
            largest = config_value({}, "max.message.bytes", nodes.options.config.topic_defaults)
            config = ClientConfig(message_max_bytes=largest)
        bootstrap = [nodes.addresses[broker_name(broker_id)] for broker_id in nodes.broker_ids]
        ways, clock = nodes.ways(name), nodes.host.clock(name)
        return Client(
            ways.network(),
            bootstrap,
            clock,
            client_id=name,
            config=config,
            observer=observer,
            login=ways.login(),
            randomness=nodes.host.randomness(name),
        )
