"""Brokers that are killed with SIGKILL in the middle of their work, at moments drawn from a seed.

Whatever a real client had acknowledged is there afterwards, at its offset; nothing torn is served; the files are what
they should be, by the word of an independent reader.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError
from kafka.record.memory_records import MemoryRecords

from tidegauge.model_tests.cluster.processes.cluster import Processes

TOPIC = "t"
PATIENCE_S = 30.0
CONFIG = {
    "broker.heartbeat.interval.ms": 100,
    "broker.session.timeout.ms": 1_000,
    "replica.lag.time.max.ms": 1_000,
    "replica.fetch.backoff.ms": 50,
    "log.segment.bytes": 20_000,
    "log.index.interval.bytes": 200,
}


class Load:
    """Producers in a thread, one after the other, and what they were told: offset -> value."""

    def __init__(self, bootstrap: str, partitions: int) -> None:
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self._bootstrap = bootstrap
        self._partitions = partitions
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def wait_for(self, count: int) -> None:
        """Until so many more were acknowledged."""
        wanted, deadline = len(self.acknowledged) + count, time.monotonic() + PATIENCE_S
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < deadline, f"{wanted - len(self.acknowledged)} produces are still not acknowledged"
            time.sleep(0.005)

    def _run(self) -> None:
        number = 0
        while not self._ending.is_set():
            producer = KafkaProducer(
                bootstrap_servers=self._bootstrap,
                acks="all",
                retries=0,
                enable_idempotence=False,
                request_timeout_ms=1_000,
                delivery_timeout_ms=1_200,
                max_block_ms=1_000,
                linger_ms=1,
                reconnect_backoff_ms=20,
                reconnect_backoff_max_ms=100,
                retry_backoff_ms=50,
            )
            try:
                while not self._ending.is_set():
                    self._batch(producer, number)
                    number += 50
            except KafkaError:
                continue
            finally:
                with suppress(KafkaError):
                    producer.close(timeout=0)

    def _batch(self, producer: KafkaProducer, first: int) -> None:
        sent = []
        for number in range(first, first + 50):
            value = b"%d " % number * (1 + number % 40)
            sent.append((value, producer.send(TOPIC, value, partition=number % self._partitions)))
        for value, future in sent:
            response = future.get(timeout=5)
            self.acknowledged[response.partition, response.offset] = value


def create_topic(cluster: Processes, partitions: int, replicas: int, **config: str) -> None:
    topic = NewTopic(TOPIC, partitions, replicas, topic_configs={k.replace("_", "."): v for k, v in config.items()})
    deadline = time.monotonic() + PATIENCE_S
    while True:
        # Not every broker may have joined yet, and a client that was told so too early does not ask again.
        try:
            admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap, request_timeout_ms=2_000)
            try:
                admin.create_topics([topic])
                return
            finally:
                admin.close()
        except TopicAlreadyExistsError:
            return
        except KafkaError:
            assert time.monotonic() < deadline, "the topic cannot be created"
            time.sleep(0.1)


def read(cluster: Processes, partition: int) -> dict[int, bytes]:
    """All of a partition, with checksums looked at."""
    consumer = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap, auto_offset_reset="none", check_crcs=True, max_partition_fetch_bytes=30_000
    )
    place = TopicPartition(TOPIC, partition)
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    end, deadline = consumer.end_offsets([place])[place], time.monotonic() + PATIENCE_S
    found: dict[int, bytes] = {}
    while consumer.position(place) < end:
        assert time.monotonic() < deadline, f"read up to {consumer.position(place)} of {end}"
        for record in consumer.poll(timeout_ms=200).get(place, ()):
            assert record.offset not in found
            found[record.offset] = record.value
    consumer.close()
    return found


def batches(segment: Path) -> Iterator[tuple[int, int, int]]:
    """(position, base offset, last offset) of a segment's batches, as kafka-python's parser finds them, all of them."""
    content, position = segment.read_bytes(), 0
    records = MemoryRecords(content)
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc(), f"{segment} at {position}"
        (length,) = struct.unpack_from(">i", content, position + 8)
        yield position, batch.base_offset, batch.base_offset + struct.unpack_from(">i", content, position + 23)[0]
        position += 12 + length
    assert position == len(content), f"{segment}: {len(content) - position} bytes at the end are no batch"


def check_files(directory: Path) -> None:
    """Segments follow each other, and every entry of an index points to a batch with that last offset."""
    expected = None
    for segment in sorted(directory.glob("*.log")):
        base = int(segment.stem)
        assert expected in (None, base), f"{segment} does not continue at {expected}"
        lasts = {}
        for position, first, last in batches(segment):
            assert expected in (None, first)
            lasts[position], expected = last, last + 1
        index = segment.with_suffix(".index")
        entries = list(struct.iter_unpack(">ii", index.read_bytes())) if index.exists() else []
        assert all(lasts[position] == base + offset for offset, position in entries), index


def survive(root: Path, seed: int, kills: int, *, brokers: int, replicas: int, **config: str) -> None:
    rng = Random(seed)
    with Processes(root, brokers, CONFIG) as cluster:
        create_topic(cluster, 2, replicas, **config)
        with Load(cluster.bootstrap, 2) as load:
            for _ in range(kills):
                load.wait_for(rng.randrange(20, 400))
                time.sleep(rng.random() * 0.02)
                victim = rng.randrange(brokers)
                cluster.kill(victim)
                cluster.start(victim)
            load.wait_for(50)
        for partition in range(2):
            found = read(cluster, partition)
            expected = {offset: v for (where, offset), v in load.acknowledged.items() if where == partition}
            missing = {offset: v for offset, v in expected.items() if found.get(offset) != v}
            assert not missing, f"seed {seed}: acknowledged and not there: {sorted(missing)[:10]}"
            assert expected
        for broker in range(brokers):
            cluster.stop(broker)
            for partition in range(2):
                check_files(cluster.directory(broker) / f"{TOPIC}-{partition}")


def test_a_killed_broker_has_everything_that_it_had_flushed(tmp_path: Path) -> None:
    survive(tmp_path, seed=1, kills=2, brokers=1, replicas=1, flush_messages="1")


def test_killed_brokers_lose_nothing_that_was_replicated(tmp_path: Path) -> None:
    survive(tmp_path, seed=2, kills=1, brokers=3, replicas=3, min_insync_replicas="2")


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(10, 16))
@pytest.mark.parametrize(("brokers", "config"), [(1, {"flush_messages": "1"}), (3, {"min_insync_replicas": "2"})])
def test_brokers_that_are_killed_again_and_again(
    tmp_path: Path, seed: int, brokers: int, config: dict[str, str]
) -> None:
    survive(tmp_path, seed, kills=12, brokers=brokers, replicas=brokers, **config)
