"""When a broker is ready: clients that reach any broker are told of it, and can use it at once.

A broker is unfenced by a record of the metadata log, and each broker, itself included, acts on that record when it has
fetched it. A client that comes earlier is told of a cluster without this broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio
from kio.schema.metadata.v13.request import MetadataRequest

from tidegauge.impl.wire.channel import NoResponseError, UnreachableError

if TYPE_CHECKING:
    from tidegauge.impl.server.broker.metadata_cache import MetadataCache
    from tidegauge.impl.server.broker.metadata_loader import MetadataLoader
    from tidegauge.impl.server.broker.peers import Peers
    from tidegauge.impl.server.broker.registration import Registration

PEERS_S: Final = 5.0
"""Seconds that the other brokers may take to learn of this one; a peer that is gone does not respond at all."""
BETWEEN_QUESTIONS_S: Final = 0.01


class Readiness:
    """Whether one broker's process is part of the cluster for all clients."""

    def __init__(
        self, registration: Registration, metadata: MetadataCache, loader: MetadataLoader, peers: Peers
    ) -> None:
        self._registration = registration
        self._metadata = metadata
        self._loader = loader
        self._peers = peers

    def waits_for(self) -> str:
        """What is lacking, in words."""
        if self._registration.unfenced.is_set():
            return "it is let in, and the other brokers have yet to learn of it"
        return self._registration.hindrance

    async def until_ready(self) -> None:
        """Return when this broker is unfenced, and every unfenced broker lists it; needs the timers to run.

        Waits `PEERS_S` at most for the others, since one of them may be gone and not fenced yet.
        """
        await self._registration.unfenced.wait()
        await self._loader.catch_up()
        with trio.move_on_after(PEERS_S):
            async with trio.open_nursery() as nursery:
                for broker in self._metadata.image.unfenced_brokers():
                    if broker.broker_id != self._registration.broker_id:
                        nursery.start_soon(self._until_listed_at, broker.broker_id)

    async def _until_listed_at(self, broker_id: int) -> None:
        request = MetadataRequest(topics=(), allow_auto_topic_creation=False, include_topic_authorized_operations=False)
        while (channel := self._peers.channel(broker_id, "readiness")) is not None:
            try:
                response = await channel.request(request)
            except (UnreachableError, NoResponseError):
                pass
            else:
                if any(broker.node_id == self._registration.broker_id for broker in response.brokers):
                    return
            await trio.sleep(BETWEEN_QUESTIONS_S)
