"""Connections to other brokers: one channel for each broker and purpose, made when it is first needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.impl.wire.channel import Channel, Handshake
from tidegauge.impl.wire.frames import FrameMemory

if TYPE_CHECKING:
    from tidegauge.impl.ports.network import Network
    from tidegauge.impl.server.broker.metadata_cache import MetadataCache
    from tidegauge.impl.server.broker.tasks import BrokerTasks


class Peers:
    """The channels of one broker to the others, by broker id and purpose."""

    def __init__(
        self,
        metadata: MetadataCache,
        network: Network,
        tasks: BrokerTasks,
        *,
        client_id: str,
        login: Handshake | None,
        response_timeout_ms: float,
    ) -> None:
        """`login` authenticates this node, where the listener for other brokers is for nodes alone."""
        self._login = login
        self._metadata = metadata
        self._network = network
        self._tasks = tasks
        self._client_id = client_id
        self._response_timeout_ms = response_timeout_ms
        self._channels: dict[tuple[int, str], Channel] = {}
        self._memory = FrameMemory()

    def channel(self, broker_id: int, purpose: str = "") -> Channel | None:
        """The channel to a broker; None for a broker that never registered.

        Requests of different purposes do not wait for each other. A broker with a new address gets a new channel.
        """
        address = self._metadata.address(broker_id)
        if address is None:
            return None
        channel = self._channels.get((broker_id, purpose))
        if channel is None or channel.address != address:
            channel = self._channels[broker_id, purpose] = Channel(
                self._network,
                address,
                self._client_id,
                self._tasks,
                timeout_ms=self._response_timeout_ms,
                handshake=self._login,
                memory=self._memory,
            )
        return channel
