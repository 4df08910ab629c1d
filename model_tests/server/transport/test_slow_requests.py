"""A request that took a node long has a line; what it waited for others does not count."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.list_groups.v5.response import ListGroupsResponse

from tidegauge.impl.server.transport.context import RequestContext
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.impl.wire.primitives import NO_WAIT
from tidegauge.model_tests.server.asking import asking
from tidegauge.model_tests.simulated import simulated

REQUEST = ListGroupsRequest(states_filter=(), types_filter=())


@simulated
async def test_a_request_that_takes_long_has_a_line(caplog: pytest.LogCaptureFixture) -> None:
    assert await lines_of_a_request(caplog, works_s=1.5) == [
        "slow request: node=broker-0 api=LIST_GROUPS version=5 client=asker seconds=1.500 "
        'why="its handler, the disk or other requests took that long"'
    ]


@simulated
async def test_waiting_for_others_is_not_slow(caplog: pytest.LogCaptureFixture) -> None:
    assert await lines_of_a_request(caplog, works_s=0.5, waits_s=60) == []


async def lines_of_a_request(caplog: pytest.LogCaptureFixture, *, works_s: float, waits_s: float = 0) -> list[str]:
    async def handle(_: Any, context: RequestContext) -> ListGroupsResponse:
        await trio.sleep(works_s)
        if waits_s:
            await context.while_connected(partial(trio.sleep, waits_s))
        return ListGroupsResponse(throttle_time=NO_WAIT, error_code=ErrorCode.none, groups=())

    async with asking(1) as (cluster, peer):
        handlers: Any = next(iter(cluster.broker(0).listeners))._service.handlers
        handlers[ApiKey.LIST_GROUPS] = handle
        await peer.ask(REQUEST)
    return [record.getMessage() for record in caplog.records]
