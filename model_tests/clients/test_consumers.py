"""What consumers with assigned partitions offer besides reading: positions, pauses, limits, racks, statistics."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonPartition

from tidegauge import running_cluster
from tidegauge.model_tests.clients.conftest import FreshTopic, eventually
from tidegauge.model_tests.clients.test_confluent import SECONDS, consumed, consumer, produced, producer

ISOLATION = ["read_uncommitted", "read_committed"]


def told_to(told: list[dict[str, Any]]) -> dict[str, Any]:
    """Settings of librdkafka that have it tell its statistics."""
    return {"statistics.interval.ms": 50, "stats_cb": lambda text: told.append(json.loads(text))}


@pytest.fixture
def ten(bootstrap: str, fresh_topic: FreshTopic) -> str:
    """A topic of two partitions with ten records in each."""
    topic = fresh_topic(partitions=2)
    client = producer(bootstrap)
    for partition in (0, 1):
        produced(client, topic, [b"%d" % number for number in range(10)], partition=partition)
    return topic


def test_librdkafka_seeks_pauses_and_resumes(bootstrap: str, ten: str) -> None:
    reader = consumer(bootstrap, enable_partition_eof=True)
    partitions = [TopicPartition(ten, number, OFFSET_BEGINNING) for number in (0, 1)]
    reader.assign(partitions)
    assert eventually(lambda: reader.poll(0.2) is not None)
    reader.pause(partitions[:1])
    reader.seek(TopicPartition(ten, 1, 7))
    seen: list[tuple[int, int]] = []

    def ended() -> bool:
        message = reader.poll(0.2)
        if message is None or message.partition() != 1:
            return False
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF
            return len(seen) >= 3
        seen.append((message.partition(), message.offset()))
        return False

    assert eventually(ended)
    assert seen[-3:] == [(1, 7), (1, 8), (1, 9)]
    assert reader.position([TopicPartition(ten, 1)])[0].offset == 10
    reader.seek(TopicPartition(ten, 0, 9))
    reader.resume(partitions[:1])
    assert eventually(lambda: (m := reader.poll(0.2)) is not None and (m.partition(), m.offset()) == (0, 9))
    reader.incremental_unassign(partitions[:1])
    assert [p.partition for p in reader.assignment()] == [1]
    reader.close()


@pytest.mark.parametrize("isolation", ISOLATION)
def test_librdkafka_reads_within_any_limit_and_tells_its_statistics(bootstrap: str, ten: str, isolation: str) -> None:
    told: list[dict[str, Any]] = []
    limits = {
        "fetch_max_bytes": 1_000,
        "message_max_bytes": 1_000,
        "max_partition_fetch_bytes": 1,
        "fetch_min_bytes": 1,
    }
    reader = consumer(
        bootstrap,
        isolation_level=isolation,
        check_crcs=True,
        **told_to(told),
        **limits,
    )
    assert [m.offset() for m in consumed(reader, ten, 10)] == list(range(10))
    assert reader.get_watermark_offsets(TopicPartition(ten, 0), cached=True) == (0, 10)

    def lag_is_told() -> bool:
        reader.poll(0.1)
        partition = told[-1]["topics"].get(ten, {}).get("partitions", {}).get("0", {}) if told else {}
        return (
            partition.get("consumer_lag_stored") == 0 and partition.get("ls_offset") == partition.get("hi_offset") == 10
        )

    assert eventually(lag_is_told)
    reader.close()


@pytest.mark.parametrize(("reset", "first"), [("earliest", 0), ("latest", 10)])
def test_where_there_is_no_offset_reading_begins_as_it_is_said(
    bootstrap: str, ten: str, reset: str, first: int
) -> None:
    client = producer(bootstrap)
    reader = consumer(bootstrap, auto_offset_reset=reset)
    reader.assign([TopicPartition(ten, 0, 99)])
    found: list[int] = []

    def something_came() -> bool:
        produced(client, ten, [b"more"], partition=0)
        found.extend(m.offset() for m in reader.consume(1, 0.3) if m.error() is None)
        return bool(found)

    assert eventually(something_came)
    assert found[0] == 0 if first == 0 else found[0] >= first
    reader.close()


def test_kafka_python_seeks_pauses_and_keeps_to_its_limits(bootstrap: str, ten: str) -> None:
    reader = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=None, max_poll_records=2, max_partition_fetch_bytes=1, check_crcs=True
    )
    first, second = PythonPartition(ten, 0), PythonPartition(ten, 1)
    reader.assign([first, second])
    reader.seek_to_end(first)
    assert reader.position(first) == 10
    reader.seek_to_beginning(second)
    reader.pause(first)
    assert reader.paused() == {first}
    found: list[int] = []

    def all_came() -> bool:
        for partition, records in reader.poll(200).items():
            assert partition == second
            assert len(records) <= 2
            found.extend(record.offset for record in records)
        return len(found) >= 10

    assert eventually(all_came)
    assert found == list(range(10))
    assert reader.highwater(second) == 10
    assert reader.partitions_for_topic(ten) == {0, 1}
    assert ten in reader.topics()
    assert reader.metrics()
    reader.close()


@pytest.mark.parametrize("isolation", ISOLATION)
def test_aiokafka_seeks_pauses_and_keeps_to_its_limits(bootstrap: str, ten: str, isolation: str) -> None:
    async def scenario() -> None:
        first, second = AioPartition(ten, 0), AioPartition(ten, 1)
        async with AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            isolation_level=isolation,
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=1,
            check_crcs=True,
        ) as reader:
            reader.assign([first, second])
            reader.pause(first)
            assert await reader.position(second) == 0
            found = [(await asyncio.wait_for(reader.getone(), SECONDS)).offset for _ in range(10)]
            assert found == list(range(10))
            assert reader.highwater(second) == 10
            assert reader.last_stable_offset(second) == 10
            reader.resume(first)
            reader.seek(first, 8)
            got = await reader.getmany(timeout_ms=int(SECONDS * 1000))
            assert [record.offset for record in got[first]][:1] == [8]
            by_time = await reader.offsets_for_times({first: int(time.time() * 1000) + 60_000, second: 0})
            assert by_time[first] is None
            assert by_time[second].offset == 0

    asyncio.run(asyncio.wait_for(scenario(), 3 * SECONDS))


@pytest.fixture(scope="module")
def racks() -> Iterator[Any]:
    config = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
    with running_cluster(brokers=3, racks=["a", "b", "c"], config=config) as cluster:
        cluster.create_topic("t", assignments=[[0, 1, 2]])
        assert produced(producer(cluster.bootstrap_servers), "t", [b"x"] * 5, partition=0) == list(range(5))
        yield cluster


def test_librdkafka_reads_from_the_replica_in_its_rack(racks: Any) -> None:
    """KIP-392; its statistics tell which broker had the fetches."""
    told: list[dict[str, Any]] = []
    reader = consumer(racks.bootstrap_servers, client_rack="c", **told_to(told))
    assert len(consumed(reader, "t", 5)) == 5

    def the_follower_was_asked() -> bool:
        reader.poll(0.1)
        brokers = told[-1]["brokers"].values() if told else ()
        return any(broker["nodeid"] == 2 and broker["req"].get("Fetch", 0) > 0 for broker in brokers)

    assert eventually(the_follower_was_asked)
    reader.close()


def test_kafka_python_reads_from_the_replica_in_its_rack(racks: Any) -> None:
    """It goes back to the leader after each response of the follower, and is sent away again."""
    reader = KafkaConsumer(
        bootstrap_servers=racks.bootstrap_servers, group_id=None, client_rack="b", auto_offset_reset="earliest"
    )
    partition = PythonPartition("t", 0)
    reader.assign([partition])
    found: list[int] = []
    asked: set[int] = set()

    def all_came() -> bool:
        found.extend(record.offset for record in reader.poll(50).get(partition, ()))
        asked.add(reader._fetcher._select_read_replica(partition))
        return len(found) >= 5 and 1 in asked

    assert eventually(all_came)
    assert found[:5] == list(range(5))
    reader.close()


def test_aiokafka_reads_from_the_replica_in_its_rack(racks: Any) -> None:
    async def scenario() -> None:
        async with (
            AIOKafkaProducer(bootstrap_servers=racks.bootstrap_servers) as writer,
            AIOKafkaConsumer(bootstrap_servers=racks.bootstrap_servers, client_rack="b") as reader,
        ):
            partition = AioPartition("t", 0)
            reader.assign([partition])
            await reader.seek_to_beginning(partition)
            read = [await asyncio.wait_for(reader.getone(), SECONDS) for _ in range(5)]
            assert [record.offset for record in read] == list(range(5))
            sent = await writer.send_and_wait("t", b"y", partition=0)
            assert (await asyncio.wait_for(reader.getone(), SECONDS)).offset == sent.offset
            assert reader._fetcher._select_read_replica(partition) == 1, "the follower is asked"

    asyncio.run(asyncio.wait_for(scenario(), 3 * SECONDS))


def test_members_of_librdkafka_are_given_what_has_a_replica_in_their_rack(racks: Any) -> None:
    """KIP-881: their range assignor reads the racks in each other's subscriptions, and those of replicas here."""
    racks.create_topic("near", assignments=[[0], [2], [0], [2]])
    config = {"group_id": "near", "partition_assignment_strategy": "range"}
    members = [consumer(racks.bootstrap_servers, client_rack=rack, **config) for rack in ("c", "a")]
    for member in members:
        member.subscribe(["near"])

    def each_has_its_own() -> bool:
        for member in members:
            member.poll(0.05)
        return [{one.partition for one in member.assignment()} for member in members] == [{1, 3}, {0, 2}]

    assert eventually(each_has_its_own)
    for member in members:
        member.close()
