"""Groups of real clients go over from the classic protocol to KIP-848's, member by member, and back."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, ConsumerGroupType, KafkaException
from confluent_kafka.admin import AdminClient

from tidegauge import running_cluster
from tidegauge.impl.coordinators.hashing import partition_for
from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS
from tidegauge.model_tests.clients.test_consumer_groups import (
    PARTITIONS,
    PATIENCE,
    SETTINGS,
    produce,
    read,
    settings,
    shares,
    until,
)

CLASSIC = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 100}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with running_cluster(brokers=3, config=SETTINGS) as running:
        yield running


class Members:
    """The members of one group, two of them at any time."""

    def __init__(self, bootstrap: str, topic: str, stack: ExitStack) -> None:
        self.bootstrap, self.topic, self.stack = bootstrap, topic, stack
        self.live: list[Consumer] = []
        self.wanted, self.found = set[bytes](), set[bytes]()

    def begin(self, *, classic: bool, strategy: str = "range") -> None:
        """One more joins."""
        config = settings(self.bootstrap, self.topic)
        if classic:
            config |= {"group.protocol": "classic", "partition.assignment.strategy": strategy, **CLASSIC}
        consumer = Consumer(config)
        consumer.subscribe([self.topic])
        self.stack.callback(consumer.close)
        self.live.append(consumer)

    def roll(self, *, classic: bool, strategy: str = "range") -> None:
        """The first one leaves, and comes back by a protocol; then both have their part."""
        self.live.pop(0).close()
        self.begin(classic=classic, strategy=strategy)
        self.share()

    def read(self, values: range) -> None:
        """What is produced is delivered; what was, meanwhile or before, is not lost."""
        self.wanted |= produce(self.bootstrap, self.topic, values)
        self.found |= read(self.wanted - self.found, *self.live)
        assert self.found == self.wanted

    def share(self) -> None:
        self.found |= until(lambda: shares(*self.live) == [3, 3], *self.live)


def kind_of(bootstrap: str, group: str) -> ConsumerGroupType:
    """The type of a group, as it is listed."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    kinds = (ConsumerGroupType.CLASSIC, ConsumerGroupType.CONSUMER)
    return next(
        kind
        for kind in kinds
        for one in admin.list_consumer_groups(types={kind}).result(PATIENCE).valid
        if one.group_id == group
    )


@pytest.mark.parametrize("strategy", ["cooperative-sticky", pytest.param("range", marks=pytest.mark.deep)])
def test_members_go_over_one_by_one_and_back_through_a_crash_and_nothing_is_lost(cluster: Any, strategy: str) -> None:
    bootstrap, topic = str(cluster.bootstrap_servers), f"migrated-{strategy}"
    cluster.create_topic(topic, partitions=6, replication_factor=3)
    with ExitStack() as stack:
        members = Members(bootstrap, topic, stack)
        for _ in range(2):
            members.begin(classic=True, strategy=strategy)
        members.share()
        members.read(range(12))
        assert kind_of(bootstrap, topic) is ConsumerGroupType.CLASSIC

        members.roll(classic=False)
        assert kind_of(bootstrap, topic) is ConsumerGroupType.CONSUMER
        members.read(range(12, 24))

        leader = cluster.leader(CONSUMER_OFFSETS, partition_for(topic, PARTITIONS))
        cluster.crash(leader)
        members.read(range(24, 36))
        cluster.restart(leader)
        members.share()

        members.roll(classic=False)
        members.read(range(36, 48))
        for number in range(2):
            members.roll(classic=True, strategy=strategy)
            members.read(range(48 + 12 * number, 60 + 12 * number))
        assert kind_of(bootstrap, topic) is ConsumerGroupType.CLASSIC


# --- static members --------------------------------------------------------------------------------------------------

INSTANCES: Final = ("a", "b")


class StaticMembers:
    """Two static members, by their instance ids, and how often each value was delivered."""

    def __init__(self, bootstrap: str, topic: str, stack: ExitStack) -> None:
        self.bootstrap, self.topic, self.stack = bootstrap, topic, stack
        self.live: dict[str, Consumer] = {}
        self.delivered = Counter[bytes]()

    def begin(self, instance: str, *, classic: bool) -> None:
        """A process of a member begins."""
        config = settings(self.bootstrap, self.topic, group_instance_id=instance)
        if classic:
            config |= {
                "group.protocol": "classic",
                "partition.assignment.strategy": "cooperative-sticky",
                **CLASSIC,
            }
        self.live[instance] = Consumer(config)
        self.live[instance].subscribe([self.topic])
        self.stack.callback(self.live[instance].close)

    def move(self, instance: str, *, classic: bool) -> None:
        """The process of a member ends; the next one speaks a protocol, has the place, and what belongs to it."""
        before = self.parts()
        self.live.pop(instance).close()
        self.begin(instance, classic=classic)
        self.poll_until(lambda: self.parts() == before)

    def parts(self) -> dict[str, set[int]]:
        """What each member has."""
        return {name: {place.partition for place in one.assignment()} for name, one in sorted(self.live.items())}

    def poll_until(self, holds: Callable[[], bool]) -> None:
        """Let all poll, and count what they read, until something holds."""
        deadline = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < deadline, (self.parts(), sorted(self.delivered))
            for consumer in self.live.values():
                message = consumer.poll(0.02)
                if message is not None and message.error() is None:
                    self.delivered[message.value() or b""] += 1

    def read(self, values: range) -> None:
        """What is produced is delivered, and committed by who has read it."""
        wanted = produce(self.bootstrap, self.topic, values)
        self.poll_until(lambda: self.delivered.keys() >= wanted)
        for consumer in self.live.values():
            self.poll_until(lambda one=consumer: has_committed(one))  # type: ignore[misc]


def has_committed(consumer: Consumer) -> bool:
    """Whether a member's commit of all that it has read is taken; in a rebalance it is not yet."""
    try:
        consumer.commit(asynchronous=False)
    except KafkaException:
        return False
    return True


def test_static_members_go_over_one_by_one_and_back_and_each_keeps_its_part(cluster: Any) -> None:
    bootstrap, topic = str(cluster.bootstrap_servers), "static"
    cluster.create_topic(topic, partitions=6, replication_factor=3)
    with ExitStack() as stack:
        members = StaticMembers(bootstrap, topic, stack)
        for instance in INSTANCES:
            members.begin(instance, classic=True)
        members.poll_until(lambda: [*map(len, members.parts().values())] == [3, 3])
        members.read(range(12))
        kinds = []
        for number, (instance, classic) in enumerate((one, kind) for kind in (False, True) for one in INSTANCES):
            members.move(instance, classic=classic)
            members.read(range(12 + 12 * number, 24 + 12 * number))
            kinds.append(kind_of(bootstrap, topic))
        assert kinds == [ConsumerGroupType.CONSUMER] * 3 + [ConsumerGroupType.CLASSIC]
        assert members.delivered == Counter(b"%d" % value for value in range(60)), "a record is lost, or doubled"
