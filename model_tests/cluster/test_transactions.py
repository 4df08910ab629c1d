"""Transactions under faults: each is in all of its partitions or in none, as its producer was told."""

from __future__ import annotations

import random

import pytest
import trio

from tidegauge.impl.client.client import Client
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.client.partition_reader import PartitionReader
from tidegauge.impl.client.transactional import TransactionalProducer
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.model_tests.simulated import simulated

CONFIG = {"transaction.state.log.num.partitions": 3, "min.insync.replicas": 2, "broker.session.timeout.ms": 3_000}
PARTITIONS = (0, 1)
COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"


class OnPurposeError(Exception):
    """The application changes its mind."""


async def transact(producer: TransactionalProducer, value: bytes, *, aborts: bool) -> str:
    """One transaction over all partitions; what its producer was told."""
    try:
        async with producer.transaction(timeout_ms=4_000) as transaction:
            for partition in PARTITIONS:
                await transaction.produce("t", value, partition=partition)
            if aborts:
                raise OnPurposeError
    except OnPurposeError:
        return ABORTED
    except KafkaError as error:
        return UNKNOWN if error.maybe_done else ABORTED
    return COMMITTED


async def read(client: Client, partition: int) -> list[bytes | None]:
    """Everything, once nothing is undecided."""
    async with PartitionReader(client, "t", partition, read_committed=True) as consumer:
        values: list[bytes | None] = []
        while consumer.position < (await client.list_offsets("t", partition=partition)).offset:
            values += [record.value for record in await consumer.poll(timeout_ms=60_000)]
        return values


async def disturb(cluster: Cluster, chance: random.Random, times: int) -> None:
    """Crashes, cuts and losses, one after the other; all is well again at the end."""
    for _ in range(times):
        await trio.sleep(chance.uniform(0.2, 1.5))
        broker = chance.randrange(3)
        match chance.choice(("crash", "isolate", "lose", "hold")):
            case "crash":
                await cluster.crash(broker)
                await trio.sleep(chance.uniform(0, 5))
                await cluster.restart(broker)
            case "isolate":
                cluster.isolate(broker)
                await trio.sleep(chance.uniform(0, 6))
                cluster.heal()
            case "lose":
                cluster.drop(0.2)
                await trio.sleep(chance.uniform(0, 2))
                cluster.drop(0)
            case "hold":
                with cluster.hold_requests(chance.choice(("WriteTxnMarkers", "EndTxn", "AddPartitionsToTxn"))):
                    await trio.sleep(chance.uniform(0, 2))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(1, 40))])
def test_each_transaction_is_in_all_partitions_or_in_none_as_its_producer_was_told(seed: int) -> None:
    @simulated
    async def run() -> None:
        chance = random.Random(seed)
        told: dict[bytes, str] = {}
        async with Cluster(brokers=3, seed=seed, config=CONFIG) as cluster:
            await cluster.create_topic("t", partitions=len(PARTITIONS), replication_factor=3)
            is_over = trio.Event()

            async def produce(number: int) -> None:
                async with cluster.client(f"client-{number}") as client:
                    producer, nth = TransactionalProducer(client, f"tx-{number}"), 0
                    while not is_over.is_set():
                        value, nth = b"%d-%d" % (number, nth), nth + 1
                        told[value] = UNKNOWN
                        told[value] = await transact(producer, value, aborts=chance.random() < 0.3)
                        await trio.sleep(0.2)

            async with trio.open_nursery() as nursery:
                for number in range(3):
                    nursery.start_soon(produce, number)
                await disturb(cluster, chance, times=6 if seed else 3)
                is_over.set()
            async with cluster.client("reader") as client:
                logs = [await read(client, partition) for partition in PARTITIONS]
        assert sorted(logs[0], key=str) == sorted(logs[1], key=str), "all or nothing"
        assert len(set(logs[0])) == len(logs[0]), "once"
        for value, outcome in told.items():
            assert outcome == UNKNOWN or (value in logs[0]) is (outcome == COMMITTED), f"{value!r}: {outcome}"
        assert {COMMITTED, ABORTED} <= set(told.values())

    run()
