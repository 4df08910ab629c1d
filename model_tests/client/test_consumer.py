"""The native consumer of partitions that it is assigned: positions, fetches ahead, resets, truncation, commits."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from tidegauge.impl.client.client import Client
from tidegauge.impl.client.committed_offsets import GroupOffsets
from tidegauge.impl.client.consumer import Consumer
from tidegauge.impl.client.consumer_config import ConsumerConfig
from tidegauge.impl.client.consumer_record import ConsumerInterceptor, ConsumerRecord, Offsets, RebalanceListener
from tidegauge.impl.client.errors import KafkaError, NoPositionError, TruncatedError, WakeupError
from tidegauge.impl.client.positions import Truncation
from tidegauge.impl.client.transactional import TransactionalProducer
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.model_tests.simulated import simulated

P, Q = ("t", 0), ("t", 1)
FEW = {
    "transaction.state.log.num.partitions": 1,
    "offsets.topic.num.partitions": 1,
    "broker.heartbeat.interval.ms": 50,
    "replica.lag.time.max.ms": 200,
}


@asynccontextmanager
async def running(brokers: int = 1, **config: Any) -> AsyncIterator[tuple[Cluster, Client]]:
    async with Cluster(brokers=brokers, seed=1, config={**FEW, **config}) as cluster:
        await cluster.create_topic("t", assignments=[list(range(brokers))] * 2)
        async with cluster.client() as client:
            yield cluster, client


def earliest(**more: Any) -> ConsumerConfig:
    return ConsumerConfig(auto_offset_reset="earliest", **more)


async def values(consumer: Consumer, number: int) -> list[bytes | None]:
    """The next values, so many at least."""
    found: list[ConsumerRecord] = []
    with trio.fail_after(60):
        while len(found) < number:
            found += await consumer.poll(1_000)
    return [record.value for record in found]


@simulated
async def test_the_next_fetch_is_sent_before_poll_returns_and_what_is_stale_is_dropped() -> None:
    async with running() as (cluster, client):
        for number in range(6):
            await client.produce("t", b"%d" % number)
        fetches = 0

        def counts(frame: Any) -> bool:
            nonlocal fetches
            fetches += frame.api_key == ApiKey.FETCH and frame.source.startswith("client")
            return False

        cluster.network.hold(counts)
        config = earliest(max_partition_fetch_bytes=1, max_poll_records=2)
        async with Consumer(client, config) as consumer:
            await consumer.assign([P])
            assert await values(consumer, 1) == [b"0"]
            assert fetches == 2, "the one that was polled, and the one behind it"
            await trio.sleep(1)
            assert fetches == 2, "what is there is polled first"
            consumer.seek(P, 4)
            assert await values(consumer, 1) == [b"4"], "record 1 was there already"
            consumer.pause(P)
            assert await consumer.poll(2_000) == ()
            assert consumer.paused == {P}
            consumer.resume(P)
            assert await values(consumer, 1) == [b"5"]
            consumer.seek_to_beginning()
            assert await consumer.position(P) == 0
            consumer.seek_to_end(P)
            assert await consumer.position(P) == 6
        async with Consumer(client, earliest(max_poll_records=4)) as consumer:
            await consumer.assign([P])
            assert [len(await consumer.poll(1_000)) for _ in range(3)] == [4, 2, 0]


@simulated
async def test_a_consumer_begins_where_its_policy_says() -> None:
    async with running() as (_, client):
        await client.produce("t", b"0")
        await trio.sleep(30)
        await client.produce("t", b"1")
        await trio.sleep(1)

        async def begins(policy: str) -> int:
            async with Consumer(client, ConsumerConfig(auto_offset_reset=policy)) as consumer:
                await consumer.assign([P])
                return await consumer.position(P)

        assert [await begins(policy) for policy in ("earliest", "latest")] == [0, 2]
        assert [await begins(f"by_duration:{time}") for time in ("PT20S", "P1D", "PT0.5S")] == [1, 0, 2]
        with pytest.raises(NoPositionError, match=r"nothing is committed for t-0.*: seek, or commit"):
            await begins("none")
        async with Consumer(client, ConsumerConfig(auto_offset_reset="none")) as consumer:
            await consumer.assign([P])
            consumer.seek(P, 99)
            with pytest.raises(NoPositionError, match="t-0 has no offset 99"):
                await consumer.poll(1_000)
            consumer.seek(P, 1)
            assert await values(consumer, 1) == [b"1"], "and it goes on"
        async with Consumer(client, earliest()) as consumer:
            await consumer.assign([P])
            consumer.seek(P, 99)
            assert await values(consumer, 2) == [b"0", b"1"]


@simulated
async def test_offsets_without_records_are_walked_over() -> None:
    """A transaction that was aborted, markers, and what a cleaner took out look alike: batches without records."""
    async with running() as (_, client):
        producer = TransactionalProducer(client, "tx")

        async def abort(value: bytes) -> None:
            async with producer.transaction() as transaction:
                await transaction.produce("t", value)
                raise RuntimeError("mine")

        for number in range(3):
            with pytest.raises(RuntimeError, match="mine"):
                await abort(b"aborted %d" % number)
        async with producer.transaction() as transaction:
            await transaction.produce("t", b"committed")
        config = earliest(isolation_level="read_committed", max_partition_fetch_bytes=1)
        async with Consumer(client, config) as consumer:
            await consumer.assign([P])
            assert await values(consumer, 1) == [b"committed"]
            while await consumer.position(P) < 8:
                assert await consumer.poll(1_000) == ()
            assert (await consumer.offset_at(P, -1)).offset == 8


class Told(RebalanceListener):
    def __init__(self) -> None:
        self.truncations: list[Truncation] = []

    async def truncated(self, truncation: Truncation) -> None:
        self.truncations.append(truncation)


@simulated
async def test_what_was_read_and_is_lost_by_an_unclean_election_is_detected_and_told() -> None:
    async with running(2) as (cluster, client):
        await client.produce("t", b"both")
        await GroupOffsets(client, "g").committed("t")
        await cluster.crash(1)
        await cluster.expire_session(1)
        told, group = Told(), earliest(group_id="g", metadata_max_age_ms=1_000, enable_auto_commit=False)
        careful = ConsumerConfig(auto_offset_reset="none", metadata_max_age_ms=1_000)
        async with Consumer(client, group) as easy, Consumer(client, careful) as strict:
            easy._listener = told
            await easy.assign([P])
            await strict.assign([P])
            strict.seek(P, 0)
            for number in range(2):
                await client.produce("t", b"only 0 has %d" % number)
            assert await values(easy, 3) == await values(strict, 3)
            await cluster.crash(0)
            await cluster.expire_session(0)
            await cluster.restart(1)
            await cluster.broker(1).unfenced.wait()
            await cluster.elect("t", unclean=True)
            await cluster.wait_for_leader("t")
            for number in range(4):
                await client.produce("t", b"new %d" % number)
            assert await values(easy, 4) == [b"new %d" % number for number in range(4)]
            assert told.truncations == [Truncation(P, 3, 0)]
            with pytest.raises(TruncatedError, match="what was read of t-0 up to offset 3") as lost:
                await values(strict, 1)
            assert lost.value.truncation == Truncation(P, 3, 0)
            strict.seek(P, 0)
            assert (await values(strict, 4))[0] == b"new 0"


class Shouting(ConsumerInterceptor):
    def __init__(self) -> None:
        self.committed: list[Offsets] = []

    def on_consume(self, records: tuple[ConsumerRecord, ...]) -> tuple[ConsumerRecord, ...]:
        return tuple(record._replace(value=(record.value or b"").upper()) for record in records)

    def on_commit(self, offsets: Offsets) -> None:
        self.committed.append(offsets)


@simulated
async def test_commits_come_in_order_and_what_was_polled_is_committed_by_the_next_poll() -> None:
    async with running() as (_, client):
        for value in (b"a", b"b", b"c"):
            await client.produce("t", value)
        shouting, completed = Shouting(), []
        config = earliest(group_id="g", max_poll_records=1, auto_commit_interval_ms=1)
        async with Consumer(client, config, interceptors=[shouting]) as consumer:
            await consumer.assign([P, Q])
            assert await consumer.committed(P) == {P: None}
            assert await values(consumer, 1) == [b"A"]
            await trio.sleep(1)
            assert await consumer.committed(P) == {P: None}, "nobody has polled since"
            await consumer.poll(0)
            await trio.sleep(1)
            assert await consumer.committed(P, Q) == {P: 1, Q: 0}
            consumer.commit_async({P: 7}, lambda offsets, error: completed.append((offsets, error)))
            await consumer.commit({P: 3})
            assert completed == [({P: 7}, None)], "it was first, and it is told"
            assert shouting.committed[-2:] == [{P: 7}, {P: 3}]
            assert await consumer.committed(P) == {P: 3}
            consumer.seek(P, 2)
        async with Consumer(client, config) as consumer:
            await consumer.assign([P])
            assert await consumer.position(P) == 2, "the end of the block commits"
            assert (await consumer.poll(1_000))[0].value == b"c"


@simulated
async def test_what_was_polled_of_others_is_committed_when_other_partitions_are_assigned() -> None:
    async with running() as (_, client):
        await client.produce("t", b"a")
        await client.produce("t", b"b", partition=1)
        async with Consumer(client, earliest(group_id="g")) as consumer:
            await consumer.assign([P])
            assert await values(consumer, 1) == [b"a"]
            await consumer.assign([Q])
            assert await values(consumer, 1) == [b"b"]
        async with Consumer(client, earliest(group_id="g", enable_auto_commit=False)) as consumer:
            assert await consumer.committed(P, Q) == {P: 1, Q: 1}
            await consumer.assign([P])
            consumer.seek(P, 0)
            assert await values(consumer, 1) == [b"a"]
            consumer.seek(P, 0)
            await consumer.assign([Q])
        async with Consumer(client, earliest(group_id="g")) as consumer:
            assert await consumer.committed(P) == {P: 1}, "it did not commit by itself"


@simulated
async def test_a_poll_waits_for_an_open_transaction_or_a_coordinator_and_raises_nothing() -> None:
    async with running() as (cluster, client):
        await client.produce("t", b"a")
        producer = TransactionalProducer(client, "id")
        async with Consumer(client, earliest(group_id="g")) as consumer:
            async with producer.transaction() as transaction:
                await transaction.commit_offsets("g", {P: 1})
                await consumer.assign([P, Q])
                assert await consumer.poll(40_000) == (), "its offsets are not decided"
            await client.produce("t", b"b")
            assert await values(consumer, 1) == [b"b"]
        async with Consumer(client, earliest(group_id="g")) as consumer:
            await cluster.crash(0)
            await consumer.assign([P])
            assert await consumer.poll(40_000) == (), "nobody coordinates the group"
            await cluster.restart(0)
            await client.produce("t", b"c", timeout_ms=60_000)
            assert (await values(consumer, 1))[-1] == b"c"


class Broken(ConsumerInterceptor):
    """Raises at all that it sees."""

    def on_consume(self, records: tuple[ConsumerRecord, ...]) -> tuple[ConsumerRecord, ...]:
        raise ZeroDivisionError(f"{len(records)} records")

    def on_commit(self, offsets: Offsets) -> None:
        raise ZeroDivisionError(f"{len(offsets)} offsets")


@simulated
async def test_an_interceptor_that_raises_loses_no_records_and_no_commit(caplog: pytest.LogCaptureFixture) -> None:
    async with running() as (_, client):
        await client.produce("t", b"a")
        shouting, completed = Shouting(), []
        async with Consumer(client, earliest(group_id="g"), interceptors=[Broken(), shouting]) as consumer:
            await consumer.assign([P])
            assert await values(consumer, 1) == [b"A"]
            consumer.commit_async({P: 1}, lambda offsets, error: completed.append((offsets, error)))
            await consumer.commit({P: 1})
            assert completed == [({P: 1}, None)]
            assert shouting.committed == [{P: 1}, {P: 1}]
    assert "interceptor failed: client=client-2 interceptor=Broken" in caplog.text


@simulated
async def test_one_task_at_a_time_uses_a_consumer_and_any_task_wakes_it_up() -> None:
    async with running() as (_, client), Consumer(client, earliest()) as consumer:
        await consumer.assign([P])

        async def wait() -> None:
            with pytest.raises(WakeupError):
                await consumer.poll(60_000)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(1)
            with pytest.raises(RuntimeError, match=r"the task .*wait.* uses the consumer: one task at a time may"):
                await consumer.poll(0)
            consumer.wakeup()
        assert trio.current_time() < 10
        consumer.wakeup()
        with pytest.raises(WakeupError):
            await consumer.poll(0)
        assert await consumer.poll(0) == ()


@simulated
async def test_a_position_is_waited_for_in_the_time_that_is_given() -> None:
    async with running() as (cluster, client), Consumer(client, ConsumerConfig()) as consumer:
        await cluster.crash(0)
        await consumer.assign([P])
        for timeout_ms in (0, 300):
            began = trio.current_time()
            with pytest.raises(trio.TooSlowError):
                await consumer.position(P, timeout_ms)
            assert trio.current_time() - began == pytest.approx(timeout_ms / 1000)


@simulated
async def test_a_consumer_says_what_it_was_not_made_for() -> None:
    async with running() as (_, client), Consumer(client) as consumer:
        with pytest.raises(RuntimeError, match="there is nothing to read: subscribe, or assign"):
            await consumer.poll(0)
        with pytest.raises(RuntimeError, match="the consumer has no group: set group_id"):
            await consumer.subscribe(["t"])
        with pytest.raises(ValueError, match="the topics are 't': give a list"):
            await consumer.subscribe("t")
        await consumer.assign([P])
        with pytest.raises(RuntimeError, match="the consumer has no group to commit for"):
            await consumer.commit()
        with pytest.raises(ValueError, match=r"\('t', 1\) is not assigned to the consumer"):
            consumer.seek(Q, 0)
        async with Consumer(client, ConsumerConfig(group_id="g")) as member:
            await member.subscribe(re.compile("t"))
            with pytest.raises(RuntimeError, match="unsubscribe before you assign"):
                await member.assign([P])
            await member.unsubscribe()
            await member.assign([P])
            with pytest.raises(RuntimeError, match="unsubscribe before you subscribe"):
                await member.subscribe(["t"])
    with pytest.raises(RuntimeError, match="use it within `async with consumer:`"):
        await consumer.poll(0)


@simulated
async def test_an_error_of_a_broker_is_told_once_and_the_consumer_goes_on() -> None:
    async with running() as (cluster, client), Consumer(client, earliest()) as consumer:
        await client.produce("t", b"1")
        cluster.fail_requests("Fetch", "TOPIC_AUTHORIZATION_FAILED", 1)
        cluster.fail_requests("ListOffsets", "NOT_LEADER_OR_FOLLOWER", 1)
        await consumer.assign([P])
        with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
            await values(consumer, 1)
        assert await values(consumer, 1) == [b"1"]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"auto_offset_reset": "by_duration:1h"}, "give earliest, latest, none, or a duration, as in by_duration:PT1H"),
        ({"auto_offset_reset": "by_duration:P"}, "auto_offset_reset is 'by_duration:P'"),
        ({"isolation_level": "serializable"}, "give one of read_uncommitted, read_committed"),
        ({"max_poll_records": 0}, "max_poll_records is 0: give a positive number"),
        ({"fetch_min_bytes": -1}, "fetch_min_bytes is -1: give a number that is not negative"),
        ({"heartbeat_interval_ms": 50_000}, "give less than session_timeout_ms, which is 45000"),
        ({"group_id": ""}, "is empty: give text, or None"),
        ({"group_instance_id": "i"}, "'i' is a static member of no group"),
        ({"partition_assignment_strategy": ("fair",)}, "there is no assignor 'fair'"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_name(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        ConsumerConfig(**wrong)
