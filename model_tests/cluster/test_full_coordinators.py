"""A disk that is full under both coordinators: what was acknowledged is kept, the rest is done when there is room."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import count

import pytest
import trio

from tidegauge.impl.client.client import Client
from tidegauge.impl.client.consumer import Consumer
from tidegauge.impl.client.consumer_config import ConsumerConfig
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.client.transactional import TransactionalProducer
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.model_tests.amounts import crossed
from tidegauge.model_tests.cluster.test_full_disks import TRANSACTIONAL
from tidegauge.model_tests.cluster.test_log_directories import until
from tidegauge.model_tests.simulated import simulated

CONFIG = {**TRANSACTIONAL, "offsets.topic.num.partitions": 1, "offsets.topic.replication.factor": 1}
PARTITION = ("t", 0)
OFFSETS = ("__consumer_offsets", 0)


class Acknowledged:
    """What clients were told that it is done, and how else they ended."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.offset = 0
        self.refusals: list[KafkaError] = []
        self.is_over = False


async def transact(client: Client, number: int, seen: Acknowledged) -> None:
    """Transactions one after the other: of client 0 by producers of one name, of others each of its own name.

    The next one of its name ends a transaction that was left open; where there is no next one, its marker has to.
    """
    for attempt in count():
        name, value = f"p{number}-{attempt}" if number else "p0", b"%d:%d" % (number, attempt)
        producer = TransactionalProducer(client, name)
        try:
            async with producer.transaction(timeout_ms=3_000) as transaction:
                await transaction.produce("t", value)
                await transaction.commit_offsets(f"of-{number}", {PARTITION: attempt + 1})
            seen.values.append(value)
        except KafkaError as error:
            seen.refusals.append(error)
        if seen.is_over:
            return
        await trio.sleep(0.3)


async def commit(client: Client, seen: Acknowledged) -> None:
    """Offsets of a group, which rise."""
    async with Consumer(client, ConsumerConfig(group_id="g", enable_auto_commit=False)) as consumer:
        await consumer.assign([PARTITION])
        for offset in count(1):
            try:
                await consumer.commit({PARTITION: offset}, timeout_ms=3_000)
                seen.offset = offset
            except KafkaError as error:
                seen.refusals.append(error)
            if seen.is_over:
                return
            await trio.sleep(0.3)


def is_stable(cluster: Cluster, partition: tuple[str, int]) -> bool:
    """Whether every transaction in a partition has its marker."""
    hosted = cluster.broker(0).replicas.get(*partition)
    return hosted is not None and hosted.replica.last_stable_offset >= hosted.log.log_end_offset


async def committed_values(client: Client) -> list[bytes | None]:
    """What a reader of committed records is given, once no transaction is open."""
    found: list[bytes | None] = []
    fetched = await client.fetch("t", 0, read_committed=True)
    while fetched.next_offset < fetched.high_watermark:
        found += fetched.values
        fetched = await client.fetch("t", fetched.next_offset, read_committed=True)
    return found + list(fetched.values)


@pytest.mark.parametrize(
    ("free_bytes", "crashes"),
    crossed([0, 1_500], [False, True]),  # nothing is free; what a transaction prepares is, and not its markers
)
def test_nothing_acknowledged_is_lost_and_markers_are_written_when_there_is_room(
    *, crashes: bool, free_bytes: int, caplog: pytest.LogCaptureFixture
) -> None:
    @simulated
    async def run() -> None:
        async with Cluster(1, seed=2, config=CONFIG) as cluster, cluster.client() as client:
            await cluster.create_topic("t")
            seen = Acknowledged()
            async with trio.open_nursery() as nursery:
                for number in range(2):
                    nursery.start_soon(transact, client, number, seen)
                nursery.start_soon(commit, client, seen)
                await trio.sleep(2)
                assert seen.values
                assert seen.offset
                cluster.fill_disk(0, free_bytes=free_bytes)
                await trio.sleep(6)
                assert cluster.is_alive(0)
                assert seen.refusals, "somebody was told"
                assert not cluster.broker(0).replicas.directories.offline
                if crashes:  # a broker that can open none of its logs does not start: there is room by then
                    await cluster.crash(0, lose_unsynced=False)
                    cluster.heal_disk(0)
                    await cluster.restart(0)
                cluster.heal_disk(0)
                before = len(seen.values), seen.offset
                await trio.sleep(8)
                assert len(seen.values) > before[0], "transactions go on"
                assert seen.offset > before[1], "commits go on"
                seen.is_over = True
            for error in seen.refusals:
                assert error.code.retriable or error.maybe_done, error
            with trio.fail_after(120):  # what nobody ends is over when its time is
                await until(lambda: is_stable(cluster, PARTITION) and is_stable(cluster, OFFSETS))
            found = await committed_values(client)
            assert set(seen.values) <= set(found)
            assert len(set(found)) == len(found), "nothing twice"
            async with Consumer(client, ConsumerConfig(group_id="g")) as consumer:
                offset = (await consumer.committed(PARTITION))[PARTITION]
            assert offset is not None
            assert seen.offset <= offset < math.inf

    run()
    assert "no room: node=broker-0" in caplog.text


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_comes_while_the_disk_is_full_joins_when_there_is_room(protocol: str) -> None:
    """What its coordinator decides about it cannot be written: the group is as it was, and it asks again."""

    @simulated
    async def run() -> None:
        config = {**CONFIG, "group.initial.rebalance.delay.ms": 0}
        async with Cluster(1, seed=3, config=config) as cluster, cluster.client() as client:
            await cluster.create_topic("t", partitions=2)
            settings = ConsumerConfig(group_id="g", group_protocol=protocol, auto_offset_reset="earliest")
            first, second = Consumer(client, settings), Consumer(client, settings)
            async with first, second:
                await first.subscribe(["t"])
                await polled(lambda: len(first.assignment) == 2, first)
                cluster.fill_disk(0)
                await second.subscribe(["t"])
                ends = trio.current_time() + 8
                await polled(lambda: trio.current_time() > ends, first, second)
                assert not second.assignment
                assert cluster.is_alive(0)
                cluster.heal_disk(0)
                await polled(lambda: (len(first.assignment), len(second.assignment)) == (1, 1), first, second)
                await client.produce("t", b"a", partition=0)
                await client.produce("t", b"b", partition=1)
                found: list[bytes | None] = []
                await polled(lambda: len(found) == 2, first, second, found=found)
                assert sorted(map(bytes, filter(None, found))) == [b"a", b"b"]

    run()


async def polled(true: Callable[[], bool], *members: Consumer, found: list[bytes | None] | None = None) -> None:
    """All of these poll in turn until something is so; coordinators may refuse meanwhile what can be tried again."""
    with trio.fail_after(120):
        while not true():
            for member in members:
                try:
                    records = await member.poll(100)
                except KafkaError as error:
                    if not error.code.retriable:
                        raise
                    continue
                if found is not None:
                    found += [record.value for record in records]
