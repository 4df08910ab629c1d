"""Who names the same thing again and again is told no more of it for that.

In the cluster everything that may be named has much to tell: a topic of many partitions, a group with a large member
and offsets with long metadata, a transaction in many partitions, all under one name. Of every API each array is sent
with one element, and with many that are all the same one: what the response grows by is an error with its words, or
less, for each of them.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
import trio
from kio.schema.errors import ErrorCode
from kio.schema.offset_commit.v9.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.impl.wire.frames import FrameReader
from tidegauge.impl.wire.message_classes import is_array, nested_class
from tidegauge.impl.wire.primitives import TopicName, i32, i64
from tidegauge.model_tests.server.apis.test_group_members import Client
from tidegauge.model_tests.server.apis.test_group_offsets import GROUP, coordinator_of
from tidegauge.model_tests.server.asking import asker
from tidegauge.model_tests.server.large_requests import SEARCHED, arrays, frame_of, many, message_class, versions
from tidegauge.model_tests.server.transacting import Transacting
from tidegauge.model_tests.simulated import simulated

NAME = str(GROUP)
PARTITIONS = 100
METADATA = "m" * 500
LARGE = bytes(30_000)
TIMES = 50
MOST_BYTES = 300
"""Of a response, for each repetition."""
SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "auto.create.topics.enable": False,
}
ENDING = (
    ApiKey.END_TXN,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.OFFSET_DELETE,
    ApiKey.LEAVE_GROUP,
    ApiKey.DELETE_GROUPS,
    ApiKey.DELETE_TOPICS,
    ApiKey.UNREGISTER_BROKER,
)
"""APIs after which there is less to tell."""


@asynccontextmanager
async def cluster_with_much_to_tell() -> AsyncIterator[Cluster]:
    async with Cluster(brokers=1, seed=1, config=SETTINGS, trace=False) as cluster:
        await cluster.create_topic(NAME, PARTITIONS)
        transaction = Transacting(cluster, version=1, name=NAME)
        assert await transaction.init() is ErrorCode.none
        assert await transaction.add(NAME, *range(PARTITIONS)) is ErrorCode.none
        await coordinator_of(cluster)
        member = Client(await asker(cluster))
        assert (await member.join()).error_code is ErrorCode.none
        assert (await member.sync({member.member_id: LARGE})).error_code is ErrorCode.none
        offsets = tuple(
            OffsetCommitRequestPartition(
                partition_index=i32(index), committed_offset=i64(1), committed_metadata=METADATA
            )
            for index in range(PARTITIONS)
        )
        commit = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=i32(member.generation),
            member_id=member.member_id,
            topics=(OffsetCommitRequestTopic(name=TopicName(NAME), partitions=offsets),),
        )
        errors = [one.error_code for one in (await member.peer.ask(commit)).topics[0].partitions]
        assert set(errors) == {ErrorCode.none}
        yield cluster


async def size_of_response(cluster: Cluster, frame: bytes) -> int:
    """0 when the connection was closed, or nobody responds."""
    async with await cluster.network.host("asker").connect(cluster.broker(0).address) as stream:
        with trio.move_on_after(100):
            await stream.send_all(frame)
            response = await FrameReader(stream, 200 << 20).read_frame()
            return 0 if response is None else len(response)
        return 0


def without_arrays(message: Any, path: tuple[str, ...]) -> Any:
    """The message with null in each array that may be null and is not on the path: that often says "all"."""
    hints = typing.get_type_hints(type(message))
    changed: dict[str, Any] = {}
    for field in dataclasses.fields(message):
        value, hint = getattr(message, field.name), hints[field.name]
        if path and field.name == path[0]:
            if nested_class(hint) is not None and is_array(hint):
                changed[field.name] = tuple(without_arrays(one, path[1:]) for one in value)
        elif is_array(hint) and type(None) in typing.get_args(hint):
            changed[field.name] = None
    return dataclasses.replace(message, **changed)


def repeated(key: ApiKey, version: int, topic_id: UUID) -> Iterator[tuple[str, bytes, bytes]]:
    """For each array its path, a request with one element in it, and one with many."""
    values = {"string": NAME, "uuid": topic_id, "int32": 0, "int64": 0, "int8": 0, "bool": False}
    message = message_class(key, version)
    for path in arrays(message):
        few, more = (many(message, path, count, values, distinct=False) for count in (1, TIMES))
        yield ".".join(path), frame_of(key, version, few), frame_of(key, version, more)
        all_of_few, all_of_more = without_arrays(few, path), without_arrays(more, path)
        if all_of_few != few:
            name = f"{'.'.join(path)}, null elsewhere"
            yield name, frame_of(key, version, all_of_few), frame_of(key, version, all_of_more)


async def check_all(chosen: dict[ApiKey, list[int]]) -> None:
    async with cluster_with_much_to_tell() as cluster:
        topic_id = UUID(cluster.controller.controller.image.topics[NAME].topic_id)
        grown: list[str] = []
        for key in sorted(chosen, key=lambda key: key in ENDING):
            for version in chosen[key]:
                for path, few, more in repeated(key, version, topic_id):
                    one, all_of_them = await size_of_response(cluster, few), await size_of_response(cluster, more)
                    if all_of_them > one + TIMES * MOST_BYTES:
                        grown.append(f"{key.name} {version}, {path}: {one} bytes, {all_of_them} for {TIMES} of it")
        assert not grown, "\n".join(grown)


@simulated
async def test_no_response_grows_with_what_is_told_of_a_name_that_is_repeated() -> None:
    await check_all({key: [versions(key)[-1]] for key in SEARCHED})


@pytest.mark.deep
@simulated
async def test_no_response_of_any_version_does() -> None:
    await check_all({key: list(versions(key)) for key in SEARCHED})
