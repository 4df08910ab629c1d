"""Followers of many partitions: those that had records of late are fetched by themselves."""

from __future__ import annotations

import trio

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.server.broker.fetch_schedule import BUSY_FOR_S, FEW, MOST_BUSY
from tidegauge.model_tests.simulated import simulated


def busy(cluster: Cluster, follower: int, leader: int = 0) -> list[int]:
    """The partitions of t that a follower fetches from a leader by themselves, in their order."""
    return [index for _, index in cluster.broker(follower).fetchers.busy(leader)]


async def replicated(cluster: Cluster, partitions: int) -> None:
    """Every record is on every replica, within 5 s."""
    with trio.fail_after(5):
        for index in range(partitions):
            end = cluster.replica(0, "t", index).log_end_offset
            while any(cluster.replica(broker, "t", index).log_end_offset < end for broker in (1, 2)):  # noqa: ASYNC110
                await trio.sleep(0.01)


@simulated
async def test_a_partition_with_records_is_fetched_apart_from_the_quiet_ones() -> None:
    async with Cluster(brokers=3, seed=1) as cluster, cluster.client() as client:
        await cluster.create_topic("t", assignments=[[0, 1, 2]] * (FEW + 4))
        for index in (5, 2, 5):
            await client.produce("t", b"x", partition=index)
        await replicated(cluster, FEW + 4)
        assert busy(cluster, 1) == busy(cluster, 2) == [2, 5], "the latest to have records is last"
        hosted = cluster.broker(1).replicas.get("t", 5)
        assert hosted is not None
        await trio.sleep(BUSY_FOR_S / 2)
        assert len(hosted.outstanding) == 1, "a partition is fetched once at a time"
        await client.produce("t", b"x", partition=7)
        await replicated(cluster, FEW + 4)
        assert busy(cluster, 1) == [2, 5, 7]
        await trio.sleep(BUSY_FOR_S / 2 + 1)
        assert busy(cluster, 1) == [7], "the others have had no records for a while"


@simulated
async def test_a_new_topic_does_not_wait_for_the_quiet_ones() -> None:
    async with Cluster(brokers=3, seed=1) as cluster, cluster.client() as client:
        await cluster.create_topic("a")
        for nth in range(6):
            await trio.sleep(0.07 * nth)
            await cluster.create_topic(f"t{nth}", assignments=[[0, 1, 2]])
            begun = trio.current_time()
            await client.produce(f"t{nth}", b"x")
            assert trio.current_time() - begun < 0.1
        await trio.sleep(1)
        for nth in range(6):
            hosted = cluster.broker(1).replicas.get(f"t{nth}", 0)
            assert hosted is not None
            assert len(hosted.outstanding) == 1, "the quiet fetcher has taken it over"


@simulated
async def test_no_partition_waits_until_the_others_have_news() -> None:
    async with Cluster(brokers=3, seed=1) as cluster, cluster.client() as client:
        count = MOST_BUSY + FEW + 4
        await cluster.create_topic("t", assignments=[[0, 1, 2]] * count)
        await trio.sleep(1)
        for _ in range(2):
            for index in range(count):
                begun = trio.current_time()
                await client.produce("t", b"x", partition=index)
                assert trio.current_time() - begun < 0.1, "replica.fetch.wait.max.ms is 500"


@simulated
async def test_few_partitions_are_fetched_together() -> None:
    async with Cluster(brokers=3, seed=1) as cluster, cluster.client() as client:
        await cluster.create_topic("t", assignments=[[0, 1, 2]] * FEW)
        for index in range(FEW):
            await client.produce("t", b"x", partition=index)
        await replicated(cluster, FEW)
        assert busy(cluster, 1) == []


@simulated
async def test_the_partition_that_has_been_quiet_longest_makes_room() -> None:
    async with Cluster(brokers=3, seed=1) as cluster, cluster.client() as client:
        count = MOST_BUSY + FEW + 4
        await cluster.create_topic("t", assignments=[[0, 1, 2]] * count)
        for index in (*range(count), 0):
            await client.produce("t", b"x", partition=index)
        await replicated(cluster, count)
        assert len(busy(cluster, 1)) <= MOST_BUSY
        assert busy(cluster, 1)[-1] == 0
        assert 1 not in busy(cluster, 1)


@simulated
async def test_a_partition_whose_leader_changes_is_fetched_from_the_new_one() -> None:
    async with Cluster(brokers=3, seed=1) as cluster, cluster.client() as client:
        await cluster.create_topic("t", assignments=[[0, 1, 2]] * (FEW + 4))
        await client.produce("t", b"x", partition=3)
        await replicated(cluster, FEW + 4)
        assert busy(cluster, 2) == [3]
        await cluster.expire_session(0)
        leader = await cluster.wait_for_leader("t", 3, other_than=0)
        await client.produce("t", b"y", partition=3)
        assert busy(cluster, 3 - leader) in ([], [3])
        follower = 3 - leader
        with trio.fail_after(5):
            while cluster.replica(follower, "t", 3).log_end_offset < 2:  # noqa: ASYNC110
                await trio.sleep(0.01)
        assert busy(cluster, follower, leader=0) == []
