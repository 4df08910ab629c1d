"""Connections from one broker to the others, one channel for each use, opened when first needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.impl.wire.channel import Channel
from tidegauge.impl.wire.frames import FrameMemory

if TYPE_CHECKING:
    from tidegauge.impl.server.broker_server import Broker


class Peers:
    """Channels by broker id and use."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._channels: dict[tuple[int, str], Channel] = {}
        self._memory = FrameMemory()

    def channel(self, broker_id: int, use: str = "") -> Channel | None:
        """The channel to a broker; None when it never registered. A new address begins a new channel.

        What must not wait behind something else has another `use`.
        """
        address = self._broker.metadata.address(broker_id)
        if address is None:
            return None
        channel = self._channels.get((broker_id, use))
        if channel is None or channel.address != address:
            channel = self._channels[broker_id, use] = Channel(
                self._broker.network,
                address,
                f"broker-{self._broker.id}",
                self._broker.tasks.nursery,
                timeout_ms=self._broker.node.response_timeout_ms(self._broker.config.current.replica_socket_timeout_ms),
                memory=self._memory,
            )
        return channel
