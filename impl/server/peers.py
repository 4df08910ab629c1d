"""Connections from one broker to the others, one channel each, opened when first needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from impl.wire.channel import Channel

if TYPE_CHECKING:
    from impl.server.broker import Broker


class Peers:
    """Channels by broker id."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._channels: dict[int, Channel] = {}

    def channel(self, broker_id: int) -> Channel | None:
        """The channel to a broker; None when it never registered. A new address begins a new channel."""
        address = self._broker.metadata.address(broker_id)
        if address is None:
            return None
        channel = self._channels.get(broker_id)
        if channel is None or channel.address != address:
            channel = self._channels[broker_id] = Channel(
                self._broker.network,
                address,
                f"broker-{self._broker.id}",
                self._broker.nursery,
                timeout_ms=self._broker.answer_timeout_ms(self._broker.config.replica_socket_timeout_ms),
            )
        return channel
