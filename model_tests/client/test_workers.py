"""Workers process what a consumer reads: in order in each partition, many at once, and nothing committed before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from tidegauge.impl.client.client import Client
from tidegauge.impl.client.consumer import Consumer
from tidegauge.impl.client.consumer_config import ConsumerConfig
from tidegauge.impl.client.consumer_record import RebalanceListener
from tidegauge.impl.client.group_member import GroupMember
from tidegauge.impl.client.positions import Partition
from tidegauge.impl.client.workers import Work, Workers
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.model_tests.simulated import simulated

QUICK = {"offsets.topic.num.partitions": 1, "group.initial.rebalance.delay.ms": 0}
FOUR = [("t", number) for number in range(4)]
EACH = 5


@asynccontextmanager
async def running() -> AsyncIterator[Client]:
    """A cluster with a topic of four partitions, each of which has records 0 to 4."""
    async with Cluster(brokers=1, seed=1, config=QUICK) as cluster:
        await cluster.create_topic("t", assignments=[[0]] * 4)
        async with cluster.client() as client:
            for _, number in FOUR:
                await client.produce("t", *(b"%d" % each for each in range(EACH)), partition=number)
            yield client


def config(**more: Any) -> ConsumerConfig:
    settings: dict[str, Any] = {
        "group_id": "g",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "auto_commit_interval_ms": 50,
        "heartbeat_interval_ms": 50,
    }
    return ConsumerConfig(**(settings | more))


class Log:
    """What was processed, in which order, and how much of it at once."""

    def __init__(self) -> None:
        self.began: list[tuple[Partition, int]] = []
        self.done: dict[Partition, list[int]] = defaultdict(list)
        self.under_way: set[Partition] = set()
        self.most_at_once = 0

    async def process(self, work: Work) -> None:
        partition, offset = (work.record.topic, work.record.partition), work.record.offset
        assert partition not in self.under_way, "one record of a partition at a time"
        self.began.append((partition, offset))
        self.under_way.add(partition)
        self.most_at_once = max(self.most_at_once, len(self.under_way))
        try:
            await trio.sleep(0.01)
        finally:
            self.under_way.discard(partition)
        self.done[partition].append(offset)

    @property
    def all_done(self) -> bool:
        """Whether every record was processed."""
        return sum(map(len, self.done.values())) == EACH * len(FOUR)


async def until(holds: Callable[[], bool]) -> None:
    with trio.fail_after(60):
        while not holds():  # noqa: ASYNC110 - what is waited for tells nobody
            await trio.sleep(0.001)


async def committed(client: Client, group: str = "g") -> dict[Partition, int | None]:
    """What the group has committed."""
    async with Consumer(client, ConsumerConfig(group_id=group)) as consumer:
        return await consumer.committed(*FOUR)


@simulated
async def test_partitions_are_processed_at_once_and_each_in_order() -> None:
    log = Log()
    async with running() as client, Consumer(client, config()) as consumer, trio.open_nursery() as nursery:
        workers = Workers(consumer, log.process, workers=3)
        nursery.start_soon(workers.run, ["t"])
        await until(lambda: log.all_done)
        workers.stop()
    assert log.done == {partition: list(range(EACH)) for partition in FOUR}
    assert log.most_at_once == 3


@simulated
async def test_what_is_processed_is_committed_when_the_workers_stop_and_not_what_waits() -> None:
    done = trio.Event()

    async def process(work: Work) -> None:
        if work.record.offset == 2:
            done.set()
            await trio.sleep(0.5)

    async with running() as client:
        async with Consumer(client, config(auto_commit_interval_ms=60_000)) as consumer, trio.open_nursery() as nursery:
            workers = Workers(consumer, process, workers=4)
            nursery.start_soon(workers.run, ["t"])
            await done.wait()
            workers.stop()
        assert await committed(client) == dict.fromkeys(FOUR, 3), "the record under way ends, and no other one begins"


@simulated
async def test_what_is_processed_is_committed_now_and_then() -> None:
    log = Log()
    async with running() as client:
        async with Consumer(client, config()) as consumer, trio.open_nursery() as nursery:
            nursery.start_soon(Workers(consumer, log.process).run, ["t"])
            await until(lambda: log.all_done)
            await trio.sleep(0.2)
            nursery.cancel_scope.cancel()
        assert await committed(client) == dict.fromkeys(FOUR, EACH)


@simulated
async def test_an_error_ends_the_workers_and_its_record_is_not_committed() -> None:
    async def process(work: Work) -> None:
        if work.record.offset == 3:
            raise ValueError("no such order")

    async with running() as client:
        with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="no such order")):
            async with Consumer(client, config()) as consumer:
                await Workers(consumer, process, workers=1).run(["t"])
        found = await committed(client)
        assert 3 in found.values()
        assert all(offset is None or offset <= 3 for offset in found.values())


@simulated
async def test_workers_that_are_cancelled_hold_up_nobody() -> None:
    async def hang(work: Work) -> None:
        await trio.sleep_forever()

    async with running() as client:
        async with Consumer(client, config()) as consumer, trio.open_nursery() as nursery:
            workers = Workers(consumer, hang, workers=2)
            nursery.start_soon(workers.run, ["t"])
            await until(lambda: not workers._queues.is_at_rest(FOUR))
            nursery.cancel_scope.cancel()
            since = trio.current_time()
        assert trio.current_time() - since < 1, "no lock is left that the consumer would wait for as it ends"
        assert await committed(client) == dict.fromkeys(FOUR)


@simulated
async def test_a_record_whose_worker_hangs_is_begun_again_by_another_one() -> None:
    log = Log()
    hung: list[Work] = []

    async def process(work: Work) -> None:
        if work.record.offset == 1 and work.record.partition == 2 and not hung:
            hung.append(work)
            await trio.sleep_forever()
        await log.process(work)

    async with running() as client:
        async with Consumer(client, config()) as consumer, trio.open_nursery() as nursery:
            workers = Workers(consumer, process, workers=2, lock_timeout_ms=200)
            nursery.start_soon(workers.run, ["t"])
            await until(lambda: log.all_done)
            workers.stop()
        assert hung[0].is_dropped
        assert not hung[0].renew()
        assert await committed(client) == dict.fromkeys(FOUR, EACH)


@simulated
async def test_a_worker_that_renews_its_lock_keeps_it() -> None:
    began: list[int] = []

    async def process(work: Work) -> None:
        began.append(work.record.offset)
        for _ in range(10):
            await trio.sleep(0.1)
            assert work.renew()
            assert not work.is_dropped

    async with running() as client, Consumer(client, config()) as consumer, trio.open_nursery() as nursery:
        workers = Workers(consumer, process, workers=1, lock_timeout_ms=200)
        nursery.start_soon(workers.run, ["t"])
        await trio.sleep(1.05)
        workers.stop()
    assert began[0] == 0
    assert len(began) <= 2


class Noting(RebalanceListener):
    """What it is told, and what was under way then."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.told: list[str] = []
        self.at_work: set[Partition] = set()

    async def revoked(self, partitions: Sequence[Partition]) -> None:
        self.told.append("revoked")
        self.at_work |= self.log.under_way & set(partitions)

    async def assigned(self, partitions: Sequence[Partition]) -> None:
        self.told.append("assigned")


@simulated
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
async def test_a_partition_goes_to_another_member_at_rest_and_nothing_is_processed_twice(assignor: str) -> None:
    one, other = Log(), Log()
    told = Noting(one)
    settings = config(partition_assignment_strategy=(assignor,))
    async with running() as client:
        async with (
            Consumer(client, settings) as consumer,
            Consumer(client, settings) as second,
            trio.open_nursery() as nursery,
        ):
            workers = Workers(consumer, one.process, workers=4)
            nursery.start_soon(workers.run, ["t"], told)
            await until(lambda: bool(one.began))
            others = Workers(second, other.process, workers=4)
            nursery.start_soon(others.run, ["t"])
            await until(lambda: all(len(one.done[each] + other.done[each]) == EACH for each in FOUR))
            workers.stop()
            others.stop()
        assert "revoked" in told.told
        assert not told.at_work
        for each in FOUR:
            assert one.done[each] + other.done[each] == list(range(EACH))
        assert await committed(client) == dict.fromkeys(FOUR, EACH)


@simulated
async def test_work_on_a_partition_that_was_taken_away_is_cancelled() -> None:
    cancelled: list[Work] = []
    began = trio.Event()

    async def process(work: Work) -> None:
        began.set()
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            cancelled.append(work)
            raise

    async with running() as client, Consumer(client, config()) as consumer, trio.open_nursery() as nursery:
        nursery.start_soon(Workers(consumer, process, workers=1).run, ["t"])
        await began.wait()
        member = consumer._member
        assert isinstance(member, GroupMember)
        await member._send_leave(member.core.identity.member_id, "an operator removes it")
        await until(lambda: bool(cancelled))
        assert cancelled[0].is_dropped
        nursery.cancel_scope.cancel()


@simulated
async def test_a_partition_of_which_much_waits_is_read_no_further_until_there_is_room() -> None:
    log = Log()
    waiting: list[int] = []

    async def process(work: Work) -> None:
        waiting.append(max(workers._queues.waiting(each) for each in FOUR))
        await log.process(work)

    few = config(max_poll_records=1, auto_commit_interval_ms=100_000)
    async with running() as client, Consumer(client, few) as consumer, trio.open_nursery() as nursery:
        workers = Workers(consumer, process, workers=1, most_waiting=2)
        nursery.start_soon(workers.run, ["t"])
        await until(lambda: log.all_done)
        workers.stop()
    assert max(waiting) == 2


@simulated
async def test_consumers_that_commit_by_themselves_or_have_no_group_have_no_workers() -> None:
    async with running() as client:
        for settings, words in (
            (config(enable_auto_commit=True), "set enable_auto_commit to False"),
            (config(group_id=None), "set group_id"),
        ):
            with pytest.raises(ValueError, match=words):
                Workers(Consumer(client, settings), Log().process)
        with pytest.raises(ValueError, match="workers is 0: give a positive number"):
            Workers(Consumer(client, config()), Log().process, workers=0)


@simulated
async def test_workers_run_once() -> None:
    async with running() as client, Consumer(client, config()) as consumer:
        workers = Workers(consumer, Log().process)
        workers.stop()
        await workers.run(["t"])
        with pytest.raises(RuntimeError, match="make others, with a consumer of their own"):
            await workers.run(["t"])
