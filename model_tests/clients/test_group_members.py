"""Members of groups as real clients: confluent-kafka, kafka-python and aiokafka subscribe, share, leave, crash."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, ConsumerGroupState, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from tidegauge import running_cluster
from tidegauge.impl.coordinators.hashing import partition_for
from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS

PATIENCE = 60.0
SESSION_MS = 6_000
PARTITIONS = 3
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "broker.session.timeout.ms": 600,
    "broker.heartbeat.interval.ms": 100,
    "offsets.topic.num.partitions": PARTITIONS,
}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Groups begin at once here, and another broker is soon found."""
    with running_cluster(brokers=3, config=SETTINGS) as running:
        yield running


@pytest.fixture
def bootstrap(cluster: Any) -> str:
    return str(cluster.bootstrap_servers)


@pytest.fixture
def topic(cluster: Any) -> str:
    """Of four partitions; the group of a test has the same name."""
    name = f"shared-{next(_numbers)}"
    cluster.create_topic(name, partitions=4, replication_factor=3)
    return name


def settings(bootstrap: str, topic: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "group.id": topic,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": 200,
        "log_level": 0,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


@contextmanager
def member(bootstrap: str, topic: str, **more: Any) -> Iterator[Consumer]:
    """A consumer of confluent-kafka that subscribes, and leaves in the end."""
    consumer = Consumer(settings(bootstrap, topic, **more))
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        with suppress(RuntimeError):
            consumer.close()


def until(holds: Callable[[], bool], *consumers: Consumer) -> set[bytes]:
    """Let members poll until it holds; what they read meanwhile."""
    found: set[bytes] = set()
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, shares(*consumers)
        for consumer in consumers:
            message = consumer.poll(0.02)
            if message is not None and message.error() is None:
                found.add(message.value())
    return found


def shares(*consumers: Consumer) -> list[int]:
    """How many partitions each of them has."""
    return [len(consumer.assignment()) for consumer in consumers]


def read(number: int, *consumers: Consumer, known: Iterable[bytes] = ()) -> set[bytes]:
    """Values, until there are so many with those that are known; each is committed by who reads it."""
    found = set(known)
    deadline = time.monotonic() + PATIENCE
    while len(found) < number and time.monotonic() < deadline:
        for consumer in consumers:
            message = consumer.poll(0.02)
            if message is not None and message.error() is None:
                found.add(message.value())
                commit(consumer, message, deadline)
    return found


def commit(consumer: Consumer, message: Message, deadline: float) -> None:
    """Commit once the client knows a coordinator, as an application does: on a slow machine each may be fenced."""
    while True:
        try:
            consumer.commit(message, asynchronous=False)
            return
        except KafkaException as error:
            if error.args[0].code() != KafkaError._WAIT_COORD or time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def write(bootstrap: str, topic: str, name: str, number: int) -> set[bytes]:
    """Write values to all partitions in turn."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    values = {f"{name} {nth}".encode() for nth in range(number)}
    for nth, value in enumerate(values):
        producer.produce(topic, value, partition=nth % 4)
    assert producer.flush(PATIENCE) == 0
    return values


def described(bootstrap: str, group: str) -> tuple[ConsumerGroupState, int]:
    """The group's state, and how many members it has."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    found = admin.describe_consumer_groups([group])[group].result()
    return found.state, len(found.members)


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_members_share_and_who_leaves_hands_over_what_it_has_not_committed(
    bootstrap: str, topic: str, assignor: str
) -> None:
    strategy = {"partition_assignment_strategy": assignor}
    with member(bootstrap, topic, **strategy) as one:
        until(lambda: shares(one) == [4], one)
        with member(bootstrap, topic, **strategy) as two:
            until(lambda: shares(one, two) == [2, 2], one, two)
            assert described(bootstrap, topic) == (ConsumerGroupState.STABLE, 2)
            first = write(bootstrap, topic, "first", 20)
            assert read(20, one, two) == first
        until(lambda: shares(one) == [4], one)
        second = write(bootstrap, topic, "second", 8)
        assert read(8, one) == second, "what is committed is not read again"
    assert described(bootstrap, topic) == (ConsumerGroupState.EMPTY, 0)
    with member(bootstrap, topic, **strategy) as again:
        third = write(bootstrap, topic, "third", 4)
        assert read(4, again) == third


CRASHING = """
import sys
from confluent_kafka import Consumer
consumer = Consumer(dict(eval(sys.argv[1])))
consumer.subscribe([sys.argv[2]])
while True:
    consumer.poll(0.05)
    if consumer.assignment():
        print("assigned", flush=True)
"""


def test_the_share_of_a_member_that_crashes_is_anothers_when_its_session_ends(bootstrap: str, topic: str) -> None:
    crashing = [sys.executable, "-c", CRASHING, repr(settings(bootstrap, topic)), topic]
    with subprocess.Popen(crashing, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"assigned\n"
        with member(bootstrap, topic) as one:
            until(lambda: shares(one) == [2], one)
            process.kill()
            crashed = time.monotonic()
            assert described(bootstrap, topic)[1] == 2, "its connection is closed, and it may come back"
            until(lambda: shares(one) == [4], one)
            assert time.monotonic() - crashed > SESSION_MS / 2_000


def test_a_static_member_comes_again_and_the_others_notice_nothing(bootstrap: str, topic: str) -> None:
    revoked: list[Any] = []
    with member(bootstrap, topic, group_instance_id="a") as stays:
        stays.subscribe([topic], on_revoke=lambda _, partitions: revoked.extend(partitions))
        with member(bootstrap, topic, group_instance_id="b") as goes:
            until(lambda: shares(stays, goes) == [2, 2], stays, goes)
            before = set(map(str, goes.assignment()))
        revoked.clear()
        with member(bootstrap, topic, group_instance_id="b") as again:
            until(lambda: shares(stays, again) == [2, 2], stays, again)
            assert set(map(str, again.assignment())) == before
            with member(bootstrap, topic, group_instance_id="b") as twin:
                assert is_fenced(again, twin)
            assert revoked == []


def is_fenced(former: Consumer, twin: Consumer) -> bool:
    """Whether the one that had the instance id before is told so."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        twin.poll(0.02)
        message = former.poll(0.02)
        error = None if message is None else message.error()
        if error is not None and error.code() in (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID):
            return True
    return False


def test_clients_of_three_libraries_are_one_group(bootstrap: str, topic: str) -> None:
    stopping = threading.Event()
    python: list[int] = []

    def poll_python() -> None:
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=topic,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=200,
            partition_assignment_strategy=[RoundRobinPartitionAssignor],
        )
        while not stopping.is_set():
            consumer.poll(timeout_ms=1_000)  # one that ends between JoinGroup and SyncGroup forgets its share for ever
            python.append(len(consumer.assignment()))
        consumer.close()

    async def keep_polling(one: Consumer) -> None:
        """A member that is not polled does not join again, and the others wait for it."""
        while True:
            one.poll(0)
            await asyncio.sleep(0.02)

    async def poll_aio(one: Consumer) -> None:
        polling = asyncio.create_task(keep_polling(one))
        async with AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=topic,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=200,
        ) as aio:
            deadline = time.monotonic() + PATIENCE
            while sorted([len(aio.assignment()), *shares(one), *python[-1:]]) != [1, 1, 2]:
                assert time.monotonic() < deadline, (aio.assignment(), shares(one), python[-1:])
                await aio.getmany(timeout_ms=20)
        polling.cancel()

    with member(bootstrap, topic, partition_assignment_strategy="roundrobin") as one:
        thread = threading.Thread(target=poll_python)
        thread.start()
        try:
            asyncio.run(poll_aio(one))
            until(lambda: [*shares(one), *python[-1:]] == [2, 2], one)
        finally:
            stopping.set()
            thread.join()
        until(lambda: shares(one) == [4], one)


def test_a_group_whose_coordinator_crashes_in_mid_rebalance_is_stable_again_and_misses_nothing(
    cluster: Any, bootstrap: str, topic: str
) -> None:
    with member(bootstrap, topic) as one, member(bootstrap, topic) as two:
        until(lambda: shares(one, two) == [2, 2], one, two)
        written = write(bootstrap, topic, "before", 8)
        found = read(4, one, two)
        with member(bootstrap, topic) as three:
            three.poll(0.05)
            coordinator = cluster.leader(CONSUMER_OFFSETS, partition_for(topic, PARTITIONS))
            cluster.crash(coordinator)
            found |= until(lambda: sorted(shares(one, two, three)) == [1, 1, 2], one, two, three)
            cluster.restart(coordinator)
            written |= write(bootstrap, topic, "after", 8)
            assert read(len(written), one, two, three, known=found) == written
