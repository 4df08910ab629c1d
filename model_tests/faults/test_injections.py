"""Injections on the simulated host, in virtual time."""

from __future__ import annotations

import pytest
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.client import ClientConfig
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.model_tests.simulated import simulated

IMPATIENT = ClientConfig(request_timeout_ms=500, default_api_timeout_ms=800)


@simulated
async def test_an_error_is_returned_as_often_as_it_was_injected() -> None:
    async with Cluster(brokers=2, seed=1) as cluster:
        await cluster.create_topic("t")
        failing = cluster.fail_requests("Fetch", "NOT_LEADER_OR_FOLLOWER", 2, topic="t")
        async with cluster.client() as client:
            await client.produce("t", b"a")
            assert (await client.fetch("t", 0)).values == (b"a",)
        assert (failing.hits, failing.remaining) == (2, 0)
        assert cluster.isr("t") == (0, 1), "followers were spared"


@simulated
async def test_a_produce_is_carried_out_and_its_response_is_an_error() -> None:
    async with Cluster(brokers=1, seed=1) as cluster:
        await cluster.create_topic("t")
        cluster.fail_produces(ErrorCode.request_timed_out, carried_out=True)
        async with cluster.client(config=IMPATIENT) as client:
            with pytest.raises(KafkaError, match="REQUEST_TIMED_OUT"):
                await client.produce("t", b"a")
        assert cluster.replica(0, "t").log_end_offset == 1


@simulated
async def test_responses_are_slow_in_virtual_time() -> None:
    async with Cluster(brokers=1, seed=1) as cluster:
        await cluster.create_topic("t")
        async with cluster.client() as client:
            with cluster.slow_responses(1_000, 3_000, "Produce") as slowness:
                began = trio.current_time()
                await client.produce("t", b"a")
                assert 1 <= trio.current_time() - began <= 3
            assert slowness.hits == 1
            began = trio.current_time()
            await client.produce("t", b"b")
            assert trio.current_time() - began < 1


@simulated
async def test_a_held_ack_waits_for_ever_and_goes_when_it_is_released() -> None:
    async with Cluster(brokers=1, seed=1) as cluster, trio.open_nursery() as nursery:
        await cluster.create_topic("t")
        offsets: list[int | None] = []

        async def send() -> None:
            async with cluster.client(config=ClientConfig(request_timeout_ms=100_000)) as client:
                offsets.append(await client.produce("t", b"a", timeout_ms=90_000))

        hold = cluster.hold_acks("t")
        nursery.start_soon(send)
        await hold.wait_for(1)
        await trio.sleep(60)
        assert (offsets, cluster.replica(0, "t").high_watermark) == ([], 1)
        hold.release()
        await trio.sleep(1)
        assert offsets == [0]


@simulated
async def test_a_crash_takes_what_is_held_with_it() -> None:
    async with Cluster(brokers=1, seed=1) as cluster:
        await cluster.create_topic("t")
        hold = cluster.hold_requests("Produce")
        async with cluster.client(config=IMPATIENT) as client, trio.open_nursery() as nursery:

            async def send() -> None:
                with pytest.raises(KafkaError):
                    await client.produce("t", b"a")

            nursery.start_soon(send)
            await hold.wait_for(1)
            await cluster.crash(0)
            assert hold.waiting == 0


@simulated
async def test_two_runs_of_a_seed_are_slow_alike() -> None:
    async def times(seed: int) -> list[float]:
        async with Cluster(brokers=1, seed=seed) as cluster:
            await cluster.create_topic("t")
            cluster.slow_responses(0, 1_000, "Produce")
            taken = []
            async with cluster.client() as client:
                for _ in range(3):
                    began = trio.current_time()
                    await client.produce("t", b"a")
                    taken.append(round(trio.current_time() - began, 6))
            return taken

    assert await times(1) == await times(1)
    assert await times(1) != await times(2)
