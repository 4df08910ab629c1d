"""A replica that is offline on its broker: which topic's it is, by whatever way it came to be offline."""

from __future__ import annotations

import errno
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest

from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.records import PartitionRecord, ReplicaDirectoryRecord, TopicRecord
from tidegauge.impl.ports.failing_disk import FailingDisk
from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.server.broker.high_watermark_checkpoint import HighWatermarkCheckpoint
from tidegauge.impl.server.broker.hosted_partitions import HostedPartitions
from tidegauge.impl.server.settings.server_config import ServerConfig
from tidegauge.impl.server.trace.tracer import Tracer
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.log_directories import LogDirectories

KEY = ("t", 0)
NEIGHBOUR = ("u", 0)
FORMER, LATER = UUID(int=7), UUID(int=8)
ONE, TWO = UUID(int=1), UUID(int=2)


def opened(disk: FailingDisk, *paths: str) -> LogDirectories:
    ids = iter([TWO if "two" in paths[0] else ONE, TWO])
    return LogDirectories.open(disk, list(paths), cluster_id="c", node_id=1, new_id=lambda: next(ids))


def write(disk: FailingDisk, path: str, key: tuple[str, int]) -> None:
    """A log of a partition, with a record, in a directory."""
    directories = opened(disk, path)
    if (sync := directories.claim(*key, FORMER)) is not None:
        sync.run()
    log = directories.open_log(*key, LogConfig(), 0, FORMER)
    log.append_as_leader(build_batch([Record(0, 0, None, b"v")]), 0, 0)
    log.flush()
    directories.close()


def image_of(topic_id: UUID, directory: UUID | None = None) -> ClusterImage:
    """The topic `t` with this id, and where the controller knows its replica to be."""
    image = ClusterImage()
    image.apply(TopicRecord("t", str(topic_id)))
    image.apply(PartitionRecord("t", 0, replicas=(1, 2), leader=2, isr=(2,)))
    if directory is not None:
        image.apply(ReplicaDirectoryRecord("t", 0, 1, str(directory)))
    return image


def hosted_in(directories: LogDirectories) -> HostedPartitions:
    clock: Any = SimpleNamespace(now_ms=lambda: 0, steady_ms=lambda: 0)
    nothing: Any = Mock()
    written = HighWatermarkCheckpoint(directories)
    return HostedPartitions(1, directories, ServerConfig(), clock, Tracer(None, 1, clock), nothing, written)


def learn(hosted: HostedPartitions, image: ClusterImage) -> None:
    for work in hosted.apply_metadata(image):
        if work is not None:
            work()


def lost_before_the_start(disk: FailingDisk) -> tuple[HostedPartitions, ClusterImage]:
    """Its directory has not come back."""
    write(disk, "one", KEY)
    write(disk, "two", NEIGHBOUR)
    disk.fail("one")
    hosted, image = hosted_in(opened(disk, "two", "one")), image_of(FORMER, ONE)
    learn(hosted, image)
    return hosted, image


def not_opened_at_the_start(disk: FailingDisk) -> tuple[HostedPartitions, ClusterImage]:
    write(disk, "one", KEY)
    write(disk, "one", NEIGHBOUR)
    directories = opened(disk, "one", "two")
    disk.fail("one/t-0/00000000000000000000.log", error=errno.ENAMETOOLONG)
    hosted = hosted_in(directories)
    assert hosted.is_offline(*KEY)
    disk.heal()
    return hosted, image_of(FORMER, ONE)


def not_made(disk: FailingDisk) -> tuple[HostedPartitions, ClusterImage]:
    directories = opened(disk, "one", "two")
    disk.fail("one/t-0", error=errno.ENAMETOOLONG)
    hosted, image = hosted_in(directories), image_of(FORMER)
    learn(hosted, image)
    disk.heal()
    return hosted, image


def not_settled(disk: FailingDisk) -> tuple[HostedPartitions, ClusterImage]:
    """Two directories have records of it, and the controller knows neither."""
    for path in ("one", "two"):
        write(disk, path, KEY)
    hosted, image = hosted_in(opened(disk, "one", "two")), image_of(FORMER)
    learn(hosted, image)
    return hosted, image


def failed_while_hosted(disk: FailingDisk) -> tuple[HostedPartitions, ClusterImage]:
    directories = opened(disk, "one", "two")
    hosted, image = hosted_in(directories), image_of(FORMER, ONE)
    learn(hosted, image)
    directory = directories.where(*KEY)
    assert directory is not None
    directories.fail(directory, OSError(errno.EIO, "no"))
    return hosted, image


def taken_offline_while_hosted(disk: FailingDisk) -> tuple[HostedPartitions, ClusterImage]:
    hosted, image = hosted_in(opened(disk, "one", "two")), image_of(FORMER, ONE)
    learn(hosted, image)
    partition = hosted.get(*KEY)
    assert partition is not None
    hosted.storage_failed(partition, OSError(errno.ENAMETOOLONG, "no"))
    return hosted, image


@pytest.mark.parametrize(
    "offline",
    [
        lost_before_the_start,
        not_opened_at_the_start,
        not_made,
        not_settled,
        failed_while_hosted,
        taken_offline_while_hosted,
    ],
)
@pytest.mark.parametrize("pulls", [0, 1])
def test_a_topic_that_is_created_again_by_its_name_has_a_replica_of_its_own(offline: Any, pulls: int) -> None:
    """However often the broker has read metadata since, and though it never reads that the former topic is gone."""
    disk = FailingDisk(SimulatedDisk(Random(0)))
    hosted, former = offline(disk)
    for _ in range(pulls):
        learn(hosted, former)
        assert hosted.get(*KEY) is None, "the former topic's replica stays offline"
    assert hosted.is_offline(*KEY)
    learn(hosted, image_of(LATER))
    is_anew(hosted)


def test_a_directory_that_fails_while_a_replica_is_taken_away_keeps_no_later_one_offline() -> None:
    disk = FailingDisk(SimulatedDisk(Random(0)))
    write(disk, "one", KEY)
    hosted = hosted_in(opened(disk, "one", "two"))
    learn(hosted, image_of(FORMER, ONE))
    disk.fail("one")
    learn(hosted, ClusterImage())
    assert list(hosted.directories.offline) == ["one"]
    learn(hosted, image_of(LATER))
    is_anew(hosted)


def is_anew(hosted: HostedPartitions) -> None:
    """The later topic has a replica, which is empty."""
    partition = hosted.get(*KEY)
    assert not hosted.is_offline(*KEY)
    assert partition is not None
    assert (partition.topic_id, partition.log.log_end_offset) == (str(LATER), 0)
