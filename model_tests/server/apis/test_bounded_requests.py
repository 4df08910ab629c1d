"""No request keeps the loop: of every API, requests of many elements are refused, or served in slices.

Work is counted in function calls between two checkpoints of a task (`work_in_steps`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
import trio

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.server.pace import SLICE, line
from tidegauge.impl.server.transport.connection import REQUEST_UNITS
from tidegauge.impl.wire.apis import BROKER_APIS, ApiKey
from tidegauge.impl.wire.budget import MAX_ELEMENTS, MAX_TAGS
from tidegauge.impl.wire.element_limits import AT_ONCE, DECIDED, ELEMENT_LIMITS, IN_SLICES, most_elements
from tidegauge.impl.wire.frames import FrameReader
from tidegauge.model_tests.server.large_requests import (
    SEARCHED,
    arrays,
    frame_of,
    framed,
    many,
    message_class,
    versions,
)
from tidegauge.model_tests.server.work_in_steps import counted_steps
from tidegauge.model_tests.simulated import simulated

ELEMENTS = 200
MOST_CALLS = 15_000
"""In one step of a task, whatever comes."""


@asynccontextmanager
async def cluster_with_a_topic() -> AsyncIterator[tuple[Cluster, dict[str, Any]]]:
    """A broker with the topic `t`, and the values of sample requests that name it."""
    config = {"auto.create.topics.enable": False}
    async with Cluster(brokers=1, seed=1, config=config, trace=False) as cluster:
        await cluster.create_topic("t")
        topic_id = UUID(cluster.controller.controller.image.topics["t"].topic_id)
        yield cluster, {"string": "t", "uuid": topic_id, "int32": 0, "int64": 0, "int8": 0, "bool": False}


async def sent(cluster: Cluster, frame: bytes) -> bytes | None:
    """The response to a frame; None when the connection was closed."""
    stream = await cluster.network.host("asker").connect(cluster.broker(0).address)
    try:
        await stream.send_all(frame)
        with trio.fail_after(600):
            response = await FrameReader(stream, 200 << 20).read_frame()
        return None if response is None else bytes(response)
    except trio.BrokenResourceError:
        return None
    finally:
        await stream.aclose()


async def check_no_step_is_long(key: ApiKey, version: int, count: int, *, distinct: bool) -> None:
    async with cluster_with_a_topic() as (cluster, values):
        message = message_class(key, version)
        for path in arrays(message):
            await sent(cluster, frame_of(key, version, many(message, path, 1, values, distinct=distinct)))
            large = frame_of(key, version, many(message, path, count, values, distinct=distinct))
            with counted_steps() as steps:
                await sent(cluster, large)
            assert steps.most < MOST_CALLS, f"{key.name} {version}: {count} of {'.'.join(path)}"


@pytest.mark.parametrize("key", SEARCHED, ids=lambda key: key.name)
@simulated
async def test_many_elements_in_any_array_keep_the_loop_from_nobody(key: ApiKey) -> None:
    await check_no_step_is_long(key, versions(key)[-1], ELEMENTS, distinct=True)


@pytest.mark.deep
@pytest.mark.parametrize("key", SEARCHED, ids=lambda key: key.name)
@simulated
async def test_many_elements_in_any_array_of_any_version(key: ApiKey) -> None:
    for version in versions(key):
        for distinct in (False, True):
            await check_no_step_is_long(key, version, ELEMENTS, distinct=distinct)


@pytest.mark.deep
@pytest.mark.parametrize("key", set(SEARCHED) - {ApiKey.UNREGISTER_BROKER}, ids=lambda key: key.name)
@simulated
async def test_as_many_elements_as_there_may_be_keep_the_loop_from_nobody(key: ApiKey) -> None:
    """No slice is of more than some milliseconds, be the elements served or refused."""
    count = min(most_elements(key), DECIDED) - 12
    for version in {versions(key)[0], versions(key)[-1]}:
        for distinct in (False, True):
            await check_no_step_is_long(key, version, count, distinct=distinct)


@pytest.mark.parametrize(("key", "version"), [(ApiKey.METADATA, 9), (ApiKey.LIST_OFFSETS, 7)])
@simulated
async def test_a_handler_in_slices_takes_many_elements(key: ApiKey, version: int) -> None:
    message = message_class(key, version)
    async with cluster_with_a_topic() as (cluster, values):
        few, frame = (
            frame_of(key, version, many(message, next(arrays(message)), count, values, distinct=True))
            for count in (1, 3_000)
        )
        assert await sent(cluster, few) is not None  # the first request of an API has its codec made
        with counted_steps() as steps:
            assert await sent(cluster, frame) is not None
        assert steps.total > 200_000
        assert steps.most < MOST_CALLS


# --- limits ----------------------------------------------------------------------------------------------------------


def test_each_api_has_a_limit_that_follows_from_its_handler() -> None:
    assert {most_elements(key) for key in BROKER_APIS} == {MAX_ELEMENTS, DECIDED, IN_SLICES, AT_ONCE}
    assert all(limit > AT_ONCE for limit in ELEMENT_LIMITS.values())


@pytest.mark.parametrize("key", set(SEARCHED) - set(ELEMENT_LIMITS) | {ApiKey.METADATA}, ids=lambda key: key.name)
def test_one_element_too_many_is_refused_before_any_is_read(key: ApiKey) -> None:
    """An array may claim what it likes: what comes after it does not matter."""
    from tidegauge.impl.wire.codecs import MalformedMessageError, decode_canonical

    version = versions(key)[-1]
    message = message_class(key, version)
    paths = [path for path in arrays(message) if len(path) == 1]
    if not paths:
        return
    values = {"int32": 0, "int64": 0}
    frame = frame_of(key, version, many(message, paths[0], most_elements(key) + 1, values, distinct=False))[4:]
    with pytest.raises(MalformedMessageError, match=f"a request of this API has {most_elements(key)} at most"):
        decode_canonical(frame, key, version)


@simulated
async def test_two_million_empty_names_are_refused_and_nobody_waits() -> None:
    names = (2_000_000).to_bytes(4, "big") + bytes(4_000_000)
    async with cluster_with_a_topic() as (cluster, _):
        with counted_steps() as steps:
            assert await sent(cluster, framed(ApiKey.METADATA, 1, names)) is None
        assert steps.total < MOST_CALLS


@simulated
async def test_empty_names_up_to_the_limit_are_served_in_slices() -> None:
    count = IN_SLICES
    async with cluster_with_a_topic() as (cluster, _):
        frame = framed(ApiKey.METADATA, 1, count.to_bytes(4, "big") + bytes(2 * count))
        before = line().passes
        with counted_steps() as steps:
            assert await sent(cluster, frame) is not None
        assert steps.most < 10_000
        assert line().passes - before > 3 * count // SLICE  # to read an element takes three units


@pytest.mark.parametrize("tags", [MAX_TAGS + 1, 1 << 20])
@simulated
async def test_tagged_fields_without_end_are_refused(tags: int) -> None:
    """In the header of a request, before anybody knows who sends it."""
    number = bytes(((tags & 0x7F) | 0x80, (tags >> 7) & 0x7F | 0x80, tags >> 14))
    async with cluster_with_a_topic() as (cluster, _):
        with counted_steps() as steps:
            assert await sent(cluster, framed(ApiKey.API_VERSIONS, 4, number + b"\1\0" * tags)) is None
        assert steps.total < MOST_CALLS


@simulated
async def test_a_client_that_asks_for_little_at_a_time_never_stands_in_line() -> None:
    """Else it would wait for a slice of each of those that ask for much."""
    async with cluster_with_a_topic() as (cluster, _), cluster.client() as client:
        await client.produce("t", b"first")
        before = line().passes
        for _ in range(10 * SLICE // REQUEST_UNITS):
            await client.produce("t", b"x")
        assert line().passes == before


@simulated
async def test_many_small_requests_at_once_let_others_be_served_between() -> None:
    count = 500
    async with cluster_with_a_topic() as (cluster, _):
        stream = await cluster.network.host("asker").connect(cluster.broker(0).address)
        await stream.send_all(framed(ApiKey.API_VERSIONS, 0, b"") * 2)
        reader = FrameReader(stream, 1 << 20)
        for _ in range(2):
            await reader.read_frame()
        before = line().passes
        with counted_steps() as steps:
            await stream.send_all(framed(ApiKey.API_VERSIONS, 0, b"") * count)
            for _ in range(count):
                assert await reader.read_frame()
        assert line().passes - before >= count * REQUEST_UNITS // SLICE - 1
        assert steps.most < MOST_CALLS
        await stream.aclose()
