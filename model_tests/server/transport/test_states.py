"""The states of a connection: which follow which, and who has a turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.lowlevel
import trio.testing
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v13.response import MetadataResponse
from kio.schema.types import TopicName

from tidegauge.impl.ports.clock import SimulatedClock
from tidegauge.impl.server.pace import line
from tidegauge.impl.server.transport.connection import Connection
from tidegauge.impl.server.transport.context import RequestContext
from tidegauge.impl.server.transport.handlers import Deferred, Handlers
from tidegauge.impl.server.transport.service import Service
from tidegauge.impl.server.transport.states import (
    CLOSED,
    HANDLING,
    NEXT,
    PEERS_MOVE,
    QUEUED,
    READING,
    READY,
    SENDING,
    WAITING,
    ConnectionState,
)
from tidegauge.impl.wire.apis import BROKER_APIS, ApiKey
from tidegauge.impl.wire.codecs import decode_response, encode_request
from tidegauge.impl.wire.frames import LENGTH
from tidegauge.impl.wire.primitives import NO_WAIT
from tidegauge.model_tests.simulated import simulated

REQUEST = encode_request(MetadataRequest(topics=(), include_topic_authorized_operations=False), 1, "me")
RESPONSE = MetadataResponse(throttle_time=NO_WAIT, brokers=(), topics=(), error_code=ErrorCode.none)
VERSIONS = {ApiKey.METADATA: BROKER_APIS[ApiKey.METADATA]}


class Recorded(Connection):
    """A connection that keeps its states, and in which of them it had a turn."""

    def __init__(self, stream: trio.abc.Stream, service: Service) -> None:
        super().__init__(stream, service)
        self.states: list[ConnectionState] = []
        self.had_turn: set[ConnectionState] = set()
        self._turns = service.turns

    def _enter(self, state: ConnectionState) -> None:
        super()._enter(state)
        self.states.append(state)
        if self._turns is not None and self._turns.value == 0:
            self.had_turn.add(state)


async def served(
    handle: Callable[[Any, RequestContext], Awaitable[Any]], requests: int = 1, turns: int = 1
) -> Recorded:
    """A connection that has served requests which came together."""
    ours, theirs = trio.testing.memory_stream_pair()
    service = Service({ApiKey.METADATA: handle}, VERSIONS, SimulatedClock(), 10_000, turns=trio.Semaphore(turns))
    connection = Recorded(theirs, service)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve)
        await ours.send_all(REQUEST * requests)
        await trio.testing.wait_all_tasks_blocked()
        await ours.aclose()
    assert service.turns is not None
    assert service.turns.value == turns, "every turn was given up"
    return connection


async def go_on() -> None:
    await trio.lowlevel.checkpoint()


async def respond(_: Any, __: RequestContext) -> Any:
    return RESPONSE


@simulated
async def test_requests_that_come_together_are_handled_in_one_turn() -> None:
    connection = await served(respond, requests=3)
    assert connection.states == [READING, READY, HANDLING, SENDING, READY, READING, READY, CLOSED]
    assert connection.had_turn == {HANDLING}


@simulated
async def test_a_request_that_may_be_long_work_takes_its_first_slice_in_turn() -> None:
    """One that cannot have many elements waits for nobody."""
    for topics, passes in ((0, 0), (40, 1)):
        names = tuple(MetadataRequestTopic(topic_id=None, name=TopicName(f"{n:0>100}")) for n in range(topics))
        message = MetadataRequest(topics=names, include_topic_authorized_operations=False)
        ours, theirs = trio.testing.memory_stream_pair()
        service = Service({ApiKey.METADATA: respond}, VERSIONS, SimulatedClock(), 10_000, turns=trio.Semaphore(1))
        before = line().passes
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Recorded(theirs, service).serve)
            await ours.send_all(encode_request(message, 1, "me"))
            await trio.testing.wait_all_tasks_blocked()
            await ours.aclose()
        assert line().passes - before == passes


@simulated
async def test_a_request_that_waits_gives_up_its_turn_and_the_next_one_takes_another() -> None:
    async def wait(_: Any, context: RequestContext) -> Any:
        await context.while_connected(go_on)
        return RESPONSE

    connection = await served(wait, requests=2)
    assert connection.states[:4] == [READING, READY, HANDLING, WAITING]
    assert connection.states[4:8] == [READY, HANDLING, SENDING, READY], "the first response goes before the next wait"
    assert connection.had_turn == {HANDLING}


@simulated
async def test_no_response_is_no_reason_to_send() -> None:
    async def keep_silent(_: Any, __: RequestContext) -> None:
        return None

    connection = await served(keep_silent)
    assert connection.states == [READING, READY, HANDLING, READING, READY, CLOSED]


@simulated
async def test_a_connection_without_a_turn_is_queued() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    turns = trio.Semaphore(0)
    connection = Recorded(theirs, Service({ApiKey.METADATA: respond}, VERSIONS, SimulatedClock(), 10_000, turns=turns))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve)
        await ours.send_all(REQUEST)
        await trio.testing.wait_all_tasks_blocked()
        assert connection.state is QUEUED
        turns.release()
        await trio.testing.wait_all_tasks_blocked()
        assert connection.state is READING
        await ours.aclose()


@pytest.mark.parametrize("state", ConnectionState)
def test_every_state_has_a_row_and_every_state_but_the_last_can_end(state: ConnectionState) -> None:
    assert (CLOSED in NEXT[state]) == (state is not CLOSED)
    assert state not in NEXT[state]


def test_a_connection_may_be_idle_where_it_waits_for_its_peer_alone() -> None:
    assert {READING, SENDING} == PEERS_MOVE


@simulated
async def test_a_transition_that_is_not_in_the_table_is_a_broken_promise() -> None:
    connection = Connection(trio.testing.memory_stream_pair()[0], Service({}, VERSIONS, SimulatedClock(), 10_000))
    with pytest.raises(AssertionError, match="does not go from READY to READY"):
        connection._enter(READY)


@simulated
async def test_a_handler_that_cannot_be_imported_harms_nothing_but_its_request() -> None:
    handlers = Handlers({ApiKey.METADATA: Deferred("apis.nowhere", "handle_metadata")}, lambda: None)
    failures: list[Exception] = []
    service = Service(handlers, VERSIONS, SimulatedClock(), 10_000, on_failure=lambda _, error: failures.append(error))
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Connection(theirs, service).serve)
        await ours.send_all(REQUEST)
        await trio.testing.wait_all_tasks_blocked()
        frame = bytes(await ours.receive_some())
        response = decode_response(frame[LENGTH.size :], ApiKey.METADATA, 13).message
        assert response.error_code is ErrorCode.unknown_server_error
        assert [type(error) for error in failures] == [ModuleNotFoundError]
        await ours.aclose()
