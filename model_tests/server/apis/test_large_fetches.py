"""Fetches of many partitions: read in slices, held and woken like any other, each partition once."""

from __future__ import annotations

import pytest
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.records.lazy import in_memory
from tidegauge.impl.records.payload import Record, build_batch, decode_batches
from tidegauge.impl.server.apis.fetch import FEW, LATE_FOLLOWER, MOST_OF_CONSUMER
from tidegauge.impl.server.pace import line
from tidegauge.impl.wire.fetch_messages import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidegauge.model_tests.server.asking import asker, asking
from tidegauge.model_tests.server.work_in_steps import counted_steps
from tidegauge.model_tests.simulated import simulated

BY_NAME = 12
PARTITIONS = 200
assert PARTITIONS > FEW


def fetch(
    topic: str, indexes: range | list[int], *, offset: int = 0, wait_ms: int = 0, min_bytes: int = 1
) -> FetchRequest:
    topics = [FetchTopic(topic, "", [FetchPartition(index, offset, 1 << 20) for index in indexes])]
    return FetchRequest(topics, wait_ms, min_bytes, 1 << 20)


def found(response: FetchResponse) -> dict[int, list[bytes | None]]:
    """The values by partition, where there are any."""
    return {
        fetched.index: [record.value for record in decode_batches(in_memory(fetched.records))]
        for topic in response.topics
        for fetched in topic.partitions
        if fetched.records
    }


@simulated
async def test_a_consumer_of_many_partitions_waits_for_the_first_record_in_any() -> None:
    async with asking(topic=None) as (cluster, peer):
        await cluster.create_topic("many", PARTITIONS)
        responses = []

        async def consume() -> None:
            responses.append(await peer.ask(fetch("many", range(PARTITIONS), wait_ms=60_000), BY_NAME))

        begun = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(consume)
            await trio.sleep(5)
            assert not responses, "it is held"
            async with cluster.client() as client:
                await client.produce("many", b"x", partition=150)
        assert trio.current_time() < begun + 10
        assert found(responses[0]) == {150: [b"x"]}
        assert len(responses[0].topics[0].partitions) == PARTITIONS


@simulated
async def test_a_held_fetch_of_many_partitions_ends_with_its_time() -> None:
    async with asking(topic=None) as (cluster, peer):
        await cluster.create_topic("many", PARTITIONS)
        begun = trio.current_time()
        response = await peer.ask(fetch("many", range(PARTITIONS), wait_ms=3_000), BY_NAME)
        assert 3 <= trio.current_time() - begun < 4
        assert found(response) == {}


@simulated
async def test_the_limits_of_a_fetch_hold_across_the_slices_in_which_it_is_read() -> None:
    async with asking(topic=None) as (cluster, peer):
        await cluster.create_topic("many", PARTITIONS)
        batch = build_batch([Record(0, 7, None, bytes(1_000))])
        async with cluster.client() as client:
            for partition in range(PARTITIONS):
                await client.produce("many", bytes(1_000), partition=partition)
        request = fetch("many", range(PARTITIONS))
        request.max_bytes = 3 * len(batch)
        assert list(found(await peer.ask(request, BY_NAME))) == [0, 1, 2]
        request.max_bytes = 10
        assert list(found(await peer.ask(request, BY_NAME))) == [0], "the first batch comes whatever its size"


@simulated
async def test_a_partition_that_is_named_many_times_is_read_once_as_it_was_named_last() -> None:
    async with asking() as (cluster, peer):
        async with cluster.client() as client:
            for value in (b"a", b"b", b"c"):
                await client.produce("t", value)
        request = fetch("t", [0] * 5_000)
        request.topics[0].partitions[-1] = FetchPartition(0, 2, 1 << 20)
        with counted_steps() as steps:
            response = await peer.ask(request, BY_NAME)
        assert found(response) == {0: [b"c"]}
        assert len(response.topics[0].partitions) == 1
        assert steps.most < 20_000


@simulated
async def test_many_partitions_are_fetched_in_slices_and_more_are_refused() -> None:
    async with asking() as (cluster, peer):
        before = line().passes
        response = await peer.ask(fetch("t", range(2_000)), BY_NAME)
        errors = [partition.error_code for partition in response.topics[0].partitions]
        assert (errors[0], set(errors[1:])) == (ErrorCode.none, {ErrorCode.unknown_topic_or_partition})
        assert line().passes - before > 40
        other = await asker(cluster)
        with pytest.raises(AssertionError, match="the broker closed the connection"):
            await other.ask(fetch("t", range(MOST_OF_CONSUMER + 1)), BY_NAME)


@simulated
async def test_a_follower_names_no_more_partitions_than_there_are() -> None:
    """Who only says that it is one would be served without a pause."""
    async with asking() as (_, peer):
        request = fetch("t", range(LATE_FOLLOWER + 2))
        request.replica_id = 1
        with pytest.raises(AssertionError, match="the broker closed the connection"):
            await peer.ask(request, BY_NAME)
