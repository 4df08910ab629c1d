"""Quotas: what is measured, who is throttled, for how long, and what happens to the connection meanwhile."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
from kio.schema.create_partitions.v3 import request as growing
from kio.schema.create_topics.v5 import request as creating_5
from kio.schema.create_topics.v7 import request as creating
from kio.schema.delete_topics.v6 import request as deleting
from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v5.request import ListGroupsRequest

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.controller.client_quotas import QuotaChange
from tidegauge.impl.metadata.client_quotas import QuotaEntity
from tidegauge.impl.ports.clock import SIMULATED_EPOCH_MS
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.server.broker.quotas import _candidates
from tidegauge.impl.server.broker.rates import Rate, TokenBucket, Windows
from tidegauge.impl.server.transport.authorization import ANONYMOUS, AllowAll, Operation, ResourceType
from tidegauge.impl.server.transport.context import RequestContext
from tidegauge.impl.wire.fetch_messages import FetchPartition, FetchRequest, FetchTopic
from tidegauge.impl.wire.primitives import TopicName, i16, i32, millis
from tidegauge.impl.wire.produce_messages import ProducePartition, ProduceRequest, ProduceTopic
from tidegauge.model_tests.server.asking import Asker, asker, asking, forbid
from tidegauge.model_tests.simulated import simulated

WINDOWS = Windows(11, 1_000)
PRODUCE, FETCH = 12, 12
"""Versions that name topics."""


def test_a_rate_is_measured_over_all_windows_but_one_at_least() -> None:
    rate = Rate(WINDOWS)
    rate.record(20_000, 0)
    assert rate.throttle_ms(2_000, 0) == 0, "20,000 in ten seconds is what is allowed"
    assert rate.throttle_ms(1_000, 0) == 10_000


def test_a_rate_decreases_while_nothing_is_recorded_down_to_nothing() -> None:
    rate = Rate(WINDOWS)
    rate.record(20_000, 0)
    assert rate.throttle_ms(1_000, 5_000) == 10_000, "no more than ten windows have passed"
    assert rate.throttle_ms(1_000, 10_500) == 9_500
    assert rate.throttle_ms(1_000, 10_999) == 9_001
    assert rate.throttle_ms(1_000, 11_000) == 0


def test_what_is_recorded_within_a_window_adds_up() -> None:
    rate = Rate(WINDOWS)
    for now_ms in (0, 500, 999, 1_000):
        rate.record(5_000, now_ms)
    assert rate.throttle_ms(1_000, 1_000) == 10_000
    rate.record(0, 11_000)
    assert rate.throttle_ms(400, 11_000) == 2_500, "the first window is over, the second has 5,000"


def test_a_bucket_fills_at_its_rate_and_may_be_overdrawn() -> None:
    bucket = TokenBucket(WINDOWS)
    assert bucket.throttle_ms(2, 0) == 0
    bucket.spend(22, 2, 0)
    assert bucket.throttle_ms(2, 0) == 0
    bucket.spend(5, 2, 0)
    assert bucket.throttle_ms(2, 0) == 2_500
    assert bucket.throttle_ms(2, 1_000) == 1_500
    bucket.spend(1, 2, 100_000)
    bucket.spend(21, 2, 100_000)
    assert bucket.throttle_ms(2, 100_000) == 0, "never more than eleven seconds' worth"


def test_the_most_specific_quota_counts() -> None:
    assert [entity for entity, _ in _candidates("u", "c")] == [
        QuotaEntity("u", "c"),
        QuotaEntity("u", ""),
        QuotaEntity("u"),
        QuotaEntity("", "c"),
        QuotaEntity("", ""),
        QuotaEntity(""),
        QuotaEntity(client_id="c"),
        QuotaEntity(client_id=""),
    ]


def test_a_users_clients_share_his_quota_and_not_that_of_a_default() -> None:
    meters = {
        entity: (meter, other)
        for (entity, meter), (_, other) in zip(_candidates("u", "c"), _candidates("u", "d"), strict=True)
    }
    assert meters[QuotaEntity("u")] == (("u", ""), ("u", ""))
    assert meters[QuotaEntity("")] == (("u", ""), ("u", ""))
    assert meters[QuotaEntity("u", "")] == (("u", "c"), ("u", "d"))
    assert meters[QuotaEntity(client_id="")] == (("", "c"), ("", "d"))


async def give(cluster: Cluster, quotas: dict[str, float], *parts: tuple[str, str | None]) -> None:
    """Set quotas of an entity, and wait until the brokers know."""
    changes = [QuotaChange(key, value) for key, value in quotas.items()]
    async with cluster.controller.decisions.turn() as turn:
        altered = await turn.commit(turn.controller.client_quotas.alter(parts, changes))
    assert altered.error is ErrorCode.none, altered.message
    await cluster.settle_metadata()
    await trio.sleep(0.01)


def produce(size: int) -> ProduceRequest:
    batch = build_batch([Record(0, SIMULATED_EPOCH_MS, None, bytes(size))])
    return ProduceRequest(1, 1_000, [ProduceTopic("t", "", [ProducePartition(0, batch)])])


def bytes_of(request: ProduceRequest) -> int:
    return len(request.topics[0].partitions[0].records or b"")


async def timed(peer: Asker, request: Any, version: int | None = None) -> tuple[Any, float]:
    """The response, and how many seconds it took."""
    begun = trio.current_time()
    response = await peer.ask(request, version)
    return response, trio.current_time() - begun


ALL_CLIENTS = ("client-id", None)


@simulated
async def test_a_producer_above_its_quota_is_told_and_its_connection_muted_for_that_long() -> None:
    async with asking() as (cluster, _):
        request = produce(20_000)
        await give(cluster, {"producer_byte_rate": float(bytes_of(request) // 20)}, ALL_CLIENTS)
        limit = bytes_of(request) // 20
        expected = round((bytes_of(request) / 10 - limit) / limit * 10_000)
        peer, other = await asker(cluster), await asker(cluster, client_id="other")
        response, took = await timed(peer, request, PRODUCE)
        assert (response.throttle_time_ms, took < 0.1) == (expected, True), "the response comes at once"
        assert response.topics[0].partitions[0].error_code is ErrorCode.none
        _, took = await timed(peer, ListGroupsRequest())
        assert took == pytest.approx(expected / 1000, abs=0.1), "and nothing more before the time is over"
        response, took = await timed(other, ListGroupsRequest())
        assert took < 0.1, "a default counts for each client by itself"


@simulated
async def test_a_consumer_gets_no_more_at_once_than_its_quota_lets_through() -> None:
    async with asking() as (cluster, _), cluster.client() as client:
        for _ in range(30):
            await client.produce("t", bytes(1_000))
        await give(cluster, {"consumer_byte_rate": 1_000.0}, ("client-id", "asker"))
        peer = await asker(cluster)
        topic = FetchTopic("t", "", [FetchPartition(0, 0, 1 << 20)])
        response, _ = await timed(peer, FetchRequest([topic], 0, 0), FETCH)
        size = len(response.topics[0].partitions[0].records)
        assert 10_000 < size <= 11_000
        assert response.throttle_time_ms == round((size / 10 - 1_000) / 1_000 * 10_000)
        _, took = await timed(peer, ListGroupsRequest())
        assert took == pytest.approx(response.throttle_time_ms / 1000, abs=0.1)


@simulated
async def test_followers_are_under_no_quota() -> None:
    async with asking(brokers=2) as (cluster, _), cluster.client() as client:
        await give(cluster, {"consumer_byte_rate": 1.0, "request_percentage": 0.01}, ALL_CLIENTS)
        for _ in range(5):
            await client.produce("t", bytes(10_000))
        with trio.fail_after(3):
            await client.produce("t", b"x")
        assert cluster.replica(1, "t").log_end_offset == 6


@simulated
async def test_time_that_a_request_takes_counts_and_time_that_it_waits_does_not() -> None:
    async with asking() as (cluster, _):
        await give(cluster, {"request_percentage": 1.0}, ALL_CLIENTS)
        peer = await asker(cluster)
        handlers: Any = cluster.broker(0).quotas

        async def slow(request: Any, context: Any) -> Any:
            await trio.sleep(0.105)
            return request

        async def waiting(request: Any, context: Any) -> Any:
            await context.while_connected(partial(trio.sleep, 5))
            return request

        throttled: list[float] = []
        context = _context(peer, throttled)
        await handlers.enforced(waiting)(None, context)
        assert throttled == []
        await handlers.enforced(slow)(None, context)
        assert throttled == [0.395], "10.5 % of a second in 10.105, where 1 % is allowed"


def _context(peer: Asker, throttled: list[float]) -> Any:
    class Connection:
        """Notes for how long it is throttled."""

        time = staticmethod(trio.current_time)

        def throttle(self, seconds: float) -> None:
            throttled.append(seconds)

        async def while_connected(self, wait: Any, *, watched: bool = True) -> Any:
            return await wait()

    connection: Any = Connection()
    return RequestContext(16, 0, 1, peer.client_id, connection, ANONYMOUS, "", AllowAll())


def create(name: str, partitions: int, *, validate_only: bool = False) -> creating.CreateTopicsRequest:
    topic = creating.CreatableTopic(
        name=TopicName(name), num_partitions=i32(partitions), replication_factor=i16(1), assignments=(), configs=()
    )
    return creating.CreateTopicsRequest(topics=(topic,), timeout=millis(1_000), validate_only=validate_only)


def create_5(name: str, partitions: int) -> creating_5.CreateTopicsRequest:
    topic = creating_5.CreatableTopic(
        name=TopicName(name), num_partitions=i32(partitions), replication_factor=i16(1), assignments=(), configs=()
    )
    return creating_5.CreateTopicsRequest(topics=(topic,), timeout=millis(1_000), validate_only=False)


@simulated
async def test_changes_beyond_the_quota_are_refused_until_the_bucket_has_filled() -> None:
    async with asking() as (cluster, _):
        await give(cluster, {"controller_mutation_rate": 1.0}, ALL_CLIENTS)
        peer = await asker(cluster)
        first = await peer.ask(create("a", 13))
        assert first.topics[0].error_code is ErrorCode.none
        assert first.throttle_time == millis(2_000), "13 partitions of 11"
        second = await (await asker(cluster)).ask(create("b", 1))
        assert second.topics[0].error_code is ErrorCode.throttling_quota_exceeded
        assert second.topics[0].name == "b"
        assert millis(0) < second.throttle_time <= millis(2_000)
        await trio.sleep(2.1)
        third = await (await asker(cluster)).ask(create("b", 1))
        assert third.topics[0].error_code is ErrorCode.none
        assert "b" in cluster.controller.controller.image.topics


@simulated
async def test_versions_that_do_not_know_that_error_are_throttled_alone() -> None:
    async with asking() as (cluster, _):
        await give(cluster, {"controller_mutation_rate": 1.0}, ALL_CLIENTS)
        await (await asker(cluster)).ask(create_5("a", 13))
        second = await (await asker(cluster)).ask(create_5("b", 1))
        assert second.topics[0].error_code is ErrorCode.none
        assert millis(2_000) < second.throttle_time <= millis(3_000)


@simulated
async def test_changes_count_for_those_who_may_not_see_what_they_have_changed() -> None:
    async with asking() as (cluster, _):
        hidden = ((Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "*"), (Operation.DESCRIBE, ResourceType.TOPIC, "*"))
        await give(cluster, {"controller_mutation_rate": 1.0}, ALL_CLIENTS)
        forbid(cluster, *hidden)
        created = await (await asker(cluster)).ask(create("a", 13))
        assert (created.topics[0].error_code, created.topics[0].num_partitions) == (ErrorCode.none, -1)
        assert created.throttle_time == millis(2_000), "13 partitions of 11"
        await trio.sleep(20)
        by_id = deleting.DeleteTopicState(name=None, topic_id=created.topics[0].topic_id)
        request = deleting.DeleteTopicsRequest(topics=(by_id,), timeout=millis(1_000))
        deleted = await (await asker(cluster)).ask(request)
        assert (deleted.responses[0].error_code, deleted.responses[0].name) == (ErrorCode.none, None)
        assert deleted.throttle_time == millis(2_000)


@simulated
async def test_partitions_that_are_added_and_deleted_count_and_those_that_are_validated_do_not() -> None:
    async with asking() as (cluster, _):
        await cluster.create_topic("a", partitions=4)
        await give(cluster, {"controller_mutation_rate": 1.0}, ALL_CLIENTS)

        async def ask(request: Any) -> Any:
            return await (await asker(cluster)).ask(request)

        assert (await ask(create("v", 50, validate_only=True))).throttle_time == millis(0)
        topic = growing.CreatePartitionsTopic(name=TopicName("a"), count=i32(12), assignments=None)
        grown = await ask(growing.CreatePartitionsRequest(topics=(topic,), timeout=millis(1_000), validate_only=False))
        assert (grown.results[0].error_code, grown.throttle_time) == (ErrorCode.none, millis(0)), "8 of 11"
        named = deleting.DeleteTopicState(name=TopicName("a"), topic_id=None)
        deleted = await ask(deleting.DeleteTopicsRequest(topics=(named,), timeout=millis(1_000)))
        assert deleted.responses[0].error_code is ErrorCode.none
        assert deleted.throttle_time.total_seconds() == pytest.approx(9, abs=0.1), "20 of 11"


@simulated
async def test_new_connections_from_an_address_wait_their_turn() -> None:
    async with asking() as (cluster, _):
        await give(cluster, {"connection_creation_rate": 1.0}, ("ip", None))
        begun = trio.current_time()
        for _ in range(10):
            await (await asker(cluster)).ask(ListGroupsRequest())
        assert trio.current_time() - begun < 0.5
        late = await asker(cluster)
        await late.ask(ListGroupsRequest())
        assert trio.current_time() - begun == pytest.approx(1, abs=0.2), "eleven in ten seconds"


@simulated
async def test_a_quota_that_is_taken_away_throttles_nobody() -> None:
    async with asking() as (cluster, peer):
        await give(cluster, {"producer_byte_rate": 1.0}, ALL_CLIENTS)
        changes = [QuotaChange("producer_byte_rate", None)]
        async with cluster.controller.decisions.turn() as turn:
            await turn.commit(turn.controller.client_quotas.alter((ALL_CLIENTS,), changes))
        await cluster.settle_metadata()
        await trio.sleep(0.01)
        response, _ = await timed(peer, produce(1_000), PRODUCE)
        assert response.throttle_time_ms == 0


@simulated
async def test_windows_are_as_they_are_configured() -> None:
    async with asking(config={"quota.window.num": 3, "quota.window.size.seconds": 2}) as (cluster, peer):
        request = produce(20_000)
        await give(cluster, {"producer_byte_rate": float(bytes_of(request) // 8)}, ALL_CLIENTS)
        response, _ = await timed(peer, request, PRODUCE)
        limit = bytes_of(request) // 8
        assert response.throttle_time_ms == round((bytes_of(request) / 4 - limit) / limit * 4_000)
