"""The same brokers over TCP sockets and real files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.hosts import UnsupportedFaultError
from tidegauge.impl.cluster.names import CONTROLLER, broker_name
from tidegauge.impl.ports import disk
from tidegauge.impl.ports.failing_disk import SYNCS, Operation
from tidegauge.model_tests.cluster.test_replication import log_values


def test_three_brokers_over_tcp_survive_the_crash_of_a_leader(tmp_path: Path) -> None:
    async def main() -> None:
        config = {"broker.session.timeout.ms": 500, "broker.heartbeat.interval.ms": 100}
        with trio.fail_after(60):
            async with Cluster(brokers=3, seed=1, host="tcp", directory=tmp_path, config=config) as cluster:
                await cluster.create_topic("t", partitions=2, config={"min.insync.replicas": 2})
                async with cluster.client() as client:
                    assert await client.produce("t", b"a", b"b") == 0
                    old = cluster.leader("t")
                    await cluster.crash(old)
                    await cluster.wait_for_leader("t", other_than=old)
                    assert await client.produce("t", b"c") == 2
                    await cluster.restart(old)
                    await cluster.wait_for_isr("t", {0, 1, 2})
                    assert (await client.fetch("t", 0)).values == (b"a", b"b", b"c")
                assert log_values(cluster, old, "t") == [b"a", b"b", b"c"]
                with pytest.raises(UnsupportedFaultError, match="needs the simulated host"):
                    cluster.duplicate(0.5)

    trio.run(main)
    assert (tmp_path / "broker-0" / "t-0" / f"{0:020d}.log").stat().st_size > 0


def test_over_tcp_a_partition_moves_and_its_brokers_leave_in_good_order(tmp_path: Path) -> None:
    async def main() -> None:
        with trio.fail_after(60):
            async with Cluster(brokers=3, seed=1, host="tcp", directory=tmp_path) as cluster:
                await cluster.create_topic("t", assignments=[[0, 1]])
                async with cluster.client() as client:
                    await client.produce("t", b"a")
                    await cluster.reassign("t", [1, 2])
                    assert await client.produce("t", b"b") == 1
                    await cluster.shutdown(1)
                    assert (cluster.leader("t"), cluster.isr("t")) == (2, (2,))
                    assert await client.produce("t", b"c") == 2
                    await cluster.restart(1)
                    await cluster.wait_for_isr("t", {1, 2})
                    assert (await client.fetch("t", 0)).values == (b"a", b"b", b"c")
            again = Cluster(brokers=3, seed=1, host="tcp", directory=tmp_path)
            async with again, again.client() as client:
                await again.wait_for_leader("t")
                assert (await client.fetch("t", 0)).values == (b"a", b"b", b"c")

    trio.run(main)
    assert not [path for path in (tmp_path / "broker-0").iterdir() if path.name == "t-0"]


def test_a_temporary_directory_is_removed() -> None:
    async def main() -> Path:
        async with Cluster(brokers=1, host="tcp") as cluster:
            root = Path(cluster.host.directory("broker-0")).parent
            assert root.is_dir()
            return root

    assert not trio.run(main).exists()


def syncs_at_the_end(directory: Path | None) -> int:
    """How often the nodes sync from the end of the block on, when every replica has a record that was not synced."""
    syncs = 0

    def count(operation: Operation, _: str) -> None:
        nonlocal syncs
        syncs += operation in SYNCS

    async def main() -> None:
        async with Cluster(brokers=2, host="tcp", directory=directory) as cluster:
            await cluster.create_topic("t", partitions=3)
            async with cluster.client() as client:
                for partition in range(3):
                    await client.produce("t", b"a", partition=partition)
            for name in (CONTROLLER, *map(broker_name, range(2))):
                cluster.host.disk(name).watched_by(count)

    trio.run(main)
    return syncs


def test_the_end_of_a_temporary_cluster_syncs_nothing() -> None:
    assert syncs_at_the_end(None) == 0


@pytest.mark.parametrize("keeps_files", [False, True])
def test_only_a_cluster_that_keeps_its_files_has_the_device_write_them(
    keeps_files: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    for owner, name in ((disk, "_sync_data"), (os, "fsync")):
        monkeypatch.setattr(owner, name, told.append)
    syncs_at_the_end(tmp_path if keeps_files else None)
    assert bool(told) is keeps_files


def test_the_end_of_a_cluster_that_keeps_its_files_syncs_every_log(tmp_path: Path) -> None:
    assert syncs_at_the_end(tmp_path) >= 2 * 3
