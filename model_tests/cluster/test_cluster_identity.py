"""Data is never deleted on hearsay: brokers, controllers and clusters that do not belong together, and lost metadata.

The clusters here keep real files, so that a test can do to them what an operator or a disk does.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.names import broker_name
from tidegauge.impl.cluster.node_task import NodeEndedError
from tidegauge.impl.controller.config import DEFAULT_CONTROLLER_ID
from tidegauge.impl.metadata.records import ControllerEpochRecord, TopicRecord
from tidegauge.impl.ports.clock import SystemClock
from tidegauge.impl.ports.disk import RealDisk
from tidegauge.impl.records.payload import decode_batches
from tidegauge.impl.server.broker.metadata_notes import READ
from tidegauge.impl.server.broker_server import Broker
from tidegauge.impl.server.controller.metadata_damage import DamagedMetadataLogError
from tidegauge.impl.server.controller.metadata_log import COMMITTED, METADATA_DIRECTORY, StoredMetadataLog
from tidegauge.impl.storage.checkpoints import META_PROPERTIES
from tidegauge.impl.storage.identity import (
    DamagedIdentityError,
    ForeignLogDirectoryError,
    Identity,
    read_identity,
    write_identity,
)
from tidegauge.impl.storage.log_directories import NoLogDirectoryError
from tidegauge.impl.storage.log_directory import CLEAN_SHUTDOWN
from tidegauge.impl.storage.strays import delete_stray, strays
from tidegauge.model_tests.simulated import simulated

FAST = {"broker.session.timeout.ms": 2_000, "broker.heartbeat.interval.ms": 200}


def cluster_at(root: Path, brokers: int = 1, config: Mapping[str, Any] | None = None) -> Cluster:
    return Cluster(brokers, seed=3, config={**FAST, **(config or {})}, host="tcp", directory=root)


async def filled(root: Path, brokers: int = 1) -> str:
    """A cluster that has run and stopped, with a topic and a record in it; returns its id."""
    async with cluster_at(root, brokers) as cluster:
        await cluster.create_topic("orders", 1, brokers)
        async with cluster.client() as client:
            await client.produce("orders", b"kept")
        return cluster.controller.cluster_id


def contents(directory: Path) -> dict[str, bytes]:
    """Every file below a directory but locks."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def values(cluster: Cluster, broker: int = 0) -> list[bytes | None]:
    hosted = cluster.broker(broker).replicas.get("orders", 0)
    assert hosted is not None
    return [record.value for record in decode_batches(hosted.log.read(0, 1 << 20))]


def test_a_clusters_id_is_made_once_and_kept_by_all_of_its_nodes(tmp_path: Path) -> None:
    async def run() -> None:
        made = await filled(tmp_path / "a", brokers=2)
        assert len(made) == 22
        for name, node_id in (("controller", 3000), ("broker-0", 0), ("broker-1", 1)):
            found = read_identity(RealDisk(), str(tmp_path / "a" / name), node_id=node_id, cluster_id=None)
            assert found is not None
            assert found.cluster_id == made
        async with cluster_at(tmp_path / "a", 2) as cluster:
            assert cluster.controller.cluster_id == made
            assert values(cluster) == [b"kept"]
        assert await filled(tmp_path / "b") != made

    trio.run(run)


def test_brokers_whose_controller_is_gone_or_another_one_refuse_and_touch_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        made = await filled(tmp_path / "a")
        await filled(tmp_path / "b")
        shutil.rmtree(tmp_path / "a" / "controller")
        before = contents(tmp_path / "a" / "broker-0")
        for other in (None, tmp_path / "b" / "controller"):
            if other is not None:
                shutil.copytree(other, tmp_path / "a" / "controller", dirs_exist_ok=True)
            with pytest.raises(ForeignLogDirectoryError, match=rf"broker-0 belongs to cluster.id={made}"):
                async with cluster_at(tmp_path / "a"):
                    pass
            assert contents(tmp_path / "a" / "broker-0") == before
            shutil.rmtree(tmp_path / "a" / "controller")

    trio.run(run)


def test_a_start_that_one_broker_refuses_leaves_the_others_closed(tmp_path: Path) -> None:
    """Else each of their logs would be recovered by the next start, as after a crash."""
    trio.run(filled, tmp_path, 2)
    identity = tmp_path / broker_name(1) / META_PROPERTIES
    identity.rename(kept := tmp_path / "kept")
    with pytest.raises(NoLogDirectoryError, match=META_PROPERTIES):
        trio.run(filled, tmp_path, 2)
    assert [(tmp_path / broker_name(number) / CLEAN_SHUTDOWN).exists() for number in (0, 1)] == [True, True]
    kept.rename(identity)


@pytest.mark.parametrize("lost", ["meta.properties", METADATA_DIRECTORY])
def test_a_controller_that_has_lost_half_of_its_directory_founds_no_other_cluster(lost: str, tmp_path: Path) -> None:
    async def run() -> None:
        await filled(tmp_path)
        path = tmp_path / "controller" / lost
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        before = contents(tmp_path)
        with pytest.raises((DamagedIdentityError, DamagedMetadataLogError), match=r"[Nn]othing was changed"):
            async with cluster_at(tmp_path):
                pass
        assert contents(tmp_path) == before

    trio.run(run)


async def ended(broker: Broker) -> str:
    """Wait until a broker has ended by itself, and return why."""
    with trio.fail_after(60):
        while broker.halted is None:  # noqa: ASYNC110 - nobody is told
            await trio.sleep(0.02)
    return broker.halted


def found_anew(root: Path, cluster_id: str) -> None:
    """Do what an operator may do to a controller that is lost: make an empty one with the old cluster's id."""
    controller = root / "controller"
    shutil.rmtree(controller)
    controller.mkdir()
    identity = read_identity(RealDisk(), str(root / "broker-0"), node_id=0, cluster_id=cluster_id)
    assert identity is not None
    write_identity(RealDisk(), str(controller), Identity(cluster_id, 3000, identity.directory_id))


def test_a_metadata_log_that_is_shorter_than_a_broker_has_read_ends_the_broker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        found_anew(tmp_path, await filled(tmp_path))
        before = contents(tmp_path / "broker-0" / "orders-0")
        with pytest.raises(NodeEndedError, match=r"not the one that this broker has read up to offset .* a copy"):
            async with cluster_at(tmp_path):
                pass
        assert contents(tmp_path / "broker-0" / "orders-0") == before
        assert "broker stopped: node=broker-0 why=" in caplog.text

    trio.run(run)


def test_a_metadata_log_that_went_on_differently_ends_the_broker(tmp_path: Path) -> None:
    """It is longer than what the broker has read, so its length tells nothing: the epochs do."""

    async def run() -> None:
        found_anew(tmp_path, await filled(tmp_path))
        log = StoredMetadataLog(
            RealDisk(), str(tmp_path / "controller" / METADATA_DIRECTORY), SystemClock(), DEFAULT_CONTROLLER_ID
        )
        await log.append([ControllerEpochRecord(DEFAULT_CONTROLLER_ID, 0)])
        log.close()
        log = StoredMetadataLog(
            RealDisk(), str(tmp_path / "controller" / METADATA_DIRECTORY), SystemClock(), DEFAULT_CONTROLLER_ID
        )
        await log.append([ControllerEpochRecord(DEFAULT_CONTROLLER_ID, 1)])
        for number in range(50):
            await log.append([TopicRecord(f"t{number}", f"id-{number}")])
        log.close()
        with pytest.raises(NodeEndedError, match="or has other records"):
            async with cluster_at(tmp_path):
                pass
        assert (tmp_path / "broker-0" / "orders-0").is_dir()

    trio.run(run)


def test_a_replica_that_the_metadata_do_not_know_is_kept_told_and_deleted_only_by_order(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        found_anew(tmp_path, await filled(tmp_path))
        broker = tmp_path / "broker-0"
        (broker / READ).unlink()
        before = contents(broker / "orders-0")
        for _ in range(2):
            async with cluster_at(tmp_path) as cluster:
                assert cluster.broker(0).replicas.get("orders", 0) is None
                (name,) = cluster.strays(0)
                assert name.startswith("orders-0.")
            assert before.keys() <= contents(broker / name).keys()
            assert contents(broker / name)["00000000000000000000.log"] == before["00000000000000000000.log"]
        assert caplog.text.count("replica became a stray: node=broker-0 partition=orders-0") == 1
        assert "strays kept: node=broker-0" in caplog.text
        with pytest.raises(ValueError, match=r"'orders-0' is no stray .*: there are orders-0\..*-stray"):
            delete_stray(RealDisk(), str(broker), "orders-0")
        async with cluster_at(tmp_path) as cluster:
            await cluster.create_topic("orders")
            async with cluster.client() as client:
                await client.produce("orders", b"new")
            assert values(cluster) == [b"new"]
            cluster.delete_stray(0, name)
            assert cluster.strays(0) == []
        assert strays(RealDisk(), str(broker)) == []

    trio.run(run)


def test_a_copy_of_a_replica_is_no_replica_that_others_got(tmp_path: Path) -> None:
    """Its directory's name says that it is another topic's, its topic id says whose it is: it is kept."""

    async def run() -> None:
        await filled(tmp_path)
        broker = tmp_path / "broker-0"
        copies = ("ghost-0", "backup-of-orders-0", "orders-7")
        for name in copies:
            shutil.copytree(broker / "orders-0", broker / name)
        async with cluster_at(tmp_path) as cluster:
            assert sorted(name.rpartition(".")[0] for name in cluster.strays(0)) == sorted(copies)
            assert len(values(cluster)) > 0

    trio.run(run)


def test_a_topic_that_was_deleted_while_its_broker_was_down_leaves_no_stray(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_at(tmp_path, 2) as cluster:
            await cluster.create_topic("orders", 1, 2)
            await cluster.shutdown(1)
            await cluster.delete_topic("orders")
            await cluster.restart(1)
            with trio.fail_after(10):
                await cluster.broker(1).unfenced.wait()
            assert cluster.broker(1).replicas.get("orders", 0) is None
            assert cluster.strays(1) == []
            assert not list((tmp_path / "broker-1").glob("orders-0*[!e]"))

    trio.run(run)


def test_a_controllers_directory_without_an_identity_is_upgraded_as_the_page_says(tmp_path: Path) -> None:
    """Word for word: the lines of the page, with the two that are to be filled in."""
    page = (Path(__file__).parents[2] / "docs" / "durability.md").read_text()
    [lines] = re.findall(r"```\n(cluster\.id=.*?)```", page, re.DOTALL)
    [command] = re.findall(r'`python -c "(.*?)"`', page)
    directory_id = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True).stdout

    async def run() -> None:
        cluster_id = await filled(tmp_path)
        file = tmp_path / "controller" / META_PROPERTIES
        file.unlink()
        (tmp_path / "controller" / COMMITTED).unlink()
        with pytest.raises(DamagedIdentityError, match=r"controller/meta\.properties is missing"):
            async with cluster_at(tmp_path):
                pass
        told = (tmp_path / "broker-0" / META_PROPERTIES).read_text()
        assert f"cluster.id={cluster_id}" in told.splitlines()
        written = lines.replace("as in DIR/broker-0/meta.properties", cluster_id)
        written = re.sub(r"directory\.id=.*", f"directory.id={directory_id.strip()}", written)
        file.write_text(written)
        async with cluster_at(tmp_path) as cluster, cluster.client() as client:
            assert (await client.fetch("orders", 0)).values == (b"kept",)
            assert cluster.controller.cluster_id == cluster_id

    trio.run(run)


# --- two processes with one id ---------------------------------------------------------------------------------------


def another_process(cluster: Cluster, broker_id: int) -> Broker:
    """A process with a broker's id, on another machine with another disk."""
    nodes = cluster.parts.nodes
    node = attrs.evolve(
        nodes._node(broker_name(broker_id), broker_id),
        network=cluster.host.network("impostor"),
        disk=cluster.host.disk("impostor"),
        listen=cluster.host.listen_address("impostor"),
        randomness=cluster.host.randomness("impostor"),
        bound={},
    )
    return Broker(node, [nodes.addresses["controller"]])


@simulated
async def test_a_second_process_with_a_brokers_id_is_refused_while_the_first_lives() -> None:
    async with Cluster(2, seed=1, config=FAST) as cluster:
        await cluster.create_topic("orders", 1, 2)
        first = cluster.broker(0)
        epoch = first.registration.broker_epoch
        impostor = another_process(cluster, 0)
        async with trio.open_nursery() as nursery:
            await nursery.start(impostor.run)
            reason = await ended(impostor)
        assert "DUPLICATE_BROKER_REGISTRATION: another process is registered as broker 0" in reason
        impostor.abandon()
        assert first.halted is None
        assert first.registration.broker_epoch == epoch
        assert cluster.controller.controller.image.is_unfenced(0)


@simulated
async def test_a_broker_that_was_killed_need_not_wait_for_its_own_session() -> None:
    async with Cluster(2, seed=1, config={**FAST, "broker.session.timeout.ms": 600_000}) as cluster:
        await cluster.crash(0)
        await cluster.restart(0)
        with trio.fail_after(5):
            await cluster.broker(0).unfenced.wait()


@simulated
async def test_a_broker_that_was_killed_with_its_controller_need_not_wait_either() -> None:
    async with Cluster(2, seed=1, config={**FAST, "broker.session.timeout.ms": 600_000}) as cluster:
        await cluster.crash(0)
        await cluster.restart_controller()
        await cluster.restart(0)
        with trio.fail_after(5):
            await cluster.broker(0).unfenced.wait()


@simulated
async def test_a_broker_killed_with_its_controller_that_starts_elsewhere_says_how_long_it_waits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Neither its directory nor its address is that of the process before it."""
    async with Cluster(1, seed=1, config=FAST) as cluster:
        await cluster.crash(0)
        await cluster.restart_controller()
        elsewhere = another_process(cluster, 0)
        started = trio.current_time()
        async with trio.open_nursery() as nursery:
            await nursery.start(elsewhere.run)
            with trio.fail_after(10):
                await elsewhere.unfenced.wait()
            waited = trio.current_time() - started
            elsewhere.stop()
            nursery.cancel_scope.cancel()
        elsewhere.abandon()
    assert 1 < waited < 4
    lines = [record.getMessage() for record in caplog.records]
    assert any("broker refused" in one and "expires, 2000 ms at most" in one for one in lines)
    assert any("registration refused" in one and "sent nothing since" in one and " ms left" in one for one in lines)
