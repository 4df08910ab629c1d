"""A coordinator that has lost its replica, in whichever way, coordinates no more; one that goes on is noticed.

KAFKA-9235 (`kafka_9235` in the machine of offsets): a broker's coordinator was told of new leaders alone, and not of a
replica that goes. It told offsets of before, and took transactions for its own.
"""

from __future__ import annotations

from typing import Any, Final
from unittest.mock import patch

import attrs
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.transactional import TransactionalProducer
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidegauge.impl.server.broker.coordinator_log import CoordinatorLog
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.model_tests.server.apis.test_group_offsets import coordinator_of, grouped, leader, until
from tidegauge.model_tests.server.asking import asker
from tidegauge.model_tests.simulated import simulated

NONE: Final = ErrorCode.none
NO_COORDINATOR: Final = [ErrorCode.not_coordinator]


class GoesOnWithoutItsReplica(CoordinatorLog[Any]):
    """A leader epoch ends where another one begins, and not with its replica."""

    def leadership_changed(self, partition: Partition) -> None:
        if not partition.is_gone:
            super().leadership_changed(partition)


async def told_by_former(log: type[CoordinatorLog[Any]]) -> list[tuple[int, str] | ErrorCode]:
    """What the former coordinator tells of an offset, once the partition was moved and another one was committed."""
    with patch("tidegauge.impl.server.broker.groups.CoordinatorLog", log):
        async with grouped(brokers=3) as asked:
            assert await asked.commit((0, 1)) == [NONE]
            others = [broker for broker in range(3) if broker != asked.coordinator]
            await asked.cluster.reassign(CONSUMER_OFFSETS, others, asked.partition)
            found = await coordinator_of(asked.cluster, ask=others[0])
            successor = attrs.evolve(asked, peer=await asker(asked.cluster, found))
            assert await successor.commit((0, 2)) == [NONE]
            assert await successor.fetch(0) == [(2, "")]
            return await asked.fetch(0, version=1)


@simulated
async def test_a_coordinator_whose_replica_is_moved_away_is_none_any_more() -> None:
    assert await told_by_former(CoordinatorLog) == NO_COORDINATOR


@simulated
async def test_one_that_goes_on_tells_an_offset_of_before() -> None:
    assert await told_by_former(GoesOnWithoutItsReplica) == [(1, "")]


@simulated
async def test_nor_is_one_whose_topic_is_deleted() -> None:
    async with grouped() as asked:
        assert await asked.commit((0, 1)) == [NONE]
        log = asked.cluster.broker(asked.coordinator).groups.log
        await asked.cluster.delete_topic(CONSUMER_OFFSETS)
        with trio.fail_after(60):
            await until(lambda: not log.is_leading)
        assert await asked.fetch(0, version=1) == NO_COORDINATOR


@simulated
async def test_nor_is_one_whose_directory_fails() -> None:
    async with grouped(brokers=3, log_dirs="one,two") as asked:
        assert await asked.commit((0, 1)) == [NONE]
        broker = asked.cluster.broker(asked.coordinator)
        directory = broker.replicas.directories.where(CONSUMER_OFFSETS, asked.partition)
        assert directory is not None
        index = asked.partition
        asked.cluster.fail_disk(asked.coordinator, directory=directory.path.rpartition("/")[2])
        assert await asked.commit((0, 2)) == NO_COORDINATOR
        assert broker.groups.log.led(index) is ErrorCode.not_coordinator
        with trio.fail_after(60):
            await until(lambda: leader(asked.cluster, asked.coordinator) not in (-1, asked.coordinator))
        assert await asked.fetch(0, version=1) == NO_COORDINATOR


@simulated
async def test_a_coordinator_of_transactions_is_none_any_more_when_its_replica_is_moved_away() -> None:
    few = {"transaction.state.log.num.partitions": 1}
    async with Cluster(brokers=3, seed=1, config=few) as cluster, cluster.client() as client:
        await cluster.create_topic("t")
        producer = TransactionalProducer(client, "tx")
        async with producer.transaction() as transaction:
            await transaction.produce("t", b"one")
        (former,) = (one for one in range(3) if cluster.broker(one).transactions.log.is_leading)
        await cluster.reassign(TRANSACTION_STATE, [one for one in range(3) if one != former])
        assert cluster.broker(former).transactions.log.led(0) is ErrorCode.not_coordinator
        async with producer.transaction() as transaction:
            await transaction.produce("t", b"two")
