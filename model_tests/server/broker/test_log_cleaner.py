"""The cleaner in a running broker: followers of a compacted leader, real clients that read across gaps."""

from __future__ import annotations

import time
from random import Random

import attrs
import pytest
import trio
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tidegauge import running_cluster
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.partition.leader import ACKS_ALL
from tidegauge.impl.ports.failing_disk import Operation
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.storage.cleaner import CleanedLog
from tidegauge.impl.storage.errors import DamagedLogError
from tidegauge.model_tests.simulated import simulated
from tidegauge.model_tests.storage.compacted import newest, records_of

CONFIG = {
    "log.cleaner.backoff.ms": 100,
    "log.cleaner.dedupe.buffer.size": 24 * 500,
    "log.segment.bytes": 2_000,
    "min.cleanable.dirty.ratio": 0.1,
    "replica.lag.time.max.ms": 1_000,
}


def append(cluster: Cluster, leader: int, rng: Random, batches: int, topic: str = "t") -> None:
    """Batches of records with few keys, as a producer's."""
    broker = cluster.broker(leader)
    hosted = broker.replicas.get(topic, 0)
    assert hosted is not None
    for _ in range(batches):
        records = [
            Record(n, broker.clock.now_ms(), b"key-%d" % rng.randrange(9), rng.choice((None, bytes(40), b"v" * 30)))
            for n in range(rng.choice((1, 3)))
        ]
        hosted.replica.append(build_batch(records), ACKS_ALL, broker.clock.now_ms())
        broker.replicas.carry_out(hosted)


async def cleaned(cluster: Cluster, broker: int, beyond: int = 0) -> CleanedLog:
    """Wait until a broker's cleaner has come further than an offset."""
    while True:
        done = cluster.broker(broker).cleaner.cleaned.get(("t", 0))
        if done is not None and done.end_offset > beyond:
            return done
        await trio.sleep(0.05)


@simulated
async def test_a_follower_that_comes_late_to_a_compacted_leader_converges() -> None:
    rng = Random(3)
    async with Cluster(2, seed=3, config=CONFIG) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]], config={"cleanup.policy": "compact"})
        append(cluster, 0, rng, 30)
        await cluster.wait_for_isr("t", {0, 1})
        await trio.sleep(1)
        await cluster.crash(1, lose_unsynced=True)
        await cluster.wait_for_isr("t", {0})
        append(cluster, 0, rng, 120)
        leader = cluster.broker(0).replicas.get("t", 0)
        assert leader is not None
        before = newest(records_of(leader.log))
        done = await cleaned(cluster, 0, beyond=100)
        assert done.replaced_segments > 3
        assert 0 < done.counts.records_kept < done.counts.records_read
        assert newest(records_of(leader.log)) == before
        await cluster.restart(1)
        await cluster.wait_for_isr("t", {0, 1})
        append(cluster, 0, rng, 10)
        await trio.sleep(1)
        follower = cluster.broker(1).replicas.get("t", 0)
        assert follower is not None
        assert follower.log.log_end_offset == leader.log.log_end_offset
        assert newest(records_of(follower.log)) == newest(records_of(leader.log))


@simulated
async def test_the_cleaner_goes_on_where_it_was_after_a_restart() -> None:
    async with Cluster(1, seed=3, config=CONFIG) as cluster:
        await cluster.create_topic("t", config={"cleanup.policy": "compact"})
        append(cluster, 0, Random(1), 100)
        done = await cleaned(cluster, 0)
        directories = cluster.broker(0).replicas.directories
        assert directories.online[0].cleaned_offset("t", 0) == done.end_offset
        cluster.broker(0).actions.flush()
        await cluster.crash(0, lose_unsynced=False)
        await cluster.restart(0)
        await trio.sleep(5)
        assert cluster.broker(0).replicas.directories.online[0].cleaned_offset("t", 0) == done.end_offset
        assert cluster.broker(0).cleaner.rounds == 0


@simulated
async def test_logs_that_are_only_deleted_from_are_left_alone() -> None:
    async with Cluster(1, seed=3, config=CONFIG) as cluster:
        await cluster.create_topic("t")
        append(cluster, 0, Random(1), 100)
        await trio.sleep(5)
        assert cluster.broker(0).cleaner.rounds == 0


@simulated
async def test_the_cleaner_keeps_to_its_rate() -> None:
    async with Cluster(1, seed=3, config={**CONFIG, "log.cleaner.io.max.bytes.per.second": 1_000.0}) as cluster:
        await cluster.create_topic("t", config={"cleanup.policy": "compact"})
        append(cluster, 0, Random(1), 100)
        started = trio.current_time()
        done = await cleaned(cluster, 0)
        moved = 2 * done.counts.bytes_read + done.counts.bytes_written
        assert trio.current_time() - started > 0.8 * moved / 1_000


def test_a_real_client_reads_the_newest_value_of_each_key_across_the_gaps() -> None:
    config = {"log.cleaner.backoff.ms": 20, "log.cleaner.min.cleanable.ratio": 0.01}
    with running_cluster(config=config) as cluster:
        cluster.create_topic("t", config={"cleanup.policy": "compact", "segment.bytes": 1 << 20})
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all", linger_ms=5)
        expected: dict[bytes, bytes] = {}
        for number in range(400):
            key, value = b"key-%d" % (number % 7), b"%04d" % number * 3_000
            producer.send("t", key=key, value=value, partition=0)
            expected[key] = value
        producer.flush()
        producer.close()
        deadline = time.monotonic() + 20
        consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest")
        partition = TopicPartition("t", 0)
        consumer.assign([partition])
        offsets: list[int] = list(range(400))
        while len(offsets) > 100:
            assert time.monotonic() < deadline, f"{len(offsets)} records are still there"
            consumer.seek_to_beginning(partition)
            found: dict[bytes, bytes] = {}
            offsets = []
            while consumer.position(partition) < 400:
                for record in consumer.poll(timeout_ms=200).get(partition, ()):
                    found[record.key] = record.value
                    offsets.append(record.offset)
            assert found == expected
            assert offsets == sorted(set(offsets))
        assert offsets[-1] == 399
        consumer.close()


@simulated
async def test_a_damaged_log_is_left_alone_and_the_others_are_cleaned() -> None:
    async with Cluster(1, seed=3, config=CONFIG) as cluster:
        for topic in ("t", "u"):
            await cluster.create_topic(topic, config={"cleanup.policy": "compact"})
            append(cluster, 0, Random(1), 60, topic)
        damaged = cluster.broker(0).replicas.get("u", 0)
        assert damaged is not None
        cluster.host.disk("broker-0").flip_bit(damaged.log.closed_segments[0].path(".log"), 100)
        await cleaned(cluster, 0)
        await trio.sleep(5)
        assert set(cluster.broker(0).cleaner.cleaned) == {("t", 0)}
        assert cluster.is_alive(0)


@simulated
async def test_a_log_whose_damage_is_known_is_left_alone_and_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """A base offset that has grown: its checksum is right, so that the cleaner would take it for the newest record."""
    async with Cluster(1, seed=3, config=CONFIG | {"log.cleaner.backoff.ms": 2_000}) as cluster:
        await cluster.create_topic("t", config={"cleanup.policy": "compact"})
        append(cluster, 0, Random(1), 60)
        hosted = cluster.broker(0).replicas.get("t", 0)
        assert hosted is not None
        segment = hosted.log.closed_segments[0]
        first = next(segment.headers())
        cluster.host.disk("broker-0").flip_bit(segment.path(".log"), first.size + 3)
        hosted.log.distrust(0)
        with pytest.raises(DamagedLogError):
            hosted.log.read(first.next_offset, 1 << 20)
        before = hosted.log.segments
        await trio.sleep(10)
        assert not cluster.broker(0).cleaner.cleaned
        assert hosted.log.segments == before
        told = [one.message for one in caplog.records if one.message.startswith("log not cleaned")]
        assert len(told) == 1
        assert 'why="it is damaged"' in told[0]


@simulated
async def test_a_cleaner_without_room_gives_back_what_it_took_and_cleans_the_others_until_there_is_room() -> None:
    config = {
        "log.dirs": "one,two",
        "log.cleaner.backoff.ms": 1_000,
        "log.segment.bytes": 300_000,
        "min.cleanable.dirty.ratio": 0.1,
    }
    async with Cluster(1, seed=3, config=config) as cluster:
        broker, disk = cluster.broker(0), cluster.host.disk("broker-0")
        await cluster.create_topic("t", partitions=2, config={"cleanup.policy": "compact"})
        logs = {}
        for index in range(2):
            hosted = broker.replicas.get("t", index)
            assert hosted is not None
            for number in range(120 if index == 0 else 90):  # the first one is the dirtiest, by what is not active yet
                record = Record(0, broker.clock.now_ms(), b"key-%d" % number, bytes(4_000))
                hosted.replica.append(build_batch([record]), ACKS_ALL, broker.clock.now_ms())
                broker.replicas.carry_out(hosted)
            logs[index] = hosted.log
        before = newest(records_of(logs[0]))
        where = broker.replicas.directories.where("t", 0)
        assert where is not None
        cluster.fill_disk(0, 100_000, directory=where.path.rpartition("/")[2])
        asked = 0

        def count(operation: Operation, path: str) -> None:
            nonlocal asked
            asked += path.endswith(".log.cleaned") and operation is Operation.OPEN

        disk.watched_by(count)
        await trio.sleep(20)
        assert set(broker.cleaner.cleaned) == {("t", 1)}
        assert 5 < asked < 30, "it rests between two rounds"
        assert cluster.is_alive(0)
        assert not [name for name in disk.list_directory(f"{where.path}/t-0") if name.endswith(".cleaned")]
        cluster.heal_disk(0)
        await trio.sleep(5)
        assert set(broker.cleaner.cleaned) == {("t", 0), ("t", 1)}
        assert newest(records_of(logs[0])) == before


@simulated
async def test_what_a_topic_loses_that_becomes_compacted_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async with Cluster(1, seed=3, config=CONFIG) as cluster, cluster.client() as client:
        await cluster.create_topic("t")
        for number in range(60):
            await client.produce("t", b"%d" % number * 50)  # none has a key
        hosted = cluster.broker(0).replicas.get("t", 0)
        assert hosted is not None
        hosted.log.config = attrs.evolve(hosted.log.config, cleanup_policy=frozenset({"compact"}))
        await cleaned(cluster, 0)
        left = len(records_of(hosted.log))
        told = [one.message for one in caplog.records if one.message.startswith("records without keys removed")]
        assert len(told) == 1
        assert f"partition=t-0 records={60 - left} " in told[0]
        assert 0 < left < 20
