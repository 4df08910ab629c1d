"""A broker is ready when every broker lists it: a client may begin at any of them."""

from __future__ import annotations

import pytest
import trio
from kio.schema.metadata.v13.request import MetadataRequest

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.metadata.records import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from tidegauge.impl.server.broker import readiness
from tidegauge.impl.server.broker.metadata_cache import MetadataCache
from tidegauge.impl.server.broker.metadata_loader import MetadataLoader
from tidegauge.impl.server.broker_server import Broker
from tidegauge.model_tests.simulated import simulated

ASK = MetadataRequest(topics=(), allow_auto_topic_creation=False, include_topic_authorized_operations=False)


def listed_at(broker: Broker) -> set[int]:
    return {known.broker_id for known in broker.metadata.image.unfenced_brokers()}


@simulated
async def test_a_cluster_is_up_when_every_broker_lists_every_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    pull = MetadataLoader.pull

    async def pull_late(loader: MetadataLoader) -> None:
        await trio.sleep(1)
        await pull(loader)

    monkeypatch.setattr(MetadataLoader, "pull", pull_late)
    async with Cluster(brokers=3) as cluster:
        assert [listed_at(broker) for broker in cluster.brokers] == [{0, 1, 2}] * 3


@simulated
async def test_a_broker_is_ready_when_the_others_list_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Cluster(brokers=3) as cluster:
        await cluster.crash(2)
        await cluster.expire_session(2)
        late, apply = cluster.broker(0).loader, MetadataLoader.apply_metadata

        async def apply_late(loader: MetadataLoader, max_wait_ms: int = 0) -> int:
            if loader is late:
                await trio.sleep(3)
            return await apply(loader, max_wait_ms)

        monkeypatch.setattr(MetadataLoader, "apply_metadata", apply_late)
        await cluster.restart(2)
        await cluster.broker(2).unfenced.wait()
        assert 2 not in listed_at(cluster.broker(0))
        await cluster.broker(2).readiness.until_ready()
        assert [listed_at(broker) for broker in cluster.brokers] == [{0, 1, 2}] * 3


@simulated
async def test_a_broker_that_cannot_be_reached_is_not_waited_for_for_ever() -> None:
    async with Cluster(brokers=2) as cluster:
        await cluster.broker(1).readiness.until_ready()
        cluster.isolate(0)
        begun = trio.current_time()
        await cluster.broker(1).readiness.until_ready()
        assert trio.current_time() - begun >= readiness.PEERS_S


@simulated
@pytest.mark.parametrize("late_s", [0.0, 2.0])
async def test_a_client_that_is_quicker_than_the_first_broker_waits_for_it(
    late_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka believes a list of no brokers, and asks again when its operation has timed out."""
    pull = MetadataLoader.pull

    async def pull_late(loader: MetadataLoader) -> None:
        await trio.sleep(late_s)
        await pull(loader)

    async with Cluster(brokers=1) as cluster:
        await cluster.crash(0)
        await cluster.expire_session(0)
        monkeypatch.setattr(MetadataLoader, "pull", pull_late)
        await cluster.restart(0)
        async with cluster.client() as client:
            listed = await client._ask(cluster.broker(0).address, ASK)
            assert [broker.node_id for broker in listed.brokers] == [0]


@simulated
async def test_who_has_known_of_a_broker_waits_for_none_when_there_is_none_any_more() -> None:
    cache = MetadataCache()
    cache.replay([RegisterBrokerRecord(0, 1, "host", 1, fenced=False), BrokerRegistrationChangeRecord(0, 1)])
    await cache.until_a_broker_is_known()
    cache.replay([BrokerRegistrationChangeRecord(0, 1, fenced=True)])
    with trio.fail_after(1):
        await cache.until_a_broker_is_known()
