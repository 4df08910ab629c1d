"""Clusters that change while they are written to: partitions move and grow, topics go, brokers leave in good order.

Under load every record is produced with acks=all by a client whose history is checked, and read back at the end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.server.trace.events import Register
from tidegauge.linearizability.check import check
from tidegauge.model_tests.harness.simulation.recorder import Recorder
from tidegauge.model_tests.simulated import simulated

QUICK = {
    "broker.session.timeout.ms": 1_500,
    "broker.heartbeat.interval.ms": 300,
    "replica.lag.time.max.ms": 1_200,
    "controlled.shutdown.retry.backoff.ms": 200,
}


@asynccontextmanager
async def written_to(cluster: Cluster, topic: str) -> AsyncIterator[list[int]]:
    """The values acknowledged while a producer writes. At the end all of them are there, and the history is checked."""
    recorder, acknowledged = Recorder(1), list[int]()

    async def produce() -> None:
        async with cluster.client("producer", observer=recorder) as client:
            for value in range(1_000_000):
                with suppress(KafkaError):  # a broker may have died, and with it the response
                    await client.produce(topic, b"%d" % value)
                    acknowledged.append(value)
                await trio.sleep(0.005)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(produce)
        await trio.sleep(0.1)
        yield acknowledged
        await trio.sleep(0.1)
        nursery.cancel_scope.cancel()
    async with cluster.client("reader", observer=recorder) as client:
        found: list[int] = []
        await client.list_offsets(topic)
        while (fetched := await client.fetch(topic, len(found))).records:
            found += [int(record.value or b"") for record in fetched.records]
    told = set(acknowledged)
    assert [value for value in found if value in told] == acknowledged
    assert check(recorder.history.operations()).valid


@simulated
async def test_a_partition_moves_to_other_brokers_while_it_is_written_to() -> None:
    async with Cluster(4, 1, QUICK) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]])
        async with written_to(cluster, "t") as acknowledged:
            before = len(acknowledged)
            await cluster.reassign("t", [2, 3])
            assert cluster.replicas("t") == (2, 3)
            assert cluster.leader("t") in (2, 3)
            await trio.sleep(0.3)
            assert len(acknowledged) > before
        hosts = [broker.id for broker in cluster.brokers if broker.replicas.get("t", 0) is not None]
        assert hosts == [2, 3]


@simulated
async def test_a_move_that_is_taken_back_leaves_everything_where_it_was() -> None:
    async with Cluster(3, 2, QUICK) as cluster:
        await cluster.create_topic("t", assignments=[[0]])
        cluster.isolate(2)
        async with written_to(cluster, "t"):
            await cluster.reassign("t", [1, 2], wait=False)
            await cluster.wait_for_isr("t", [0, 1])
            assert cluster.is_reassigned("t")
            await cluster.reassign("t", None)
            assert cluster.replicas("t") == (0,)
        cluster.heal()
        await trio.sleep(3)
        assert [broker.replicas.get("t", 0) is None for broker in cluster.brokers] == [False, True, True]


@simulated
async def test_a_replica_that_comes_back_starts_empty() -> None:
    async with Cluster(2, 3, QUICK) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]])
        async with written_to(cluster, "t"):
            old = cluster.broker(1).replicas.get("t", 0)
            await cluster.reassign("t", [0])
            assert cluster.broker(1).replicas.get("t", 0) is None
            await cluster.reassign("t", [0, 1])
            new = cluster.broker(1).replicas.get("t", 0)
            assert new is not None
            assert new is not old
            await cluster.wait_for_isr("t", [0, 1])


@simulated
async def test_a_broker_crashes_in_the_middle_of_a_move() -> None:
    async with Cluster(4, 4, QUICK) as cluster:
        await cluster.create_topic("t", config={"min.insync.replicas": 2}, assignments=[[0, 1, 2]])
        async with written_to(cluster, "t"):
            cluster.delay(5, 20)
            await cluster.reassign("t", [3, 1, 2], wait=False)
            await cluster.crash(0)
            await trio.sleep(2.5)
            await cluster.restart(0)
            while cluster.is_reassigned("t"):  # noqa: ASYNC110 - bounded by the virtual clock of the test
                await trio.sleep(0.05)
            await cluster.wait_for_isr("t", [1, 2, 3])
            cluster.clear_faults()
        await trio.sleep(1)
        assert cluster.broker(0).replicas.get("t", 0) is None


@simulated
async def test_a_replica_that_was_taken_away_while_its_broker_was_down_is_deleted_when_it_starts() -> None:
    async with Cluster(3, 5, QUICK) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]])
        await cluster.crash(1, lose_unsynced=False)
        await cluster.reassign("t", [0])
        await cluster.restart(1)
        await cluster.broker(1).unfenced.wait()
        assert cluster.broker(1).replicas.get("t", 0) is None
        assert not cluster.host.disk("broker-1").exists("data/t-0")


@simulated
async def test_a_recreated_topic_never_sees_what_the_former_one_held() -> None:
    async with Cluster(3, 6, QUICK) as cluster:
        await cluster.create_topic("t")
        async with cluster.client() as client:
            await client.produce("t", *(b"old %d" % number for number in range(20)))
        for broker in cluster.brokers:
            broker.actions.checkpoint_high_watermark()
        await cluster.crash(2, lose_unsynced=False)
        await cluster.delete_topic("t")
        await cluster.create_topic("t", assignments=[[0, 1, 2]])
        await cluster.restart(2)
        await cluster.wait_for_isr("t", [0, 1, 2])
        async with cluster.client() as client:
            await client.produce("t", b"new")
            assert [record.value for record in (await client.fetch("t", 0)).records] == [b"new"]


@simulated
async def test_the_high_watermark_of_a_deleted_topic_does_not_count_for_the_next_one() -> None:
    config = {**QUICK, "replica.high.watermark.checkpoint.interval.ms": 1_000_000}
    async with Cluster(2, 6, config) as cluster:
        await cluster.create_topic("t")
        async with cluster.client() as client:
            await client.produce("t", *(b"old %d" % number for number in range(20)))
            for broker in cluster.brokers:
                broker.actions.checkpoint_high_watermark()
            await cluster.delete_topic("t")
            await cluster.create_topic("t", config={"min.insync.replicas": 2}, assignments=[[0, 1]])
            cluster.isolate(1)
            await cluster.wait_for_isr("t", [0])
            for number in range(3):
                await client.produce("t", b"uncommitted %d" % number, acks=1)
        await cluster.crash(0, lose_unsynced=False)
        await cluster.restart(0)
        assert cluster.replica(0, "t").log_end_offset == 3
        assert cluster.replica(0, "t").high_watermark == 0


@simulated
async def test_a_request_that_waits_for_a_topic_fails_when_it_is_deleted() -> None:
    async with Cluster(2, 7, {**QUICK, "replica.lag.time.max.ms": 60_000}) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]])
        async with cluster.client() as client:
            await client.produce("t", b"0")
            cluster.block(1, 0)
            async with trio.open_nursery() as nursery:
                outcome: list[ErrorCode] = []

                async def produce() -> None:
                    with pytest.raises(KafkaError) as caught:
                        await client.produce("t", b"1", timeout_ms=5_000)
                    outcome.append(caught.value.code)

                nursery.start_soon(produce)
                await trio.sleep(0.5)
                await cluster.delete_topic("t")
        assert outcome[0] in (ErrorCode.not_leader_or_follower, ErrorCode.unknown_topic_or_partition)
        assert cluster.broker(0).replicas.get("t", 0) is None


@simulated
async def test_a_topic_grows_and_keeps_its_records_where_they_are() -> None:
    async with Cluster(3, 8, QUICK) as cluster:
        await cluster.create_topic("t", partitions=2, replication_factor=2)
        async with written_to(cluster, "t"):
            await cluster.create_partitions("t", 5)
            async with cluster.client() as client:
                assert await client.produce("t", b"there", partition=4) == 0
        assert len({cluster.replicas("t", partition)[0] for partition in range(3)}) == 3


@simulated
async def test_a_broker_that_is_shut_down_hands_over_and_nobody_waits() -> None:
    async with Cluster(3, 9, QUICK) as cluster:
        await cluster.create_topic("t", config={"min.insync.replicas": 2}, assignments=[[0, 1, 2]])
        async with written_to(cluster, "t") as acknowledged:
            before, began = len(acknowledged), trio.current_time()
            await cluster.shutdown(0)
            assert cluster.leader("t") == 1
            assert cluster.isr("t") == (1, 2)
            await trio.sleep(0.3)
            assert len(acknowledged) > before
            assert trio.current_time() - began < 1.5, "a session would have had to expire"
            await cluster.restart(0)
            await cluster.wait_for_isr("t", [0, 1, 2])


@simulated
async def test_the_last_in_sync_waits_until_somebody_has_joined() -> None:
    async with Cluster(2, 10, {**QUICK, "controlled.shutdown.max.retries": 100}) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]])
        cluster.isolate(1)
        await cluster.wait_for_isr("t", [0])
        async with cluster.client() as client:
            await client.produce("t", b"0")
        cluster.heal()
        await cluster.shutdown(0)
        assert (cluster.leader("t"), cluster.isr("t")) == (1, (1,))
        async with cluster.client() as client:
            assert len((await client.fetch("t", 0)).records) == 1


@simulated
async def test_a_partition_on_one_broker_is_there_again_with_everything_when_that_is_back() -> None:
    async with Cluster(2, 11, QUICK) as cluster:
        await cluster.create_topic("t", assignments=[[1]])
        async with cluster.client() as client:
            await client.produce("t", b"0", b"1")
            await cluster.shutdown(1)
            assert cluster.leader("t") == -1
            await cluster.restart(1)
            await cluster.wait_for_leader("t")
            assert len((await client.fetch("t", 0)).records) == 2
        decisions = [event.decision for event in cluster.trace]
        *_, registered = [one for one in decisions if isinstance(one, Register) and one.broker == 1]
        assert registered.changed == (), "it stays eligible, for it has lost nothing"


@simulated
async def test_preferred_leaders_are_put_back_by_time() -> None:
    async with Cluster(3, 12, {**QUICK, "leader.imbalance.check.interval.seconds": 5}) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1, 2]])
        await cluster.shutdown(0)
        await cluster.restart(0)
        await cluster.wait_for_isr("t", [0, 1, 2])
        assert cluster.leader("t") == 1
        await trio.sleep(6)
        assert cluster.leader("t") == 0


@simulated
async def test_preferred_leaders_stay_away_when_they_are_not_to_be_put_back() -> None:
    config = {"leader.imbalance.check.interval.seconds": 5, "auto.leader.rebalance.enable": False}
    async with Cluster(3, 13, {**QUICK, **config}) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1, 2]])
        await cluster.shutdown(0)
        await cluster.restart(0)
        await cluster.wait_for_isr("t", [0, 1, 2])
        await trio.sleep(6)
        assert cluster.leader("t") == 1


@simulated
async def test_a_cluster_that_has_ended_says_so() -> None:
    async with Cluster(1) as cluster:
        pass
    uses: list[Callable[[], Awaitable[None]]] = [
        lambda: cluster.create_topic("t"),
        lambda: cluster.delete_topic("t"),
        lambda: cluster.create_partitions("t", 2),
        lambda: cluster.reassign("t", [0]),
    ]
    for use in uses:
        with pytest.raises(RuntimeError, match="the cluster has ended"):
            await use()
