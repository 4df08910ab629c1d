"""Three processors of confluent-kafka are a group: they join, hang, crash and leave, a broker crashes; exactly once."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Thread

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tidegauge import running_cluster
from tidegauge.impl.coordinators.hashing import partition_for
from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS
from tidegauge.model_tests.clients import processor

PATIENCE = 90.0
SESSION_MS = 2_000
PARTITIONS = 4
EACH = 15
"""Records of a batch, in each of its partitions."""
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 500,
    "group.consumer.min.session.timeout.ms": 500,
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 200,
    "broker.session.timeout.ms": 1_500,
    "broker.heartbeat.interval.ms": 200,
    "replica.lag.time.max.ms": 1_000,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "min.insync.replicas": 2,
}


class Processing:
    """A processor's process, and what it has printed."""

    def __init__(self, bootstrap: str, protocol: str, transactional_id: str) -> None:
        arguments = (bootstrap, "copiers", protocol, transactional_id, str(SESSION_MS))
        self.process = subprocess.Popen(
            [sys.executable, processor.__file__, *arguments], stdout=subprocess.PIPE, text=True
        )
        self.lines: list[str] = []
        self._reading = Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.lines.append(line.rstrip())

    @property
    def committed(self) -> int:
        """How many transactions it has committed."""
        return sum(line.startswith("committed") for line in self.lines.copy())

    def end(self) -> None:
        """End it, however it is."""
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()
        self._reading.join()


@contextmanager
def ending() -> Iterator[Callable[..., Processing]]:
    """Makes processors, which end with the block."""
    with ExitStack() as stack:

        def begin(*arguments: str) -> Processing:
            one = Processing(*arguments)
            stack.callback(one.end)
            return one

        yield begin


def until(holds: Callable[[], bool], *processors: Processing) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, [one.lines[-5:] for one in processors]
        time.sleep(0.05)


def write(bootstrap: str, name: str) -> list[bytes]:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    values = [b"%s %d" % (name.encode(), number) for number in range(EACH * PARTITIONS)]
    for number, value in enumerate(values):
        producer.produce("in", value, partition=number % PARTITIONS)
    assert producer.flush(PATIENCE) == 0
    return values


def copied(bootstrap: str) -> Counter[bytes]:
    """How often read_committed returns each value of the output, up to the end that there is now."""
    reader = Consumer(
        {
            **processor.settings(bootstrap, "readers", "classic", SESSION_MS),
            "enable.partition.eof": True,
        }
    )
    reader.assign([TopicPartition("out", partition, 0) for partition in range(PARTITIONS)])
    found: Counter[bytes] = Counter()
    ended: set[int] = set()
    while len(ended) < PARTITIONS and (message := reader.poll(processor.SECONDS)) is not None:
        if message.error() is None:
            found[message.value()] += 1
        else:
            ended.add(message.partition())
    reader.close()
    return found


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_processors_that_hang_crash_and_leave_while_brokers_crash_copy_each_record_once(protocol: str) -> None:
    with running_cluster(brokers=3, config=SETTINGS) as cluster, ending() as begin:
        for topic in ("in", "out"):
            cluster.create_topic(topic, partitions=PARTITIONS, replication_factor=3)
        bootstrap = str(cluster.bootstrap_servers)
        one, two, three = (begin(bootstrap, protocol, f"copier-{number}") for number in range(3))
        everyone = [one, two, three]
        written = write(bootstrap, "first")
        until(lambda: all(each.committed for each in everyone), *everyone)

        written += write(bootstrap, "while one hangs")
        before = one.committed
        until(lambda: one.committed > before, *everyone)
        one.process.send_signal(signal.SIGSTOP)
        others = two.committed + three.committed
        time.sleep(2 * SESSION_MS / 1_000)
        until(lambda: two.committed + three.committed > others, *everyone)
        one.process.send_signal(signal.SIGCONT)

        written += write(bootstrap, "while two crashes")
        two.process.kill()
        everyone.append(begin(bootstrap, protocol, "copier-1"))
        of_group = (CONSUMER_OFFSETS, partition_for("copiers", 3))
        cluster.crash(coordinator := cluster.leader(*of_group))
        written += write(bootstrap, "while three leaves")
        three.process.terminate()
        until(lambda: cluster.leader(*of_group) not in (-1, coordinator), *everyone)
        cluster.restart(coordinator)
        until(lambda: everyone[-1].committed > 0, *everyone)
        if one.process.poll() is not None:
            everyone.append(begin(bootstrap, protocol, "copier-0"))

        found: list[Counter[bytes]] = []

        def all_is_there() -> bool:
            found[:] = [copied(bootstrap)]
            return set(found[0]) >= set(written)

        until(all_is_there, *everyone)
        assert found[0] == Counter(written), [each.lines for each in everyone]
