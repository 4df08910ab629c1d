"""A replica moves between directories while one fails, is full, or the machine dies, at any operation of its disk.

What was acknowledged is there after a restart, in one directory, and the high watermark that was written down too.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import attrs
import pytest
import trio

from tidegauge.impl.client.client import Client
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.names import broker_name
from tidegauge.impl.ports.failing_disk import EVERYTHING, FailingDisk, Operation
from tidegauge.impl.records.payload import decode_batches
from tidegauge.impl.wire.channel import NoResponseError, UnreachableError
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.cluster.test_log_directories import CONFIG, ask, directory_of, move, until
from tidegauge.model_tests.harness.validation.validation import validate
from tidegauge.model_tests.simulated import simulated

FLUSHED = {"flush.messages": 1, "min.insync.replicas": 1, "segment.bytes": 300}
"""A single replica that loses power has what it acknowledged only if that was flushed."""
KEY = ("t", 0)
OTHER = {"one": "two", "two": "one"}
RECORDS = 6
OPERATIONS = 150
"""More than a move takes: where it needs fewer, the fault comes after it."""
FAULTS = ("source fails", "target fails", "source full", "target full", "machine dies", "source name", "target name")
RESTARTS = ("both", "without the source", "without the target")


@attrs.frozen
class Case:
    """What goes wrong, at which operation of the disk, and how the broker starts again."""

    fault: str
    operation: int
    restart: str
    loses_unsynced: bool
    replicas: int

    def __str__(self) -> str:
        power = "power lost" if self.loses_unsynced else "killed"
        return f"{self.fault} at {self.operation}, {power}, {self.restart}, {self.replicas} replicas"


@attrs.define
class Fault:
    """A fault that comes with an operation under the directories."""

    case: Case
    disk: FailingDisk
    source: str
    target: str
    seen: int = 0

    def __call__(self, operation: Operation, path: str) -> None:
        if path.startswith("data/"):
            if self.seen == self.case.operation:
                self.begin()
            self.seen += 1

    def begin(self) -> None:
        """Everything fails from here on, or nothing more can be written, or three operations are refused."""
        where, _, what = self.case.fault.partition(" ")
        path = {"source": f"data/{self.source}", "target": f"data/{self.target}", "machine": "data"}[where]
        match what:
            case "full":
                self.disk.fail(path, operations=WRITING, error=errno.ENOSPC)
            case "name":
                self.disk.fail(path, error=errno.EACCES, times=3)
            case _:
                self.disk.fail(path, operations=EVERYTHING)


WRITING = frozenset({Operation.APPEND, Operation.MAKE_DIRECTORY, Operation.RENAME, Operation.SYNC_DIRECTORY})


async def produced(client: Client, numbers: Iterator[int], count: int, timeout_ms: int = 2_000) -> list[bytes]:
    """The values that were acknowledged."""
    acknowledged = []
    for _ in range(count):
        value = b"%d" % next(numbers)
        with suppress(KafkaError, NoResponseError, UnreachableError):
            await client.produce("t", value, timeout_ms=timeout_ms)
            acknowledged.append(value)
    return acknowledged


async def restarted(cluster: Cluster, case: Case, source: str) -> None:
    """The broker's machine dies and starts; perhaps one directory is offline at first."""
    disk = cluster.host.disk(broker_name(0))
    disk.watched_by(None)
    if cluster.is_alive(0):
        await cluster.crash(0, lose_unsynced=case.loses_unsynced)
    for restart in dict.fromkeys((case.restart, "both")):
        cluster.heal_disk(0)
        if cluster.is_alive(0):
            await cluster.crash(0, lose_unsynced=case.loses_unsynced)
        if restart != "both":
            without = source if restart == "without the source" else OTHER[source]
            disk.fail(f"data/{without}")
        await cluster.restart(0)
        await trio.sleep(4)


async def run(case: Case) -> None:
    others = list(range(case.replicas))
    async with Cluster(case.replicas, seed=3, config=CONFIG) as cluster, cluster.client() as client:
        await cluster.create_topic("t", assignments=[others], config=FLUSHED)
        numbers = iter(range(1_000))
        await until(lambda: (0, 0) in cluster.controller.controller.image.topics["t"].directories)
        acknowledged = await produced(client, numbers, RECORDS)
        assert len(acknowledged) == RECORDS
        cluster.broker(0).replicas.checkpoint_high_watermarks()
        disk, source = cluster.host.disk(broker_name(0)), directory_of(cluster, 0, 0)
        disk.watched_by(Fault(case, disk, source, OTHER[source]))
        with suppress(KafkaError, NoResponseError, UnreachableError), trio.move_on_after(10):
            await ask(client, cluster, 0, move("t", 0, f"data/{OTHER[source]}"))
        acknowledged += await produced(client, numbers, 3, 4_000)
        await restarted(cluster, case, source)
        noted = cluster.broker(0).replicas.high_watermark_checkpoint.offsets.get(KEY, 0)
        assert noted >= RECORDS, "the high watermark is lost"
        with trio.fail_after(60):
            await cluster.wait_for_isr("t", set(others))
            acknowledged += await produced(client, numbers, 1, 30_000)
            await cluster.wait_for_isr("t", set(others))
            await until(lambda: set(acknowledged) <= set(values(cluster)))
            await until(lambda: len(named_so(disk)) == 1)
        found = [value for value in values(cluster) if value in acknowledged]
        assert list(dict.fromkeys(found)) == acknowledged
        if is_told(case):
            assert validate(cluster.trace, "t", 0).holds


def is_told(case: Case) -> bool:
    """Whether the trace has it all: not a directory that is offline at a start."""
    return case.restart == "both"


def values(cluster: Cluster) -> list[bytes | None]:
    """All that broker 0's replica has; nothing where it has none."""
    hosted, found = cluster.broker(0).replicas.get(*KEY), list[bytes | None]()
    while hosted is not None and len(found) < hosted.log.log_end_offset:
        found += [record.value for record in decode_batches(hosted.log.read(len(found), 1 << 20))]
    return found


def named_so(disk: FailingDisk) -> list[str]:
    """The directories with anything of the replica but what is being removed."""
    names = [f"{path}/{name}" for path in ("data/one", "data/two") for name in disk.list_directory(path)]
    return [name for name in names if "/t-0" in name and not name.endswith("-delete")]


def drawn(seed: int) -> Case:
    rng = Random(seed)
    restart, is_lost = rng.choice(RESTARTS), rng.random() < 0.5
    return Case(rng.choice(FAULTS), rng.randrange(OPERATIONS), restart, is_lost, rng.choice((1, 1, 3)))


@pytest.mark.parametrize("seed", range(amount(8, deep=25)))
def test_a_move_that_meets_a_fault_loses_nothing(seed: int) -> None:
    simulated(run)(drawn(seed))


@pytest.mark.deep
@pytest.mark.parametrize("seeds", [range(first, first + 100) for first in range(100, 2_100, 100)], ids=str)
def test_nor_do_many(seeds: range) -> None:
    for seed in seeds:
        try:
            simulated(run)(drawn(seed))
        except BaseException as error:
            error.add_note(f"seed {seed}: {drawn(seed)}")
            raise
