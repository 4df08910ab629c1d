"""What a server bears: requests that wait for their turn, peers that fall silent, responses that nobody reads."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.request import MetadataRequest
from kio.schema.metadata.v13.response import MetadataResponse

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.ports.clock import SimulatedClock
from tidegauge.impl.ports.network import PIECE
from tidegauge.impl.records.lazy import LazyRecords
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.server.transport.connection import MOST_UNSENT, Connection
from tidegauge.impl.server.transport.context import RequestContext
from tidegauge.impl.server.transport.sending import SMALL_PART, joined, send_parts
from tidegauge.impl.server.transport.service import Service
from tidegauge.impl.wire.apis import BROKER_APIS, ApiKey
from tidegauge.impl.wire.codecs import encode_request
from tidegauge.impl.wire.fetch_messages import FetchPartition, FetchRequest, FetchTopic
from tidegauge.impl.wire.fields import Part
from tidegauge.impl.wire.frames import LENGTH, MOST_AT_ONCE, FrameReader
from tidegauge.impl.wire.primitives import NO_WAIT
from tidegauge.impl.wire.produce_messages import ProducePartition, ProduceRequest, ProduceTopic
from tidegauge.model_tests.simulated import simulated
from tidegauge.model_tests.wire.test_frames import tcp_pair

METADATA = MetadataRequest(topics=(), include_topic_authorized_operations=False)
NOTHING = MetadataResponse(throttle_time=NO_WAIT, brokers=(), topics=(), error_code=ErrorCode.none)


class Servers:
    """Connections of one service, whose handler is the test's."""

    def __init__(self, nursery: trio.Nursery, turns: int, handle: Callable[[RequestContext], Awaitable[None]]) -> None:
        self.nursery = nursery
        self.handled: list[int] = []

        async def handler(_: Any, context: RequestContext) -> Any:
            self.handled.append(context.correlation_id)
            await handle(context)
            return NOTHING

        versions = {ApiKey.METADATA: BROKER_APIS[ApiKey.METADATA]}
        self.service = Service(
            {ApiKey.METADATA: handler}, versions, SimulatedClock(), 1_000, turns=trio.Semaphore(turns)
        )

    async def ask(self, correlation_id: int) -> trio.abc.Stream:
        """Send a request on a connection of its own."""
        ours, theirs = trio.testing.memory_stream_pair()
        self.nursery.start_soon(Connection(theirs, self.service).serve)
        await ours.send_all(encode_request(METADATA, correlation_id, "me"))
        await trio.testing.wait_all_tasks_blocked()
        return ours


@asynccontextmanager
async def servers(turns: int, handle: Callable[[RequestContext], Awaitable[None]]) -> AsyncIterator[Servers]:
    async with trio.open_nursery() as nursery:
        yield Servers(nursery, turns, handle)
        nursery.cancel_scope.cancel()


# --- queued.max.requests -------------------------------------------------------------------------------------------


@simulated
async def test_no_more_requests_are_handled_at_once_than_may_be() -> None:
    go_on = trio.Event()

    async def wait(_: RequestContext) -> None:
        await go_on.wait()

    async with servers(2, wait) as some:
        streams = [await some.ask(number) for number in range(4)]
        assert some.handled == [0, 1]
        go_on.set()
        for stream in streams:
            assert await FrameReader(stream, 1_000).read_frame()
        assert some.handled == [0, 1, 2, 3]


@simulated
async def test_requests_in_the_purgatory_do_not_count() -> None:
    go_on = trio.Event()

    async def wait(context: RequestContext) -> None:
        await context.while_connected(go_on.wait)

    async with servers(1, wait) as some:
        streams = [await some.ask(number) for number in range(3)]
        assert some.handled == [0, 1, 2]
        go_on.set()
        for stream in streams:
            assert await FrameReader(stream, 1_000).read_frame()


@simulated
async def test_a_turn_is_given_up_by_a_request_that_breaks_its_connection() -> None:
    async def wait(context: RequestContext) -> None:
        if context.correlation_id == 0:
            raise trio.BrokenResourceError("gone")

    async with servers(1, wait) as some:
        await some.ask(0)
        assert await FrameReader(await some.ask(1), 1_000).read_frame()


@simulated
async def test_a_peer_that_reads_nothing_of_a_large_response_keeps_nobody_waiting() -> None:
    async def response(_: Any, context: RequestContext) -> Any:
        large = "x" * (2 * MOST_UNSENT) if context.correlation_id == 0 else ""
        return dataclasses.replace(NOTHING, cluster_id=large) if large else NOTHING

    versions = {ApiKey.METADATA: BROKER_APIS[ApiKey.METADATA]}
    service = Service({ApiKey.METADATA: response}, versions, SimulatedClock(), 1_000, turns=trio.Semaphore(1))
    async with trio.open_nursery() as nursery:
        slow, theirs = trio.testing.lockstep_stream_pair()
        nursery.start_soon(Connection(theirs, service).serve)
        await slow.send_all(encode_request(METADATA, 0, "slow"))
        await trio.testing.wait_all_tasks_blocked()
        other, served = trio.testing.memory_stream_pair()
        nursery.start_soon(Connection(served, service).serve)
        await other.send_all(encode_request(METADATA, 1, "other"))
        with trio.fail_after(1):
            assert await FrameReader(other, 1_000).read_frame()
        nursery.cancel_scope.cancel()


# --- the watcher ---------------------------------------------------------------------------------------------------


@simulated
async def test_what_comes_while_a_request_waits_is_handled_next() -> None:
    go_on = trio.Event()

    async def wait(context: RequestContext) -> None:
        if context.correlation_id == 0:
            await context.while_connected(go_on.wait)

    async with servers(1, wait) as some:
        stream = await some.ask(0)
        frame = encode_request(METADATA, 1, "me")
        await stream.send_all(frame[:9])
        await trio.testing.wait_all_tasks_blocked()
        go_on.set()
        await trio.testing.wait_all_tasks_blocked()
        await stream.send_all(frame[9:] + encode_request(METADATA, 2, "me"))
        reader = FrameReader(stream, 1_000)
        for _ in range(3):
            assert await reader.read_frame()
        assert some.handled == [0, 1, 2]


@simulated
async def test_a_peer_that_leaves_after_its_wait_is_served_what_it_sent() -> None:
    go_on = trio.Event()

    async def wait(context: RequestContext) -> None:
        if context.correlation_id < 2:
            await context.while_connected(go_on.wait)

    async with servers(1, wait) as some:
        stream = await some.ask(0)
        go_on.set()
        await trio.testing.wait_all_tasks_blocked()
        await stream.send_all(encode_request(METADATA, 3, "me"))
        await stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert some.handled == [0, 3]


# --- connections.max.idle.ms ---------------------------------------------------------------------------------------

IDLE = {"connections.max.idle.ms": 4_000}


async def hung_up_after(stream: trio.abc.Stream) -> float:
    """Seconds until the broker has closed the connection."""
    begun = trio.current_time()
    reader = FrameReader(stream, 1 << 24)
    try:
        while await reader.read_frame() is not None:
            pass
    except trio.BrokenResourceError:
        pass
    return trio.current_time() - begun


@pytest.mark.parametrize("sent", [b"", LENGTH.pack(100), LENGTH.pack(100) + bytes(50)])
@simulated
async def test_a_silent_peer_is_hung_up_on(sent: bytes) -> None:
    async with Cluster(brokers=1, seed=1, config=IDLE) as cluster:
        stream = await cluster.network.host("peer").connect(cluster.broker(0).address)
        if sent:
            await stream.send_all(sent)
        assert 4 < await hung_up_after(stream) <= 5.1
        assert cluster.broker(0).idle_connections.closed == 1


@simulated
async def test_a_large_frame_that_comes_slowly_is_activity_until_it_stops() -> None:
    """Over TCP, where a part of a large frame does not wake its reader."""
    async with Cluster(brokers=1, seed=1, config=IDLE) as cluster:
        broker = cluster.broker(0)
        service: Any = next(iter(broker.listeners))._service
        client, server = await tcp_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Connection(server, service).serve)
            await client.send_all(LENGTH.pack(MOST_AT_ONCE * 2))
            for _ in range(20):
                await client.send_all(bytes(1_000))
                await trio.sleep(1)
            assert broker.idle_connections.closed == 0
            assert 3 < await hung_up_after(client) <= 5.1
            assert broker.idle_connections.closed == 1
            await client.aclose()


@simulated
async def test_a_connection_that_waits_for_the_broker_is_not_idle() -> None:
    async with Cluster(brokers=1, seed=1, config=IDLE) as cluster:
        await cluster.create_topic("t")
        topic_id = cluster.controller.controller.image.topics["t"].topic_id
        fetch = FetchRequest([FetchTopic("", topic_id, [FetchPartition(0, 0, 1_000)])], 20_000, 1)
        stream = await cluster.network.host("peer").connect(cluster.broker(0).address)
        await stream.send_all(encode_request(fetch, 1, "me"))
        assert 24 < await hung_up_after(stream) <= 25.1, "its wait is over after 20 s"


@simulated
async def test_a_peer_that_does_not_read_its_responses_is_hung_up_on() -> None:
    async with Cluster(brokers=1, seed=1, config={**IDLE, "message.max.bytes": 30 << 20}) as cluster:
        await cluster.create_topic("t")
        topic_id = cluster.controller.controller.image.topics["t"].topic_id
        batch = build_batch([Record(0, 0, None, bytes(20 << 20))])
        produce = ProduceRequest(0, 1_000, [ProduceTopic("", topic_id, [ProducePartition(0, batch)])])
        fetch = FetchRequest([FetchTopic("", topic_id, [FetchPartition(0, 0, 1_000)])], 0, 1)
        stream = await cluster.network.host("peer").connect(cluster.broker(0).address)
        await stream.send_all(encode_request(produce, 1, "me") + encode_request(fetch, 2, "me") * 3)
        await trio.sleep(3)
        idle = cluster.broker(0).idle_connections
        assert (len(idle), idle.closed) == (1, 0)
        await trio.sleep(3)
        assert (len(idle), idle.closed) == (0, 1)


# --- sending -------------------------------------------------------------------------------------------------------


class Counted(LazyRecords):
    """Lazy records that note how much of them is read at a time."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.most = 0

    def __len__(self) -> int:
        return len(self.data)

    def read(self, start: int, size: int) -> bytes:
        self.most = max(self.most, size)
        return self.data[start : start + size]

    @property
    def place(self) -> tuple[int, int]:
        raise AssertionError("not over this stream")


def test_small_parts_go_together_and_large_ones_alone() -> None:
    large = bytes(SMALL_PART + 1)
    assert [bytes(part) for part in joined([b"a", b"b", large, b"c"])] == [b"ab", large, b"c"]  # type: ignore[arg-type]
    (alone,) = joined([large])
    assert alone is large


@simulated
async def test_lazy_records_are_in_memory_a_piece_at_a_time() -> None:
    lazy = Counted(bytes(range(256)) * (3 * PIECE // 256) + b"end")
    parts: list[Part] = [b"head", lazy, b"tail"]
    ours, theirs = trio.testing.memory_stream_one_way_pair()
    progress: list[None] = []
    await send_parts(trio.StapledStream(ours, theirs), parts, lambda: progress.append(None))
    received = bytearray()
    while len(received) < len(lazy) + 8:
        received += await theirs.receive_some()
    assert received == b"head" + lazy.data + b"tail"
    assert lazy.most == PIECE
    assert len(progress) >= 4
