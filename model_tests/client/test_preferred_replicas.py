"""The native consumer reads from the follower in its rack, and from the leader when that cannot be (KIP-392)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from tidegauge.impl.client.client import Client
from tidegauge.impl.client.consumer import Consumer
from tidegauge.impl.client.consumer_config import ConsumerConfig
from tidegauge.impl.client.preferred_replicas import PreferredReplicas
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.server.settings.server_config import RACK_AWARE_SELECTOR
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.model_tests.client.test_consumer import FEW, P, values
from tidegauge.model_tests.simulated import simulated


class Racks:
    """A leader in rack a, followers in b and c, and the brokers that consumers have sent their fetches to."""

    def __init__(self, cluster: Cluster, client: Client) -> None:
        self.cluster, self.client = cluster, client
        self.asked: list[str] = []
        self.cut_off = ""
        """The broker that replicates nothing."""
        self.silent = ""
        """The broker that consumers have no responses from."""
        cluster.network.hold(self.count)

    def count(self, frame: Any) -> bool:
        """Whether a request of a follower is held."""
        if not frame.is_request or frame.api_key != ApiKey.FETCH:
            return False
        if frame.source.startswith("client"):
            self.asked.append(frame.destination[-1])
            return bool(self.asked[-1] == self.silent)
        return bool(frame.source[-1] == self.cut_off)

    async def produce(self, value: bytes) -> None:
        """A record, of which followers know after a while that it is committed."""
        await self.client.produce("t", value)
        await trio.sleep(1)

    @asynccontextmanager
    async def consumer(self, rack: str, **more: Any) -> AsyncIterator[Consumer]:
        config = ConsumerConfig(auto_offset_reset="earliest", client_rack=rack, **more)
        async with Consumer(self.client, config) as consumer:
            await consumer.assign([P])
            yield consumer


@asynccontextmanager
async def racks(selector: str | None = RACK_AWARE_SELECTOR) -> AsyncIterator[Racks]:
    config = FEW if selector is None else {**FEW, "replica.selector.class": selector}
    async with Cluster(brokers=3, seed=1, racks=["a", "b", "c"], config=config) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1, 2]])
        async with cluster.client() as client:
            yield Racks(cluster, client)


@simulated
async def test_a_consumer_is_sent_to_the_follower_in_its_rack_and_stays_there() -> None:
    async with racks() as one:
        await one.produce(b"0")
        async with one.consumer("c") as consumer:
            assert await values(consumer, 1) == [b"0"]
            await one.produce(b"1")
            assert await values(consumer, 1) == [b"1"]
        assert one.asked[0] == "0", "the leader, which tells where to read"
        assert {*one.asked[1:]} == {"2"}


@pytest.mark.parametrize(("rack", "selector"), [("a", RACK_AWARE_SELECTOR), ("", RACK_AWARE_SELECTOR), ("c", None)])
def test_who_is_near_to_the_leader_or_says_no_rack_or_asks_a_cluster_without_a_selector_reads_from_the_leader(
    rack: str, selector: str | None
) -> None:
    @simulated
    async def reads() -> None:
        async with racks(selector) as one:
            await one.produce(b"0")
            async with one.consumer(rack) as consumer:
                assert await values(consumer, 1) == [b"0"]
            assert {*one.asked} == {"0"}

    reads()


@simulated
async def test_the_leader_is_asked_when_the_follower_is_gone_and_nothing_is_read_twice() -> None:
    async with racks() as one:
        await one.produce(b"0")
        async with one.consumer("c") as consumer:
            assert await values(consumer, 1) == [b"0"]
            await one.cluster.crash(2)
            one.asked.clear()
            await one.produce(b"1")
            assert await values(consumer, 1) == [b"1"]
            assert one.asked[-1] == "0"


@simulated
async def test_the_leader_is_asked_when_the_follower_does_not_respond() -> None:
    async with racks() as one:
        await one.produce(b"0")
        async with one.consumer("c") as consumer:
            assert await values(consumer, 1) == [b"0"]
            await consumer.poll(1_000)
            one.silent = "2"
            one.asked.clear()
            assert await consumer.poll(40_000) == ()
            assert one.asked[:2] == ["2", "0"]


@simulated
async def test_a_follower_that_is_behind_refuses_and_the_leader_is_asked_instead_of_a_reset() -> None:
    """Out of range at a follower says nothing of the log."""
    async with racks() as one:
        await one.produce(b"0")
        async with one.consumer("c") as consumer:
            assert await values(consumer, 1) == [b"0"]
            one.cut_off = "2"
            for value in (b"1", b"2", b"3"):
                await one.client.produce("t", value, acks=1)
            await trio.sleep(1)
            one.asked.clear()
            consumer.seek(P, 3)
            assert await values(consumer, 1) == [b"3"]
            assert one.asked[:2] == ["2", "0"]


@simulated
async def test_what_the_leader_has_told_holds_until_its_age() -> None:
    async with racks() as one:
        await one.produce(b"0")
        async with one.consumer("c", metadata_max_age_ms=5_000) as consumer:
            assert await values(consumer, 1) == [b"0"]
            one.asked.clear()
            assert await consumer.poll(12_000) == ()
        assert 2 <= one.asked.count("0") <= 3, "once for each time"
        assert {*one.asked} == {"0", "2"}


def test_a_preference_is_of_one_leader_and_ends_by_age_or_when_it_is_forgotten() -> None:
    known = PreferredReplicas(1_000)
    known.prefer(P, 2, 5, 10.0)
    assert known.broker(P, 5, 10.9) == 2
    assert known.broker(P, 5, 11.0) is None
    known.prefer(P, 2, 5, 10.0)
    assert known.broker(P, 6, 10.0) is None, "another leader"
    assert known.broker(P, 5, 10.0) is None, "for good"
    known.prefer(P, 2, 6, 10.0)
    known.forget(P)
    known.forget(P)
    assert known.broker(P, 6, 10.0) is None
