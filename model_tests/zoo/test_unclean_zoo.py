"""KAFKA-7408 in a cluster, which has it as Kafka has: an unclean election takes a marker, and an operator has to help.

What would do without one is in the specification alone (`spec.transactions.unclean`).
"""

from __future__ import annotations

import trio

from tidegauge.impl.client.partition_reader import PartitionReader
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.model_tests.server.apis.test_transactions import abort, described
from tidegauge.model_tests.server.transacting import Transacting
from tidegauge.model_tests.simulated import simulated

CONFIG = {
    "transaction.state.log.num.partitions": 1,
    "replica.lag.time.max.ms": 1_000,
    "broker.session.timeout.ms": 2_000,
}


@simulated
async def test_a_marker_that_an_unclean_election_takes_leaves_its_transaction_open_until_an_operator_ends_it() -> None:
    async with Cluster(brokers=4, seed=3, config=CONFIG) as cluster, cluster.client() as client:
        await cluster.create_topic("t", assignments=[[0, 1]])
        producer = Transacting(cluster, leader=2)
        await producer.init()
        producer.leader = 0
        await producer.write_patiently(b"1")
        cluster.broker(1).actions.flush()
        await cluster.crash(1)
        await cluster.wait_for_isr("t", {0})
        producer.leader = 2
        await producer.end(commit=True)
        while (await described(producer)).transaction_state != "CompleteCommit":  # noqa: ASYNC110 - virtual time
            await trio.sleep(0.1)
        await cluster.crash(0, lose_unsynced=False)
        await cluster.restart(1)
        await trio.sleep(10)
        await cluster.elect("t", unclean=True)
        assert await cluster.wait_for_leader("t") == 1
        values: list[bytes | None] = []

        async def read() -> None:
            async with PartitionReader(client, "t", read_committed=True) as consumer:
                while not values:
                    values.extend([record.value for record in await consumer.poll()])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await client.produce("t", b"after")
            await trio.sleep(60)
            assert (await described(producer)).transaction_state == "CompleteCommit", "nobody will end it"
            assert not values, "and nobody reads on"
            producer.leader = 1
            producer.askers.clear()
            await abort(producer, coordinator_epoch=100)
        assert values == [b"after"]
