"""Somebody who asks a broker in any version of any API, and the principals that an authorizer of tests knows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.ports.network import Address
from tidegauge.impl.ports.randomness import SeededRandomness
from tidegauge.impl.server.transport.authorization import Operation, Principal, ResourceType
from tidegauge.impl.server.transport.security.cluster_secret import ClusterSecret
from tidegauge.impl.wire.codecs import decode_response, encode_request
from tidegauge.impl.wire.fetch_messages import FetchPartition, FetchRequest, FetchTopic
from tidegauge.impl.wire.frames import FrameReader


class Asker:
    """A raw connection to a broker; responses come one by one."""

    def __init__(self, stream: trio.abc.Stream, client_id: str | None = "asker") -> None:
        self.stream = stream
        self.client_id = client_id
        self._reader = FrameReader(stream, 64 << 20)
        self._count = 0

    async def ask(self, request: Any, version: int | None = None) -> Any:
        """The response, as the version of the request has it."""
        self._count += 1
        spoken = request.__version__ if version is None else version
        await self.stream.send_all(encode_request(request, self._count, self.client_id, version=version))
        frame = await self._reader.read_frame()
        assert frame is not None, "the broker closed the connection"
        response = decode_response(frame, request.__api_key__, spoken)
        assert response.correlation_id == self._count
        return response.message


@attrs.frozen
class Opening:
    """A connection that is being opened, for a login."""

    asker: Asker

    @property
    def address(self) -> Address:
        return Address("asked", 1)

    async def request_here(self, message: Any) -> Any:
        return await self.asker.ask(message)


async def node_asker(stream: trio.abc.Stream, secret: ClusterSecret, name: str = "asker") -> Asker:
    """A connection that is authenticated as a node's."""
    made = Asker(stream)
    await secret.login(name, SeededRandomness(1, name))(Opening(made))
    return made


async def asker(cluster: Cluster, broker: int = 0, client_id: str | None = "asker") -> Asker:
    """A connection to one broker of a simulated cluster."""
    stream = await cluster.network.host("asker").connect(cluster.broker(broker).address)
    return Asker(stream, client_id)


@asynccontextmanager
async def asking(
    brokers: int = 1, config: dict[str, Any] | None = None, topic: str | None = "t"
) -> AsyncIterator[tuple[Cluster, Asker]]:
    """A simulated cluster with a topic of one partition on all brokers, and a connection to its broker 0."""
    async with Cluster(brokers=brokers, seed=1, config=config) as cluster:
        if topic is not None:
            await cluster.create_topic(topic)
        yield cluster, await asker(cluster)


def consumer_request(
    topic_id: str, partition: int, offset: int, *, leader_epoch: int, max_wait_ms: int, min_bytes: int, max_bytes: int
) -> FetchRequest:
    """A consumer's request for one partition."""
    asked = FetchPartition(partition, offset, max_bytes, leader_epoch)
    return FetchRequest([FetchTopic("", topic_id, [asked])], max_wait_ms, min_bytes, max_bytes)


@attrs.frozen
class Forbidding:
    """An authorizer that forbids some things to everybody."""

    forbidden: frozenset[tuple[Operation, ResourceType, str]]
    """(operation, type, name); a name "*" is every one."""

    def allowed(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        return not self.forbidden & {(operation, resource_type, name), (operation, resource_type, "*")}

    def allowed_anywhere(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        return (operation, resource_type, "*") not in self.forbidden


def forbid(cluster: Cluster, *forbidden: tuple[Operation, ResourceType, str], brokers: Iterable[int] = (0,)) -> None:
    """From now on brokers refuse these things, on connections that are made later."""
    for broker_id in brokers:
        for listener in cluster.broker(broker_id).listeners:
            listener._service = attrs.evolve(listener._service, authorizer=Forbidding(frozenset(forbidden)))
