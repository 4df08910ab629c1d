"""Connections to other brokers: one channel for each broker and purpose, made when it is first needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.impl.wire.channel import Channel
from tidegauge.impl.wire.frames import FrameMemory

if TYPE_CHECKING:
    from tidegauge.impl.server.broker.metadata_cache import MetadataCache
    from tidegauge.impl.server.broker.tasks import BrokerTasks
    from tidegauge.impl.server.transport.security.inter_broker import InterBroker


class Peers:
    """The channels of one broker to the others, by broker id and purpose."""

    def __init__(
        self,
        metadata: MetadataCache,
        ways: InterBroker,
        tasks: BrokerTasks,
        *,
        client_id: str,
        response_timeout_ms: float,
    ) -> None:
        """`ways` connects to the others, and authenticates this node there."""
        self._metadata = metadata
        self._ways = ways
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
                self._ways.network(broker_id),
                address,
                self._client_id,
                self._tasks,
                timeout_ms=self._response_timeout_ms,
                handshake=self._ways.login(broker_id),
                memory=self._memory,
            )
        return channel
