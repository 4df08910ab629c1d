"""A connection frees long messages in slices: others have their turn in between."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import trio
import trio.testing
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.request import MetadataRequest
from kio.schema.metadata.v13.response import MetadataResponse, MetadataResponseBroker
from kio.schema.types import BrokerId
from kio.static.primitive import i32

from tidegauge.impl.ports.clock import SimulatedClock
from tidegauge.impl.server.pace import SLICE, line
from tidegauge.impl.server.transport.connection import MOST_FREED, Connection
from tidegauge.impl.server.transport.context import RequestContext
from tidegauge.impl.server.transport.service import Service
from tidegauge.impl.wire.apis import BROKER_APIS, ApiKey
from tidegauge.impl.wire.codecs import encode_request
from tidegauge.impl.wire.primitives import NO_WAIT
from tidegauge.impl.wire.releasing import MANY, MANY_UNITS
from tidegauge.model_tests.simulated import simulated

ELEMENTS: Final = 12 * MANY


@simulated
async def test_the_elements_of_a_long_response_are_freed_a_slice_at_a_time() -> None:
    freed: Counter[int] = Counter()

    class Watched(MetadataResponseBroker):
        """An element that tells in which pass of the loop it is freed."""

        def __del__(self) -> None:
            freed[line().passes] += 1

    async def respond(_: Any, __: RequestContext) -> Any:
        brokers = tuple(Watched(node_id=BrokerId(n), host="host", port=i32(9092), rack=None) for n in range(ELEMENTS))
        return MetadataResponse(throttle_time=NO_WAIT, brokers=brokers, topics=(), error_code=ErrorCode.none)

    ours, theirs = trio.testing.memory_stream_pair()
    versions = {ApiKey.METADATA: BROKER_APIS[ApiKey.METADATA]}
    service = Service({ApiKey.METADATA: respond}, versions, SimulatedClock(), 10_000, turns=trio.Semaphore(1))
    request = MetadataRequest(topics=(), include_topic_authorized_operations=False)
    received = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Connection(theirs, service).serve)
        await ours.send_all(encode_request(request, 1, "me"))
        while received < MOST_FREED:
            received += len(await ours.receive_some())
        await trio.testing.wait_all_tasks_blocked()
        assert freed.total() == ELEMENTS, "a connection keeps nothing of the last request while it waits"
        await ours.aclose()
    assert max(freed.values()) <= (SLICE // MANY_UNITS + 1) * MANY
