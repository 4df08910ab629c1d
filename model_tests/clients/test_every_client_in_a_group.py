"""A group of each client that there is goes through the same life, and misses nothing.

Its three members are processes: they join while records are written, one pauses for longer than its session, one
crashes, and while the others rebalance their coordinator's broker crashes; another one joins, and one leaves.
"""

from __future__ import annotations

import itertools
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tidegauge import running_cluster
from tidegauge.impl.coordinators.hashing import partition_for
from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS

PATIENCE = 90.0
SESSION_MS = 6_000
PAUSE_S = 1.5 * SESSION_MS / 1_000
SHORT_PAUSE_S = 0.5
PARTITIONS = 6
LOGS = 3
WRITES_EACH_S = 0.05
SETTINGS = {
    "broker.session.timeout.ms": 6_000,
    "broker.heartbeat.interval.ms": 500,
    "offsets.topic.num.partitions": LOGS,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 500,
    "group.consumer.min.session.timeout.ms": 500,
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 200,
}
HERE = Path(__file__).parent
JAVASCRIPT = HERE / "javascript"
_numbers = itertools.count()


class Member:
    """A client in a process of its own, and what it has told."""

    def __init__(self, words: Sequence[str]) -> None:
        self.size = 0
        """How many partitions it has, by what it has told last."""
        self.values: set[str] = set()
        self.lines: list[str] = []
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            what, _, rest = line.rstrip().partition(" ")
            if what == "has":
                self.size = int(rest)
            elif what == "got":
                self.values.add(rest)
            elif line.startswith("% Group "):
                self.size = rest.count("[") if ": assigned: " in rest else 0
            else:
                self.lines.append(f"{time.monotonic():.2f} {line[:400]}")

    @property
    def has_ended(self) -> bool:
        """By itself: who is told to end is no member from then on."""
        return self._process.poll() is not None

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self, number: signal.Signals) -> None:
        """End it; what it has told counts."""
        self.send(number)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        finally:
            self._reading.join()
            assert self._process.stdout is not None
            self._process.stdout.close()


Words = Callable[[str, str], list[str]]
"""The process of a member, by the addresses of brokers and the topic."""


def node(script: str, library: str, *more: str) -> Any:
    def words(bootstrap: str, topic: str) -> list[str]:
        return ["node", str(JAVASCRIPT / script), bootstrap, topic, str(SESSION_MS), *more]

    there = shutil.which("node") is not None and (JAVASCRIPT / "node_modules" / library).is_dir()
    mark = pytest.mark.skipif(not there, reason=f"{library} is not installed: make clients")
    return pytest.param(words, id="-".join((library, *more)), marks=mark)


def python(library: str) -> Any:
    def words(bootstrap: str, topic: str) -> list[str]:
        return [sys.executable, str(HERE / "member.py"), library, bootstrap, topic, str(SESSION_MS)]

    return pytest.param(words, id=library, marks=pytest.mark.deep)


def kcat(bootstrap: str, topic: str) -> list[str]:
    """It commits each second what it has printed."""
    settings = {
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": 200,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 1_000,
        "log_level": 0,
    }
    options = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    return ["kcat", "-b", bootstrap, *options, "-u", "-f", "got %s\n", "-G", topic, topic]


CLIENTS = [
    node("member_kafkajs.cjs", "kafkajs"),
    pytest.param(
        kcat,
        id="kcat",
        marks=pytest.mark.skipif(
            shutil.which("kcat") is None, reason="kcat is not installed (Debian: apt-get install kcat)"
        ),
    ),
    python("classic"),
    python("consumer"),
    python("kafka-python"),
    python("aiokafka"),
]
FRAIL = [node("member_platformatic.mjs", "@platformatic/kafka", protocol) for protocol in ("classic", "consumer")]
"""Its process ends by an exception when a connection is refused, and its member does not join again when it is told
that it is unknown.
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with running_cluster(brokers=3, config=SETTINGS) as running:
        yield running


@contextmanager
def writing(bootstrap: str, topic: str) -> Iterator[list[str]]:
    """Values are written all the time, to all partitions in turn; what was acknowledged when it ends."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0, "log_level": 0})
    written: list[str] = []
    failed: list[KafkaError] = []
    over = threading.Event()

    def acknowledged(error: KafkaError | None, message: Message) -> None:
        if error is None:
            written.append((message.value() or b"").decode())
        else:
            failed.append(error)

    def write() -> None:
        for number in itertools.count():
            if over.wait(WRITES_EACH_S):
                return
            producer.produce(topic, str(number), partition=number % PARTITIONS, on_delivery=acknowledged)
            producer.poll(0)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield written
    finally:
        over.set()
        thread.join()
        assert producer.flush(PATIENCE) == 0
        assert not failed


def come_to(members: Sequence[Member], shares: list[int]) -> None:
    """Wait until they have so many partitions each."""
    wait(lambda: sorted(member.size for member in members) == shares, members, lambda: f"shares {shares}")


def wait(holds: Callable[[], bool], members: Sequence[Member], what: Callable[[], str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        for member in members:
            assert not member.has_ended, f"the process of a member has ended: {member.lines}"
        told = [(member.size, len(member.values), member.lines[-12:]) for member in members]
        assert time.monotonic() < deadline, f"not in {PATIENCE} s: {what()}; {told}"
        time.sleep(0.02)


def committed(bootstrap: str, topic: str) -> int:
    """How many records lie before what the group has committed."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "log_level": 0})
    try:
        found = reader.committed([TopicPartition(topic, number) for number in range(PARTITIONS)], PATIENCE)
        return sum(max(0, one.offset) for one in found)
    finally:
        reader.close()


class Group:
    """Its members that live, and what those have read that do not."""

    def __init__(self, client: Words, bootstrap: str, topic: str) -> None:
        self.members: list[Member] = []
        self._words = client(bootstrap, topic)
        self._gone = set[str]()

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        for member in [*self.members]:
            self.end(member, signal.SIGKILL)

    def join(self) -> Member:
        self.members.append(Member(self._words))
        return self.members[-1]

    def end(self, member: Member, how: signal.Signals) -> None:
        self.members.remove(member)
        member.end(how)
        self._gone.update(member.values)

    def missing(self, written: Iterable[str]) -> list[str]:
        """What nobody has read."""
        return sorted(set(written).difference(self._gone, *(one.values for one in self.members)), key=int)


@pytest.fixture
def topic(cluster: Any) -> str:
    """Of six partitions; the group of a test has the same name."""
    name = f"everything-{next(_numbers)}"
    cluster.create_topic(name, partitions=PARTITIONS, replication_factor=3)
    return name


@pytest.mark.parametrize("client", CLIENTS)
def test_a_group_goes_through_all_that_happens_and_misses_nothing(cluster: Any, topic: str, client: Words) -> None:
    bootstrap = str(cluster.bootstrap_servers)
    with Group(client, bootstrap, topic) as group:
        members = group.members
        with writing(bootstrap, topic) as written:
            one, two, three = group.join(), group.join(), group.join()
            come_to(members, [2, 2, 2])
            one.send(signal.SIGSTOP)
            time.sleep(PAUSE_S)
            come_to([two, three], [3, 3])
            one.send(signal.SIGCONT)
            come_to(members, [2, 2, 2])
            group.end(two, signal.SIGKILL)
            coordinator = cluster.leader(CONSUMER_OFFSETS, partition_for(topic, LOGS))
            cluster.crash(coordinator)
            try:
                four = group.join()
                come_to(members, [2, 2, 2])
            finally:
                cluster.restart(coordinator)
            group.end(four, signal.SIGTERM)
            come_to(members, [3, 3])
        wait(lambda: not group.missing(written), members, lambda: f"all is read but {group.missing(written)}")
        wait(lambda: committed(bootstrap, topic) == len(written), members, lambda: f"{len(written)} are committed")


@pytest.mark.parametrize("client", FRAIL)
def test_members_join_and_share_and_who_leaves_hands_over(cluster: Any, topic: str, client: Words) -> None:
    bootstrap = str(cluster.bootstrap_servers)
    with Group(client, bootstrap, topic) as group:
        members = group.members
        group.join()
        come_to(members, [6])
        with writing(bootstrap, topic) as written:
            two = group.join()
            come_to(members, [3, 3])
            wait(lambda: bool(two.values), members, lambda: "the second has read something")
            group.end(two, signal.SIGTERM)
            come_to(members, [6])
        wait(lambda: not group.missing(written), members, lambda: f"all is read but {group.missing(written)}")
        wait(lambda: committed(bootstrap, topic) == len(written), members, lambda: f"{len(written)} are committed")
