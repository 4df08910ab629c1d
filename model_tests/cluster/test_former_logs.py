"""A directory that failed comes back with the log of a replica that was made anew elsewhere meanwhile.

The clusters here have two directories a broker, `one` and `two`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EIO
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
import trio

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.names import broker_name
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.records import PartitionRecord, ReplicaDirectoryRecord, TopicRecord
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.ports.failing_disk import FailingDisk
from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.server.broker.directory_failures import DirectoryFailures
from tidegauge.impl.server.broker.doubled_replicas import DoubledReplicas
from tidegauge.impl.server.broker.high_watermark_checkpoint import HighWatermarkCheckpoint
from tidegauge.impl.server.broker.metadata_loader import MetadataLoader
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.log_directories import LogDirectories
from tidegauge.model_tests.cluster.test_log_directories import cluster_of, directory_of, fail_directory, until, values
from tidegauge.model_tests.simulated import simulated

KEY = ("t", 0)
TOPIC_ID = UUID(int=7)
OTHER = {"one": "two", "two": "one"}
NO_PARTITION = PartitionRegistration((), -1, 0, 0, frozenset())


@pytest.mark.parametrize("failing", ["one", "two"])
@simulated
async def test_the_log_counts_whose_directory_the_controller_knows_and_the_former_one_is_kept(failing: str) -> None:
    async with cluster_of(3) as cluster, cluster.client() as client:
        await cluster.create_topic("t", assignments=[[0, 1]] * 2, config={"min.insync.replicas": 1})
        partition = next(each for each in range(2) if directory_of(cluster, 0, each) == failing)
        for _ in range(3):
            await client.produce("t", b"former", partition=partition)
        cluster.broker(0).replicas.flushes.flush_all()
        fail_directory(cluster, 0, failing)
        await client.produce("t", b"more", partition=partition, timeout_ms=20_000)
        with trio.fail_after(30):
            await cluster.wait_for_isr("t", {1}, partition)
            await cluster.reassign("t", [1, 2], partition)
            await cluster.reassign("t", [0], partition)
        await client.produce("t", b"new", partition=partition, timeout_ms=20_000)
        expected = [b"former"] * 3 + [b"more", b"new"]
        assert values(cluster, 0, partition) == expected
        cluster.broker(0).replicas.flushes.flush_all()
        cluster.heal_disk(0)
        await cluster.crash(0, lose_unsynced=True)
        await cluster.restart(0)
        with trio.fail_after(30):
            await client.produce("t", b"newest", partition=partition, timeout_ms=20_000)
        assert values(cluster, 0, partition) == [*expected, b"newest"]
        assert directory_of(cluster, 0, partition) == OTHER[failing]
        disk = cluster.host.disk(broker_name(0))
        assert [
            name.endswith("-stray") for name in disk.list_directory(f"data/{failing}") if name.startswith("t-")
        ] == [True]


@contextmanager
def learning_nothing(cluster: Cluster, broker: int) -> Iterator[None]:
    """The broker pulls no metadata meanwhile; what has happened it learns at once."""
    loader = cluster.broker(broker).loader
    pull, may_learn = MetadataLoader.apply_metadata, trio.Event()

    async def held_back(self: MetadataLoader, max_wait_ms: int = 0) -> int:
        if self is loader:
            await may_learn.wait()
        return await pull(self, max_wait_ms)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MetadataLoader, "apply_metadata", held_back)
        yield
        may_learn.set()


@pytest.mark.parametrize(("fails", "again"), [("meanwhile", "given back"), ("before", "created again")])
@simulated
async def test_an_offline_replica_that_goes_and_comes_between_two_pulls_is_made_anew(fails: str, again: str) -> None:
    """So it is when the broker has learned of each change by itself."""
    async with cluster_of(3) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]] * 2, config={"min.insync.replicas": 1})
        partition = next(each for each in range(2) if directory_of(cluster, 0, each) == "one")
        image, directories = cluster.controller.controller.image, cluster.broker(0).replicas.directories
        one = directories.at("data/one")
        assert one is not None

        def seen() -> PartitionRegistration:
            """The partition at the controller."""
            return image.partition("t", partition) or NO_PARTITION

        def topic_id() -> str:
            return image.topics["t"].topic_id if "t" in image.topics else ""

        async def meanwhile() -> None:
            """A broker that forwards a request waits until it has learned what came of it."""
            if again == "given back":
                await cluster.reassign("t", [1, 2], partition)
                await cluster.reassign("t", [0, 1], partition)
            else:
                await cluster.delete_topic("t")
                await cluster.create_topic("t", assignments=[[0, 1]] * 2)

        if fails == "before":
            directories.fail(one, OSError(EIO, "no"))
            await cluster.wait_for_isr("t", {1}, partition)
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                with learning_nothing(cluster, 0):
                    await trio.sleep(10)
                    if fails == "meanwhile":
                        directories.fail(one, OSError(EIO, "no"))
                    await until(lambda: seen().isr == {1})
                    former = image.topics["t"].topic_id
                    nursery.start_soon(meanwhile)
                    await until(lambda: 0 not in seen().replicas or topic_id() != former)
                    await until(lambda: 0 in seen().replicas)
            await until(lambda: directory_of(cluster, 0, partition) == "two")
            await cluster.wait_for_isr("t", {0, 1}, partition)


@simulated
async def test_a_replica_made_beside_a_failed_directory_leads_when_the_controller_knows_where_it_is() -> None:
    async with cluster_of(1) as cluster, cluster.client() as client:
        await cluster.create_topic("t", 2)
        fail_directory(cluster, 0, "one")
        await client.produce("t", b"a", partition=1)
        cluster.broker(0).replicas.flushes.flush_all()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DirectoryFailures, "_unassigned", lambda self: {})
            await cluster.create_topic("u")
            await trio.sleep(5)
            waiting = cluster.broker(0).replicas.get("u", 0)
            assert waiting is not None
            assert not waiting.replica.is_leader
        begun = trio.current_time()
        await client.produce("u", b"a", timeout_ms=20_000)
        assert trio.current_time() < begun + 2


# --- by themselves -------------------------------------------------------------------------------------------------


def with_two_logs(records: tuple[bool, bool]) -> tuple[LogDirectories, FailingDisk]:
    """Two directories that each have a log of `KEY`, with records or without."""
    disk = FailingDisk(SimulatedDisk(Random(0)))
    for name, has_records in zip(("one", "two"), records, strict=True):
        directories = opened(disk, name)
        if (sync := directories.claim(*KEY, TOPIC_ID)) is not None:
            sync.run()
        log = directories.open_log(*KEY, LogConfig(), 0, TOPIC_ID)
        if has_records:
            log.append_as_leader(build_batch([Record(0, 0, None, name.encode())]), 0, 0)
        writes = directories.begin_checkpoint_high_watermarks({KEY: int(has_records)})
        directories.finish_checkpoint(write() for write in writes)
        directories.close()
    return opened(disk, "one", "two"), disk


def opened(disk: FailingDisk, *paths: str) -> LogDirectories:
    ids = iter([UUID(int=1 + ("two" in paths[0])), UUID(int=9)])
    return LogDirectories.open(disk, list(paths), cluster_id="c", node_id=1, new_id=lambda: next(ids))


def image_of(known: UUID | None, replicas: tuple[int, ...] = (1, 2)) -> ClusterImage:
    image = ClusterImage()
    image.apply(TopicRecord("t", str(TOPIC_ID)))
    image.apply(PartitionRecord("t", 0, replicas=replicas, leader=2, isr=(2,)))
    if known is not None:
        image.apply(ReplicaDirectoryRecord("t", 0, 1, str(known)))
    return image


def replicas_of(
    directories: LogDirectories, high_watermarks: HighWatermarkCheckpoint | None = None
) -> tuple[DoubledReplicas, list[Any]]:
    given_up: list[Any] = []
    written = high_watermarks or HighWatermarkCheckpoint(directories)
    return DoubledReplicas(1, directories, written, given_up.append), given_up


def test_no_log_is_open_before_the_metadata_are_known() -> None:
    directories, _ = with_two_logs((True, True))
    assert (directories.partitions(), directories.where(*KEY), directories.missing) == ([], None, [])


def test_where_both_have_records_and_the_controller_knows_neither_nothing_is_touched(
    caplog: pytest.LogCaptureFixture,
) -> None:
    directories, disk = with_two_logs((True, True))
    replicas, given_up = replicas_of(directories)
    caplog.set_level(logging.ERROR)
    for _ in range(2):
        replicas.settle(image_of(None))
    assert given_up == [KEY]
    assert caplog.text.count("log not opened") == 1
    assert [disk.exists(f"{name}/t-0") for name in ("one", "two")] == [True, True]


@pytest.mark.parametrize(
    ("records", "chosen"), [((True, False), "one"), ((False, True), "two"), ((False, False), "one")]
)
def test_where_the_controller_knows_neither_the_log_with_records_counts(
    records: tuple[bool, bool], chosen: str
) -> None:
    directories, disk = with_two_logs(records)
    high_watermarks = HighWatermarkCheckpoint(directories)
    replicas, given_up = replicas_of(directories, high_watermarks)
    assert high_watermarks.offsets == {}
    replicas.settle(image_of(None))
    assert high_watermarks.offsets == {KEY: int(any(records))}
    found = directories.where(*KEY)
    assert found is not None
    assert (found.path, given_up, directories.doubles) == (chosen, [], {})
    kept = [name for name in disk.list_directory(OTHER[chosen]) if name.startswith("t-")]
    assert [name.endswith("-stray") for name in kept] == [True]


def test_of_a_replica_that_is_not_given_to_this_broker_both_are_kept_as_strays() -> None:
    directories, disk = with_two_logs((True, True))
    replicas, given_up = replicas_of(directories)
    replicas.settle(image_of(None, replicas=(2, 3)))
    assert (directories.where(*KEY), given_up) == (None, [])
    for name in ("one", "two"):
        assert [each.endswith("-stray") for each in disk.list_directory(name) if each.startswith("t-")] == [True]


def test_the_log_of_another_topic_of_the_same_name_never_counts() -> None:
    directories, _ = with_two_logs((True, True))
    replicas, given_up = replicas_of(directories)
    image = ClusterImage()
    image.apply(TopicRecord("t", str(UUID(int=8))))
    image.apply(PartitionRecord("t", 0, replicas=(1,), leader=1, isr=(1,)))
    replicas.settle(image)
    assert (directories.where(*KEY), given_up) == (None, [])


@pytest.mark.parametrize(
    ("offline", "made", "known", "may"),
    [
        (True, True, None, False),
        (True, True, UUID(int=2), False),
        (True, True, UUID(int=1), True),
        (True, False, None, True),
        (False, True, None, True),
    ],
)
def test_what_was_made_beside_a_failed_directory_acts_when_the_controller_knows_where_it_is(
    *, offline: bool, made: bool, known: UUID | None, may: bool
) -> None:
    directories: Any = SimpleNamespace(
        offline={"two": OSError()} if offline else {}, where=lambda *_: SimpleNamespace(id=UUID(int=1))
    )
    nothing: Any = None
    replicas = DoubledReplicas(1, directories, nothing, nothing)
    if made:
        replicas.made(KEY)
    assert replicas.may_act(KEY, image_of(known).topics["t"]) == may
