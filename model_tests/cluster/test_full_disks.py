"""Full disks, exhausted descriptors and names that cannot be used: survived, told, and left when there is room again.

Injected on the simulated disk with each error number, and tried for real: a small file system, a process with few
descriptors.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from tidegauge import running_cluster
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.client.transactional import TransactionalProducer
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.names import broker_name
from tidegauge.impl.ports.failing_disk import WRITES, Operation
from tidegauge.impl.storage.checkpoints import read_offsets
from tidegauge.impl.storage.log_directories import NoLogDirectoryError
from tidegauge.model_tests.cluster.real_clients import WAIT_S, produce, producer, read
from tidegauge.model_tests.harness.simulation.operators import deletion
from tidegauge.model_tests.simulated import simulated

CONFIG = {"broker.session.timeout.ms": 2_000, "broker.heartbeat.interval.ms": 300, "replica.lag.time.max.ms": 1_000}
TRANSACTIONAL = {
    **CONFIG,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}
IMPATIENT = {"delivery.timeout.ms": 1_000}


CHECKPOINTS = (
    "replication-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)


def remembered(cluster: Cluster) -> dict[str, int]:
    """What broker 0's disk remembers of t-0 in each checkpoint."""
    disk = cluster.host.disk(broker_name(0)).disk
    found = {name: read_offsets(disk, "data", name).get(("t", 0)) for name in CHECKPOINTS}
    return {name: offset for name, offset in found.items() if offset is not None}


@pytest.mark.parametrize("crashes", [False, True])
@simulated
async def test_what_a_full_disk_remembers_of_a_deleted_topic_is_none_of_the_next_one_of_that_name(
    *, crashes: bool
) -> None:
    async with Cluster(1, seed=2, config=CONFIG) as cluster, cluster.client() as client:
        await cluster.create_topic("t")
        for _ in range(5):
            await client.produce("t", b"old")
        await client.ask_leader("t", 0, deletion(0, 3, topic="t"))
        replicas, disk = cluster.broker(0).replicas, cluster.host.disk(broker_name(0))
        replicas.flushes.flush_all()
        replicas.directories.online[0].checkpoint_cleaned("t", 0, 2)
        replicas.checkpoint_high_watermarks()
        assert [*remembered(cluster)] == [*CHECKPOINTS]
        for name in CHECKPOINTS:
            disk.fail(f"data/{name}.tmp", error=errno.ENOSPC)
        await cluster.delete_topic("t")
        assert [*remembered(cluster)] == [*CHECKPOINTS]
        if crashes:
            await cluster.crash(0, lose_unsynced=False)
            await cluster.restart(0)
            assert cluster.broker(0).replicas.directories.missing == []
            await cluster.broker(0).registration.unfenced.wait()
        with trio.move_on_after(2):
            await cluster.create_topic("t")
        assert not disk.exists("data/t-0"), "it waits for room"
        cluster.heal_disk(0)
        await trio.sleep(3)  # it is tried again with the next metadata, or with what the controller says after 2 s
        assert remembered(cluster) == {}
        assert disk.exists("data/t-0")
        assert await client.produce("t", b"new", timeout_ms=20_000) == 0


@simulated
async def test_high_watermarks_of_deleted_partitions_go_when_there_is_room() -> None:
    async with Cluster(1, seed=2, config=CONFIG) as cluster, cluster.client() as client:
        await cluster.create_topic("t")
        await client.produce("t", b"old")
        cluster.broker(0).replicas.checkpoint_high_watermarks()
        cluster.fill_disk(0, free_bytes=0)
        await cluster.delete_topic("t")
        cluster.broker(0).replicas.checkpoint_high_watermarks()
        assert remembered(cluster)["replication-offset-checkpoint"] == 1
        cluster.heal_disk(0)
        cluster.broker(0).replicas.checkpoint_high_watermarks()
        assert "replication-offset-checkpoint" not in remembered(cluster)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE])
@pytest.mark.parametrize("operations", [WRITES, {Operation.OPEN, Operation.MAKE_DIRECTORY}, {Operation.SYNC}])
def test_a_broker_without_room_lives_and_goes_on_when_there_is_room(number: int, operations: set[Operation]) -> None:
    @simulated
    async def run() -> None:
        async with Cluster(1, seed=2, config={**CONFIG, "log.flush.scheduler.interval.ms": 200}) as cluster:
            await cluster.create_topic("old")
            async with cluster.client() as client:
                assert await client.produce("old", b"a") == 0
                cluster.host.disk(broker_name(0)).fail("data", operations=operations, error=number)
                with trio.move_on_after(5):
                    await cluster.create_topic("new", 12)
                for topic in ("old", "new"):
                    with trio.move_on_after(3):
                        with suppress(KafkaError):
                            await client.produce(topic, b"b", timeout_ms=1_000)
                await trio.sleep(5)
                broker = cluster.broker(0)
                assert broker.halted is None
                assert not broker.replicas.directories.offline
                cluster.heal_disk(0)
                await trio.sleep(3)
                for partition in range(12):
                    await client.produce("new", b"c", partition=partition, timeout_ms=20_000)
                await client.produce("old", b"c", timeout_ms=20_000)
                kept = (await client.fetch("old", 0)).values
                assert (kept[0], kept[-1]) == (b"a", b"c")
                await cluster.crash(0, lose_unsynced=False)
                await cluster.restart(0)
                assert (await client.fetch("old", 0)).values == kept

    run()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE])
@simulated
async def test_what_is_appended_and_cannot_be_flushed_is_known_all_the_same(number: int) -> None:
    """A batch that is sent again is a repeat, and what was aborted is hidden: its index has no room for the flush."""

    def has_no_room(operation: Operation, path: str) -> None:
        if path.endswith(".txnindex") and operation in WRITES | {Operation.OPEN}:
            raise OSError(number, errno.errorcode[number], path)

    async with Cluster(1, seed=2, config=TRANSACTIONAL) as cluster, cluster.client() as client:
        await cluster.create_topic("t", config={"flush.messages": 1})
        disk = cluster.host.disk(broker_name(0))
        aborting, other = TransactionalProducer(client, "aborting"), TransactionalProducer(client, "other")

        async def make_room() -> None:
            await trio.sleep(2)
            disk.watched_by(None)

        with suppress(KafkaError, trio.TooSlowError, ZeroDivisionError), trio.fail_after(5):
            async with aborting.transaction() as transaction:
                await transaction.produce("t", b"aborted")
                disk.watched_by(has_no_room)
                raise ZeroDivisionError
        async with trio.open_nursery() as nursery:
            nursery.start_soon(make_room)
            with trio.fail_after(30):
                async with other.transaction() as transaction:
                    await transaction.produce("t", b"once")
        await trio.sleep(5)
        for read_committed in (False, True):
            found: list[bytes | None] = []
            fetched = await client.fetch("t", 0, read_committed=read_committed)
            while fetched.next_offset < fetched.high_watermark:
                found += fetched.values
                fetched = await client.fetch("t", fetched.next_offset, read_committed=read_committed)
            found += fetched.values
            assert found == ([b"once"] if read_committed else [b"aborted", b"once"])


@pytest.mark.parametrize("number", [errno.ENAMETOOLONG, errno.EACCES, errno.EPERM])
def test_a_name_that_cannot_be_used_takes_its_partition_offline_and_nothing_else(
    number: int, caplog: pytest.LogCaptureFixture
) -> None:
    @simulated
    async def run() -> None:
        async with Cluster(1, seed=2, config=CONFIG) as cluster:
            cluster.host.disk(broker_name(0)).fail("data/bad-0", error=number)
            await cluster.create_topic("good")
            with trio.move_on_after(5):
                await cluster.create_topic("bad")
            async with cluster.client() as client:
                with pytest.raises(KafkaError):
                    await client.produce("bad", b"a", timeout_ms=1_000)
                assert await client.produce("good", b"a") == 0
            assert not cluster.broker(0).replicas.directories.offline
            await cluster.delete_topic("bad")
            await cluster.create_topic("more")
            cluster.heal_disk(0)
            await cluster.create_topic("bad")
            async with cluster.client() as client:
                assert await client.produce("bad", b"a", timeout_ms=20_000) == 0

    run()
    assert "partition cannot be used: node=broker-0 partition=bad-0" in caplog.text
    assert errno.errorcode[number] in caplog.text


def test_a_broker_that_can_open_none_of_its_logs_says_so_and_does_not_start() -> None:
    @simulated
    async def run() -> None:
        async with Cluster(1, seed=2, config=CONFIG) as cluster:
            await cluster.create_topic("t", 3)
            await cluster.crash(0)
            disk = cluster.host.disk(broker_name(0))
            for partition in range(3):
                disk.fail(f"data/t-{partition}", operations=[Operation.OPEN], error=errno.EMFILE)
            with pytest.raises(NoLogDirectoryError, match="none of this broker's 3 replicas can be opened"):
                await cluster.restart(0)
            disk.heal()
            await cluster.restart(0)
            with trio.fail_after(10):
                await cluster.broker(0).unfenced.wait()

    run()


def test_a_real_producer_tries_again_until_there_is_room(caplog: pytest.LogCaptureFixture) -> None:
    with running_cluster(brokers=1) as cluster:
        cluster.create_topic("t")
        with producer(cluster.bootstrap_servers, enable_idempotence=True) as client:
            assert produce(client, "t", b"before") == 0
            cluster.fill_disk(0)
            offsets: list[int] = []
            client.produce("t", b"while it is full", callback=lambda error, message: offsets.append(message.offset()))
            while "no room: node=broker-0" not in caplog.text:
                client.poll(0.02)
            assert offsets == []
            assert read(cluster.bootstrap_servers, "t", 1) == [b"before"]
            cluster.heal_disk(0)
            client.flush(WAIT_S)
            assert offsets == [1]
            assert read(cluster.bootstrap_servers, "t", 2) == [b"before", b"while it is full"]


# --- for real --------------------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(tmp_path)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"no file system may be mounted here: {made.stderr.strip()}")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_a_full_file_system_is_survived_and_left_again(small: Path) -> None:
    async def run() -> None:
        async with Cluster(1, seed=2, config=CONFIG, host="tcp", directory=small / "data") as cluster:
            await cluster.create_topic("t")
            async with cluster.client() as client:
                assert await client.produce("t", b"first") == 0
                ballast = small / "ballast"
                with suppress(OSError):  # there is no room for more
                    ballast.write_bytes(bytes(4 << 20))
                with pytest.raises(KafkaError):
                    await client.produce("t", bytes(100_000), timeout_ms=1_000)
                assert (await client.fetch("t", 0)).values[0] == b"first"
                assert cluster.is_alive(0)
                ballast.unlink()
                await client.produce("t", b"last", timeout_ms=20_000)
                kept = (await client.fetch("t", 0)).values
                assert (kept[0], kept[-1]) == (b"first", b"last")
        async with (
            Cluster(1, seed=2, config=CONFIG, host="tcp", directory=small / "data") as cluster,
            cluster.client() as client,
        ):
            assert (await client.fetch("t", 0)).values == kept

    trio.run(run)


FEW_DESCRIPTORS = """
import json, os, resource, sys, trio
from contextlib import suppress
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.cluster.cluster import Cluster

async def run():
    async with Cluster(1, seed=2, host="tcp", directory=sys.argv[1]) as cluster:
        await cluster.create_topic("t")
        async with cluster.client() as client:
            await client.produce("t", b"first")
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1, hard))
            with trio.move_on_after(2), suppress(KafkaError):
                await client.produce("t", b"second", timeout_ms=1_000)
            try:
                with trio.fail_after(60):
                    await client.create_topic("u", 8, 1)
                created = "u" in cluster.controller.controller.image.topics
            except KafkaError as error:
                created = str(error)
            refused = ""
            async with cluster.client() as late:
                try:
                    await late.create_topic("v")
                except KafkaError as error:
                    refused = str(error)
            await trio.sleep(1)
            starved = cluster.is_alive(0) and not cluster.broker(0).replicas.directories.offline
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            with trio.fail_after(30):
                await client.produce("t", b"last", timeout_ms=20_000)
                for partition in range(8):
                    await client.produce("u", b"x", partition=partition, timeout_ms=20_000)
            found = [value.decode() for value in (await client.fetch("t", 0)).values]
    print(json.dumps({"survived": starved, "values": found, "created": created, "refused": refused}))

trio.run(run)
"""


def test_a_process_without_descriptors_survives_and_goes_on_when_there_are_some(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FEW_DESCRIPTORS, str(tmp_path / "data")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=dict(os.environ),
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    told = json.loads(ended.stdout.splitlines()[-1])
    assert told["survived"]
    assert told["created"] is True, "what the controller has open is enough to commit"
    why = "cannot be reached: EMFILE (Too many open files): close connections, or give the process more descriptors"
    assert told["refused"].endswith(why)
    assert (told["values"][0], told["values"][-1]) == ("first", "last")
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 0


ROLLING = """
import attrs, json, logging, os, resource, sys, trio
from tidegauge.impl.cluster.cluster import Cluster

logging.basicConfig(level=logging.WARNING)

async def run():
    async with Cluster(1, seed=2, host="tcp", directory=sys.argv[1]) as cluster:
        await cluster.create_topic("t")
        async with cluster.client() as client:
            await client.produce("t", b"first")
            log = cluster.controller.log.log
            log.config = attrs.evolve(log.config, segment_bytes=2_000)
            taken = []
            try:
                while True:
                    taken.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                pass
            segments = len(log.segment_base_offsets)
            for number in range(30):
                await client.create_topic(f"t{number}", 1, 1)
                await client.produce(f"t{number}", b"x")
            print(json.dumps({"rolls": len(log.segment_base_offsets) - segments, "took": len(taken)}))
            for descriptor in taken:
                os.close(descriptor)

trio.run(run)
"""


def test_a_controller_without_descriptors_rolls_its_log_and_has_nobody_wait(tmp_path: Path) -> None:
    """Each broker's request for a decision is given up after two seconds, which is when its client is told."""
    ended = subprocess.run(
        ["bash", "-c", 'ulimit -n 200 && exec "$@"', "-", sys.executable, "-c", ROLLING, str(tmp_path / "data")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    told = json.loads(ended.stdout.splitlines()[-1])
    assert told["rolls"] >= 3
    assert told["took"] > 0
    assert "no room: node=controller" not in ended.stderr
    assert "no room: node=broker-0" not in ended.stderr
