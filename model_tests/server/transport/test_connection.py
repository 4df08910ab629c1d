"""A server's connections: responses in order, and a client that breaks the rules loses only its own connection."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from kio.schema.api_versions.v0.request import ApiVersionsRequest as ApiVersionsRequestV0
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v13.response import MetadataResponse

from tidegauge.impl.client import requests
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.ports.clock import SimulatedClock
from tidegauge.impl.ports.network import Address
from tidegauge.impl.server.broker_handlers import BROKER_HANDLERS
from tidegauge.impl.server.transport import connection, handlers
from tidegauge.impl.server.transport.connection import Connection
from tidegauge.impl.server.transport.context import RequestContext
from tidegauge.impl.server.transport.service import Service
from tidegauge.impl.wire.apis import BROKER_APIS, SPOKEN, ApiKey
from tidegauge.impl.wire.codecs import decode_response, encode_request
from tidegauge.impl.wire.frames import LENGTH, FrameReader
from tidegauge.impl.wire.primitives import NO_WAIT, TopicName
from tidegauge.model_tests.server.asking import consumer_request
from tidegauge.model_tests.simulated import simulated

SMALL = {"socket.request.max.bytes": 10_000, "max.connections": 6}


def metadata(name: str) -> MetadataRequest:
    topic = MetadataRequestTopic(topic_id=None, name=TopicName(name))
    return MetadataRequest(topics=(topic,), allow_auto_topic_creation=False, include_topic_authorized_operations=False)


class Peer:
    """Somebody on a raw connection to broker 0."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._reader = FrameReader(stream, 1 << 20)

    async def next_response(self, api: ApiKey, version: int | None = None) -> tuple[int, Any]:
        frame = await self._reader.read_frame()
        assert frame is not None, "the broker closed the connection"
        decoded = decode_response(frame, api, SPOKEN[api] if version is None else version)
        return decoded.correlation_id, decoded.message

    async def is_hung_up_on(self) -> bool:
        try:
            return await self._reader.read_frame() is None
        except trio.BrokenResourceError:
            return True


@asynccontextmanager
async def broker_with_peers(config: dict[str, int] | None = None) -> AsyncIterator[tuple[Cluster, Any]]:
    async with Cluster(brokers=1, seed=1, config=config) as cluster:
        address: Address = cluster.broker(0).address

        async def connect() -> Peer:
            return Peer(await cluster.network.host("peer").connect(address))

        yield cluster, connect


@simulated
async def test_responses_to_requests_that_come_together_are_in_order() -> None:
    async with broker_with_peers() as (_, connect):
        peer = await connect()
        await peer.stream.send_all(b"".join(encode_request(metadata("t"), nth, "me") for nth in range(50)))
        assert [(await peer.next_response(ApiKey.METADATA))[0] for _ in range(50)] == list(range(50))


@simulated
async def test_a_stopped_node_handles_no_request_that_it_has_received() -> None:
    handled: list[int] = []

    async def handle(request: Any, context: RequestContext) -> Any:
        handled.append(context.correlation_id)
        if context.correlation_id == 1:
            service.clock.stop()
        return await metadata_handler(request, context)

    async with broker_with_peers() as (cluster, connect):
        service: Any = next(iter(cluster.broker(0).listeners))._service
        metadata_handler = service.handlers[ApiKey.METADATA]
        service.handlers[ApiKey.METADATA] = handle
        peer = await connect()
        await peer.stream.send_all(b"".join(encode_request(metadata("t"), nth, "me") for nth in (1, 2)))
        await trio.sleep(1)
        assert handled == [1]
        service.clock.go_on()
        assert [(await peer.next_response(ApiKey.METADATA))[0] for _ in range(2)] == handled == [1, 2]


@pytest.mark.parametrize("part", ["handler", "collaborator", "classes"])
def test_what_no_descriptor_is_left_to_import_ends_the_connection_and_nothing_else(
    part: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> Any:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), "module.py")

    @simulated
    async def run() -> None:
        async with broker_with_peers() as (cluster, connect):
            service: Any = next(iter(cluster.broker(0).listeners))._service
            service.handlers.pop(ApiKey.METADATA, None)
            with monkeypatch.context() as patch:
                if part == "handler":
                    patch.setattr(handlers, "loaded", refuse)
                elif part == "collaborator":
                    patch.setattr(handlers, "bind", refuse)
                else:
                    patch.setattr(connection, "decode_quickly", refuse)
                peer = await connect()
                await peer.stream.send_all(encode_request(metadata("t"), 1, "me"))
                assert await peer.is_hung_up_on()
            peer = await connect()
            await peer.stream.send_all(encode_request(metadata("t"), 2, "me"))
            assert (await peer.next_response(ApiKey.METADATA))[0] == 2

    run()
    assert "no room: node=broker-0 listener=" in caplog.text
    assert 'why="EMFILE (Too many open files): module.py"' in caplog.text


@simulated
async def test_a_request_waits_for_the_one_before_it() -> None:
    async with broker_with_peers() as (cluster, connect):
        await cluster.create_topic("t")
        async with cluster.client() as client:
            await client.produce("t", b"a")
            topic_id = cluster.controller.controller.image.topics["t"].topic_id
        held = consumer_request(topic_id, 0, 1, leader_epoch=-1, max_wait_ms=2_000, min_bytes=1, max_bytes=1_000)
        peer = await connect()
        begun = trio.current_time()
        await peer.stream.send_all(encode_request(held, 1, "me") + encode_request(metadata("t"), 2, "me"))
        assert (await peer.next_response(ApiKey.FETCH))[0] == 1
        assert (await peer.next_response(ApiKey.METADATA))[0] == 2
        assert trio.current_time() - begun == pytest.approx(2)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (LENGTH.pack(10_001) + bytes(10_001), "a frame of 10001 bytes"),
        (LENGTH.pack(-1), "a frame of -1 bytes"),
        (LENGTH.pack(0), "a request of 0 bytes is shorter than its header"),
        (LENGTH.pack(4) + b"\x00\x03\x00\x0c", "shorter than its header"),
        (LENGTH.pack(30) + bytes(30), "PRODUCE version 0 was removed"),
        (LENGTH.pack(30) + b"\x7f\xff" + bytes(28), "API 32767 version 0 is not served"),
        (encode_request(metadata("t"), 1, "me")[:-1] + b"\x07", "MetadataRequest"),
    ],
)
@simulated
async def test_malformed_input_ends_its_connection_and_harms_nobody_else(data: bytes, reason: str) -> None:
    async with broker_with_peers(SMALL) as (cluster, connect):
        neighbour, culprit = await connect(), await connect()
        await culprit.stream.send_all(data)
        assert await culprit.is_hung_up_on()
        await trio.testing.wait_all_tasks_blocked()
        assert reason in cluster.broker(0).closed_connections[-1]
        await neighbour.stream.send_all(encode_request(metadata("t"), 5, "me"))
        correlation_id, response = await neighbour.next_response(ApiKey.METADATA)
        assert correlation_id == 5
        assert response.topics[0].error_code is ErrorCode.unknown_topic_or_partition


@simulated
async def test_requests_before_a_malformed_one_have_their_responses() -> None:
    async with broker_with_peers(SMALL) as (cluster, connect):
        await cluster.create_topic("t")
        async with cluster.client() as client:
            await client.produce("t", b"a", acks=1)
            route = await client._routes.leader(client, "t", 0)
        produce = requests.produce(route, requests.batch([b"b"], 0), 1, 1_000)
        peer = await connect()
        await peer.stream.send_all(encode_request(produce, 1, "me") + LENGTH.pack(-5))
        _, response = await peer.next_response(ApiKey.PRODUCE)
        assert response.topics[0].partitions[0].base_offset == 1
        assert await peer.is_hung_up_on()
        assert cluster.replica(0, "t").log_end_offset == 2


@simulated
async def test_responses_are_sent_before_a_connection_is_closed_for_what_came_behind() -> None:
    ours, theirs = trio.testing.memory_stream_pair()

    async def handle(request: Any, _: RequestContext) -> Any:
        return metadata_response(request)

    versions = {ApiKey.METADATA: BROKER_APIS[ApiKey.METADATA]}
    server = Connection(theirs, Service({ApiKey.METADATA: handle}, versions, SimulatedClock(), 1_000))
    await ours.send_all(encode_request(metadata("a"), 1, "me") + encode_request(metadata("b"), 2, "me") + b"\xff" * 4)
    assert await server.serve() == "a frame of -1 bytes: only 0 to 1000 are accepted (socket.request.max.bytes)"
    reader = FrameReader(ours, 1_000)
    for correlation_id in (1, 2):
        frame = await reader.read_frame()
        assert frame is not None
        assert decode_response(frame, ApiKey.METADATA, SPOKEN[ApiKey.METADATA]).correlation_id == correlation_id


def metadata_response(request: MetadataRequest) -> MetadataResponse:
    return MetadataResponse(throttle_time=NO_WAIT, brokers=(), topics=(), error_code=ErrorCode.none)


@simulated
async def test_connections_beyond_the_limit_are_closed() -> None:
    async with broker_with_peers(SMALL) as (_, connect):
        peers = [await connect() for _ in range(8)]
        await trio.testing.wait_all_tasks_blocked()
        refused = 0
        for peer in peers:
            with trio.move_on_after(0.1):
                refused += await peer.is_hung_up_on()
        assert refused >= 2


@simulated
async def test_api_versions_say_what_is_spoken() -> None:
    async with broker_with_peers() as (_, connect):
        peer = await connect()
        request = ApiVersionsRequest(client_software_name="me", client_software_version="1")
        await peer.stream.send_all(encode_request(request, 1, "me"))
        _, response = await peer.next_response(ApiKey.API_VERSIONS)
        served = {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}
        assert served == {int(key): BROKER_APIS[key] for key in (*BROKER_HANDLERS, ApiKey.API_VERSIONS)}


@simulated
async def test_the_response_to_an_unknown_version_of_api_versions_has_version_0() -> None:
    async with broker_with_peers() as (_, connect):
        peer = await connect()
        frame = bytearray(encode_request(ApiVersionsRequestV0(), 9, "me"))
        frame[6:8] = (99).to_bytes(2, "big")
        await peer.stream.send_all(bytes(frame))
        correlation_id, response = await peer.next_response(ApiKey.API_VERSIONS, version=0)
        assert (correlation_id, response.error_code) == (9, ErrorCode.unsupported_version)
        assert {key.api_key for key in response.api_keys} == {
            int(key) for key in (*BROKER_HANDLERS, ApiKey.API_VERSIONS)
        }


@simulated
async def test_a_waiting_request_is_dropped_with_its_connection() -> None:
    async with broker_with_peers() as (cluster, connect):
        await cluster.create_topic("t")
        topic_id = cluster.controller.controller.image.topics["t"].topic_id
        held = consumer_request(topic_id, 0, 0, leader_epoch=-1, max_wait_ms=60_000, min_bytes=1, max_bytes=1_000)
        peer = await connect()
        await peer.stream.send_all(encode_request(held, 1, "me"))
        await trio.testing.wait_all_tasks_blocked()
        assert len(cluster.broker(0).replicas.effects.fetches) == 1
        await peer.stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert len(cluster.broker(0).replicas.effects.fetches) == 0


@pytest.mark.parametrize(
    ("begin", "told"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "the peer speaks TLS"),
        (b"GET /metrics HTTP/1.1\r\nHost: broker\r\n\r\n", "the peer speaks HTTP"),
    ],
    ids=["TLS", "HTTP"],
)
@pytest.mark.parametrize("node", ["broker-0", "controller"])
def test_a_peer_that_speaks_another_protocol_is_told_of(
    caplog: pytest.LogCaptureFixture, begin: bytes, told: str, node: str
) -> None:
    """At a listener where all may come, and at one where they have to log in."""

    @simulated
    async def run() -> None:
        async with Cluster(1) as cluster:
            for _ in range(12):
                stream = await cluster.host.network("client").connect(cluster.parts.nodes.addresses[node])
                await stream.send_all(begin)
                assert await Peer(stream).is_hung_up_on()
                await stream.aclose()

    run()
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(lines) == 10, "as many as in ten seconds at most"
    assert all(line.startswith(f"another protocol: node={node} listener=") for line in lines)
    assert all(f'why="{told}" next="its connection is closed: ' in line for line in lines)
