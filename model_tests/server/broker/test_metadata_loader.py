"""Loading metadata: how often an idle broker asks for them, and how long a client waits for them that changes some."""

from __future__ import annotations

import pytest
import trio

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.server.broker.controller_link import ControllerLink
from tidegauge.impl.server.broker.metadata_loader import CATCH_UP_MS, MetadataLoader
from tidegauge.model_tests.simulated import simulated

SETTLED_S = 10.0
LONG_S = 60.0


@simulated
async def test_an_idle_broker_asks_for_metadata_once_in_its_longest_wait_and_learns_news_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, ask = 0, ControllerLink.metadata_since

    async def counted(link: ControllerLink, *where: int) -> object:
        nonlocal asked
        asked += 1
        return await ask(link, *where)

    async with Cluster(1, 1, trace=False) as cluster:
        await trio.sleep(SETTLED_S)
        monkeypatch.setattr(ControllerLink, "metadata_since", counted)
        await trio.sleep(LONG_S)
        assert asked == pytest.approx(LONG_S * 1_000 / cluster.config.metadata_fetch_wait_max_ms, abs=2)
        begun = trio.current_time()
        await cluster.create_topic("t")
        assert "t" in cluster.broker(0).metadata.image.topics
        assert trio.current_time() - begun < 0.1


@simulated
async def test_who_waits_for_metadata_that_do_not_come_goes_on_after_half_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def held(loader: MetadataLoader, max_wait_ms: int = 0) -> int:
        await trio.sleep_forever()
        raise AssertionError(max_wait_ms)

    async with Cluster(1, 1, trace=False) as cluster:
        loader = cluster.broker(0).loader
        monkeypatch.setattr(MetadataLoader, "apply_metadata", held)
        await trio.sleep(SETTLED_S)
        async with cluster.client() as client:
            await client.create_topic("t")
        begun = trio.current_time()
        await loader.catch_up()
        assert trio.current_time() - begun == pytest.approx(CATCH_UP_MS / 1000, abs=0.001)
