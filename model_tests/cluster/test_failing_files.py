"""Files of one kind fail for a while, with one error, under transactions that commit a group's offsets: a campaign.

Each cell is a kind of file, operations and an error number. Without room or descriptors the broker lives, and serves as
soon as the files work again; a device that fails may end it, and a restart mends that. Nothing acknowledged is lost or
doubled.
"""

from __future__ import annotations

import errno
import itertools
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Final

import attrs
import pytest
import trio

from tidegauge.impl.client.client import Client
from tidegauge.impl.client.committed_offsets import GroupOffsets
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.client.transactional import TransactionalProducer
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.hosts import SimulatedHost
from tidegauge.impl.cluster.names import broker_name
from tidegauge.impl.ports.failing_disk import SYNCS, WRITES, Operation
from tidegauge.impl.ports.simulated_disk import CrashOutcome
from tidegauge.model_tests.simulated import simulated

CONFIG: Final = {
    "broker.session.timeout.ms": 2_000,
    "broker.heartbeat.interval.ms": 300,
    "replica.lag.time.max.ms": 1_000,
    "log.flush.scheduler.interval.ms": 200,
    "log.cleaner.backoff.ms": 500,
    "log.retention.check.interval.ms": 500,
    "replica.high.watermark.checkpoint.interval.ms": 500,
    "transaction.state.log.num.partitions": 2,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "offsets.topic.num.partitions": 2,
    "offsets.topic.replication.factor": 1,
}
KINDS: Final[Mapping[str, Callable[[str], bool]]] = {
    "transaction log": lambda path: "__transaction_state" in path,
    "offsets": lambda path: "__consumer_offsets" in path,
    "log": lambda path: path.endswith(".log") and "/t-" in path,
    "index": lambda path: path.endswith("index") and not path.endswith("txnindex"),
    "aborted transactions": lambda path: path.endswith(".txnindex"),
    "snapshot": lambda path: ".snapshot" in path,
    "checkpoint": lambda path: "checkpoint" in path,
    "all": lambda path: True,
}
OPERATIONS: Final[Mapping[str, Collection[Operation]]] = {
    "sync": SYNCS,
    "read": {Operation.READ},
    "write": WRITES,
    "open": {Operation.OPEN, Operation.MAKE_DIRECTORY},
    "rename": {Operation.RENAME, Operation.REMOVE},
}
NUMBERS: Final = (errno.ENOSPC, errno.EMFILE, errno.EIO)
QUICK: Final = {
    ("transaction log", "sync", errno.EMFILE),
    ("transaction log", "read", errno.EIO),
    ("offsets", "sync", errno.ENOSPC),
}
SEGMENT_BYTES: Final = 700


@attrs.define(eq=False)
class Work:
    """Transactions of one producer, each with a record and the group's offset; every third is aborted."""

    client: Client
    numbers: itertools.count[int] = attrs.field(factory=itertools.count)
    acknowledged: list[int] = attrs.field(factory=list)

    async def go_on(self, seconds: float) -> int:
        """Returns how many were committed."""
        ends, before, app = (
            trio.current_time() + seconds,
            len(self.acknowledged),
            TransactionalProducer(self.client, "app"),
        )
        while trio.current_time() < ends:
            number = next(self.numbers)
            with suppress(KafkaError, trio.TooSlowError, ZeroDivisionError), trio.fail_after(8):
                async with app.transaction(timeout_ms=3_000) as transaction:
                    await transaction.produce("t", b"%d" % number)
                    await transaction.commit_offsets("g", {("t", 0): number + 1})
                    number % 3 == 2 and 1 / 0
                self.acknowledged.append(number)
            await trio.sleep(0.05)
        return len(self.acknowledged) - before

    async def check(self) -> None:
        """What was acknowledged is there once, and the group's offset is not older."""
        found: list[bytes | None] = []
        offset, end = 0, 1
        with trio.fail_after(60):
            while offset < end:
                fetched = await self.client.fetch("t", offset, read_committed=True)
                found += fetched.values
                end = fetched.high_watermark
                if fetched.next_offset == offset:
                    await trio.sleep(0.1)
                offset = max(offset, fetched.next_offset)
            assert len(found) == len(set(found))
            assert {b"%d" % number for number in self.acknowledged} <= set(found)
            committed = await GroupOffsets(self.client, "g").committed("t")
        assert committed is not None
        assert committed > self.acknowledged[-1]


@pytest.mark.parametrize(
    ("kind", "operations", "number"),
    [
        pytest.param(*cell, marks=[] if cell in QUICK else [pytest.mark.deep], id=f"{cell[0]}-{cell[1]}-{cell[2]}")
        for cell in itertools.product(KINDS, OPERATIONS, NUMBERS)
        if cell[1] != "read" or cell[2] != errno.ENOSPC
    ],
)
@simulated
async def test_files_that_failed_for_a_while_are_lived_through(kind: str, operations: str, number: int) -> None:
    def fails(operation: Operation, path: str) -> None:
        if operation in OPERATIONS[operations] and KINDS[kind](path):
            raise OSError(number, errno.errorcode[number], path)

    async with Cluster(1, seed=3, config=CONFIG) as cluster, cluster.client() as client:
        await cluster.create_topic("t", config={"segment.bytes": SEGMENT_BYTES})
        work, disk = Work(client), cluster.host.disk(broker_name(0))
        assert await work.go_on(1) > 1
        disk.watched_by(fails)
        await work.go_on(4)
        disk.watched_by(None)
        broker = cluster.broker(0)
        if broker.halted is not None or broker.replicas.directories.offline:
            assert number == errno.EIO, "room comes back"
            if broker.halted is None:
                await cluster.crash(0, lose_unsynced=False)
            else:
                assert isinstance(cluster.host, SimulatedHost)
                cluster.host.cut(broker_name(0), tails=CrashOutcome.KEPT)
            await cluster.restart(0)
        with trio.fail_after(60):
            while not await work.go_on(1):
                pass
        await work.check()
        await cluster.crash(0, lose_unsynced=False)
        await cluster.restart(0)
        await work.check()
