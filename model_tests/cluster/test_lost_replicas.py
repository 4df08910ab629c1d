"""Replicas whose logs were removed while their brokers were down: they lead after those that have records."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.names import broker_name
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.storage.partition_directory import remove_directory
from tidegauge.model_tests.harness.validation.validation import validate
from tidegauge.model_tests.simulated import simulated

CONFIG = {
    "broker.session.timeout.ms": 1_500,
    "broker.heartbeat.interval.ms": 300,
    "replica.lag.time.max.ms": 1_200,
    "replica.fetch.backoff.ms": 100,
}
RECORDS = 12
NONE: frozenset[int] = frozenset()


def value(offset: int) -> bytes:
    return b"%03d." % offset * 20


async def all_killed(cluster: Cluster, replicas: int) -> None:
    """All replicas have all records, broker 0 led last, alone, and each of the brokers was killed."""
    await cluster.create_topic("t", assignments=[list(range(replicas))], config={"segment.bytes": 620})
    async with cluster.client("writer") as client:
        for offset in range(RECORDS):
            await client.produce("t", value(offset))
    await trio.sleep(2)
    for broker in range(1, replicas):
        await cluster.crash(broker, lose_unsynced=False)
    with trio.fail_after(30):
        await cluster.wait_for_isr("t", (0,))
    await cluster.crash(0, lose_unsynced=False)


def remove_partition(cluster: Cluster, broker: int) -> None:
    """The partition's directory is removed; checkpoints still name it."""
    root = cluster.broker(broker).replicas.directories.paths[0]
    remove_directory(cluster.host.disk(broker_name(broker)), f"{root}/t-0")


def remove_segments(cluster: Cluster, broker: int) -> None:
    """The partition's directory is there, its segments are not."""
    disk, root = cluster.host.disk(broker_name(broker)), cluster.broker(broker).replicas.directories.paths[0]
    for name in disk.list_directory(f"{root}/t-0"):
        if name.endswith(".log"):
            disk.remove(f"{root}/t-0/{name}")


def remove_all(cluster: Cluster, broker: int) -> None:
    """The log directory is removed with all that is in it."""
    disk, root = cluster.host.disk(broker_name(broker)), cluster.broker(broker).replicas.directories.paths[0]
    remove_partition(cluster, broker)
    for name in disk.list_directory(root):
        disk.remove(f"{root}/{name}")


REMOVALS = (remove_partition, remove_segments, remove_all)


def hold(cluster: Cluster) -> None:
    """What the cluster has done is a behaviour of the specification."""
    validated = validate(cluster.trace, "t", 0)
    assert validated.holds, str(validated)


async def has_everything(cluster: Cluster) -> bool:
    async with cluster.client("reader") as client:
        found: list[bytes | None] = []
        while len(found) < RECORDS:
            found += [record.value for record in (await client.fetch("t", len(found))).records]
        return found == [value(offset) for offset in range(RECORDS)]


@pytest.mark.parametrize("remove", REMOVALS, ids=lambda remove: remove.__name__)
def test_a_last_known_leader_without_its_log_follows_the_one_replica_that_has_one(
    remove: Callable[[Cluster, int], None], caplog: pytest.LogCaptureFixture
) -> None:
    @simulated
    async def run() -> None:
        async with Cluster(2, 1, CONFIG) as cluster:
            await all_killed(cluster, 2)
            remove(cluster, 0)
            await cluster.restart(0)
            with trio.fail_after(30):
                await cluster.broker(0).unfenced.wait()
            assert cluster.leader("t") == -1
            await cluster.restart(1)
            with trio.fail_after(30):
                await cluster.wait_for_isr("t", (0, 1))
            assert cluster.leader("t") == 1
            assert await has_everything(cluster)
            await trio.sleep(2)
            assert registration(cluster).lost_replicas == frozenset(), "it has its log again"
            if remove is remove_partition:  # a process can tell which logs are gone
                hold(cluster)

    run()
    told = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("replica lost: node=broker-0 partition=t-0") for line in told), told
    (elected,) = [line for line in told if line.startswith("unclean leader elected")]
    assert "leader=1" in elected
    assert "no other one has its log" in elected


def registration(cluster: Cluster) -> PartitionRegistration:
    found = cluster.controller.controller.image.partition("t", 0)
    assert found is not None
    return found


def test_where_several_have_their_logs_the_partition_waits_for_an_order(caplog: pytest.LogCaptureFixture) -> None:
    @simulated
    async def run() -> None:
        async with Cluster(3, 1, CONFIG) as cluster:
            await all_killed(cluster, 3)
            remove_partition(cluster, 0)
            for broker in range(3):
                await cluster.restart(broker)
            await trio.sleep(10)
            assert cluster.leader("t") == -1
            async with cluster.client("operator") as client:
                await client.elect_leaders("t", unclean=True)
            with trio.fail_after(30):
                await cluster.wait_for_isr("t", (0, 1, 2))
            assert cluster.leader("t") == 1, "the first of those that have their logs"
            assert await has_everything(cluster)
            hold(cluster)

    run()
    assert "replica lost: node=controller" in caplog.text


@pytest.mark.parametrize("remove", [remove_partition, remove_all], ids=lambda remove: remove.__name__)
def test_where_all_logs_are_gone_the_last_known_leader_leads(
    remove: Callable[[Cluster, int], None], caplog: pytest.LogCaptureFixture
) -> None:
    @simulated
    async def run() -> None:
        async with Cluster(3, 1, CONFIG) as cluster:
            await all_killed(cluster, 3)
            for broker in range(3):
                assert broker == 0 or cluster.leader("t") == -1
                remove(cluster, broker)
                await cluster.restart(broker)
                with trio.fail_after(60):
                    await cluster.broker(broker).unfenced.wait()
            await trio.sleep(2)
            if remove is remove_partition:
                hold(cluster)

    run()
    elected = [line for line in caplog.messages if line.startswith("unclean leader elected")]
    assert [("leader=0" in line, "no replica has its log any more" in line) for line in elected] == [(True, True)]


@simulated
async def test_a_replica_stays_lost_over_processes_until_it_has_something() -> None:
    async with Cluster(3, 1, CONFIG) as cluster:
        await all_killed(cluster, 3)
        remove_all(cluster, 0)
        for _ in range(2):
            await cluster.restart(0)
            with trio.fail_after(30):
                await cluster.broker(0).unfenced.wait()
            await trio.sleep(2)
            assert (cluster.leader("t"), registration(cluster).lost_replicas) == (-1, frozenset({0}))
            await cluster.shutdown(0, patient=False)
        for broker in (1, 2):
            await cluster.restart(broker)
        await trio.sleep(5)
        assert cluster.leader("t") == -1


@simulated
async def test_a_replica_that_is_lost_is_so_still_when_its_directory_has_failed_and_is_back() -> None:
    async with Cluster(2, 1, CONFIG | {"log.dirs": "one,two"}) as cluster:
        await all_killed(cluster, 2)
        disk = cluster.host.disk(broker_name(0))
        (root,) = [path for path in cluster.broker(0).replicas.directories.paths if disk.exists(f"{path}/t-0")]
        remove_directory(disk, f"{root}/t-0")
        await cluster.restart(0)
        with trio.fail_after(30):
            await cluster.broker(0).unfenced.wait()
        directory = cluster.broker(0).replicas.directories.where("t", 0)
        assert directory is not None
        cluster.fail_disk(0, "everything", directory=directory.path)
        await trio.sleep(10)  # a high watermark is written down now and then
        assert (registration(cluster).lost_replicas, registration(cluster).offline_replicas) == (
            frozenset({0}),
            frozenset({0}),
        )
        cluster.heal_disk(0)
        await cluster.shutdown(0, patient=False)
        await cluster.restart(0)
        await trio.sleep(5)
        assert (registration(cluster).lost_replicas, registration(cluster).offline_replicas) == (
            frozenset({0}),
            frozenset(),
        )
        await cluster.restart(1)
        with trio.fail_after(30):
            await cluster.wait_for_isr("t", (0, 1))
        assert cluster.leader("t") == 1
        assert await has_everything(cluster)
        await trio.sleep(2)
        assert registration(cluster).lost_replicas == frozenset()


@simulated
async def test_a_process_that_dies_before_it_is_let_in_leaves_word_of_what_is_lost() -> None:
    async with Cluster(2, 1, CONFIG) as cluster:
        await all_killed(cluster, 2)
        remove_partition(cluster, 0)
        cluster.isolate(broker_name(0))
        await cluster.restart(0)
        await trio.sleep(2)
        await cluster.crash(0)
        cluster.heal()
        await cluster.restart(0)
        with trio.fail_after(30):
            await cluster.broker(0).unfenced.wait()
        assert (cluster.leader("t"), registration(cluster).lost_replicas) == (-1, frozenset({0}))


@simulated
async def test_a_log_that_is_put_back_is_no_longer_lost() -> None:
    async with Cluster(3, 1, CONFIG) as cluster:
        await all_killed(cluster, 3)
        disk, root = cluster.host.disk(broker_name(0)), cluster.broker(0).replicas.directories.paths[0]
        disk.rename(f"{root}/t-0", f"{root}/kept")
        await cluster.restart(0)
        with trio.fail_after(30):
            await cluster.broker(0).unfenced.wait()
        assert registration(cluster).lost_replicas == {0}
        await cluster.crash(0)
        remove_partition(cluster, 0)
        disk.rename(f"{root}/kept", f"{root}/t-0")
        await cluster.restart(0)
        with trio.fail_after(30):
            await cluster.wait_for_isr("t", (0,))
        await trio.sleep(2)
        assert (cluster.leader("t"), registration(cluster).lost_replicas) == (0, frozenset())
        assert await has_everything(cluster)


@simulated
async def test_a_replica_that_follows_when_it_comes_back_is_told_of_as_no_loss() -> None:
    async with Cluster(2, 1, CONFIG) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]])
        async with cluster.client("writer") as client:
            await client.produce("t", value(0))
        await trio.sleep(2)
        await cluster.shutdown(0)
        remove_all(cluster, 0)
        await cluster.restart(0)
        with trio.fail_after(30):
            await cluster.wait_for_isr("t", (0, 1))
        assert cluster.controller.controller.image.topics["t"].directories == {}
        assert not cluster.host.disk(broker_name(0)).exists(
            f"{cluster.broker(0).replicas.directories.paths[0]}/lost-logs-checkpoint"
        )
