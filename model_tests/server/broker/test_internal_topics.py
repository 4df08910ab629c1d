"""Internal topics: made when somebody needs them, by the settings."""

from __future__ import annotations

import logging

import pytest
import trio

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidegauge.impl.server.broker.internal_topics import internal_topic
from tidegauge.model_tests.simulated import simulated

FEW = {"transaction.state.log.num.partitions": 2, "offsets.topic.num.partitions": 3}


@simulated
async def test_a_topic_is_made_once_however_many_need_it_at_once() -> None:
    async with Cluster(brokers=3, seed=1, config=FEW) as cluster:
        problems: list[str] = []

        async def require(broker: int) -> None:
            problems.append(await cluster.broker(broker).internal_topics.require(TRANSACTION_STATE))

        async with trio.open_nursery() as nursery:
            for broker in (0, 0, 1, 2):
                nursery.start_soon(require, broker)
        assert problems == [""] * 4
        image = cluster.broker(1).metadata.image
        assert [len(one.replicas) for one in image.topics[TRANSACTION_STATE].partitions.values()] == [3, 3]
        made = internal_topic(TRANSACTION_STATE, cluster.options.config)
        assert made is not None
        assert image.topics[TRANSACTION_STATE].configs == made.configs


@simulated
async def test_a_metadata_request_makes_it_as_its_coordinator_would() -> None:
    async with Cluster(brokers=1, seed=1, config=FEW) as cluster, cluster.client() as client:
        from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic
        from kio.schema.types import TopicName

        asked = MetadataRequestTopic(topic_id=None, name=TopicName(CONSUMER_OFFSETS))
        request = MetadataRequest(
            topics=(asked,), allow_auto_topic_creation=True, include_topic_authorized_operations=False
        )
        (topic,) = (await client.ask_once(request)).topics
        assert (topic.is_internal, len(topic.partitions)) == (True, 3)
        assert cluster.broker(0).metadata.image.topics[CONSUMER_OFFSETS].configs["cleanup.policy"] == "compact"


@simulated
async def test_too_few_brokers_are_told_once_and_nothing_is_made(caplog: pytest.LogCaptureFixture) -> None:
    config = {"transaction.state.log.replication.factor": 3}
    async with Cluster(brokers=2, seed=1, config=config) as cluster:
        topics = cluster.broker(0).internal_topics
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                assert "INVALID_REPLICATION_FACTOR" in await topics.require(TRANSACTION_STATE)
        assert TRANSACTION_STATE not in cluster.broker(0).metadata.image.topics
        told = [line for line in caplog.messages if line.startswith("internal topic not created")]
        assert len(told) == 1, "in ten seconds"
