"""A channel matches responses to requests, and says which of three things went wrong."""

from __future__ import annotations

import dataclasses
import errno
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v13.response import MetadataResponse

from tidegauge.impl.ports.network import Address, Listener, TcpNetwork
from tidegauge.impl.ports.simulated_network import SimulatedNetwork
from tidegauge.impl.wire.channel import Channel, NoResponseError, UnreachableError
from tidegauge.impl.wire.codecs import Request, decode_request, encode_response
from tidegauge.impl.wire.frames import KEPT_SIZE, READ_SIZE, ConnectionLostError, FrameMemory, FrameReader
from tidegauge.impl.wire.primitives import TopicName, millis
from tidegauge.model_tests.simulated import simulated

HERE = Address("server", 9092)
Answerer = Callable[[trio.abc.Stream, Request], Awaitable[None]]


def question(name: str) -> MetadataRequest:
    topic = MetadataRequestTopic(topic_id=None, name=TopicName(name))
    return MetadataRequest(topics=(topic,), include_topic_authorized_operations=False)


def response_to(request: Request) -> bytes:
    """The question's text comes back as the cluster id."""
    cluster_id = request.message.topics[0].name
    return encode_response(
        MetadataResponse(
            throttle_time=millis(0), brokers=(), cluster_id=cluster_id, topics=(), error_code=ErrorCode.none
        ),
        request.correlation_id,
    )


async def respond(stream: trio.abc.Stream, request: Request) -> None:
    await stream.send_all(response_to(request))


async def stay_silent(stream: trio.abc.Stream, request: Request) -> None:
    await trio.lowlevel.checkpoint()


@asynccontextmanager
async def channel_to(answerer: Answerer, **options: Any) -> AsyncIterator[tuple[Channel, SimulatedNetwork]]:
    network = SimulatedNetwork(1)
    listener = await network.host("server").listen(HERE)

    async def serve(stream: trio.abc.Stream) -> None:
        reader = FrameReader(stream, 1 << 20)
        with suppress(trio.ClosedResourceError):
            while (frame := await reader.read_frame()) is not None:
                await answerer(stream, decode_request(frame))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listener.serve, serve)
        nursery.start_soon(network.run)
        yield Channel(network.host("client"), HERE, "me", nursery, **options), network
        nursery.cancel_scope.cancel()


@simulated
async def test_a_connection_that_is_lost_within_its_handshake_is_unreachable() -> None:
    async def leave(channel: Channel) -> None:
        await channel.request_here(question("first"))
        await trio.sleep(1)
        await channel.request_here(question("second"))

    async def respond_and_close(stream: trio.abc.Stream, request: Request) -> None:
        await respond(stream, request)
        await stream.aclose()

    async with channel_to(respond_and_close, handshake=leave) as (channel, _):
        with pytest.raises(UnreachableError, match="broke before its handshake was done"):
            await channel.request(question("a"))


@simulated
async def test_responses_find_their_requests_in_any_order() -> None:
    waiting: list[tuple[trio.abc.Stream, Request]] = []

    async def respond_backwards(stream: trio.abc.Stream, request: Request) -> None:
        waiting.append((stream, request))
        if len(waiting) == 3:
            for held_stream, held in reversed(waiting):
                await respond(held_stream, held)

    async with channel_to(respond_backwards) as (channel, _), trio.open_nursery() as nursery:
        found: dict[str, str] = {}

        async def ask(name: str) -> None:
            found[name] = (await channel.request(question(name))).cluster_id

        for name in ("a", "b", "c"):
            nursery.start_soon(ask, name)
        await trio.testing.wait_all_tasks_blocked()
    assert found == {"a": "a", "b": "b", "c": "c"}
    assert channel.outstanding == 0


@simulated
async def test_a_response_that_nothing_waits_for_is_dropped() -> None:
    async def respond_twice(stream: trio.abc.Stream, request: Request) -> None:
        await stream.send_all(response_to(request) * 2)

    async with channel_to(respond_twice) as (channel, _):
        assert [(await channel.request(question(name))).cluster_id for name in "abc"] == ["a", "b", "c"]


@simulated
async def test_nobody_there_means_that_nothing_was_sent() -> None:
    async with channel_to(respond) as (channel, network):
        network.crash("server")
        with pytest.raises(UnreachableError, match="server:9092 cannot be reached"):
            await channel.request(question("a"))


class Unconnected:
    """A network on which every attempt to connect fails."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def connect(self, address: Address) -> trio.abc.Stream:
        raise self._error

    async def listen(self, address: Address) -> Listener:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (trio.TooSlowError(), "no connection within 1000 ms"),
        (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), "EMFILE (Too many open files): close connections, or give"),
        (OSError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED)), "ECONNREFUSED (Connection refused)"),
    ],
    ids=["too slow", "no descriptors", "refused"],
)
@simulated
async def test_a_connection_that_cannot_be_opened_says_why(error: Exception, why: str) -> None:
    async with trio.open_nursery() as nursery:
        channel = Channel(Unconnected(error), HERE, "me", nursery, timeout_ms=1_000)
        with pytest.raises(UnreachableError, match=re.escape(f"server:9092 cannot be reached: {why}")):
            await channel.request(question("a"))


@pytest.mark.parametrize(
    ("cause", "why"),
    [
        (None, "BrokenResourceError"),
        (
            ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)),
            "ECONNRESET (Connection reset by peer)",
        ),
    ],
    ids=["nothing", "its cause"],
)
@simulated
async def test_a_connection_that_breaks_without_a_word_says_what_broke_it(cause: Exception | None, why: str) -> None:
    """As trio's errors of TLS do."""

    async def break_off(*_: object) -> None:
        raise trio.BrokenResourceError from cause

    async with channel_to(respond) as (channel, _):
        await channel.connect()
        stream = channel._stream
        assert stream is not None
        stream.send_all = break_off  # type: ignore[assignment, method-assign]
        with pytest.raises(NoResponseError, match=re.escape(f"the connection to server:9092 broke: {why}")):
            await channel.request(question("a"))


@simulated
async def test_no_response_in_time_closes_the_connection() -> None:
    async with channel_to(stay_silent, timeout_ms=1_000) as (channel, network), trio.open_nursery() as nursery:

        async def ask_patiently() -> None:
            with pytest.raises(NoResponseError, match="no response from server:9092 within 1000 ms"):
                await channel.request(question("patient"), timeout_ms=60_000)

        nursery.start_soon(ask_patiently)
        begun = trio.current_time()
        with pytest.raises(NoResponseError, match="within 1000 ms"):
            await channel.request(question("hasty"))
        assert trio.current_time() - begun == pytest.approx(1)
        await trio.testing.wait_all_tasks_blocked()
        assert network.open_connections == 0


def test_nothing_follows_a_part_of_a_request_that_was_given_up() -> None:
    """The peer would take the next requests for the rest of it, and respond to none of them."""

    async def run() -> None:
        reads = trio.Event()

        async def serve(stream: trio.abc.Stream) -> None:
            await reads.wait()
            reader = FrameReader(stream, 1 << 30)
            with suppress(trio.BrokenResourceError, ConnectionLostError):
                while (frame := await reader.read_frame()) is not None:
                    await respond(stream, decode_request(frame))

        listener = await TcpNetwork().listen(Address("127.0.0.1", 0))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listener.serve, serve)
            channel = Channel(TcpNetwork(), listener.address, "me", nursery)
            large = dataclasses.replace(question("large"), topics=(question("x" * 30_000).topics or ()) * 1_000)

            async def ask_before() -> None:
                with pytest.raises(NoResponseError, match="was given up when a part of it was sent"):
                    await channel.request(question("before"))

            await channel.connect()
            nursery.start_soon(ask_before)
            await trio.testing.wait_all_tasks_blocked()
            with trio.move_on_after(0.2) as given_up:
                await channel.request(large)
            assert given_up.cancelled_caught
            reads.set()
            with trio.fail_after(10):
                assert (await channel.request(question("next"))).cluster_id == "next"
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_a_request_without_a_response_is_not_sent_for_ever() -> None:
    async def take_nothing(_: trio.abc.Stream) -> None:
        await trio.sleep_forever()

    async def run() -> None:
        listener = await TcpNetwork().listen(Address("127.0.0.1", 0))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listener.serve, take_nothing)
            channel = Channel(TcpNetwork(), listener.address, "me", nursery, timeout_ms=60_000)
            large = dataclasses.replace(question("large"), topics=(question("x" * 30_000).topics or ()) * 1_000)
            with trio.fail_after(10), pytest.raises(NoResponseError, match="does not take a request within 200 ms"):
                await channel.send(large, 200)
            nursery.cancel_scope.cancel()

    trio.run(run)


@simulated
async def test_a_lost_connection_is_made_anew_for_the_next_request() -> None:
    async def respond_or_hang_up(stream: trio.abc.Stream, request: Request) -> None:
        if request.message.topics[0].name == "die":
            await stream.aclose()
        else:
            await respond(stream, request)

    async with channel_to(respond_or_hang_up) as (channel, _):
        with pytest.raises(NoResponseError, match="server:9092"):
            await channel.request(question("die"))
        assert (await channel.request(question("live"))).cluster_id == "live"


@simulated
async def test_a_response_that_cannot_be_decoded_ends_the_connection() -> None:
    async def talk_nonsense(stream: trio.abc.Stream, request: Request) -> None:
        body = request.correlation_id.to_bytes(4, "big") + b"\xff" * 9
        await stream.send_all(len(body).to_bytes(4, "big") + body)

    async with channel_to(talk_nonsense) as (channel, _):
        with pytest.raises(NoResponseError, match="sent what cannot be understood"):
            await channel.request(question("a"))


@simulated
async def test_a_handshake_runs_on_each_new_connection() -> None:
    greetings: list[str] = []

    async def greet(channel: Channel) -> None:
        greetings.append((await channel.request_here(question("hello"))).cluster_id)

    async with channel_to(respond, handshake=greet) as (channel, network):
        await channel.request(question("a"))
        await channel.request(question("b"))
        assert greetings == ["hello"]
        network.reset("server")
        await trio.testing.wait_all_tasks_blocked()
        await channel.request(question("c"))
        assert greetings == ["hello", "hello"]
        await channel.aclose()
        with pytest.raises(UnreachableError, match="is closed"):
            await channel.request(question("d"))


def test_a_channel_that_waits_keeps_no_memory_of_its_last_response() -> None:
    async def serve(stream: trio.SocketStream) -> None:
        reader = FrameReader(stream, 1 << 20)
        with suppress(trio.BrokenResourceError):
            while (frame := await reader.read_frame()) is not None:
                await respond(stream, decode_request(frame))

    async def ask() -> None:
        memory = FrameMemory(buffers=1)
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, serve, listeners)
            channel = Channel(TcpNetwork(), Address("127.0.0.1", port), "me", nursery, memory=memory)
            for letter in "ab":
                response = await channel.request(question(letter * READ_SIZE))
                assert response.cluster_id == letter * READ_SIZE
                views = memory.take(READ_SIZE), memory.take(READ_SIZE)
                assert [memoryview(view.obj).nbytes for view in views] == [KEPT_SIZE, READ_SIZE], "the kept one is free"
                del views
            nursery.cancel_scope.cancel()

    trio.run(ask)
