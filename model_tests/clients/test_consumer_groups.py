"""Members of consumer groups (KIP-848) as real clients: confluent-kafka joins, shares, leaves, crashes."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from tidegauge import running_cluster
from tidegauge.impl.coordinators.hashing import partition_for
from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS

PATIENCE = 60.0
PARTITIONS = 3
SETTINGS = {
    "broker.session.timeout.ms": 600,
    "broker.heartbeat.interval.ms": 100,
    "offsets.topic.num.partitions": PARTITIONS,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.session.timeout.ms": 3_000,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 100,
}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Heartbeats are frequent here, and another broker is soon found."""
    with running_cluster(brokers=3, config=SETTINGS) as running:
        yield running


@pytest.fixture
def bootstrap(cluster: Any) -> str:
    return str(cluster.bootstrap_servers)


@pytest.fixture
def topic(cluster: Any) -> str:
    """Of six partitions; the group of a test has the same name."""
    name = f"consumed-{next(_numbers)}"
    cluster.create_topic(name, partitions=6, replication_factor=3)
    return name


def settings(bootstrap: str, topic: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "group.id": topic,
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 0,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


@contextmanager
def member(bootstrap: str, topic: str, **more: Any) -> Iterator[Consumer]:
    """A consumer that subscribes, and leaves in the end."""
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
                found.add(message.value() or b"")
    return found


def shares(*consumers: Consumer) -> list[int]:
    """How many partitions each of them has."""
    return sorted(len(consumer.assignment()) for consumer in consumers)


def produce(bootstrap: str, topic: str, values: Iterable[int]) -> set[bytes]:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    written = set[bytes]()
    for value in values:
        text = b"%d" % value
        producer.produce(topic, text, partition=value % 6)
        written.add(text)
    assert producer.flush(PATIENCE) == 0
    return written


def read(wanted: set[bytes], *consumers: Consumer) -> set[bytes]:
    """Values, until all that is wanted is there; each is committed by who reads it, if it may."""
    found = set[bytes]()
    deadline = time.monotonic() + PATIENCE
    while not found >= wanted and time.monotonic() < deadline:
        for consumer in consumers:
            message = consumer.poll(0.02)
            if message is not None and message.error() is None:
                found.add(message.value() or b"")
                with suppress(Exception):
                    consumer.commit(message, asynchronous=False)
    return found


def test_members_join_share_and_leave_and_lose_nothing(bootstrap: str, topic: str) -> None:
    written = produce(bootstrap, topic, range(60))
    with member(bootstrap, topic) as one:
        found = until(lambda: shares(one) == [6], one)
        with ExitStack() as others:
            two = others.enter_context(member(bootstrap, topic))
            three = others.enter_context(member(bootstrap, topic))
            found |= until(lambda: shares(one, two, three) == [2, 2, 2], one, two, three)
            places = [(p.topic, p.partition) for each in (one, two, three) for p in each.assignment()]
            assert len(places) == len(set(places)) == 6
        found |= until(lambda: shares(one) == [6], one)
        assert found | read(written - found, one) == written


def test_committed_offsets_are_where_the_next_member_goes_on(bootstrap: str, topic: str) -> None:
    written = produce(bootstrap, topic, range(30))
    with member(bootstrap, topic) as one:
        assert read(written, one) == written
    more = produce(bootstrap, topic, range(30, 60))
    with member(bootstrap, topic) as two:
        assert read(more, two) == more


CRASHING = """
import sys, os
from confluent_kafka import Consumer
bootstrap, topic = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "group.protocol": "consumer"})
consumer.subscribe([topic])
while not consumer.assignment():
    consumer.poll(0.05)
print("has", flush=True)
while True:
    consumer.poll(0.05)
"""


def test_what_a_member_had_that_crashed_the_others_have_after_its_session(bootstrap: str, topic: str) -> None:
    with member(bootstrap, topic) as one:
        until(lambda: shares(one) == [6], one)
        child = subprocess.Popen([sys.executable, "-c", CRASHING, bootstrap, topic], stdout=subprocess.PIPE)
        try:
            until(lambda: shares(one) == [3], one)
        finally:
            child.kill()
            child.communicate()
        until(lambda: shares(one) == [6], one)


def test_a_static_member_comes_back_to_what_it_had(bootstrap: str, topic: str) -> None:
    with member(bootstrap, topic, group_instance_id="first") as one:
        two = Consumer(settings(bootstrap, topic, group_instance_id="second"))
        two.subscribe([topic])
        until(lambda: shares(one, two) == [3, 3], one, two)
        kept, had = set(map(str, one.assignment())), set(map(str, two.assignment()))
        two.close()
        again = Consumer(settings(bootstrap, topic, group_instance_id="second"))
        again.subscribe([topic])
        until(lambda: shares(one, again) == [3, 3], one, again)
        assert set(map(str, again.assignment())) == had
        assert set(map(str, one.assignment())) == kept
        again.close()


def test_operators_see_the_group_and_delete_it_when_it_is_empty(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    with member(bootstrap, topic) as one:
        until(lambda: shares(one) == [6], one)
        described = admin.describe_consumer_groups([topic])[topic].result(PATIENCE)
        assert described.state is ConsumerGroupState.STABLE
        assert described.type is ConsumerGroupType.CONSUMER
        (known,) = described.members
        assert len(known.assignment.topic_partitions) == 6
        listed = admin.list_consumer_groups(types={ConsumerGroupType.CONSUMER}).result(PATIENCE)
        assert topic in {group.group_id for group in listed.valid}
        with pytest.raises(Exception, match="NON_EMPTY_GROUP"):
            admin.delete_consumer_groups([topic])[topic].result(PATIENCE)
    deadline = time.monotonic() + PATIENCE
    while admin.describe_consumer_groups([topic])[topic].result(PATIENCE).state is not ConsumerGroupState.EMPTY:
        assert time.monotonic() < deadline
    admin.delete_consumer_groups([topic])[topic].result(PATIENCE)
    listed = admin.list_consumer_groups(types={ConsumerGroupType.CONSUMER}).result(PATIENCE)
    assert topic not in {group.group_id for group in listed.valid}


def test_partitions_that_are_added_are_shared_out(bootstrap: str, topic: str) -> None:
    with member(bootstrap, topic) as one, member(bootstrap, topic) as two:
        until(lambda: shares(one, two) == [3, 3], one, two)
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        admin.create_partitions([NewPartitions(topic, 8)])[topic].result(PATIENCE)
        until(lambda: shares(one, two) == [4, 4], one, two)


def test_the_coordinator_resolves_a_regular_expression(cluster: Any, bootstrap: str, topic: str) -> None:
    """confluent-kafka leaves names that begin with ^ to the coordinator."""
    consumer = Consumer(settings(bootstrap, topic))
    consumer.subscribe([f"^{topic}(-more)?$"])
    until(lambda: shares(consumer) == [6], consumer)
    cluster.create_topic(f"{topic}-more", partitions=2, replication_factor=3)
    cluster.create_topic(f"{topic}-other", partitions=2, replication_factor=3)
    until(lambda: shares(consumer) == [8], consumer)
    cluster.delete_topic(f"{topic}-more")
    until(lambda: shares(consumer) == [6], consumer)
    consumer.close()


def test_a_group_of_three_outlives_its_coordinator_and_loses_nothing(cluster: Any, bootstrap: str, topic: str) -> None:
    """The broker crashes while the third member joins: the next coordinator goes on where it was."""
    written = produce(bootstrap, topic, range(60))
    with member(bootstrap, topic) as one, member(bootstrap, topic) as two:
        found = until(lambda: shares(one, two) == [3, 3], one, two)
        place = partition_for(topic, PARTITIONS)
        coordinator = cluster.leader(CONSUMER_OFFSETS, place)
        with member(bootstrap, topic) as three:
            cluster.crash(coordinator)
            try:
                found |= until(lambda: shares(one, two, three) == [2, 2, 2], one, two, three)
                assert found | read(written - found, one, two, three) == written
            finally:
                cluster.restart(coordinator)


def test_an_empty_group_changes_its_protocol(bootstrap: str, topic: str) -> None:
    classic = {"group_protocol": "classic", "session_timeout_ms": 6_000}
    with member(bootstrap, topic) as one:
        until(lambda: shares(one) == [6], one)
    with member(bootstrap, topic, **classic) as third:
        until(lambda: shares(third) == [6], third)
    with member(bootstrap, topic) as fourth:
        until(lambda: shares(fourth) == [6], fourth)
